"""Open streams on the engines of a process (Figure 1 of the paper)."""

from collections.abc import Callable, Iterator, Sequence
from weakref import WeakMethod

from alignatt_agent.cascade.engines import Engines
from alignatt_agent.cascade.stream import Stream
from alignatt_agent.cascade.target_stream import TargetStream
from alignatt_agent.config.languages import Language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.config.terms import spoken_terms
from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.translation.captions import Captions
from alignatt_agent.translation.history import History
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.translation.translator import Translator
from alignatt_agent.types import SAMPLE_RATE, FloatArray, SourceView
from alignatt_agent.types.stopwatch import Stopwatch


def open_stream(
    resolved: Resolved,
    engines: Engines,
    source: Language,
    targets: Sequence[Language],
    context: str = "",
) -> Stream:
    """Open a stream on the engines; a target that is the spoken language receives captions.

    ``context`` contains names and terms of the talk, one per line, optionally with translations.

    Raises:
        ConfigError: a line of the context is invalid.
        HeadSetError: the configuration contains no head set for a language direction.
    """
    config = resolved.config
    aligner = None
    if resolved.aligned(source):
        aligner = engines.aligner
    tail = LiveTail(
        recognizer=engines.asr,
        aligner=aligner,
        language=source.code,
        config=config.speech,
        watch=Stopwatch(),
        context=spoken_terms(context),
        verify=config.debug.verify_transcripts,
    )
    target_streams: dict[str, TargetStream] = {}
    for target in targets:
        if target.code == source.code:
            target_stream = TargetStream(Captions())
        else:
            target_stream = _target_stream(resolved, engines, source, target, context)
        target_streams[target.code] = target_stream
    stream = Stream(tail, target_streams)
    # During recognition, no other chunk of the stream is translated.
    if config.debug.draft_ahead:
        tail.on_hypothesis = _weakly(stream.draft_ahead)
    return stream


def _target_stream(
    resolved: Resolved, engines: Engines, source: Language, target: Language, context: str
) -> TargetStream:
    """Build the translator into one target, with its own stopwatch and history."""
    config = resolved.config
    prompt = config.prompt
    watch = Stopwatch()
    policy = config.policy_for(target.code)
    readout = None
    # A policy that reads only tokens needs no rows. If there is a head set, rows are read
    # nevertheless, because they show the source words of emitted tokens.
    if policy.reads != "tokens" or target.code in resolved.head_sets:
        readout = resolved.readout(source, target)
    builder = PromptBuilder.of(engines.tokenizer, prompt, source, target, context)
    translator = Translator(
        engine=engines.translation,
        prompt_builder=builder,
        tokenizer=engines.tokenizer,
        readout=readout,
        policy=policy,
        spaced=target.spaced,
        max_draft_tokens=config.max_draft_tokens,
        early_stop=config.debug.early_stop,
        verify=config.debug.verify_drafts,
        watch=watch,
        history=History(builder, prompt.history, prompt.history_tokens),
    )
    return TargetStream(translator, watch)


def _weakly(draft_ahead: Callable[[SourceView], None]) -> Callable[[SourceView], None]:
    """Call a method of a stream, without a reference to the stream.

    A stream refers to its live tail. If the live tail referred to the stream, the threads of a
    discarded stream would exist until the next garbage collection.
    """
    reference = WeakMethod(draft_ahead)

    def call(view: SourceView) -> None:
        method = reference()
        if method is not None:
            method(view)

    return call


def chunks(resolved: Resolved, audio: FloatArray) -> Iterator[FloatArray]:
    """Cut audio, ``[samples]``, into chunks of the configured length."""
    size = SAMPLE_RATE * resolved.config.chunk_ms // 1000
    return (audio[begin : begin + size] for begin in range(0, len(audio), size))
