"""The image as far as it can be verified without building it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from alignatt_agent.config.agent_config import load_config
from alignatt_agent.submission.bundle import (
    PORT,
    SERVER_MODULE,
    Bundle,
    SubmissionError,
    SystemName,
    read_server,
)
from alignatt_agent.submission.image import write_image
from alignatt_agent.submission.versions import DECIDING, image_pins

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SUBMISSION = DOCKERFILE[DOCKERFILE.index(" AS submission") :]
SYSTEM = SystemName("low", "en", "de")


def test_dockerfiles_pass_the_linter(bundle):
    """By hadolint, which has to be there, see the extra `dev`."""
    linter = str(Path(sys.executable).with_name("hadolint"))
    files = [str(root / "Dockerfile") for root in (ROOT, bundle.image)]
    result = subprocess.run([linter, "--no-color", *files], capture_output=True, check=False)
    assert (result.returncode, result.stdout) == (0, b"")


def test_every_copied_file_is_in_the_context(bundle):
    for root, kind, source in ((ROOT, "server", "."), (bundle.image, "submission", "source")):
        text = (root / "Dockerfile").read_text()
        assert f"\nARG KIND={kind}\nARG SOURCE={source}\n" in text
        text = text.replace("${SOURCE}", source)
        if kind == "server":  # its stages end before those of submissions
            text = text.partition("FROM base AS weights-mounted")[0]
        copies = re.findall(r"^COPY (?:--\S+ )*(.+)$", text, flags=re.M)
        sources = [name for line in copies for name in line.split()[:-1]]
        assert len(sources) >= 6
        for name in sources:
            assert (root / name).exists(), name


def test_nobody_is_root_and_weights_are_a_volume():
    assert DOCKERFILE.rstrip().endswith("FROM ${KIND}\nUSER 1000")
    assert "VOLUME /weights" in DOCKERFILE
    assert "urlopen('http://127.0.0.1:8080/health')" in DOCKERFILE


def test_compose_runs_commands_of_the_package(monkeypatch):
    from alignatt_agent.serve.cli import build_parser
    from alignatt_agent.serve.options import read_limits

    text = (ROOT / "compose.yaml").read_text()
    for name, value in re.findall(r"\$\{(\w+):[-?]([^}]*)\}", text):
        text = re.sub(rf"\$\{{{name}:[-?][^}}]*\}}", value, text)
    services = yaml.safe_load(text)["services"]
    program, *words = services["alignatt"]["command"].split()
    assert program == "serve"
    monkeypatch.setenv("ALIGNATT_TOKEN", "secret")
    limits = read_limits(build_parser().parse_args(words))
    assert (limits.token, limits.origins) == ("secret", ["https://localhost"])
    assert services["alignatt"]["volumes"] == ["weights:/weights"]
    port = re.search(r"--to alignatt:(\d+)", services["caddy"]["command"]).group(1)
    assert f"EXPOSE {port}" in DOCKERFILE
    on_cpu = (ROOT / "compose.cpu.yaml").read_text()
    assert yaml.load(on_cpu, yaml.BaseLoader) == {"services": {"alignatt": {"deploy": "null"}}}
    assert "deploy: !reset null" in on_cpu


def test_the_context_is_complete(bundle):
    source = bundle.image / "source"
    for name in (
        *("source/alignatt_agent", "source/agent_configs", "source/head_sets"),
        *("source/requirements/cuda.txt", "source/pyproject.toml", "source/Dockerfile"),
        *(".dockerignore", "systems/high/en-zh.yaml", "weights/fake-en-de.json"),
    ):
        assert (bundle.image / name).exists(), name
    for name in ("asr", "aligner", "fake-mt"):
        assert (bundle.image / "weights" / "checkpoints" / name / "model.safetensors").is_file()
    assert not list(source.rglob("*.pyc"))
    assert not list(source.rglob("*.nbi"))
    # The paths of the configuration are found from the working directory of the container.
    assert "WORKDIR /weights" in DOCKERFILE
    served = yaml.safe_load(bundle.image_agent(SYSTEM).read_text())
    assert served["target_language"] == "de"
    assert set(DECIDING) <= {name.replace("-", "_") for name in image_pins(source)}
    settings = read_server(bundle.image / "server.yaml")
    assert (settings["hostname"], settings["port"]) == ("0.0.0.0", PORT)
    assert f"EXPOSE {PORT}" in DOCKERFILE


def test_entry_point_and_health_are_commands_of_the_package():
    from alignatt_agent.submission.cli import build_parser

    for instruction in ("ENTRYPOINT", "CMD"):
        line = re.findall(rf"^\s*{instruction} (\[.*\])$", SUBMISSION, flags=re.M)[0]
        words = yaml.safe_load(line)
        start = words.index("alignatt")
        assert words[start + 1] == "submission"
        parsed = build_parser().parse_args(words[start + 2 :])
        assert parsed.func.__name__ in ("_serve", "_health")
    assert SERVER_MODULE.endswith("http_speech_processor_server")


def test_weights_of_the_hub_are_fetched_by_a_script(tmp_path):
    bundle = Bundle(tmp_path)
    config = load_config("iwslt26-low").for_target("de")
    write_image(bundle, {SYSTEM: config})
    script = bundle.image / "fetch_weights.sh"
    text = script.read_text()
    for model in (config.models.asr, config.models.aligner, config.models.translation):
        assert f"hf download {model.path} --revision {model.revision}" in text
    assert not list((bundle.image / "weights").iterdir())
    # What the script fetches is what the image looks for.
    assert "HF_HOME=/weights/huggingface" in DOCKERFILE
    (tmp_path / "hf").write_text('#!/bin/sh\necho "$HF_HOME: $*"\n')
    (tmp_path / "hf").chmod(0o755)
    command = ["sh", str(script), str(tmp_path / "there")]
    printed = subprocess.check_output(command, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, text=True)
    assert printed.count(f"{tmp_path}/there/huggingface: download ") == 3
    assert subprocess.run(["sh", str(script)], capture_output=True, check=False).returncode == 2


def test_a_wheel_has_no_image(monkeypatch, tmp_path):
    monkeypatch.setattr("alignatt_agent.submission.image.CHECKOUT_ROOT", tmp_path)
    with pytest.raises(SubmissionError, match="an image needs a checkout"):
        write_image(Bundle(tmp_path / "out"), {})
