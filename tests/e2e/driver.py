"""Everything that needs loaded engines, in one process: ``driver.py SHORT_TALK OUT.json``.

Engines take long to start, so the tests look at what this leaves behind.
"""

import contextlib
import copy
import io
import json
import logging
import re
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from logging.handlers import MemoryHandler
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import soundfile
import yaml
from simulstream import inference
from simulstream.config import yaml_config
from simulstream.metrics.logger import METRICS_LOGGER
from simulstream.server import websocket_server

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.live import cli as live
from tests.serve.live import wait_until

RATE = 16_000
ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
TARGETS = {"de": "German", "it": "it", "zh": "Chinese"}
BEGINNING_S = 12
"""As much of the talk as shows that something is said at all."""


def stream(agent, audio, target="de"):
    """Return what each chunk of a stream emitted."""
    agent.set_target_language(target)
    agent.set_source_language("English")
    step = int(RATE * agent.speech_chunk_size)
    outputs = [
        agent.process_chunk(audio[i : i + step]).new_tokens for i in range(0, len(audio), step)
    ]
    outputs.append(agent.end_of_stream().new_tokens)
    agent.clear()
    return outputs


def traced(agent, audio):
    """Stream German; returns what was emitted, and each draft with the reason why it waited."""
    steps = []
    agent.runtime.observer = steps.append
    emitted = stream(agent, audio)
    agent.runtime.observer = None
    gated = [step.gated for step in steps if step.gated is not None]
    return emitted, [
        [item.tokens, item.decision.accepted, item.decision.reason.value, item.edge]
        for item in gated
    ]


def official_runs(root: Path) -> None:
    """Stream each target with the arguments of ``simulstream_inference``."""
    METRICS_LOGGER.setLevel(logging.INFO)
    for target, name in TARGETS.items():
        sys.argv = [
            "simulstream_inference",
            *("--speech-processor-config", str(root / f"{target}.yaml")),
            *("--wav-list-file", str(root / "wavs.txt")),
            *("--tgt-lang", name, "--src-lang", "English"),
            *("--metrics-log-file", str(root / f"{target}.jsonl")),
        ]
        inference.cli_main()


def side_by_side(config, audio):
    """Stream German and Chinese at the same time on the same engines."""
    targets = ("de", "zh")
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda target: stream(AlignAttAgent(config), audio, target), targets)
    return dict(zip(targets, found, strict=True))


def shared_recognition(wav: Path, stem: Path):
    """Run ``alignatt translate`` on the loaded engines, which it ends; returns its JSON lines."""
    targets = ("de", "it", "zh", "en")
    given = [str(wav), "--target", *targets, "--config", "micro-low", "--format", "jsonl"]
    live.Runtime = lambda: AlignAttAgent.runtime
    assert live.main([*given, "--output", str(stem)]) == 0
    return {
        code: [json.loads(line) for line in Path(f"{stem}.{code}.jsonl").open(encoding="utf-8")]
        for code in targets
    }


def odd_audio(agent, audio):
    rng = np.random.default_rng(0)
    broken = audio.copy()
    broken[RATE : RATE + 50] = np.nan
    broken[2 * RATE] = 40.0
    return {
        "empty": stream(agent, np.zeros(0, np.float32)),
        "one sample": stream(agent, np.zeros(1, np.float32)),
        "silence": stream(agent, np.zeros(25 * RATE, np.float32)),
        "noise": stream(agent, rng.normal(0, 0.05, 10 * RATE).astype(np.float32)),
        "broken samples": stream(agent, broken),
    }


def emitted_rows(configs, audio):
    """Stream German with the rows that head sets of real models read."""
    outputs = []
    for config in map(copy.copy, configs):
        config.head_sets = SimpleNamespace(de="micro-emitted-en-de")
        config.policy = SimpleNamespace(**{**vars(config.policy), "top_k": 3})
        AlignAttAgent.load_model(config)
        outputs.append(stream(AlignAttAgent(config), audio))
    return outputs


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def web_socket_server(root: Path) -> list[str]:
    """Run the official server here, for two of its clients at once; returns errors it logged."""
    errors = MemoryHandler(1000, flushLevel=sys.maxsize)
    errors.setLevel(logging.ERROR)
    logging.getLogger().addHandler(errors)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    address, settings = {"hostname": "127.0.0.1", "port": port}, root / "server.yaml"
    metrics = {"enabled": True, "filename": str(root / "server.jsonl")}
    content = {**address, "pool_size": 2, "acquire_timeout": 30, "metrics": metrics}
    settings.write_text(yaml.safe_dump(content))
    config = ROOT / "agent_configs" / "micro-low.yaml"
    sys.argv = ["simulstream_server", "--server-config", str(settings)]
    sys.argv += ["--speech-processor-config", str(config)]
    threading.Thread(target=websocket_server.cli_main, daemon=True).start()
    wait_until(lambda: answers(port), 120, 0.1)
    command = [str(BIN / "simulstream_wavs_client"), "--uri", f"ws://127.0.0.1:{port}/"]
    command += ["--wav-list-file", str(root / "wavs.txt"), "--src-lang", "en"]
    form = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    clients = [
        subprocess.Popen([*command, "--tgt-lang", target], **form) for target in ("de", "zh")
    ]
    printed = [client.communicate(timeout=300)[0] for client in clients]
    assert [client.returncode for client in clients] == [0, 0], printed
    return [record.getMessage() for record in errors.buffer]


def quick_start(wav: Path) -> str:
    """Run the tutorial's Python example on another recording; return what it prints."""
    tutorial = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", tutorial, flags=re.S)
    (named,) = set(re.findall(r"micro_models/devset/wav/[\w-]+\.wav", code))
    assert (ROOT / named).is_file()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code.replace(named, str(wav)), {"__name__": "__main__"})
    return printed.getvalue()


def main() -> None:
    root, out = (Path(given) for given in sys.argv[1:])
    official_runs(root)
    config = yaml_config(str(root / "de.yaml"))
    AlignAttAgent.load_model(config)
    wav = next((root / "wav").glob("*.wav"))
    audio, rate = soundfile.read(wav, dtype="float32")
    assert rate == RATE
    agent = AlignAttAgent(config)
    beginning = root / "beginning.wav"
    soundfile.write(beginning, audio[: BEGINNING_S * RATE], RATE)
    patient = yaml_config(str(root / "de.yaml"))
    off = ("early_stop", "verify_drafts", "verify_transcripts")
    patient.debug = SimpleNamespace(**dict.fromkeys(off, False))
    odd = odd_audio(agent, audio[: BEGINNING_S * RATE])
    emitted, why = traced(agent, audio)
    result = {
        "odd": odd,
        "after odd audio": emitted,
        "why": why,
        "whole drafts": side_by_side(patient, audio),
        "quick start": quick_start(beginning),
        "server": web_socket_server(root),
        "emitted rows": emitted_rows((config, patient), audio),
        "failures": AlignAttAgent.runtime.failures,
    }
    result["shared"] = shared_recognition(wav, root / "shared")
    out.write_text(json.dumps(result, ensure_ascii=False), encoding="utf-8")
    AlignAttAgent.shutdown()


if __name__ == "__main__":
    main()
