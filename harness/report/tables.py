"""Tables of arms: for the terminal, and as LaTeX (booktabs). Every cell is computed from a run directory."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

from harness.report.arms import Arm
from harness.scoring import Score

COLUMNS = (
    "run",
    "arm",
    "split",
    "decoding",
    "before, %",
    "after, %",
    "change",
    "mean staleness",
    "dropped, %",
    "episodes",
    "tokens",
    "worker-s",
    "missing",
)


def percent(score: Score | None) -> str:
    """Mean with its 95 % interval, in percent."""
    if score is None or score.mean is None:
        return "-"
    text = f"{100 * score.mean:.1f}"
    if score.interval is None:
        return text
    return f"{text} [{100 * score.interval.low:.1f}, {100 * score.interval.high:.1f}]"


def rows(arms: Sequence[Arm]) -> list[list[str]]:
    """One row per run, split and decoding, in the order given."""
    table: list[list[str]] = []
    for arm in arms:
        for split in dict.fromkeys([*arm.before, *arm.after]):
            for decoding in dict.fromkeys([*arm.before.get(split, {}), *arm.after.get(split, {})]):
                table.append(_row(arm, split, decoding))
    return table


def _row(arm: Arm, split: str, decoding: str) -> list[str]:
    before = arm.before.get(split, {}).get(decoding)
    after = arm.after.get(split, {}).get(decoding)
    change = "-"
    if before is not None and after is not None and before.mean is not None and after.mean is not None:
        change = f"{100 * (after.mean - before.mean):+.1f}"
    consumed = sum(arm.audit.staleness.values())
    stale = sum(tau * count for tau, count in arm.audit.staleness.items()) / consumed if consumed else None
    dropped = arm.audit.dropped_late + arm.audit.dropped_end
    return [
        arm.name + ("" if arm.finished else " (unfinished)"),
        arm.label,
        split,
        decoding,
        percent(before),
        percent(after),
        change,
        "-" if stale is None else f"{stale:.2f}",
        f"{100 * dropped / arm.audit.dispatched:.1f}" if arm.audit.dispatched else "-",
        str(arm.totals["episodes"]),
        str(arm.totals["tokens"]),
        f"{arm.totals['worker_s']:.0f}",
        str((before.missing if before else 0) + (after.missing if after else 0)),
    ]


def latex(arms: Sequence[Arm]) -> str:
    """A booktabs table."""
    return tabulate(rows(arms), headers=COLUMNS, tablefmt="latex_booktabs", disable_numparse=True) + "\n"


def markdown(arms: Sequence[Arm]) -> str:
    return tabulate(rows(arms), headers=COLUMNS, tablefmt="github", disable_numparse=True) + "\n"
