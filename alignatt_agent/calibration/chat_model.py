"""Align words with any OpenAI-compatible chat model; the paper used GPT-5-mini."""

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from pydantic import BaseModel, ValidationError

from alignatt_agent.calibration.pairs import CalibrationError, Links, PairError, SentencePair
from alignatt_agent.config.digests import short_digest
from alignatt_agent.config.errors import ConfigError

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

KEY = "OPENAI_API_KEY"
"""Environment variable that contains the API key of the endpoint."""

_CHARS_PER_TOKEN = 2.5
"""Characters per token, a low estimate for numbered words; English prose has about 4."""
_ANSWER_TOKENS_PER_LINK = 8
_HOPELESS = 10
"""Number of consecutive failures after which the run stops."""


class _Answer(BaseModel, strict=True):
    links: list[tuple[int, int]]


class ChatAligner:
    """Word aligner that sends one request per pair to a chat model."""

    def __init__(
        self,
        url: str,  # base URL of an endpoint, e.g. https://host/v1
        model: str,
        source: str,  # English names of the languages
        target: str,
        *,
        timeout_s: float = 60.0,
        retries: int = 3,
        parallel: int = 4,
        price: tuple[float, float] | None = None,  # dollars per million tokens, sent and received
    ) -> None:
        import openai  # the import takes a second, and few calibrations need it

        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"--endpoint {url}: expected an http:// or https:// address")
        self._url = url
        self._model = model
        self._retries = retries
        self._parallel = parallel
        self._price = price
        self._instructions = INSTRUCTIONS.format(source=source, target=target)
        # A local server may not need a key. The client requires one, so its header is omitted.
        key = os.environ.get(KEY)
        self._client = openai.OpenAI(
            base_url=url, api_key=key or "none", timeout=timeout_s, max_retries=retries
        )
        self._headers = {} if key else {"Authorization": openai.omit}
        digest = short_digest([self._instructions.encode()])
        self.name = f"chat model {model}"
        self.version = f"instructions sha256:{digest}"

    def estimate(self, pairs: Sequence[SentencePair]) -> str:
        """Return an upper estimate of the cost of ``pairs``, excluding retries, as text."""
        sent = 0
        received = 0
        for pair in pairs:
            request = self._instructions + _question(pair)
            sent += round(len(request) / _CHARS_PER_TOKEN)
            # Twice as many links as target units, because this is an upper estimate.
            received += 2 * _ANSWER_TOKENS_PER_LINK * len(pair.spans)
        text = f"{len(pairs)} requests, {sent} tokens sent, {received} received"
        if self._price is None:
            return f"{text}, price unknown (--price SENT RECEIVED, per million tokens)"
        price_sent, price_received = self._price
        dollars = (sent * price_sent + received * price_received) / 1e6
        return f"{text}, {dollars:.2f} US dollars"

    def align(self, pairs: Sequence[SentencePair]) -> Iterator[Links | PairError]:
        """Yield the links of each pair, or the reason why it has none."""
        failures = 0
        # Batches are small, so that few paid requests are lost when the endpoint fails.
        width = 4 * self._parallel
        with ThreadPoolExecutor(self._parallel) as pool:
            for begin in range(0, len(pairs), width):
                batch = pairs[begin : begin + width]
                for result in pool.map(self._ask, batch):
                    # A wrong answer shows that the endpoint works.
                    if isinstance(result, PairError) and result.reason != "aligner_nonsense":
                        failures += 1
                    else:
                        failures = 0
                    if failures == _HOPELESS:
                        raise CalibrationError(
                            f"{self._url} failed {failures} times in a row, most recently with: "
                            f"{result}; received answers are kept: run the command again later"
                        )
                    yield result

    def _ask(self, pair: SentencePair) -> Links | PairError:
        question = _question(pair)
        for _ in range(self._retries + 1):
            try:
                answer = self._answer(question)
                return _parse(answer, pair)
            except PairError as error:
                if error.reason != "aligner_nonsense":  # the client has already retried
                    return error
        return PairError("aligner_nonsense")

    def _answer(self, question: str) -> str:
        """Return the text of one answer, or raise ``PairError`` if a retry may help."""
        import openai

        try:
            answer = self._client.chat.completions.create(
                model=self._model,
                messages=[
                    {"role": "system", "content": self._instructions},
                    {"role": "user", "content": question},
                ],
                extra_headers=self._headers,
            )
            return str(answer.choices[0].message.content)
        except openai.APIStatusError as error:
            if error.status_code in (408, 409, 429) or error.status_code >= 500:
                raise PairError("aligner_error", f"{error}") from None
            # The key, model, address or request is wrong, or the account has no credit.
            raise CalibrationError(
                f"{self._url} rejected the request with status {error.status_code}: "
                f"{error.response.text[:300]}; check --endpoint, --aligner-model and ${KEY}"
            ) from None
        except openai.APIConnectionError as error:
            raise PairError("aligner_error", f"{error} {error.__cause__}") from None
        except (AttributeError, IndexError, TypeError, ValueError):
            raise PairError("aligner_nonsense") from None


def _question(pair: SentencePair) -> str:
    source = _numbered(pair.source)
    target = _numbered(pair.units)
    return f"source: {source}\ntarget: {target}"


def _numbered(words: Sequence[str]) -> str:
    """Return words with their numbers, e.g. ``"0=We 1=train"``."""
    return " ".join(f"{number}={word}" for number, word in enumerate(words))


def _parse(text: str, pair: SentencePair) -> Links:
    """Read the links in an answer; text around the JSON object is ignored."""
    match = re.search(r"\{.*\}", text, re.DOTALL)
    if match is None:
        raise PairError("aligner_nonsense")
    try:
        links = _Answer.model_validate_json(match[0]).links
    except ValidationError:
        raise PairError("aligner_nonsense") from None
    if not links:
        raise PairError("aligner_nonsense")
    for word, unit in links:
        if word not in range(len(pair.source)) or unit not in range(len(pair.spans)):
            raise PairError("aligner_nonsense")
    return frozenset(links)
