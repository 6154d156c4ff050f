"""The summary of all experiments as a page: a row for each, a row for each of their claims, and the count above."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness import Outcome, Verdict

FOLDER = Path(__file__).resolve().parent
OWN = "(our own target)"
VERDICTS = tuple(verdict.value for verdict in Verdict)
RUNS = ("experiment", "what", "source", "seconds", *VERDICTS, "own targets met", "notes")
CLAIMS = ("experiment", "claim", "source", "target", "ours", "verdict", "reason")
INTRO = (
    'What papers show, re-run; written by `make experiments`. "source" has the source\'s own figure or words, "target" '
    "what we ask of our number for it, tolerance included. The verdicts are explained in [README.md](README.md)."
)


def page(outcomes: Iterable[Outcome], before: str = "") -> str:
    """Return the page: the rows of ``outcomes``, and of other experiments the rows of the page ``before``."""
    new = {outcome.name: outcome for outcome in outcomes}
    old = [line for line in before.splitlines() if line.startswith("| [")]
    kept = [line for line in old if name_of(line) not in new and (FOLDER / f"{name_of(line)}.py").exists()]
    runs = [*map(_run_row, new.values()), *(line for line in kept if len(cells(line)) == len(RUNS))]
    claims = [
        *(row for outcome in new.values() for row in _claim_rows(outcome)),
        *(line for line in kept if len(cells(line)) == len(CLAIMS)),
    ]
    parts = ["# Experiments", INTRO, _count(claims), _table(RUNS, runs), "## Claims", _table(CLAIMS, claims)]
    return "\n\n".join(parts) + "\n"


def claims_of(text: str) -> dict[tuple[str, str], dict[str, str]]:
    """Return the claims of a page by experiment and claim, each as a mapping from the head of its table."""
    rows = (cells(line) for line in text.splitlines() if line.startswith("| ["))
    found = (dict(zip(CLAIMS, row, strict=True)) for row in rows if len(row) == len(CLAIMS))
    return {(row["experiment"].partition("]")[0][1:], row["claim"]): row for row in found}


def seconds_of(text: str) -> dict[str, float]:
    """Return the seconds each experiment of a page took."""
    rows = [cells(line) for line in text.splitlines() if line.startswith("| [")]
    return {row[0].partition("]")[0][1:]: float(row[3]) for row in rows if len(row) == len(RUNS)}


def cells(row: str) -> list[str]:
    """Return the cells of a table's row."""
    return [cell.strip() for cell in row.strip().removeprefix("|").removesuffix("|").split(" | ")]


def name_of(row: str) -> str:
    """Return the experiment of a row."""
    return row[len("| [") : row.index("]")]


def _count(claims: Sequence[str]) -> str:
    rows = [dict(zip(CLAIMS, cells(row), strict=True)) for row in claims]
    stated, own = ([row["verdict"] for row in rows if (row["source"] == OWN) is is_own] for is_own in (False, True))
    counts = ", ".join(f"{word} {stated.count(word)}" for word in VERDICTS)
    return (
        f"**Claims stated by the source: {len(stated)}: {counts}.** "
        f"Targets of our own: {len(own)}, met {own.count(Verdict.PASS.value)}."
    )


def _table(head: Sequence[str], rows: Sequence[str]) -> str:
    # A stable sort: the claims of one experiment stay in its order.
    return "\n".join([_row(*head), "|" + "---|" * len(head), *sorted(rows, key=name_of)])


def _row(*values: object) -> str:
    return "| " + " | ".join(str(value).replace("|", "/").replace("\n", " ") for value in values) + " |"


def _link(outcome: Outcome) -> str:
    return f"[{outcome.name}]({outcome.name}.py)"


def _run_row(outcome: Outcome) -> str:
    stated = [claim.verdict for claim in outcome.claims if claim.source is not None]
    own = [claim.verdict for claim in outcome.claims if claim.source is None]
    met = f"{own.count(Verdict.PASS)} of {len(own)}" if own else ""
    notes = f"left out: {outcome.left_out}" if outcome.left_out else " ".join(outcome.notes)
    counts = [stated.count(verdict) for verdict in Verdict]
    return _row(_link(outcome), outcome.title, outcome.source, f"{outcome.seconds:.1f}", *counts, met, notes)


def _claim_rows(outcome: Outcome) -> Iterator[str]:
    for claim in outcome.claims:
        source = OWN if claim.source is None else claim.source
        yield _row(_link(outcome), claim.what, source, claim.target, claim.ours, claim.verdict.value, claim.reason)
