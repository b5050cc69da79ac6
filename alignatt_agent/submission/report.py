"""What ``alignatt-submission check`` prints."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from alignatt_agent.evaluation.latency import REGIMES
from alignatt_agent.submission.check import Report


def report_text(root: Path, report: Report) -> str:
    """Format a report: the scores that were found, every violation, the verdict."""
    lines: list[str] = []
    if report.scores:
        lines.append(
            f"{'system':<14}{'units':>8}{'BLEU':>8}{'chrF':>8}{'CU ms':>8}{'CA ms':>8}"
            f"{'margin':>8}  regime"
        )
        lines.append("-" * len(lines[0]))
        for name, item in report.scores.items():
            regime = REGIMES[name.regime]
            aware = "-" if item.longyaal_ca_ms is None else f"{item.longyaal_ca_ms:.0f}"
            lines.append(
                f"{name!s:<14}{report.tokens.get(name, 0):>8}{item.bleu:>8.2f}{item.chrf:>8.2f}"
                f"{item.longyaal_cu_ms:>8.0f}{aware:>8}"
                f"{regime.margin_ms(item.longyaal_cu_ms):>8.0f}  {regime}"
            )
        lines += ["", "scored again from the logs; margin: ms to the nearer end of the regime", ""]
    lines += map(str, report.findings)
    if report.findings:
        counts = Counter(finding.rule for finding in report.findings)
        listed = ", ".join(f"{rule} {count}" for rule, count in counts.most_common())
        lines.append(f"\n{root}: {len(report.findings)} violation(s): {listed}")
    elif report.scores:
        lines.append(f"{root}: valid, {len(report.scores)} systems")
    else:
        lines.append(f"{root}: no violation found; the logs were not scored again")
    return "\n".join(lines)
