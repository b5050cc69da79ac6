"""One short talk and the embedded models; a missing model is a failure, never a skip."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import soundfile
import yaml

from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.checkpoints import locate

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
TARGETS = ("de", "it", "zh")
SECONDS = 21


@dataclass(frozen=True)
class ShortTalk:
    """The first sentences of the first talk of the embedded dev set, as a dev set."""

    root: Path
    wav: Path
    segments: int
    seconds: float


@pytest.fixture(scope="session")
def short_talk(tmp_path_factory) -> ShortTalk:
    locate(load_config("micro-low").models)
    source = ROOT / "micro_models" / "devset"
    root = tmp_path_factory.mktemp("short-talk")
    segments = yaml.safe_load((source / "audio-segments.yaml").read_text())
    first = [item for item in segments if item["wav"] == segments[0]["wav"]]
    kept = [item for item in first if item["offset"] + item["duration"] <= SECONDS]
    assert len(kept) >= 3
    end = kept[-1]["offset"] + kept[-1]["duration"]
    wav = root / "wav" / Path(kept[0]["wav"]).name
    wav.parent.mkdir()
    audio, rate = soundfile.read(source / "wav" / wav.name, dtype="int16")
    soundfile.write(wav, audio[: round((end + 0.3) * rate)], rate)
    (root / "audio-segments.yaml").write_text(yaml.safe_dump(kept))
    (root / "wavs.txt").write_text(f"{wav}\n")
    (root / "ref").mkdir()
    for target in TARGETS:
        lines = (source / "ref" / f"{target}.txt").read_text().splitlines(keepends=True)
        (root / "ref" / f"{target}.txt").write_text("".join(lines[: len(kept)]))
    return ShortTalk(root, wav, len(kept), end + 0.3)


def run(name, *arguments):
    """Run a program of this environment; returns what it printed."""
    command = [BIN / name, *map(str, arguments)]
    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900
    )
    assert result.returncode == 0, result.stdout + result.stderr[-4000:]
    return result.stdout


def emissions(log):
    """What was emitted after how much audio, chunk by chunk."""
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    keys = ("total_audio_processed", "generated_tokens", "deleted_tokens")
    return [[line[key] for key in keys] for line in lines if "generated_tokens" in line]


@pytest.fixture(scope="session")
def driven(short_talk):
    """The short talk under the official harness, alone, and more; see ``driver.py``."""
    for target in TARGETS:
        config = load_config("micro-low").for_target(target)
        (short_talk.root / f"{target}.yaml").write_text(config.to_yaml())
    out = short_talk.root / "driver.json"
    run("python", "-m", "tests.e2e.driver", short_talk.root, out)
    return json.loads(out.read_text(encoding="utf-8"))
