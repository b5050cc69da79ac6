"""Many streams at once on the same engines emit what each of them emits alone.

Excerpts of the talks of a dev set are translated one after the other and then all together, every
stream in a thread and a language of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from types import SimpleNamespace

import soundfile
from simulstream.config import yaml_config
from tqdm import tqdm

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.config.quiet import quieten
from alignatt_agent.config.resources import find_resource
from alignatt_agent.evaluation.devset import load_devset
from alignatt_agent.types import SAMPLE_RATE, FloatArray

Job = tuple[FloatArray, str]


def excerpts(devset: Path, targets: list[str], count: int, seconds: float) -> list[Job]:
    """Cut ``count`` pieces, ``[samples]``, from the talks; targets take turns."""
    talks = load_devset(devset, targets).talks
    jobs = []
    for number, (talk, target) in enumerate(
        islice(zip(cycle(talks), cycle(targets), strict=False), count)
    ):
        begin = number // len(talks) * seconds * 2 / 3
        begin = min(begin, max(0.0, talk.seconds - seconds))
        frames = int(seconds * SAMPLE_RATE)
        audio, _ = soundfile.read(talk.wav, frames, int(begin * SAMPLE_RATE), dtype="float32")
        jobs.append((audio, target))
    return jobs


def stream(config: SimpleNamespace, job: Job) -> list[list[str]]:
    """Return what each chunk of an excerpt emits."""
    audio, target = job
    agent = AlignAttAgent(config)
    agent.set_target_language(target)
    step = int(SAMPLE_RATE * agent.speech_chunk_size)
    pieces = [audio[begin : begin + step] for begin in range(0, len(audio), step)]
    return [agent.process_chunk(piece).new_tokens for piece in pieces] + [
        agent.end_of_stream().new_tokens
    ]


def main() -> int:
    """Run the command line; 0 when every stream emits the same."""
    parser = argparse.ArgumentParser(
        prog="python -m alignatt_agent.checks.bench_streams",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", default="micro-low", help="configuration; %(default)s")
    parser.add_argument("--target", nargs="+", default=["de", "it", "zh"], help="target languages")
    parser.add_argument("--devset", type=Path, default=Path("micro_models/devset"))
    parser.add_argument("--streams", type=int, default=16, help="how many; %(default)s")
    parser.add_argument("--seconds", type=float, default=30.0, help="length of each; %(default)s")
    parser.add_argument("--output", type=Path, default=Path("outputs/bench"))
    arguments = parser.parse_args()
    quieten()
    jobs = excerpts(arguments.devset, arguments.target, arguments.streams, arguments.seconds)
    config = yaml_config(str(find_resource("agent_configs", arguments.config, (".yaml", ".yml"))))
    AlignAttAgent.load_model(config)
    try:
        begin = time.perf_counter()
        alone = [stream(config, job) for job in tqdm(jobs, unit="stream", desc="one by one")]
        middle = time.perf_counter()
        with ThreadPoolExecutor(len(jobs)) as pool:
            together = list(pool.map(lambda job: stream(config, job), jobs))
        end = time.perf_counter()
    finally:
        AlignAttAgent.shutdown()
    same = sum(one == other for one, other in zip(alone, together, strict=True))
    units = sum(len(tokens) for output in alone for tokens in output)
    result = {
        "config": arguments.config,
        "streams": len(jobs),
        "identical": same,
        "units": units,
        "failures": AlignAttAgent.failures,
        "seconds_one_by_one": round(middle - begin, 1),
        "seconds_together": round(end - middle, 1),
    }
    print(
        f"{same} of {len(jobs)} streams emit the same together as alone ({units} units); "
        f"{result['seconds_one_by_one']} s one by one, {result['seconds_together']} s together"
    )
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "streams.json"
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"written to {path}")
    return 0 if same == len(jobs) and units and not AlignAttAgent.failures else 1


if __name__ == "__main__":
    sys.exit(main())
