"""A recorded dev run, and engines of other dimensions that do the same work.

The output of random weights is meaningless, so it is replaced. A stream of the embedded models is
run once, and every answer is recorded. At playback, each call sends a request of the same size (the
same audio, as many prompt tokens and decoding steps) to a model of real dimensions and returns the
recorded answer. The cascade makes the same decisions, at a different speed.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from alignatt_agent.cascade.engines import Engines
from alignatt_agent.config.languages import language as find_language
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.greedy import greedy
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.engine.speech_models import SpeechModel, TimingModel
from alignatt_agent.speech.aligner import QwenAligner
from alignatt_agent.speech.prompt import RecognitionPrompt
from alignatt_agent.speech.recognizer import SHORTEST_S, padded
from alignatt_agent.types import SAMPLE_RATE, Draft, FloatArray, Transcript
from alignatt_agent.types.engines import AlignedItem, DraftRequest, Readout

Heads = tuple[tuple[int, int], ...]


@dataclass
class Tape:
    """Answers of one stream in the order of its calls."""

    transcripts: deque[tuple[Transcript, int]] = field(default_factory=deque)
    times: deque[list[AlignedItem]] = field(default_factory=deque)
    drafts: deque[Draft] = field(default_factory=deque)


# ------------------------------------------------------------------ recording
def record(engines: Engines, tape: Tape, count_tokens: Callable[[str], int]) -> Engines:
    """Return ``engines`` whose answers are recorded on ``tape``."""

    def heard(transcript: Transcript) -> None:
        tape.transcripts.append((transcript, count_tokens(transcript.text or "") + 1))

    return replace(
        engines,
        asr=_noted(engines.asr, "transcribe", heard),
        aligner=_noted(engines.aligner, "align", tape.times.append),
        translation=_noted(engines.translation, "draft", tape.drafts.append),
    )


def _noted(engine: Any, method: str, note: Callable[[Any], None]) -> Any:
    """Return an engine with one method, whose answers are recorded."""

    def call(*arguments: Any, **options: Any) -> Any:
        answer = getattr(engine, method)(*arguments, **options)
        note(answer)
        return answer

    return SimpleNamespace(**{method: call})


# ------------------------------------------------------------------ playing
@dataclass(frozen=True)
class Machines:
    """Served models of other dimensions."""

    asr: ServedModel
    aligner: ServedModel
    translation: ServedModel
    heads: Heads

    def play(self, engines: Engines, tape: Tape, stream: int = 0) -> Engines:
        """Return engines that do the work here but return the answers on ``tape``."""
        player = Player(self, tape, stream)
        return replace(engines, asr=player, aligner=player, translation=player)


class Player:
    """The engines of one stream: each call repeats the recorded work and answer."""

    def __init__(self, machines: Machines, tape: Tape, stream: int) -> None:
        model = SpeechModel(machines.asr)
        self._prompt = RecognitionPrompt(model.processor, model.tokenizer, model.name)
        self._aligner = QwenAligner(TimingModel(machines.aligner))
        self._drafts = DraftEngine(machines.translation, machines.heads, frozenset())
        self._machines, self._stream = machines, stream
        self.tape = Tape(tape.transcripts.copy(), tape.times.copy(), tape.drafts.copy())

    def transcribe(
        self, audio: FloatArray, language: str, context: str = "", expected: str = ""
    ) -> Transcript:
        """Recognize the audio for as many steps as the recorded transcript took."""
        heard, tokens = self.tape.transcripts.popleft()
        if len(audio) / SAMPLE_RATE >= SHORTEST_S:
            ids = self._prompt.ids(find_language(language).name, context)
            steps = max(1, heard.steps)
            request = {
                # Verified tokens are part of the prefill.
                "prompt_token_ids": [*ids, *ids[-1:] * max(0, tokens - steps)],
                "multi_modal_data": {"audio": padded(audio)},
            }
            self._machines.asr.generate(request, greedy(steps, frozenset()))
        return heard

    def align(self, audio: FloatArray, text: str, language: str) -> list[AlignedItem]:
        """Align the text with the audio."""
        self._aligner.align(audio, text, language)
        return self.tape.times.popleft()

    def draft(self, request: DraftRequest) -> Draft:
        """Draft for as many steps as the recorded draft took, with the rows of ``heads``."""
        recorded = self.tape.drafts.popleft()
        prompt = request.prompt
        readout = request.readout
        resumed = request.resumed
        begun: Sequence[int] = resumed.token_ids if resumed else ()
        steps = recorded.steps - (resumed.steps if resumed else 0)
        verified = recorded.token_ids[len(begun) : len(recorded.token_ids) - steps]
        # The second id differs by stream, so that streams share no part of the prefix cache.
        beginning = (prompt.token_ids[0], 10 + self._stream)
        ids = (*beginning, *prompt.token_ids[2:], *begun, *verified)
        forced_prompt = replace(prompt, token_ids=ids)
        if readout is None:
            self._drafts.draft(DraftRequest(forced_prompt, max(1, steps)))
            return recorded
        # A row at an emitted token takes one more step, which the recorded counts include.
        spare = 1 if readout.row == "emitted" else 0
        heads_readout = Readout(self._machines.heads, readout.row)
        open_gate = None
        if request.gate is not None:
            # No peak reaches this frontier, so the draft has the recorded length.
            beyond = len(prompt.token_word) + request.max_tokens
            open_gate = replace(request.gate, frontier=beyond)
        forced = DraftRequest(forced_prompt, max(1, steps - spare), heads_readout, open_gate)
        self._drafts.draft(forced)
        return recorded
