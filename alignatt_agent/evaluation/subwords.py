"""Logs whose units are pieces of words: which kind they are, and what joins them.

Simulstream joins the units of a log as an evaluation YAML says: ``detokenizer_type: simuleval``
puts them side by side (``latency_unit: word`` with spaces, ``char`` without, ``spm`` as
SentencePiece does), ``hf`` asks a tokenizer, ``canary`` a NeMo model. Pieces that are joined as
words score near zero and nothing says why.
"""

from __future__ import annotations

import importlib.util
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import decoders, pre_tokenizers

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.checkpoints import find_files
from alignatt_agent.evaluation.detokenizer import load_tokenizer
from alignatt_agent.evaluation.log import LogError

SENTENCEPIECE, BYTE_LEVEL, WORDPIECE = "SentencePiece", "byte-level BPE", "WordPiece"
PIECES = (SENTENCEPIECE, BYTE_LEVEL, WORDPIECE)

SHARE = 0.01
"""Pieces that carry a mark, of all units; words have none. Of a dev-low log that was cut again by
small tokenizers of the three kinds, 25 % and more carry one."""

_BYTES = frozenset(pre_tokenizers.ByteLevel.alphabet())
_BY_TOKENIZER = (
    "write `detokenizer_type: hf` and `hf_model_name: FOLDER` (of the system's tokenizer) into a "
    "YAML file and name it with --log-config"
)
REMEDIES = {
    SENTENCEPIECE: "write `detokenizer_type: simuleval` and `latency_unit: spm` into a YAML file "
    "and name it with --log-config",
    BYTE_LEVEL: _BY_TOKENIZER,
    WORDPIECE: _BY_TOKENIZER,
}


def kind_of_pieces(units: Sequence[str]) -> tuple[str, str] | None:
    """Return which of ``PIECES`` the units of a log are, with an example; ``None`` for words."""
    marked = [unit for unit in units if "▁" in unit]
    if len(marked) > SHARE * len(units):
        return SENTENCEPIECE, marked[0]
    marked = [unit for unit in units if unit.startswith("##") and unit[2:3].isalnum()]
    if len(marked) > SHARE * len(units):
        return WORDPIECE, marked[0]
    return _bytes_of(units)


def _bytes_of(units: Sequence[str]) -> tuple[str, str] | None:
    """Byte-level BPE writes every byte as a letter; what it wrote decodes to clean UTF-8."""
    written = [char for unit in units for char in unit if not char.isascii()]
    inside = sum(char in _BYTES for char in written)
    if inside <= SHARE * len(units) or inside < (1 - SHARE) * len(written):
        return None
    decoded: str = decoders.ByteLevel().decode(list(units))
    # Words in Latin letters hold letters of that alphabet, too, but decode to broken bytes.
    broken = sum(char == "\ufffd" or unicodedata.category(char) == "Cc" for char in decoded)
    if broken - decoded.count("\n") > SHARE * inside:
        return None
    return BYTE_LEVEL, next(unit for unit in units if not unit.isascii())


def joined_pieces(settings: Mapping[str, Any]) -> Sequence[str]:
    """Return which ``PIECES`` an evaluation YAML joins."""
    if settings.get("detokenizer_type") != "simuleval":
        return PIECES
    return (SENTENCEPIECE,) if settings.get("latency_unit") == "spm" else ()


def locate_tokenizer(settings: Mapping[str, Any], where: Path | str) -> dict[str, Any]:
    """Return an evaluation YAML with the folder of its tokenizer, which is on this machine.

    Args:
        settings: the YAML.
        where: its path, for messages; relative folders are looked up beside it, too.

    Raises:
        LogError: what it names is not here, or not installed.
    """
    kind, found = settings.get("detokenizer_type"), dict(settings)
    if kind == "canary" and importlib.util.find_spec("nemo") is None:
        raise LogError(
            f"{where}: detokenizer_type canary needs nemo_toolkit, which is not installed"
        )
    if kind != "hf":
        return found
    name = settings.get("hf_model_name")
    if not isinstance(name, str) or not name:
        raise LogError(f"{where}: detokenizer_type hf needs hf_model_name, a folder or a hub id")
    beside = Path(where).parent / name
    folder = beside if beside.is_dir() else find_files(ModelConfig(path=name))
    if folder is None:
        raise LogError(
            f"{where}: the tokenizer {name} (hf_model_name) is not on this machine, and scoring "
            f"downloads nothing; fetch it with `hf download {name}`, or name a folder"
        )
    found["hf_model_name"] = str(folder.resolve())
    return found


def check_vocabulary(settings: Mapping[str, Any], units: Sequence[str], where: Path | str) -> None:
    """Refuse a tokenizer that did not write the units of a log.

    Raises:
        LogError: it cannot be loaded, or does not know a unit.
    """
    if settings.get("detokenizer_type") != "hf":
        return
    name = settings["hf_model_name"]
    try:
        known = load_tokenizer(name).get_vocab()
    except Exception as error:  # Transformers raises whatever the files cause
        reason = str(error).splitlines()[0]
        raise LogError(f"{where}: {name} (hf_model_name) is no tokenizer: {reason}") from None
    unknown = [unit for unit in units if unit not in known]
    if unknown:
        raise LogError(
            f"{where}: {len(unknown)} of {len(units)} units of the log are not in the vocabulary "
            f"of {name} (hf_model_name), the first is {unknown[0]!r}; name the tokenizer that "
            f"wrote them"
        )
