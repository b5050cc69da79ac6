"""Word alignments from any OpenAI-compatible endpoint, as the paper had them from GPT-5-mini."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from alignatt_agent.calibration.aligners import AlignerError, Alignment
from alignatt_agent.calibration.pairs import PairError, SentencePair
from alignatt_agent.calibration.word_alignment import Links

INSTRUCTIONS = """\
You align words of {source} sentences with their {target} translations.
You get the numbered words of both sides. Link every {target} word to the {source} words that it
translates. Link function words to the words that call for them: an article to the article and its
noun, an auxiliary to the auxiliary, a case or measure word to the word that governs it. Link a
punctuation mark to the {source} word that carries the corresponding mark. Leave a {target} word out
only when nothing in the {source} sentence corresponds to it; never link by position alone.
Answer with one JSON object and nothing else:
{{"links": [[SOURCE_NUMBER, TARGET_NUMBER], ...]}}
"""

_FINAL = (400, 401, 402, 403, 404, 405, 422)
"""Answers that no repetition changes: wrong key, model, address or request, no credit."""
_CHARS_PER_TOKEN = 2.5
"""On the safe side for numbered words; English prose has about 4."""
_ANSWER_TOKENS_PER_LINK = 8
_HOPELESS = 10
"""Failures in a row after which an endpoint is given up."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to ask and how.

    Attributes:
        url: base address, e.g. ``https://host/v1``; ``/chat/completions`` is added.
        model: name of the model there.
        key_variable: environment variable that holds the key; may be unset for a local server.
        timeout_s: longest wait for one answer.
        retries: further attempts after a time-out, an overload or nonsense.
        parallel: requests under way at a time.
        pause_s: wait before the first further attempt; it doubles each time.
    """

    url: str
    model: str
    key_variable: str = "OPENAI_API_KEY"
    timeout_s: float = 60.0
    retries: int = 3
    parallel: int = 4
    pause_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What asking costs: requests, tokens sent and received.

    Attributes:
        price: US dollars per million tokens sent and received; ``None`` when not known.
    """

    requests: int
    sent: int
    received: int
    price: tuple[float, float] | None = None

    def __str__(self) -> str:
        text = f"{self.requests} requests, {self.sent} tokens sent, {self.received} received"
        if self.price is None:
            return text + ", price unknown (--price SENT RECEIVED, per million tokens)"
        dollars = (self.sent * self.price[0] + self.received * self.price[1]) / 1e6
        return f"{text}, {dollars:.2f} US dollars"


class EndpointAligner:
    """Asks a chat model for the links of one pair at a time.

    Args:
        endpoint: where to ask.
        source: English name of the source language.
        target: English name of the target language.
        price: US dollars per million tokens sent and received.
    """

    whole = False

    def __init__(
        self,
        endpoint: Endpoint,
        source: str,
        target: str,
        price: tuple[float, float] | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._instructions = INSTRUCTIONS.format(source=source, target=target)
        self._price = price
        self._usage = [0, 0, 0]
        self._lock = threading.Lock()
        digest = hashlib.sha256(self._instructions.encode()).hexdigest()[:12]
        self.name = f"chat model {endpoint.model}"
        self.version = f"instructions sha256:{digest}"

    def estimate(self, pairs: Sequence[SentencePair]) -> Cost:
        """Estimate the cost of aligning ``pairs``, on the high side but without retries."""
        texts = [self._instructions + _question(pair) for pair in pairs]
        sent = sum(round(len(text) / _CHARS_PER_TOKEN) for text in texts)
        received = sum(2 * _ANSWER_TOKENS_PER_LINK * len(pair.spans) for pair in pairs)
        return Cost(len(pairs), sent, received, self._price)

    @property
    def spent(self) -> Cost:
        """What was asked so far, with the tokens that the endpoint reported."""
        return Cost(self._usage[0], self._usage[1], self._usage[2], self._price)

    def align(self, pairs: Sequence[SentencePair]) -> Iterator[Alignment]:
        """Ask for each pair, see ``calibration.aligners.WordAligner``.

        Raises:
            AlignerError: the endpoint refuses every request, or failed many times in a row.
        """
        failures = 0
        with ThreadPoolExecutor(self._endpoint.parallel) as pool:
            for at, future in _windowed(pool, self._ask, pairs, 2 * self._endpoint.parallel):
                result = future.result()
                if isinstance(result, PairError) and result.reason != "aligner_nonsense":
                    failures += 1
                    if failures >= _HOPELESS:
                        raise AlignerError(
                            f"{self._endpoint.url} failed {failures} times in a row, the last "
                            f"time with: {result}; what was answered is kept: start again later"
                        )
                else:
                    failures = 0
                yield at, result

    def _ask(self, pair: SentencePair) -> Links | PairError:
        problem = PairError("aligner_error", "never asked")
        for attempt in range(self._endpoint.retries + 1):
            if attempt:
                time.sleep(self._endpoint.pause_s * 2 ** (attempt - 1))
            try:
                return _parse(self._request(_question(pair)), pair)
            except PairError as error:
                problem = error
        return problem

    def _request(self, question: str) -> str:
        """Return the text of one answer.

        Raises:
            PairError: it did not come; asking again may help.
            AlignerError: it never will.
        """
        messages = [
            {"role": "system", "content": self._instructions},
            {"role": "user", "content": question},
        ]
        body = json.dumps({"model": self._endpoint.model, "messages": messages}).encode()
        headers = {"Content-Type": "application/json"}
        key = os.environ.get(self._endpoint.key_variable)
        if key:
            headers["Authorization"] = f"Bearer {key}"
        address = self._endpoint.url.rstrip("/") + "/chat/completions"
        try:
            request = urllib.request.Request(address, body, headers)
            with urllib.request.urlopen(request, timeout=self._endpoint.timeout_s) as response:
                answer = json.loads(response.read())
        except urllib.error.HTTPError as error:
            detail = error.read(300).decode("utf-8", "replace")
            if error.code in _FINAL:
                raise AlignerError(
                    f"{address} refused the request with status {error.code}: {detail}; check "
                    f"--endpoint, --aligner-model and the key in ${self._endpoint.key_variable}"
                ) from None
            raise PairError("aligner_error", f"status {error.code}: {detail}") from None
        except (TimeoutError, urllib.error.URLError) as error:
            late = isinstance(error, TimeoutError) or isinstance(error.reason, TimeoutError)
            raise PairError("aligner_timeout" if late else "aligner_error", str(error)) from None
        except ValueError as error:
            if not address.startswith(("http://", "https://")):
                raise AlignerError(f"--endpoint {self._endpoint.url}: {error}") from None
            raise PairError("aligner_nonsense", f"the answer is not JSON: {error}") from None
        except (OSError, http.client.HTTPException) as error:  # the connection broke
            raise PairError("aligner_error", str(error)) from None
        return self._content(answer)

    def _content(self, answer: Any) -> str:
        try:
            usage = answer.get("usage") or {}
            counted = (1, *(int(usage.get(f"{x}_tokens") or 0) for x in ("prompt", "completion")))
            with self._lock:
                self._usage = [a + b for a, b in zip(self._usage, counted, strict=True)]
            content = answer["choices"][0]["message"]["content"]
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise PairError("aligner_nonsense", f"no message in the answer: {error}") from None
        return str(content)


def _question(pair: SentencePair) -> str:
    sides = (("source", pair.source), ("target", pair.units))
    return "\n".join(
        f"{name}: " + " ".join(f"{i}={word}" for i, word in enumerate(words))
        for name, words in sides
    )


def _parse(text: str, pair: SentencePair) -> Links:
    """Read an answer, whatever a model wrapped around the object.

    Raises:
        PairError: there are no links, or they are out of range.
    """
    match = re.search(r"\{.*\}", text, re.DOTALL)
    try:
        found = json.loads(match[0] if match else text)["links"]
        links = {(_number(i), _number(j)) for i, j in found}
    except (KeyError, TypeError, ValueError) as error:
        raise PairError(
            "aligner_nonsense", f"pair {pair.number}: no links in {text[:80]!r} ({error})"
        ) from None
    wrong = [
        (i, j) for i, j in links if not (0 <= i < len(pair.source) and 0 <= j < len(pair.spans))
    ]
    if wrong or not links:
        raise PairError(
            "aligner_nonsense",
            f"pair {pair.number}: {wrong[:1] or 'no link'} in a pair of {len(pair.source)} source "
            f"words and {len(pair.spans)} target units",
        )
    return Links.of(links)


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")
    return value


def _windowed(
    pool: ThreadPoolExecutor,
    ask: Callable[[SentencePair], Links | PairError],
    pairs: Sequence[SentencePair],
    width: int,
) -> Iterator[tuple[int, Future[Links | PairError]]]:
    """Keep at most ``width`` requests under way, so that giving up leaves few of them paid."""
    waiting: deque[tuple[int, Future[Links | PairError]]] = deque()
    for at, pair in enumerate(pairs):
        waiting.append((at, pool.submit(ask, pair)))
        if len(waiting) == width:
            yield waiting.popleft()
    yield from waiting
