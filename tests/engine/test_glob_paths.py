"""Folders whose names contain characters of glob patterns."""

import glob
import json
import os
import tempfile

import pytest

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.engine import process_files
from alignatt_agent.engine.arguments import engine_arguments


@pytest.mark.parametrize("name", ["talk[1]", "a*b", "what?", "[!x]", "plain (1)"])
def test_vllm_finds_the_weights(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    (folder / "model.safetensors").write_bytes(b"")
    for _ in range(2):  # an engine that died is started again
        path = engine_arguments("translation", ModelConfig(path=str(folder)), ())["model"]
        assert glob.glob(f"{path}/*.safetensors")  # noqa: PTH207 - as vLLM searches
        assert os.path.realpath(path) == str(folder.resolve())
        assert (path == str(folder)) == ("plain" in name)


def test_a_temporary_folder_with_such_a_name_is_refused(tmp_path, monkeypatch):
    for name in ("a[1]", "tmp[2]"):
        (tmp_path / name).mkdir()
    (tmp_path / "a[1]" / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp[2]"))
    process_files.folder.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"tmp\[2\].*set TMPDIR"):
            engine_arguments("translation", ModelConfig(path=str(tmp_path / "a[1]")), ())
    finally:
        process_files.folder.cache_clear()
