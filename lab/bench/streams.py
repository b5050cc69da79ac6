"""What bench measures on whole streams: what early stop saves, and many streams at once.

Every talk of a dev set is translated with whole drafts and with drafts that end inside the engine
where the gate closes. Excerpts of the talks are then translated one after the other and all
together, every stream in a thread and a language of its own; paced ones hear by the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from tqdm import tqdm

from alignatt_agent.cascade import Engines, chunks, load_engines, open_stream, shutdown
from alignatt_agent.config.agent_config import ConfigError, DebugConfig, load_config
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import Resolved, resolve
from alignatt_agent.evaluation.devset import load_devset
from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.types import SAMPLE_RATE, FloatArray, SpeechUpdate

MOST_STEPS = 2.0
"""Most decoding steps that an emitted token may cost where single drafts decide."""

Job = tuple[FloatArray, str]


@contextmanager
def opened(
    names: Sequence[str], targets: Sequence[str]
) -> Iterator[tuple[dict[str, Resolved], Engines]]:
    """Start the engines that all configurations share, and end them.

    Raises:
        ConfigError: a configuration is not valid, or they name different models.
    """
    found = {name: resolve(load_config(name), targets) for name in names}
    first = found[names[0]]
    if any(item.config.models != first.config.models for item in found.values()):
        raise ConfigError(f"{', '.join(names)} name different models; measure them one by one")
    heads = {head for item in found.values() for head in item.heads}
    try:
        yield found, load_engines(first.checkpoints, sorted(heads), first.config.speech.recognizer)
    finally:
        shutdown()


def talks(devset: Path, targets: Sequence[str]) -> list[FloatArray]:
    """Return the talks of a dev set, ``[samples]`` each."""
    found = load_devset(devset, targets).talks
    return [soundfile.read(talk.wav, dtype="float32")[0] for talk in found]


def excerpts(devset: Path, targets: Sequence[str], count: int, seconds: float) -> list[Job]:
    """Cut ``count`` pieces of ``seconds`` from the talks; talks and targets take turns."""
    listed, frames = talks(devset, targets), int(seconds * SAMPLE_RATE)
    jobs = []
    for number, (talk, target) in enumerate(islice(zip(cycle(listed), cycle(targets)), count)):
        begin = number // len(listed) * frames * 2 // 3
        begin = min(begin, max(0, len(talk) - frames))
        jobs.append((talk[begin : begin + frames], target))
    return jobs


# ------------------------------------------------------------------ early stop
def early_stop(
    configs: Mapping[str, Resolved],
    engines: Engines,
    targets: Sequence[str],
    listed: Sequence[FloatArray],
) -> Iterator[dict[str, Any]]:
    """Translate talks, ``[samples]`` each: whole drafts, early stop, and verification besides.

    The speech side is heard once with and once without verification. Where several drafts have to
    agree, each token is drafted as often and drafts go on past the gate; the gate on single drafts
    is then measured, too.

    Yields:
        For each configuration, target and number of drafts that agree: whether everything heard
        and emitted is identical, steps per transcript, and steps and milliseconds per emitted
        token.
    """
    for name, resolved in configs.items():
        plain, heard = (_hear(resolved, engines, listed, verify) for verify in (False, True))
        policy = resolved.config.policy
        policies = {policy.drafts: policy, 1: policy.alone()}
        runs = [(target, n) for target in targets for n in policies]
        for target, n in tqdm(runs, desc=f"{name}: early stop"):
            ways = {}
            for way, early, verify in (
                ("whole", False, False),
                ("early", True, False),
                ("verified", True, True),
            ):
                debug = DebugConfig(early_stop=early, verify_drafts=verify)
                changed = {"debug": debug, "policy": policies[n], "targets": {}}
                config = resolved.config.model_copy(update=changed)
                ways[way] = _translate(
                    replace(resolved, config=config), engines, target, heard.updates
                )
            whole = ways["whole"]
            same = all(found.units == whole.units for found in ways.values())
            per_token = {way: max(1, found.tokens) for way, found in ways.items()}
            yield {
                "config": name,
                "target": target,
                "drafts_that_agree": n,
                "chunks": len(whole.units),
                "identical": same and plain.updates == heard.updates,
                "tokens": whole.tokens,
                "steps_per_transcript": plain.steps / max(1, plain.count),
                "steps_per_transcript_verified": heard.steps / max(1, heard.count),
                **{
                    f"steps_per_token_{way}": found.steps / per_token[way]
                    for way, found in ways.items()
                },
                **{
                    f"ms_per_token_{way}": 1000 * found.seconds / per_token[way]
                    for way, found in ways.items()
                },
            }


def saves(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether every emission is the same, and single drafts cost ``MOST_STEPS`` at most."""
    return all(
        row["identical"]
        and (row["drafts_that_agree"] > 1 or row["steps_per_token_early"] <= MOST_STEPS)
        for row in rows
    )


@dataclass
class _Heard:
    """What each chunk of each talk gave on the speech side, and what it cost."""

    updates: list[list[SpeechUpdate]] = field(default_factory=list)
    count: int = 0
    steps: int = 0


def _hear(
    resolved: Resolved, engines: Engines, listed: Sequence[FloatArray], verify: bool
) -> _Heard:
    config, found = resolved.config, _Heard()
    source = language(config.source_language).code
    for audio in tqdm(listed, desc="hear, verified" if verify else "hear"):
        tail = LiveTail(engines.asr, engines.aligner, source, config.speech, verify=verify)
        updates = [*map(tail.push, chunks(resolved, audio)), tail.finish()]
        found.updates.append(updates)
        found.count += sum(update.transcripts.count for update in updates)
        found.steps += sum(update.transcripts.steps for update in updates)
    return found


@dataclass
class _Translated:
    """Emissions of each chunk of each talk, and what they cost."""

    units: list[tuple[str, ...]] = field(default_factory=list)
    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0


def _translate(
    resolved: Resolved, engines: Engines, target: str, heard: Sequence[Sequence[SpeechUpdate]]
) -> _Translated:
    source, found = language(resolved.config.source_language), _Translated()
    for talk in heard:
        stream = open_stream(resolved, engines, source, [language(target)])
        translator = stream.targets[target].translator
        start = time.perf_counter()
        for update in talk:
            closed = [translator.complete(sentence).units for sentence in update.sentences]
            found.units.append(sum([*closed, translator.update(update.live).units], ()))
        found.seconds += time.perf_counter() - start
        found.steps += translator.steps
        found.tokens += translator.emitted
    return found


# ------------------------------------------------------------------ many streams
@dataclass
class Emitted:
    """What a stream emitted.

    Attributes:
        units: of each chunk; of the end of the stream last.
        lags: seconds from the end of each chunk's audio to its emission; none unless paced.
    """

    units: list[tuple[str, ...]] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)


def together(
    resolved: Resolved, engines: Engines, jobs: Sequence[Job], counts: Sequence[int], paced: bool
) -> Iterator[dict[str, Any]]:
    """Translate excerpts one by one, and then as many at once as each count says.

    Args:
        resolved: the configuration.
        engines: what all streams share.
        jobs: as many as the largest count.
        counts: how many streams at once.
        paced: deliver the audio by the clock, as speakers do who began at different moments.

    Yields:
        For each count: how many streams emitted the same as alone, audio translated per second,
        and where paced the lag of emissions and whether the streams were kept up with.
    """
    alone = [speak(resolved, engines, job) for job in tqdm(jobs, desc="one by one")]
    chunk_s = resolved.config.chunk_ms / 1000
    for count in counts:
        begin = time.perf_counter()
        starts = [begin + chunk_s * place / count if paced else None for place in range(count)]
        with ThreadPoolExecutor(count) as pool:
            crowd = list(pool.map(partial(speak, resolved, engines), jobs[:count], starts))
        seconds = time.perf_counter() - begin
        yield crowd_figures(jobs[:count], alone, crowd, seconds, chunk_s)


def crowd_figures(
    jobs: Sequence[Job],
    alone: Sequence[Emitted],
    crowd: Sequence[Emitted],
    seconds: float,
    chunk_s: float,
) -> dict[str, Any]:
    """Return what ``together`` yields of streams that took ``seconds`` in all."""
    audio_s = sum(len(audio) for audio, _ in jobs) / SAMPLE_RATE
    pairs = zip(alone, crowd, strict=False)
    found: dict[str, Any] = {
        "streams": len(crowd),
        "identical": sum(one.units == other.units for one, other in pairs),
        "units": sum(len(units) for stream in crowd for units in stream.units),
        "audio_s": round(audio_s, 1),
        "seconds": round(seconds, 1),
        "audio_s_per_s": round(audio_s / seconds, 2),
    }
    lags = [lag for stream in crowd for lag in stream.lags]
    if lags:
        p50, p95 = (float(value) for value in np.percentile(lags, [50, 95]))
        # What is done before the next chunk is there leaves nothing to catch up with.
        found |= {"lag_p50_s": round(p50, 3), "lag_p95_s": round(p95, 3), "kept_up": p95 <= chunk_s}
    return found


def knee(rows: Sequence[Mapping[str, Any]]) -> int:
    """Return the most streams that were kept up with, and all smaller numbers too; 0 for none."""
    most = 0
    for row in sorted(rows, key=lambda row: int(row["streams"])):
        if not row.get("kept_up"):
            break
        most = int(row["streams"])
    return most


def speak(
    resolved: Resolved,
    engines: Engines,
    job: Job,
    start: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> Emitted:
    """Translate an excerpt.

    Args:
        resolved: the configuration.
        engines: of the stream.
        job: audio and target language.
        start: when its speech began, by ``clock``; ``None`` delivers all audio at once.
        clock: seconds.
        sleep: waits so many seconds.
    """
    audio, target = job
    source = language(resolved.config.source_language)
    stream = open_stream(resolved, engines, source, [language(target)])
    found, heard = Emitted(), 0
    for chunk in chunks(resolved, audio):
        heard += len(chunk)
        due = None if start is None else start + heard / SAMPLE_RATE
        if due is not None and (early := due - clock()) > 0:
            sleep(early)
        found.units.append(stream.step(chunk).only().units)
        if due is not None:
            found.lags.append(clock() - due)
    found.units.append(stream.finish().only().units)
    return found
