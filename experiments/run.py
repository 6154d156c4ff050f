"""Run the experiments and keep the summary.

    python experiments/run.py [names ...] [--quick] [--list]

Without names all are run. Rows of experiments that were not run stay in summary.md as they are; a quick run
writes no summary.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

from harness import FIGURES, Experiment, Outcome, Verdict

FOLDER = Path(__file__).resolve().parent
SUMMARY = FOLDER / "summary.md"
RUNS = ("experiment", "what", "source", "seconds", "pass", "differs", "fail", "notes")
CLAIMS = ("experiment", "claim", "source", "ours", "verdict", "reason")


def experiments() -> dict[str, Experiment]:
    """Return all experiments by name: those files that define one of their own name."""
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    found = {name: getattr(import_module(name), name, None) for name in names if name != "run"}
    return {name: one for name, one in found.items() if isinstance(one, Experiment)}


def summary(outcomes: Iterable[Outcome], before: str = "") -> str:
    """Return the summary's text: the rows of ``outcomes``, and of other experiments the rows of ``before``."""
    new = {outcome.experiment.name: outcome for outcome in outcomes}
    old = [line for line in before.splitlines() if line.startswith("| [")]
    kept = [line for line in old if _name(line) not in new and (FOLDER / f"{_name(line)}.py").exists()]
    runs = [*map(_run_row, new.values()), *(line for line in kept if line.count(" | ") == len(RUNS) - 1)]
    claims = [
        *(row for outcome in new.values() for row in _claim_rows(outcome)),
        *(line for line in kept if line.count(" | ") == len(CLAIMS) - 1),
    ]
    parts = ["# Experiments", "What papers show, re-run; written by `make experiments`.", _table(RUNS, runs)]
    return "\n\n".join([*parts, "## Claims", _table(CLAIMS, claims)]) + "\n"


def _name(row: str) -> str:
    return row[len("| [") : row.index("]")]


def _table(head: Sequence[str], rows: Sequence[str]) -> str:
    # A stable sort: the claims of one experiment stay in its order.
    return "\n".join([_row(*head), "|" + "---|" * len(head), *sorted(rows, key=_name)])


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ") for cell in cells) + " |"


def _link(one: Experiment) -> str:
    return f"[{one.name}]({one.name}.py)"


def _run_row(outcome: Outcome) -> str:
    one = outcome.experiment
    counts = [sum(claim.verdict is verdict for claim in outcome.claims) for verdict in Verdict]
    notes = f"left out: {outcome.left_out}" if outcome.left_out else " ".join(outcome.notes)
    return _row(_link(one), one.title, one.source, f"{outcome.seconds:.1f}", *counts, notes)


def _claim_rows(outcome: Outcome) -> Iterator[str]:
    for claim in outcome.claims:
        cells = (claim.what, claim.source, claim.ours, claim.verdict.value, claim.reason)
        yield _row(_link(outcome.experiment), *cells)


def chosen(names: Sequence[str], *, quick: bool) -> list[Experiment]:
    """Return the named experiments, or all; only those with a quick form if ``quick``."""
    every = experiments()
    unknown = sorted(set(names) - set(every))
    if unknown:
        raise SystemExit(f"There is no experiment {', '.join(unknown)}; there are {', '.join(every)}.")
    wanted = [every[name] for name in names] or list(every.values())
    return [one for one in wanted if one.quick or not quick]


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description="Re-run what papers show and judge it by number.")
    parser.add_argument("names", nargs="*", help="experiments to run (default: all)")
    parser.add_argument("--quick", action="store_true", help="few starts, no summary, only experiments quick to run")
    parser.add_argument("--list", action="store_true", help="list the experiments and stop")
    asked = parser.parse_args()
    wanted = chosen(asked.names, quick=asked.quick)
    if asked.list:
        print("\n".join(f"{one.name:18} {one.title} ({one.source})" for one in wanted))
        return
    outcomes = []
    with tempfile.TemporaryDirectory() as passing:
        for one in wanted:
            outcomes.append(one.run(quick=asked.quick, folder=Path(passing) if asked.quick else FIGURES))
            print("\n".join(outcomes[-1].lines()), flush=True)
    if not asked.quick:
        before = SUMMARY.read_text(encoding="utf-8") if SUMMARY.exists() else ""
        SUMMARY.write_text(summary(outcomes, before), encoding="utf-8")
    raise SystemExit(any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    main()
