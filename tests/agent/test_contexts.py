"""Names and terms of a talk: their sources, and that each stream gets those of its talk."""

import logging
from argparse import Namespace
from itertools import groupby

import pytest
import yaml
from simulstream import inference
from simulstream.config import _dict_to_object
from simulstream.metrics.logger import METRICS_LOGGER
from simulstream.server.message_processor import MessageProcessor
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.cascade.contexts import check_contexts
from alignatt_agent.config.agent_config import AgentConfig, ConfigError, load_config
from alignatt_agent.config.resolved import resolve
from alignatt_agent.config.terms import read_terms
from alignatt_agent.speech.prompt import ContextError, check_plain
from tests.fakes import agent as fakes


@pytest.fixture(autouse=True)
def heard():
    """Return a function that lists the contexts that the recognizer got, in order."""
    fakes.FakeRecognizer.contexts.clear()
    yield lambda: [text for text, _ in groupby(fakes.FakeRecognizer.contexts)]
    for found in list(METRICS_LOGGER.filters):
        METRICS_LOGGER.removeFilter(found)
    METRICS_LOGGER.setLevel(logging.NOTSET)


def with_contexts(root, **texts):
    (root / "contexts").mkdir()
    for talk, text in texts.items():
        (root / "contexts" / f"{talk}.txt").write_text(text)
    return root / "contexts"


def test_an_evaluation_takes_contexts_per_talk(call, heard):
    with_contexts(call.devset, talk0="AlignAtt\n\n vLLM \n", talk1="注意力\n")
    status, text, error = call(configs=["low"], targets=["de"])
    assert status == 0, error
    assert heard() == ["AlignAtt\nvLLM", "注意力"]
    resolved = call.root / "out" / "de" / "agent.yaml"
    context = yaml.safe_load(resolved.read_text())["speech"]["context"]
    assert context == {"talk0": ["AlignAtt", "vLLM"], "talk1": ["注意力"]}

    # The printed command does the same without our wrapper.
    assert f"simulstream_inference --speech-processor-config {resolved}" in text
    fakes.FakeRecognizer.contexts.clear()
    METRICS_LOGGER.setLevel(logging.INFO)
    inference.main(
        Namespace(
            speech_processor_config=str(resolved),
            wav_list_file=str(call.root / "out" / "de" / "wavs.txt"),
            tgt_lang="de",
            src_lang="en",
            metrics_log_file=str(call.root / "again.jsonl"),
        )
    )
    assert heard() == ["AlignAtt\nvLLM", "注意力"]


def test_a_configuration_may_want_no_context(call, heard):
    with_contexts(call.devset, talk0="AlignAtt")
    assert call("--set", "speech.context=[]", configs=["low"], targets=["de"])[0] == 0
    assert heard() == [""]


def test_talks_without_a_context_and_contexts_without_a_talk_are_noted(call, heard):
    folder = with_contexts(call.devset, talk1="vLLM", talk9="BLEU")
    status, _, error = call(configs=["low"], targets=["de"])
    assert status == 0
    assert f"note: {folder / 'talk0'}.txt does not exist" in error
    assert f"note: {folder / 'talk9'}.txt belongs to no talk" in error
    assert heard() == ["", "vLLM"]


def start(context, folder):
    """Return a processor whose talks have contexts."""
    METRICS_LOGGER.setLevel(logging.INFO)
    return fakes.loaded_agent(folder, speech={"hold_back_ms": 0, "context": context})


def announce(agent, talk):
    named = {"metrics_metadata": {"wav_name": f"/somewhere/{talk}.wav"}}
    given = {"source_lang": "en", "target_lang": "de", **named}
    MessageProcessor(0, agent).process_metadata(given)


def context_of_chunk(agent):
    """Return the context that the recognizer gets with a chunk."""
    fakes.FakeRecognizer.contexts.clear()
    agent.process_chunk(fakes.talk(6))
    (context,) = set(fakes.FakeRecognizer.contexts)
    return context


def test_processors_side_by_side_hear_of_their_own_talks(tmp_path):
    contexts = {"a": ["AlignAtt"], "b": ["vLLM"]}
    ours, theirs = start(contexts, tmp_path), start(contexts, tmp_path)
    announce(ours, "a")
    announce(theirs, "b")
    contexts = [context_of_chunk(agent) for agent in (theirs, ours, theirs)]
    assert contexts == ["vLLM", "AlignAtt", "vLLM"]
    ours.clear()
    announce(ours, "unknown")
    assert context_of_chunk(ours) == ""


def test_the_translation_is_told_too(tmp_path):
    asked = fakes.FakeTranslation.prompts
    agent = start(["AlignAtt", "{vLLM}", f"{fakes.word(0)} = it: x | de: Wort {{0}}"], tmp_path)
    agent.set_target_language("de")
    agent.process_chunk(fakes.talk(6))
    assert fakes.FakeRecognizer.contexts[-1] == f"AlignAtt\n{{vLLM}}\n{fakes.word(0)}"
    assert "Names and terms of the talk: AlignAtt, {vLLM}." in asked[-1]
    assert f"Use these translations: {fakes.word(0)} = Wort {{0}}." in asked[-1]


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (["attention "] * 900, r"is \d+ tokens long for asr model .*window of 2048 tokens has \d+"),
        (["a"] * 350, r"is \d+ tokens long for translation model .*half of its window \(1024"),
        (["<|im_end|>"], r"contains '<\|im_end\|>', a control token of asr model"),
        (["a = de: b | it: <bos>"], r"contains '<bos>', a control token of translation"),
        (["a <turn|> b"], r"contains '<turn\|>', a control token of translation"),
        (["a = de: b | c"], r"'a = de: b \| c': expected TERM, TERM = TRANSLATION"),
    ],
)
def test_contexts_that_no_model_can_take_are_refused_before_any_is_loaded(
    monkeypatch, context, message
):
    monkeypatch.setattr(AlignAttAgent.runtime, "load", lambda _: pytest.fail("engines start"))
    content = load_config("micro-low", {"speech.context": context}).to_yaml()
    with pytest.raises((ContextError, ConfigError), match=message):
        AlignAttAgent.load_model(_dict_to_object(yaml.safe_load(content)))
    check_contexts(resolve(load_config("micro-low", {"speech.context": ["注意力", "العربية = ﷽"]})))
    long = load_config("micro-low", {"prompt.history": 1, "prompt.history_tokens": 513})
    with pytest.raises(ContextError, match=r"history_tokens is 513, more than half .*\(1024"):
        AlignAttAgent.load_model(_dict_to_object(yaml.safe_load(long.to_yaml())))


def test_added_tokens_that_are_text_are_no_commands():
    vocabulary = WordLevel({"<unk>": 0, "vLLM": 1}, unk_token="<unk>")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(vocabulary))
    tokenizer.add_tokens(["\n", "  ", "<b>", "<think>"])  # Gemma 3 has the first three
    tokenizer.add_tokens(["<end_of_turn>"], special_tokens=True)
    tokenizer.chat_template = "{{ messages }}\n<think>"
    check_plain(tokenizer, "Papi\nvLLM  <b>", "model")
    for token in ("<end_of_turn>", "<think>"):
        with pytest.raises(ContextError, match=f"contains '{token}', a control token of model"):
            check_plain(tokenizer, f"Papi\n{token}", "model")


def parsed(context):
    return load_config("micro-low", {"speech.context": context}).speech


def test_lists_files_and_folders(tmp_path):
    assert parsed(None).context_of() == parsed([]).context_of("a") == ""
    assert parsed(["AlignAtt", "vLLM 0.32"]).context_of("any") == "AlignAtt\nvLLM 0.32"
    assert parsed(["AlignAtt"]).contexts == {"": "AlignAtt"}
    file = tmp_path / "terms.txt"
    file.write_text("\ufeffJoão da\u2028Silva\r\n\r\n  注意力 \n", encoding="utf-8")
    assert parsed(str(file)).context == ("João da\u2028Silva", "注意力")
    assert len(read_terms(parsed(str(file)).context_of())) == 2
    folder = with_contexts(tmp_path, a="BLEU", b="")
    (folder / "Z\u030cizka.txt").write_text("vLLM")
    assert parsed(str(folder)).contexts == {"a": "BLEU", "Žizka": "vLLM"}
    assert parsed(str(folder)).context_of("Z\u030cizka") == "vLLM"
    assert parsed(str(folder)).context_of("z") == ""


def test_a_resolved_configuration_needs_no_files(tmp_path):
    folder = with_contexts(tmp_path, **{"2022.acl-long.110": "AlignAtt\n42"})
    config = load_config("micro-low", {"speech.context": str(folder)})
    text = config.to_yaml()
    (folder / "2022.acl-long.110.txt").unlink()
    again = AgentConfig.parse(yaml.safe_load(text))
    assert again.speech == config.speech
    assert again.digest() == config.digest() != load_config("micro-low").digest()


@pytest.mark.parametrize(
    ("context", "message"),
    [
        *((other, "expected a list of names and terms") for other in ([""], [2024], {"a": "b"}, 3)),
        ("no/such/file.txt", "expected a list of names and terms, or a file or folder"),
        ("terms.txt", r"terms\.txt is not UTF-8 text"),
        ("empty", r"contains no TALK\.txt"),
    ],
)
def test_other_contexts_are_refused(tmp_path, monkeypatch, context, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "terms.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=rf"speech\.context: .*{message}"):
        parsed(context)
