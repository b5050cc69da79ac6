"""Descriptions of sounds in transcripts, as opposed to brackets and asterisks of a speaker."""

import pytest

from alignatt_agent.speech.sounds import without_sounds


@pytest.mark.parametrize(
    "said",
    [
        "f(x) is the derivative of g(x)",
        "2*3 and 2*3*4 is 24",
        "call print(name) and then list[0]",
        "pass *args and **kwargs, a*b and c*d*e",
        "He laughed (loudly) at music (theory) and *really* meant it.",
        "call play(music) or (applause)-meter or x*(noise)*y",
        "f(x)",
        "2*3",
        "the **music** of today",
        "それは（仮）です",
        "再生（音楽）する",
        "关于(音乐)的课",
        "das (sogenannte) Feld [1] und [2]",
        "[Music",
        "...",
        "",
    ],
)
def test_the_words_of_the_speaker_stay(said):
    assert without_sounds(said) == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[BLANK_AUDIO]", ""),
        ("(gente aplaudiendo)", ""),
        ("(Fred (quietly) sings.) [so].", ""),
        ("♪ (upbeat music) ♪", ""),
        ("♪ la la ♪", "la la"),
        ("(upbeat music playing) Hello. [ Applause ]", "Hello."),
        ("So *coughs* it is.", "So  it is."),
        ("Danke. (Gelächter) [Musik]", "Danke."),
        ("तो (संगीत) फिर", "तो  फिर"),
        ("（拍手）ありがとう（笑）", "ありがとう"),
        ("谢谢大家 (掌声)", "谢谢大家"),
        ("そうですね（笑）。はい、(拍手)、次。（音楽）さて", "そうですね。はい、、次。さて"),
        ("Hello [ ♪♪♪ ] there", "Hello  there"),
        ("🎵 Outro 🎵", "Outro"),
        ("🎵🎶", ""),
    ],
)
def test_descriptions_of_sounds_go(written, said):
    assert without_sounds(written) == said
