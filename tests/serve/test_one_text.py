"""Every consumer of units shows the model's text, with its spaces, and ends sentences alike."""

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import regex as re

from alignatt_agent.cascade.stream import StreamStep
from alignatt_agent.config.languages import language
from alignatt_agent.live.cues import Said
from alignatt_agent.live.outputs import build_output
from alignatt_agent.serve import messages
from alignatt_agent.serve.messages import End, text_of
from alignatt_agent.serve.publish import read_captions
from alignatt_agent.serve.room import Room
from alignatt_agent.serve.transcripts import transcript
from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.translation.captions import Captions
from alignatt_agent.translation.units import UnitDecoder
from alignatt_agent.types import SAMPLE_RATE, SourceSpan, SourceView, SpeechUpdate, Step, Transcript
from tests.fakes.speech import Settings

SENTENCES = [
    ("zh", "2026年使用 Forced Aligner 模型，训练 3.5 小时。|用 KI-Modell“GPU”。"),
    ("ja", "私は「GPU」を 2 台、👩\u200d💻が使います！|GPT-4.5 です。"),
    ("th", "ประหยัดที่สุดเพื่อให้ทุกคนปลอดภัยในอนาคต ใช้ Forced Aligner 2026 ครับ"),
    ("hi", "दिल्ली में 3.5 करोड़।| यह ठीक है।"),
    (
        "de",
        "Das KI-Modell kostet ca. 3.5 Mio. Euro.| Am 3. Oktober 1990 kam Dr. Meier („ja“).| So.",
    ),
    ("fr", "Bonjour\u202f!| Mme. Martin a dit : « 3,5 € ».| Et après ?| Oui."),
]


def outputs(units, code, room, folder):
    """Return the lines of every output; those that end with sentences first."""
    spans = [SourceSpan(k / 5, k / 5 + 0.2) for k in range(len(units))]
    for form, times in (("txt", ""), ("jsonl", ""), ("srt", "said"), ("srt", "spoken")):
        output = build_output(form, language(code), times, folder / f"a{times}", False)
        output.say([Said(*item, k / 5) for k, item in enumerate(zip(units, spans, strict=True))])
        output.close()
        text = (folder / f"a{times}.{code}.{form}").read_text(encoding="utf-8")
        yield f"{form} {times}", text.splitlines()
    heard = SpeechUpdate((), SourceView((), 0))
    step = Step(99.0, heard, None, units, 0, 0, {}, tuple(spans))
    *_, said = found = messages.of_step(StreamStep(99.0, heard, {code: step}, {}), 0.0, {})

    async def published():
        captions = asyncio.Queue()
        reading = asyncio.ensure_future(read_captions(room, code, "key", captions))
        await asyncio.sleep(0)
        await room.publish(*found, End(audio_s=99.0))
        room.close()
        await reading
        return [captions.get_nowait().text for _ in range(captions.qsize() - 1)]

    yield "publish", asyncio.run(published())
    for kind in ("txt", "jsonl", "srt", "json"):
        yield f"transcript {kind}", transcript(room, code, kind).splitlines()
    yield "wires", [text_of(said.units)]
    yield "begins", [unit.text for unit in said.units if unit.begins]


@pytest.mark.parametrize(("code", "written"), SENTENCES)
def test_every_consumer_shows_the_text(byte_level, tmp_path, code, written):
    text, sentences = written.replace("|", ""), [one.strip() for one in written.split("|")]
    decoder = UnitDecoder(byte_level, language(code).spaced)
    units = decoder.units((), byte_level.encode(text, add_special_tokens=False))
    room, solid = Room("talk"), "".join(text.split())
    for name, lines in outputs(units, code, room, tmp_path):
        if "srt" in name:
            lines = [line for line in lines if line and not re.match(r"\d+$|\d\d:", line)]
        if "jsonl" in name:
            lines = ["".join(json.loads(line)["text"] for line in lines)]
        if name == "transcript json":
            assert json.loads(lines[0])["text"] == "".join(written.split("|")[-2:]).strip()
        elif name == "begins":
            assert len(lines) == len(sentences)
        elif name in ("txt ", "publish"):
            assert lines == sentences
        else:
            assert all(line.strip() in text for line in lines), (name, lines)
            assert name.endswith("said") or "".join("".join(lines).split()) == solid
        assert not any(re.match(r"[\p{M}\u0e30-\u0e3a]", line.strip()) for line in lines)


def test_captions_of_speech_keep_the_spaces_of_the_transcript():
    text = SENTENCES[0][1].replace("|", "")
    recognizer = SimpleNamespace(transcribe=lambda *_: Transcript(text))
    tail, captions = LiveTail(recognizer, None, "zh", Settings()), Captions()
    found = [tail.push(np.ones(3 * SAMPLE_RATE, np.float32) / 9), tail.finish()]
    closed = [sentence for update in found for sentence in update.sentences]
    assert "".join(unit for words in closed for unit in captions.complete(words).units) == text
    heard = messages.of_step(StreamStep(3.0, replace(found[0], sentences=closed), {}, {}), 0.0, {})
    assert "".join(map(text_of, heard[0].closed)) == text
