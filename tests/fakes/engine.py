"""A served model with the real ledger, gate and early stop, but random tokens and rows."""

import random
from types import SimpleNamespace

import numpy as np
import torch

from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.early_stop import EarlyStopV1
from alignatt_agent.engine.row_requests import SOURCE, Ledger
from alignatt_agent.types import EngineError
from tests.engine.test_row_requests import step
from tests.fakes.models import READOUT, before_calls

STOP = 0


class SimulatedModel:
    """A served model; the next token and the attention rows are functions of all tokens so far.

    ``chance`` decides whether requests are chunked, cached or preempted. Generated ids are from 1
    to ``vocabulary - 1``.
    """

    name = "simulated model"

    def __init__(
        self,
        seed: int,
        chance: random.Random | None = None,
        window: int = 1000,
        vocabulary: int = 5,
    ) -> None:
        self.seed, self.chance, self.vocabulary = seed, chance, vocabulary
        stops = {"eos_token_id": STOP}
        self.config = SimpleNamespace(max_model_len=window, try_get_generation_config=lambda: stops)
        self.ledger = Ledger()
        self.asked: list[tuple[int, int]] = []

    def next_token(self, ids) -> int:
        chance = random.Random(f"{self.seed} {ids}")
        return STOP if chance.random() < 1 / 6 else chance.randrange(1, self.vocabulary)

    def row(self, ids, heads, width):
        """The row of the last token, ``[heads, 2 + S]``."""
        chance = np.random.default_rng(abs(hash((self.seed, *ids))))
        return chance.dirichlet(np.full(width, 0.5), heads).astype(np.float32)

    def tokenizer(self):
        return SimpleNamespace(eos_token_id=None)

    def generate(self, prompt, sampling):
        ids, tokens = list(prompt["prompt_token_ids"]), []
        self.asked.append((len(ids), sampling.max_tokens))
        length, request = len(ids), f"r{len(self.asked)}"
        assert length < self.config.max_model_len
        most = min(sampling.max_tokens, self.config.max_model_len - length)
        process = EarlyStopV1(None, None, False).new_req_logits_processor(sampling)
        fed, started = self._cached(length, sampling), False
        while True:
            count = self._chunk(len(ids) - fed)
            self._feed(request, sampling, ids, fed, count, started, length)
            fed, started = fed + count, True
            if fed == len(ids):
                best = torch.tensor(self.next_token(ids))
                scores = torch.nn.functional.one_hot(best, self.vocabulary).float()
                for token, bias in (sampling.logit_bias or {}).items():
                    scores[token] += bias
                scores = scores if process is None else process([], scores)
                tokens.append(int(scores.argmax()))
                ids.append(tokens[-1])
                if tokens[-1] == STOP or len(tokens) == most:
                    break
            if self.chance is not None and self.chance.random() < 0.1:
                fed = self._cached(len(ids), sampling)
        self.ledger.schedule(step(finished=[request]))
        reason = "stop" if tokens[-1] == STOP else "length"
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=tokens, finish_reason=reason)])

    def _cached(self, length, sampling):
        if self.chance is None or sampling.skip_reading_prefix_cache:
            return 0
        return self.chance.choice((0, 0, self.chance.randrange(length)))

    def _chunk(self, left):
        return left if self.chance is None else self.chance.randint(1, left)

    def _feed(self, request, sampling, ids, fed, count, started, length):
        if started:
            # As after a preemption; if there was none, this has no effect.
            scheduled = step(cached=[(request, [[0]], fed)], resumed=[request])
        else:
            new = SimpleNamespace(
                req_id=request,
                num_computed_tokens=fed,
                block_ids=[[0]],
                sampling_params=sampling,
                prompt_token_ids=ids[:length],
            )
            scheduled = step([new])
        scheduled.num_scheduled_tokens = {request: count}
        work = self.ledger.schedule(scheduled)
        for expected, places in self.ledger.due.values():
            expected.note(self.next_token(ids[: fed + place + 1]) for place in places)
        for asked, position in ((item.request, item.position) for item in work):
            number = position - asked.first
            row = self.row(ids[: position + 1], len(asked.heads), asked.end - asked.start + 2)
            asked.rows[number] = row, 0
            asked.scan(number, row[:, SOURCE])

    def ask_workers(self, method, key):
        asked = self.ledger.take(key)
        width = asked.end - asked.start + 2
        rows = np.full((len(asked.rows), len(asked.heads), width), np.nan, np.float32)
        for number in range(len(asked.rows)):
            if number in asked.rows:
                rows[number] = asked.rows[number][0]
        agreed, next_token = 0, asked.next_token
        if asked.expected is not None:
            agreed = asked.expected.agreed
            next_token = asked.expected.next_token if asked.expected.over else next_token
        return [(list(rows.shape), rows.tobytes(), next_token, 0.0, agreed, asked.rejected)]


def random_engine(seed, vocabulary, failure_rate=0.0, chance=None):
    """Return the engine of such a model, whose drafts sometimes fail."""
    model, failures = SimulatedModel(seed, chance, vocabulary=vocabulary), random.Random(seed)

    def perhaps_fail():
        if failures.random() < failure_rate:
            raise EngineError("the fake engine failed")

    engine = DraftEngine(model, READOUT.heads, frozenset({STOP}))
    return before_calls(engine, "draft", perhaps_fail)
