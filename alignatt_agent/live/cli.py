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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from alignatt_agent.audio.recording import AudioError
from alignatt_agent.cascade.open_stream import open_stream
from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.cascade.stream import Stream, StreamStep
from alignatt_agent.config.agent_config import ConfigError, load_config, parse_overrides
from alignatt_agent.config.checkpoints import EMBEDDED, CheckpointError, is_embedded
from alignatt_agent.config.command_line import CONFIG_HELP, page, shared_options
from alignatt_agent.config.languages import Language, language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.config.whole_files import PARTIAL
from alignatt_agent.live import sources
from alignatt_agent.live.outputs import FORMATS, Output, build_output, output_path
from alignatt_agent.live.subtitles import Said
from alignatt_agent.types import SAMPLE_RATE, EngineError, FloatArray

REAL, LAPTOP = "default-low", "laptop-low"
"""Configurations with real models: the default, which requires a GPU, and one that does not."""

ATTEMPTS = 3
"""Number of successive failures after which the stream ends."""

LONG_S = 30.0
"""Seconds of audio without words after which a warning is printed."""


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
    parser = build_parser()
    given = parser.parse_intermixed_args(argv)
    if given.input is None and len(given.target) > 1:  # --target de talk.wav
        given.input = given.target.pop()
    if given.input is None:
        parser.error("no input: expected FILE, URL, mic or -")
    targets = list({item.code: item for item in map(language, given.target)}.values())
    overrides = parse_overrides(given.overrides)
    if given.source is not None:
        overrides["source_language"] = language(given.source).code
    if given.context is not None:
        is_file = os.path.exists(given.context)  # noqa: PTH110 - False for a text of any length
        overrides["speech.context"] = given.context if is_file else [given.context]
    heard = sources.Source(given.input, given.raw)
    runtime = Runtime()
    resolved = choose(runtime, given.config, overrides, targets)
    source = language(resolved.config.source_language)
    runtime.check(resolved)
    stem = given.output
    if stem is None and given.format in ("srt", "vtt"):
        stem = Path(sources.name_of(given.input))
    if stem is not None:
        if not stem.name:
            raise ConfigError(f"--output {stem}: expected the beginning of a file name")
        paths = [output_path(stem, target, given.format) for target in targets]
        _check_writable(stem, paths, given.overwrite)
    print("loading models", file=sys.stderr, flush=True)
    for number in _ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # e.g. under nohup
            signal.signal(number, _interrupt)
    try:
        engines = runtime.load(resolved)
        context = resolved.config.speech.context_of(sources.name_of(given.input))
        stream = open_stream(resolved, engines, source, targets, context)
        outputs = {
            target.code: build_output(
                given.format, target, given.times, stem, len(targets) > 1, resolved.aligned(source)
            )
            for target in targets
        }
        live = given.input == sources.MICROPHONE
        run = LiveTranslation(stream, outputs, time.monotonic if live else None)
        size = SAMPLE_RATE * resolved.config.chunk_ms // 1000
        with closing(run), heard:
            chunks = sources.chunks(heard, size, heard.waits if live else None)
            shown = stem is not None and not live
            run.follow(sources.with_progress(chunks, heard.seconds, shown))
    finally:
        runtime.close()
    return run.status


def _check_writable(stem: Path, paths: Sequence[Path], overwrite: bool) -> None:
    """Reject outputs that exist or cannot be written."""
    if not os.access(stem.parent, os.W_OK):
        raise ConfigError(f"--output: the folder {stem.parent} does not exist or is not writable")
    longest = os.pathconf(stem.parent, "PC_NAME_MAX")
    for path in paths:
        name = path.name + (PARTIAL if path.suffix in (".srt", ".vtt") else "")
        size = len(os.fsencode(name))
        if size > longest:
            raise ConfigError(
                f"--output: the file name {name[:30]}...{name[-16:]} has {size} bytes, but "
                f"{stem.parent.resolve()} allows {longest}: choose a shorter --output"
            )
        if path.is_dir() or (path.exists() and not os.access(path, os.W_OK)):
            raise ConfigError(f"--output: {path} is a folder or is not writable")
        target = Path(os.path.realpath(path))
        if path.is_symlink() and not os.access(target.parent, os.W_OK):
            raise ConfigError(
                f"--output: {path} is a link to {target}, whose folder does not exist or is not "
                f"writable"
            )
        if path.is_file() and not overwrite:
            raise ConfigError(f"{path} exists: add --overwrite, or choose another --output")


_ENDS = signal.SIGTERM, signal.SIGHUP
"""Signals sent by `docker stop` and by a closed terminal."""


def _interrupt(number: int, frame: object) -> None:
    """Stop as for Ctrl-C, so that files are written; ignore further signals."""
    for one in _ENDS:
        signal.signal(one, signal.SIG_IGN)
    raise KeyboardInterrupt


def choose(
    runtime: Runtime, name: str | None, overrides: Mapping[str, object], targets: Sequence[Language]
) -> Resolved:
    """Load and resolve the specified configuration or, without a ``name``, the default one."""
    config = load_config(name or REAL, overrides)
    if is_embedded(config.models):
        print(f"note: {name} translates only {_SMALL}", file=sys.stderr)
    spoken = language(config.source_language)
    try:
        return runtime.resolve(config, [item.code for item in targets if item != spoken])
    except CheckpointError as error:
        if name is not None:
            raise
        raise CheckpointError(
            f"the models of {REAL}, the default of --config, are not on this machine: "
            f"{error}\nWithout a GPU, run `alignatt fetch {LAPTOP}`, then add --config {LAPTOP}. "
            f"The embedded models translate only {_SMALL}; to try them, run `alignatt demo`"
        ) from None


_SMALL = f"a small artificial language (talks such as {EMBEDDED}/devset/wav/talk-a.wav)"


@dataclass
class LiveTranslation:
    """A stream, its outputs by language code, and the exit status so far.

    ``clock`` returns the emission times; without it, each time is the duration of audio so far.
    """

    stream: Stream
    outputs: Mapping[str, Output]
    clock: Callable[[], float] | None
    status: int = 0
    _audio_s: float = 0.0
    _said: bool = False
    _told: set[str] = field(default_factory=set)

    def follow(self, chunks: Iterable[FloatArray]) -> None:
        """Translate all chunks and report errors."""
        self._begin = self.clock() if self.clock else 0.0
        failed = 0
        try:
            chunk = None
            for chunk in chunks:
                failed = 0 if self._call(partial(self.stream.step, chunk)) else failed + 1
                if failed == ATTEMPTS:
                    self._fail(f"stopped after {ATTEMPTS} errors in a row")
                    return
            if chunk is None:
                self._fail("the input contains no audio")
        except AudioError as error:
            self._fail(str(error))
        for _ in range(ATTEMPTS):
            if self._call(self.stream.finish):
                break
        if self._audio_s >= LONG_S and not (self._said or self.status):
            text = "check the input, --source and --raw"
            print(f"warning: no words in {self._audio_s:.0f} s of audio; {text}", file=sys.stderr)

    def close(self) -> None:
        """Write the remaining output."""
        for code, output in self.outputs.items():
            if line := self._write(code, output.close):
                print(line, file=sys.stderr)

    def _call(self, call: Callable[[], StreamStep]) -> bool:
        """Run one step; return whether every language succeeded."""
        try:
            step = call()
        except EngineError as error:
            self._fail(str(error))
            return False
        for code, failure in step.failures.items():
            self._fail(f"{code}: {failure}")
        self._audio_s = step.audio_s
        at = self.clock() - self._begin if self.clock else step.audio_s
        for code, found in step.steps.items():
            pairs = zip(found.units, found.times, strict=True)
            units = [Said(text, spoken, at) for text, spoken in pairs]
            self._said |= bool(units)
            self._write(code, partial(self.outputs[code].say, units))
        return not step.failures

    def _write(self, code: str, call: Callable[[], str | None]) -> str | None:
        """Write to one output; if writing fails, report the error and continue."""
        try:
            return call()
        except BrokenPipeError:
            raise
        except OSError as error:
            self._fail(f"{code}: the output cannot be written: {error.strerror}")
            return None

    def _fail(self, message: str) -> None:
        """Report an error unless it has been reported before."""
        self.status = EngineError.exit_status
        if message not in self._told:
            self._told.add(message)
            print(f"alignatt translate: {message}", file=sys.stderr)
