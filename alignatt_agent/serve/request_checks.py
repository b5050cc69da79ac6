"""Check what clients request: languages, names and terms, sampling rates."""

import asyncio
from collections.abc import Sequence

from alignatt_agent.cascade.contexts import check_beginning, check_contexts
from alignatt_agent.config.languages import Language, LanguageError, language
from alignatt_agent.serve.access import RefusedError
from alignatt_agent.serve.engines import EnginePool
from alignatt_agent.types import AlignAttError

LOWEST, HIGHEST = 8_000, 192_000
"""Lowest and highest sampling rates that clients may use, in Hz."""


class RequestChecks:
    """Checks of requests against the configuration of a server's engines."""

    def __init__(self, engines: EnginePool) -> None:
        self._engines = engines

    def languages(
        self, source: str | None, targets: Sequence[str]
    ) -> tuple[Language, tuple[Language, ...]]:
        """Return the source and target languages of a request, each target once.

        Raises:
            RefusedError: a language is unknown, or this server cannot translate it.
        """
        spoken = language(self._engines.resolved.config.source_language)
        requested_source = spoken
        requested: dict[str, Language] = {}
        try:
            if source is not None:
                requested_source = language(source)
            for name in targets:
                target = language(name)
                requested[target.code] = target
        except LanguageError as error:
            raise RefusedError("language", str(error)) from None
        if requested_source != spoken:
            text = f"this server translates from {spoken.name}, not {requested_source.name}"
            raise RefusedError("language", text)
        possible = self.targets()
        expected = ", ".join(possible)
        if not requested:
            raise RefusedError("language", f"no target language; expected {expected}")
        impossible = [target.name for code, target in requested.items() if code not in possible]
        if impossible:
            text = f"cannot translate into {', '.join(impossible)}; expected {expected}"
            raise RefusedError("language", text)
        return spoken, tuple(requested.values())

    def targets(self) -> list[str]:
        """Return the codes of this server's targets, with the spoken language last."""
        resolved = self._engines.resolved
        codes = [*resolved.head_sets, resolved.config.source_language]
        return list(dict.fromkeys(codes))

    def target_code(self, tag: str) -> str:
        """Return the code of the language that a viewer asks for in any form, e.g. ``de_DE``.

        Raises:
            RefusedError: the language is unknown.
        """
        try:
            return language(tag).code
        except LanguageError:
            expected = ", ".join(self.targets())
            text = f"unknown language {tag[:20]!r}; expected one of {expected}"
            raise RefusedError("language", text, status=404) from None

    async def context(self, requested: str | None, talk: str = "") -> str:
        """Return the client's names and terms after checking them, or the configured ones.

        Raises:
            RefusedError: the client's names and terms do not fit into a model's window.
        """
        resolved = self._engines.resolved
        if requested is None:
            return resolved.config.speech.context_of(talk)
        # Tokenizing a long text would block the event loop.
        try:
            await asyncio.to_thread(check_contexts, resolved, contexts=[requested])
        except AlignAttError as error:
            raise RefusedError("context", str(error)) from None
        return requested

    async def beginning(self, text: str) -> str:
        """Return the client's translation of the open sentence after checking its length.

        Raises:
            RefusedError: the text does not fit into the model's window.
        """
        try:
            await asyncio.to_thread(check_beginning, self._engines.resolved, text)
        except AlignAttError as error:
            raise RefusedError("context", str(error)) from None
        return text


def sampling_rate(rate: object) -> int:
    """Return a client's sampling rate in Hz; reject an invalid rate."""
    # In Python, a Boolean is an integer.
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        raise RefusedError("sample-rate", f"sample_rate must be a number in Hz, got {rate!r}")
    if not LOWEST <= rate <= HIGHEST or rate != int(rate):
        expected = f"a whole number from {LOWEST} to {HIGHEST} Hz"
        raise RefusedError("sample-rate", f"sample_rate must be {expected}, got {rate!r}")
    return int(rate)
