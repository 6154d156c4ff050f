"""The stored results agree with themselves: totals with rows, and the README with the summary."""

import importlib
from collections import Counter
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "experiments"
WEAKER = "## Claims that depend on our implementation"
"""The section of the README with what became of claims that once failed by our own weakness."""


@pytest.fixture
def summary(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("summary")


@pytest.fixture
def stored():
    return (FOLDER / "summary.md").read_text(encoding="utf-8")


def test_the_rows_of_experiments_and_the_head_count_the_claims(summary, stored):
    rows = [summary.cells(line) for line in stored.splitlines() if line.startswith("| [")]
    claims = [dict(zip(summary.CLAIMS, row, strict=True)) for row in rows if len(row) == len(summary.CLAIMS)]
    runs = [dict(zip(summary.RUNS, row, strict=True)) for row in rows if len(row) == len(summary.RUNS)]
    assert len(claims) + len(runs) == len(rows)
    stated = Counter((claim["experiment"], claim["verdict"]) for claim in claims if claim["source"] != summary.OWN)
    for run in runs:
        assert {word: int(run[word]) for word in summary.VERDICTS} == {
            word: stated[run["experiment"], word] for word in summary.VERDICTS
        }, run["experiment"]
    totals = ", ".join(f"{word} {sum(int(run[word]) for run in runs)}" for word in summary.VERDICTS)
    assert f"**Claims stated by the source: {stated.total()}: {totals}.**" in stored


def test_the_readme_has_the_verdicts_and_numbers_of_the_summary(summary, stored):
    known = summary.claims_of(stored)
    section = (FOLDER / "README.md").read_text(encoding="utf-8").partition(WEAKER)[2].partition("\n## ")[0]
    told = [summary.cells(line) for line in section.splitlines() if line.startswith("| [")]
    assert len(told) == 23
    for experiment, claim, _, ours, verdict, _ in told:
        row = known[experiment.partition("]")[0][1:], claim]
        assert (row["verdict"], ours in row["ours"]) == (verdict, True), claim
