"""The table at the end of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from alignatt_agent.evaluation.scoring import Scores


def table(scores: Mapping[str, Scores], signature: Mapping[str, Any]) -> str:
    """Format the scores of all targets with one line of signature.

    Args:
        scores: by target code.
        signature: of any of the targets.
    """
    lines = [f"{'target':<8}{'BLEU':>8}{'chrF':>8}{'CU ms':>10}{'CA ms':>10}{'RTF':>8}"]
    lines.append("-" * len(lines[0]))
    for target, item in scores.items():
        lines.append(
            f"{target:<8}{item.bleu:>8.2f}{item.chrf:>8.2f}{item.longyaal_cu_ms:>10.0f}"
            f"{item.longyaal_ca_ms:>10.0f}{item.rtf:>8.3f}"
        )
    lines.append("")
    lines.append("CU, CA: LongYAAL, computation-unaware and -aware (OmniSTEval, longform)")
    versions = signature["versions"]
    facts = [
        f"config:{signature['config']}",
        f"sha256:{signature.get('config_sha256', '-')}",
        *(
            f"{name}:{versions[name]}"
            for name in ("alignatt_agent", "simulstream", "omnisteval", "vllm", "torch")
        ),
        str(signature["device"]),
    ]
    lines.append(" | ".join(facts))
    if "label" in signature:
        lines.append(f"** {signature['label']} **")
    return "\n".join(lines)
