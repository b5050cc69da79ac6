"""Configurations and head sets refuse what does not fit and say what would."""

import os
import re

import pytest
import yaml
from simulstream.config import yaml_config

from alignatt_agent.config.agent_config import (
    AgentConfig,
    ConfigError,
    load_config,
    parse_overrides,
)
from alignatt_agent.config.head_sets import load_head_set
from alignatt_agent.config.resolved import resolve
from alignatt_agent.config.resources import CHECKOUT_ROOT, find_resource, known_resources
from alignatt_agent.config.yaml_text import parse_yaml, read_yaml
from alignatt_agent.evaluation.score import scorer_settings
from alignatt_agent.evaluation.subwords import joined_pieces
from alignatt_agent.policy import HoldN, WaitK
from alignatt_agent.submission.bundle import read_server
from tests.fakes.agent import write_config

CONFIGS = known_resources("agent_configs", ".yaml")


def test_the_documents_list_every_shipped_configuration():
    text = (CHECKOUT_ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`([\w.-]+-(?:low|high))`", text)) == set(CONFIGS)


@pytest.mark.parametrize("name", CONFIGS)
def test_shipped_configurations_are_valid_and_keep_their_hash_when_written(name, tmp_path):
    config = load_config(name)
    path = find_resource("agent_configs", name, (".yaml",))
    # The commands of Simulstream and OmniSTEval read these keys of the file itself.
    assert scorer_settings("de").items() <= yaml.safe_load(path.read_text(encoding="utf-8")).items()
    assert AgentConfig.from_namespace(yaml_config(str(path))) == config  # as Simulstream reads it
    for target, unit in (("German", "word"), ("it", "word"), ("Simplified Chinese", "char")):
        resolved = config.for_target(target)
        assert resolved.latency_unit == unit
        assert AgentConfig.parse(yaml.safe_load(resolved.to_yaml())) == resolved
        assert resolved.digest() == config.digest()
    path = tmp_path / "written.yaml"
    path.write_text(config.to_yaml(), encoding="utf-8")
    assert load_config(str(path)).digest() == config.digest()


def test_no_aligner_is_loaded_where_words_are_timed_without_one():
    for name, overrides in (
        ("micro-low", {"speech.times": "first_heard"}),
        ("default-low", {"source_language": "cs"}),
        ("default-cs-en-low", {}),
    ):
        config = load_config(name, overrides)
        assert config.models.engine_roles == ("asr", "translation")
        assert AgentConfig.parse(yaml.safe_load(config.to_yaml())) == config
    with pytest.raises(ConfigError, match=r"models\.aligner, which times the words, is missing"):
        load_config("default-cs-en-low", {"source_language": "en", "speech.times": "aligner"})


def test_paper_setting():
    for name, chunk in (("iwslt26-low", 850), ("iwslt26-high", 1500)):
        config = load_config(name)
        assert config.chunk_ms == chunk
        assert config.max_draft_tokens == 16
        assert config.speech.min_start_s == 2.0
        assert config.speech.hold_back_ms == 0
        assert config.speech.commit == "agreed"
        thresholds = {"border_margin": 1, "tau_argmax": 0.0, "tau_src": 0.0}
        filters = {"normalize": "zscore", "median_width": 7, "median": "mean_first"}
        heads = {"name": "alignatt", "top_k": 8, "drafts": 1}
        assert config.policy.model_dump() == heads | filters | thresholds
        for role in ("asr", "aligner", "translation"):
            model = getattr(config.models, role)
            assert len(model.revision) == 40
            assert model.dtype == "bfloat16"


@pytest.mark.parametrize("regime", ["low", "high"])
def test_micro_models_that_follow_and_real_ones_have_the_same_policy(regime):
    micro, real = (
        load_config(f"{name}-{regime}").model_dump(exclude={"models", "head_sets", "prompt"})
        for name in ("micro-follows", "default")
    )
    assert micro == real


def own(code, **settings):
    return {"targets": {code: settings}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chunk_size": 3}, "chunk_size: unknown key; did you mean 'chunk_ms'?"),
        ({"policy": {"topk": 3}}, "policy.topk: unknown key; did you mean 'top_k'?"),
        ({"policy": {"top_k": 0}}, "policy.top_k: .*greater than or equal to 1 .got 0."),
        ({"policy": {"median_width": 4}}, "odd width"),
        ({"policy": {"name": "hold_n", "n": -1}}, "policy.n: .*equal to 0 .got -1."),
        ({"policy": {"name": "confidence", "tau_prob": 1.5}}, "policy.tau_prob: .*got 1.5"),
        ({"policy": {"name": "waitk"}}, "policy.name: expected one of .*'wait_k'.* got 'waitk'"),
        ({"policy": {"name": "wait_k", "k": 0}}, r"policy.k: .*equal to 1 \(got 0\)"),
        ({"policy": {"name": "none", "n": 3}}, r"policy.n: unknown key.* keys are name, top_k$"),
        ({"chunk_ms": 2010}, "cannot cut chunks of 2010 ms; try 2009"),
        (own("de", chunk_ms=5), r"targets.de.chunk_ms: unknown key.*known keys are policy$"),
        (own("German", policy={"topk": 3}), "targets.de.policy: topk: unknown .* mean 'top_k'"),
        (own("de", policy={"drafts": 0}), "targets.de.policy: drafts: .*equal to 1 .got 0."),
        ({"targets": {"zh": {}, "de": {}, "Chinese": {}}}, "same language: Chinese, zh; keep"),
        ({"targets": {"Klingon": {}}}, "unknown language 'Klingon'"),
        ({"targets": {"*": {}}}, r"unknown language '\*'"),
        ({"target_language": "Klingon"}, "unknown language 'Klingon'"),
        ({"models": {}}, "models.asr: Field required"),
        ({"speech": {"recognizer": "kaldi"}}, r"speech\.recognizer: .*'qwen3-asr'"),
        ({"speech": {"recognizer": "gemma4-audio"}}, "set models.asr to the same path .*fake-mt"),
    ],
)
def test_mistakes_are_explained(tmp_path, change, message):
    path = write_config(tmp_path, **change)
    with pytest.raises(ConfigError, match=message):
        load_config(str(path))
    with pytest.raises(ConfigError, match=message):
        AgentConfig.from_namespace(yaml_config(str(path)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": {"de": None}}, r"targets.de: Input should be a valid dictionary.* .got None."),
        ({"targets": {"de": 3}}, r"targets.de: Input should be a valid dictionary.* .got 3."),
        ({"targets": ["de"]}, r"targets: Input should be a valid dictionary .got \['de'\]"),
        ({"targets": {"de": {"policy": "none"}}}, "targets.de.policy: .*dictionary .got 'none'"),
        ({"policy": "none"}, "policy.name: policy is a single value, expected a mapping"),
        ({"policy": ["none"]}, "policy.name: policy is a single value, expected a mapping"),
    ],
)
def test_mistakes_in_a_file_whose_policy_is_changed(tmp_path, change, message):
    path = write_config(tmp_path, **change)
    with pytest.raises(ConfigError, match=message):
        load_config(str(path), {"policy.name": "none"})


def test_an_empty_section_can_be_set(tmp_path):
    path = write_config(tmp_path, speech=None)
    with pytest.raises(ConfigError, match="speech: Input should be a valid dictionary"):
        load_config(str(path))
    assert load_config(str(path), {"speech.max_tail_s": 20}).speech.max_tail_s == 20


@pytest.mark.parametrize("path", ["~nobody-here/agent.yaml", "~/agent.yaml"])
def test_an_unknown_home_is_named(monkeypatch, path):
    def unknown(key):
        raise KeyError(key)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(ConfigError, match=f"{path}: the home folder of ~.* is unknown"):
        load_config(path)


@pytest.mark.parametrize("key", ["speech.min_start_s", "speech.hold_back_ms", "policy.tau_argmax"])
@pytest.mark.parametrize("value", [".inf", ".nan", "1e400"])
def test_numbers_are_finite(key, value):
    with pytest.raises(ConfigError, match=rf"{key}: Input should be"):
        load_config("micro-low", parse_overrides([f"{key}={value}"]))


def test_names_and_terms_from_the_output_of_a_command():
    """A shell replaces ``<(command)`` by a link to a pipe, which has no path of its own."""
    for folder in ("/dev/fd", "/proc/self/fd"):
        reader, writer = os.pipe()
        os.write(writer, "Größe\nvLLM\n".encode())
        os.close(writer)
        config = load_config("micro-low", {"speech.context": f"{folder}/{reader}"})
        os.close(reader)
        assert config.speech.context == ("Größe", "vLLM")


def test_unknown_name_lists_what_exists():
    with pytest.raises(ConfigError, match=r"'iwslt-low'.*did you mean iwslt26-low\?.*micro-high"):
        load_config("iwslt-low")


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text", "a: [1"])
def test_not_a_mapping(tmp_path, text):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="expected a mapping|is not valid YAML"):
        load_config(str(path))


@pytest.mark.parametrize(
    "overrides",
    [{"policy.k": 5, "policy.name": "wait_k"}, {"policy": {"name": "wait_k", "k": 5, "top_k": 8}}],
)
def test_another_policy_drops_the_keys_of_the_configured_one(overrides):
    config = load_config("micro-high", overrides)
    assert config.policy == config.policy_for("zh") == WaitK(k=5, top_k=8)
    own = {"targets.zh.policy": {"name": "hold_n", "n": 2}}
    assert load_config("micro-high", overrides | own).policy_for("zh") == HoldN(n=2, top_k=8)


def test_heads_are_those_that_any_target_reads():
    few = load_config("micro-low", {"policy.top_k": 1})
    more = load_config("micro-low", {"policy.top_k": 1, "targets.zh.policy.top_k": 8})
    assert more.digest() != few.digest()
    assert AgentConfig.parse(yaml.safe_load(more.to_yaml())) == more
    head_sets = {code: load_head_set(name) for code, name in few.head_sets.items()}
    read = {k: set(head_sets[k].top(1)) for k in head_sets}
    assert set(resolve(few).heads) == set().union(*read.values())
    assert set(resolve(more).heads) == read["de"] | read["it"] | set(head_sets["zh"].top(8))


def test_few_knobs():
    """Fifteen, and two in which we differ from the paper: ``policy.median``, ``speech.commit``."""
    config = load_config("micro-low")
    # Which models transcribe and time, and the terms of the talk, are none.
    speech = config.speech.model_dump().keys() - {"recognizer", "context", "times"}
    own = ("max_draft_tokens", "chunk_ms", "head_sets")
    assert len([*config.policy.model_dump(), *speech, *own]) <= 17


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "x.yaml: the key 'a' in line 3 is already in line 1; keep one"),
        ("a: {b: 1, c: [{b: 1, b: 1}]}", "the key 'b' in line 1 is already in line 1"),
        ("a: 1\n--- \nb: 2\n", "x.yaml is not valid YAML: expected a single document"),
        ("a: [", "x.yaml is not valid YAML: while parsing a flow node"),
        ("a: 2026-02-30", "x.yaml contains a value that YAML does not allow: day is out of range"),
        ("a: \x07", "x.yaml is not valid YAML: unacceptable character #x0007"),
        (
            "a: „Müller“".encode("cp1252"),
            "(line 1); if the encoding is WINDOWS-1252, run iconv -f W",
        ),
        # Chinese text in UTF-16 has no byte that is zero.
        ("注意力".encode("utf-16"), "(line 1); if the encoding is UTF-16, run iconv -f UTF-16"),
        (b"a: M\xfcller", "x.yaml is not UTF-8 text (line 1); if the encoding is ISO-8859-1"),
    ],
)
def test_yaml_that_is_refused(tmp_path, text, message):
    path = tmp_path / "x.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as error:
        read_yaml(path)
    assert message in str(error.value)


def test_yaml_that_is_accepted():
    text = "base: &base {a: 1, b: 2}\nchild: {<<: *base, a: 3}\nagain: *base\n1: x\n'1': y\n"
    expected = {"base": {"a": 1, "b": 2}, "child": {"a": 3, "b": 2}}
    assert parse_yaml(text, "") == {**expected, "again": expected["base"], 1: "x", "1": "y"}
    assert parse_yaml("", "") is None


def test_a_key_twice_is_refused_everywhere(tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text("detokenizer_type: simuleval\ndetokenizer_type: hf\n")
    for read in (lambda: load_config(str(path)), lambda: read_server(path)):
        with pytest.raises(ConfigError, match="the key 'detokenizer_type' in line 2"):
            read()
    with pytest.raises(ConfigError, match="the key 'detokenizer_type' in line 2"):
        joined_pieces(path)
    with pytest.raises(ConfigError, match="--set policy=.*: the key 'name' in line 1"):
        parse_overrides(["policy={name: none, name: alignatt}"])
