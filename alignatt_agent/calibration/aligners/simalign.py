"""SimAlign (Jalili Sabet et al., 2020): links from a multilingual encoder's embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from alignatt_agent.calibration.aligners import AlignerError, Alignment
from alignatt_agent.calibration.pairs import PairError, SentencePair, source_pieces
from alignatt_agent.calibration.word_alignment import Links
from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.checkpoints import CheckpointError, locate_one

DEFAULT_MODEL = "google-bert/bert-base-multilingual-cased"
METHOD = "itermax"
_METHOD_LETTER = "i"


class SimAligner:
    """Aligns with mutual nearest neighbours in embedding space, iterated.

    Args:
        model: encoder: hub id in the local cache, or a directory.
        layer: hidden layer whose embeddings are compared; 8 is the authors' choice for a
            twelve-layer encoder.

    Raises:
        AlignerError: the library or the model is not on this machine.
    """

    whole = False

    def __init__(self, model: str = DEFAULT_MODEL, layer: int = 8) -> None:
        try:
            path = locate_one(ModelConfig(path=model))
            import torch
            from simalign import SentenceAligner

            self._aligner: Any = SentenceAligner(
                model=str(path),
                token_type="bpe",
                matching_methods=_METHOD_LETTER,
                device="cuda" if torch.cuda.is_available() else "cpu",
                layer=layer,
            )
        except CheckpointError as error:
            raise AlignerError(str(error)) from error
        except ImportError as error:
            raise AlignerError(
                f"simalign does not import ({error}); `pip install 'alignatt_agent[neural]'`"
            ) from error
        except (OSError, ValueError) as error:
            raise AlignerError(f"{model} cannot be loaded as an encoder: {error}") from error
        name = Path(model).name if Path(model).is_dir() else model
        self.name = f"simalign {METHOD}, {name}, layer {layer}"
        self.version = version("simalign")

    def align(self, pairs: Sequence[SentencePair]) -> Iterator[Alignment]:
        """Align pair after pair, see ``calibration.aligners.WordAligner``."""
        for at, pair in enumerate(pairs):
            pieces, owners = source_pieces(pair.source)
            try:
                links = self._aligner.get_word_aligns(pieces, pair.units)[METHOD]
            except (IndexError, RuntimeError, ValueError) as error:  # e.g. longer than the encoder
                yield at, PairError("aligner_error", f"pair {pair.number}: {error}")
            else:
                yield at, Links.of((owners[int(i)], int(j)) for i, j in links)
