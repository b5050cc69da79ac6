"""Stream runs through the official harness with shared engines."""

import contextlib
import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from alignatt_agent.evaluation.plan import EvalRun
from alignatt_agent.evaluation.run_files import write_json

LOGGER = logging.getLogger(__name__)


def stream_all(runs: Sequence[EvalRun], paced: bool = False) -> bool:
    """Load engines once and stream runs up to the first failure; return whether all succeeded."""
    if not runs:
        return True
    announce(runs)
    try:
        for run in runs:
            stream(run, paced)
    except Exception as error:
        report_failure(run, error)
        return False
    finally:
        runs[0].agent_class.shutdown()
    return True


def prepare(run: EvalRun, keep_talks: bool = False) -> None:
    """Replace an earlier stream's files with new inputs; ``keep_talks`` keeps finished talks."""
    assert run.choice is not None
    run.files.clean([run.files.parts] if keep_talks else [])
    config = run.choice.config.for_target(run.target)
    run.files.config.write_text(config.to_yaml(), encoding="utf-8")
    wavs = "".join(f"{talk.wav}\n" for talk in run.devset.talks)
    run.files.wavs.write_text(wavs, encoding="utf-8")


def stream(run: EvalRun, paced: bool = False, progress: bool = True) -> None:
    """Stream one prepared run and write its signature; ``progress`` shows a progress bar."""
    # The harness is imported late, because importing it configures logging.
    from alignatt_agent.evaluation.harness import run_stream

    with logging_to(run.files.log):
        try:
            run_stream(run, paced, progress)
        except Exception:
            LOGGER.exception("the run %s failed", run.label)
            raise
    write_json(run.files.finished, run.signature)


def announce(runs: Sequence[EvalRun]) -> None:
    """Print the configurations, languages and talks to stream."""
    devset = runs[0].devset
    names = dict.fromkeys(run.name for run in runs)
    targets = dict.fromkeys(run.target for run in runs)
    print(
        f"{', '.join(names)}: {runs[0].source} -> {' '.join(targets)}, "
        f"{len(devset.talks)} talks, {devset.seconds:.0f} s of speech, "
        f"{len(devset.segments)} segments; loading models",
        flush=True,
    )


def report_failure(run: EvalRun, error: BaseException) -> None:
    """Print the reason for an incomplete run."""
    print(
        f"simulstream-eval: {run.label}: {type(error).__name__}: {error}\n"
        f"  details: {run.files.log}",
        file=sys.stderr,
    )


@contextlib.contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Send all messages to a file and warnings to the terminal."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    level = root.level
    file = logging.FileHandler(path, mode="w", encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    terminal = logging.StreamHandler()
    terminal.setLevel(logging.WARNING)
    terminal.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    # This module's errors also reach the terminal by report_failure.
    terminal.addFilter(lambda record: record.name != LOGGER.name)
    root.handlers[:] = [file, terminal]
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        file.close()
