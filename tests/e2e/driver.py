"""Everything that needs loaded engines, in one process: ``driver.py SHORT_TALK OUT.json``.

Engines take most of a minute to start on two cores, so the tests look at what this leaves behind.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import sys
import threading
from argparse import Namespace
from dataclasses import astuple
from pathlib import Path

import numpy as np
import soundfile
from simulstream import inference
from simulstream.config import yaml_config
from simulstream.metrics.logger import METRICS_LOGGER

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.cascade import build_booth
from alignatt_agent.config.agent_config import AgentConfig
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import resolve
from micro_world.measure import measure

RATE = 16_000
ROOT = Path(__file__).resolve().parents[2]
DEVSET = ROOT / "micro_models" / "devset"
TARGETS = ("de", "it", "zh")


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


def official_runs(root: Path) -> None:
    METRICS_LOGGER.setLevel(logging.INFO)
    for target in TARGETS:
        inference.main(
            Namespace(
                speech_processor_config=str(root / f"{target}.yaml"),
                wav_list_file=str(root / "wavs.txt"),
                tgt_lang=target,
                src_lang="en",
                metrics_log_file=str(root / f"{target}.jsonl"),
            )
        )


def side_by_side(config, audio):
    """Stream German and Chinese at the same time on the same engines."""
    found = {}

    def one(target):
        found[target] = stream(AlignAttAgent(config), audio, target)

    threads = [threading.Thread(target=one, args=(target,)) for target in ("de", "zh")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def one_ear(config, audio):
    """Follow one hearing into three languages, and caption it; units and times of each chunk."""
    engines = next(iter(AlignAttAgent._engines.values()))
    targets = [language(code) for code in ("de", "it", "zh", "en")]
    resolved = resolve(AgentConfig.from_namespace(config), ("de", "it", "zh"))
    booth = build_booth(resolved, engines, language("en"), targets)
    size = RATE * resolved.config.chunk_ms // 1000
    steps = [booth.step(audio[i : i + size]) for i in range(0, len(audio), size)]
    steps.append(booth.finish())
    return {
        code: [
            [step.steps[code].units, [astuple(t) for t in step.steps[code].times]] for step in steps
        ]
        for code in ("de", "it", "zh", "en")
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
        "after all that": stream(agent, audio),
    }


def quick_start(wav: Path) -> str:
    """Run the README's Python example on another recording; return what it prints."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, flags=re.S)
    (named,) = set(re.findall(r"micro_models/devset/wav/[\w-]+\.wav", code))
    assert (ROOT / named).is_file()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code.replace(named, str(wav)), {"__name__": "__main__"})
    return printed.getvalue()


def main() -> None:
    root, out = Path(sys.argv[1]), Path(sys.argv[2])
    official_runs(root)
    config = yaml_config(str(root / "de.yaml"))
    AlignAttAgent.load_model(config)
    audio, rate = soundfile.read(next((root / "wav").glob("*.wav")), dtype="float32")
    assert rate == RATE
    agent = AlignAttAgent(config)
    patient = yaml_config(str(root / "de.yaml"))
    patient.early_stop = False
    result = {
        "alone": {target: stream(agent, audio, target) for target in TARGETS},
        "whole drafts": {
            target: stream(AlignAttAgent(patient), audio, target) for target in ("de", "zh")
        },
        "one ear": one_ear(config, audio),
        "side by side": side_by_side(config, audio),
        "odd": odd_audio(agent, audio),
        "quick start": quick_start(next((root / "wav").glob("*.wav"))),
        "failures": AlignAttAgent.failures,
        "figures": measure(next(iter(AlignAttAgent._engines.values())), DEVSET, 60),
    }
    out.write_text(json.dumps(result, ensure_ascii=False), encoding="utf-8")
    AlignAttAgent.shutdown()


if __name__ == "__main__":
    main()
