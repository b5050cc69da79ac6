"""Translate a recording, a stream, or microphone input into one or more languages.

Examples:
  print the text as it is emitted:
    alignatt translate talk.mp3 --target de

  write subtitles in three target languages and the spoken language (talk.de.srt, ...):
    alignatt translate talk.mp4 --target de it zh en --format srt

  translate a talk from the embedded dev set without downloading models:
    alignatt translate micro_models/devset/wav/talk-a.wav --target de it zh --config micro-low

  write roll-up captions from the microphone; press Enter to stop:
    alignatt translate mic --target it --format vtt --times said --output captions

  translate raw samples from any program, or a stream from the network:
    ffmpeg -i talk.mov -f s16le -ac 1 -ar 16000 - | alignatt translate - --raw 16000 --target de
    alignatt translate https://example.org/live.m3u8 --target de --format jsonl

  pass names and terms of the talk, and choose other models:
    alignatt translate talk.wav --target de --context terms.txt --config iwslt26-high

formats
  txt     one sentence per line, written as it is emitted
  srt vtt subtitles: up to two lines of 42 columns (16 Chinese characters), shown for 5/6 s to 7 s
  jsonl   one object per emitted unit: target, text, start and end of its source words, and
          emission_time (seconds of audio so far; with mic, seconds of real time)

The formats txt and jsonl are printed unless --output is specified. The formats srt and vtt are
always written to files. The files are named STEM.CODE.FORMAT; the default STEM is the name of the
recording. Existing files are replaced only with --overwrite.

exit status: 0 success; 1 failure while running; 2 failure before the start; 130 interrupted. After
a failure or an interruption, the output so far is written.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from alignatt_agent.cascade.open_stream import open_stream
from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.config.agent_config import ConfigError, load_config, parse_overrides
from alignatt_agent.config.checkpoints import EMBEDDED, CheckpointError, is_embedded
from alignatt_agent.config.command_line import CONFIG_HELP, page, shared_options
from alignatt_agent.config.languages import Language, language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.live import sources
from alignatt_agent.live.live_translation import LiveTranslation
from alignatt_agent.live.output_paths import check_writable, output_path
from alignatt_agent.live.outputs import FORMATS, build_output
from alignatt_agent.types import SAMPLE_RATE

REAL = "default-low"
"""The default configuration, with real models that require a GPU."""

LAPTOP = "laptop-low"
"""A configuration with real models that do not require a GPU."""

_TERMINATION_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Signals sent by `docker stop` and by a closed terminal."""

_SMALL = f"a small artificial language (talks such as {EMBEDDED}/devset/wav/talk-a.wav)"


def build_parser() -> argparse.ArgumentParser:
    """Build the command-line parser."""
    parser = argparse.ArgumentParser("alignatt translate", **page(__doc__))
    add = parser.add_argument
    text = "a recording, an address that FFmpeg can open, mic, or - for standard input"
    add("input", nargs="?", metavar="FILE|URL|mic|-", help=text)
    captions = "target languages; the spoken language yields captions of the speech itself"
    shared_options(
        parser,
        "set",
        "source",
        config={"help": f"{CONFIG_HELP}; default {REAL}"},
        target={"required": True, "help": captions},
        output={"metavar": "STEM", "help": "write to STEM.CODE.FORMAT instead of the terminal"},
    )
    add("--format", choices=FORMATS, default="txt", help="format (see below); default %(default)s")
    text = (
        "time of a subtitle: when the words were spoken, or when the translation was emitted; "
        "default %(default)s"
    )
    add("--times", choices=("spoken", "said"), default="spoken", help=text)
    text = "names and terms of the talk: a file, or the terms themselves"
    add("--context", metavar="FILE|TERMS", help=text)
    text = "read raw 16-bit mono samples at this rate, in Hz"
    add("--raw", type=int, metavar="RATE", help=text)
    add("--overwrite", action="store_true", help="replace existing files")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    arguments = _arguments(argv)
    targets = _distinct(arguments.target)
    overrides = _overrides(arguments)
    source = sources.Source(arguments.input, arguments.raw)
    runtime = Runtime()
    resolved = choose(runtime, arguments.config, overrides, targets)
    runtime.check(resolved)
    stem = _stem(arguments)
    # A name that cannot be used is reported before the models are loaded.
    if stem is not None:
        paths = [output_path(stem, target, arguments.format) for target in targets]
        check_writable(stem, paths, arguments.overwrite)
    print("loading models", file=sys.stderr, flush=True)
    _handle_termination()
    try:
        return _translate(arguments, source, runtime, resolved, targets, stem)
    finally:
        runtime.close()


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments, with an input that stands after the targets in its place."""
    parser = build_parser()
    arguments = parser.parse_intermixed_args(argv)
    # For `--target de talk.wav`, the parser returns the input as the last target.
    if arguments.input is None and len(arguments.target) > 1:
        arguments.input = arguments.target.pop()
    if arguments.input is None:
        parser.error("no input: expected FILE, URL, mic or -")
    return arguments


def _distinct(names: Sequence[str]) -> list[Language]:
    """Return the languages of codes or names, each once."""
    by_code = {}
    for name in names:
        target = language(name)
        by_code[target.code] = target
    return list(by_code.values())


def _overrides(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the changes to the configuration that the options request."""
    overrides = parse_overrides(arguments.overrides)
    if arguments.source is not None:
        overrides["source_language"] = language(arguments.source).code
    context = arguments.context
    if context is not None:
        is_file = os.path.exists(context)  # noqa: PTH110 - False for a text of any length
        overrides["speech.context"] = context if is_file else [context]
    return overrides


def _stem(arguments: argparse.Namespace) -> Path | None:
    """Return the beginning of the names of the output files; ``None`` for the terminal."""
    stem: Path | None = arguments.output
    # Later units may change the last cues, so subtitles cannot be printed as they are emitted.
    if stem is None and arguments.format in ("srt", "vtt"):
        stem = Path(sources.name_of(arguments.input))
    if stem is not None and not stem.name:
        raise ConfigError(f"--output {stem}: expected the beginning of a file name")
    return stem


def _translate(
    arguments: argparse.Namespace,
    source: sources.Source,
    runtime: Runtime,
    resolved: Resolved,
    targets: Sequence[Language],
    stem: Path | None,
) -> int:
    """Load the engines and translate the source; return the exit status."""
    config = resolved.config
    spoken = language(config.source_language)
    engines = runtime.load(resolved)
    context = config.speech.context_of(sources.name_of(arguments.input))
    stream = open_stream(resolved, engines, spoken, targets, context)
    outputs = {}
    for target in targets:
        outputs[target.code] = build_output(
            form=arguments.format,
            target=target,
            times=arguments.times,
            stem=stem,
            labelled=len(targets) > 1,
            aligned=resolved.aligned(spoken),
        )
    chunk_size = SAMPLE_RATE * config.chunk_ms // 1000
    if arguments.input == sources.MICROPHONE:
        # If the machine is too slow for the microphone, all waiting audio goes into one chunk.
        chunks = sources.chunks(source, chunk_size, source.waits)
        run = LiveTranslation(stream, outputs, clock=time.monotonic)
        has_progress = False
    else:
        chunks = sources.chunks(source, chunk_size)
        run = LiveTranslation(stream, outputs, clock=None)
        # On a terminal, the progress would be mixed with the translation.
        has_progress = stem is not None
    # Also on Ctrl-C, the source is closed first, then the remaining output is written.
    with closing(run), source:
        run.follow(sources.with_progress(chunks, source.seconds, has_progress))
    return run.status


def _handle_termination() -> None:
    """Write the output so far if the process is terminated."""
    for number in _TERMINATION_SIGNALS:
        # A signal that is already ignored stays ignored, e.g. under nohup.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    """Stop as for Ctrl-C, so that files are written; ignore further signals."""
    for termination_signal in _TERMINATION_SIGNALS:
        signal.signal(termination_signal, signal.SIG_IGN)
    raise KeyboardInterrupt


def choose(
    runtime: Runtime, name: str | None, overrides: Mapping[str, object], targets: Sequence[Language]
) -> Resolved:
    """Load and resolve the specified configuration or, without a ``name``, the default one."""
    config = load_config(name or REAL, overrides)
    if is_embedded(config.models):
        print(f"note: {name} translates only {_SMALL}", file=sys.stderr)
    spoken = language(config.source_language)
    # Captions of the speech need no translation.
    codes = [target.code for target in targets if target != spoken]
    try:
        return runtime.resolve(config, codes)
    except CheckpointError as error:
        if name is not None:
            raise
        raise CheckpointError(
            f"the models of {REAL}, the default of --config, are not on this machine: "
            f"{error}\nWithout a GPU, run `alignatt fetch {LAPTOP}`, then add --config {LAPTOP}. "
            f"The embedded models translate only {_SMALL}; to try them, run `alignatt demo`"
        ) from None
