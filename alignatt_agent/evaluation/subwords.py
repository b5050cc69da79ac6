"""Logs whose units are subwords: their kind, and how to join them.

An evaluation YAML tells Simulstream how to join the units: ``detokenizer_type: simuleval``
concatenates them (``latency_unit: word`` with spaces, ``char`` without, ``spm`` as SentencePiece
does), ``hf`` uses a tokenizer, ``canary`` a NeMo model. Pieces that are joined as words score near
zero without any error.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.checkpoints import find_files
from alignatt_agent.evaluation.detokenizer import load_tokenizer
from alignatt_agent.evaluation.log import LogError

SENTENCEPIECE, BYTE_LEVEL, WORDPIECE = "SentencePiece", "byte-level BPE", "WordPiece"
MARKS = {SENTENCEPIECE: "▁", BYTE_LEVEL: "Ġ", WORDPIECE: "##"}

SHARE = 0.05
"""Share of units that begin with a mark. In a dev-low log cut by small tokenizers of the three
kinds, 25 % and more do; of words only some Maltese names (Ġ)."""

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
    """Return which of ``MARKS`` the units of a log carry, with an example; ``None`` for words."""
    for kind, mark in MARKS.items():
        marked = [unit for unit in units if unit.startswith(mark) and unit != "##"]
        if len(marked) > SHARE * len(units):
            return kind, marked[0]
    return None


def joined_pieces(config: Path) -> Sequence[str]:
    """Return the kinds of pieces that an evaluation YAML joins; none without such a file."""
    if not config.is_file():
        return ()
    settings = yaml.safe_load(config.read_text(encoding="utf-8"))
    if settings.get("detokenizer_type") != "simuleval":
        return tuple(MARKS)
    return (SENTENCEPIECE,) if settings.get("latency_unit") == "spm" else ()


def locate_tokenizer(settings: Mapping[str, Any], where: Path | str) -> dict[str, Any]:
    """Return an evaluation YAML with the local folder of its tokenizer.

    Relative folders are also looked up next to ``where``, the path of the YAML.
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
    near = Path(where).parent / name
    folder = near if near.is_dir() else find_files(ModelConfig(path=name))
    if folder is None:
        raise LogError(
            f"{where}: the tokenizer {name} (hf_model_name) is not on this machine, and scoring "
            f"does not download it; run `hf download {name}`, or name a folder"
        )
    found["hf_model_name"] = str(folder.resolve())
    return found


def check_vocabulary(settings: Mapping[str, Any], units: Sequence[str], where: Path | str) -> None:
    """Refuse a tokenizer whose vocabulary lacks units of the log."""
    if settings.get("detokenizer_type") != "hf":
        return
    name = settings["hf_model_name"]
    try:
        known = load_tokenizer(name).get_vocab()
    except Exception as error:  # Transformers passes on any error of the files
        reason = str(error).splitlines()[0]
        raise LogError(f"{where}: {name} (hf_model_name) is not a tokenizer: {reason}") from None
    unknown = [unit for unit in units if unit not in known]
    if unknown:
        raise LogError(
            f"{where}: {len(unknown)} of {len(units)} units of the log are not in the vocabulary "
            f"of {name} (hf_model_name), the first is {unknown[0]!r}; name the tokenizer that "
            f"wrote them"
        )
