"""The gate against slower commits tells a slower stage from noise and from stages that only one tree has."""

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def gate(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("gate")
    for name in ("gate", "before_after"):
        sys.modules.pop(name, None)


def test_a_stage_is_slower_by_a_tenth_and_by_some_hundredths(gate):
    before = {"all": 1.0, "search": 0.1, "layout": 0.5, "gone": 1.0}
    after = {"all": 1.09, "search": 0.119, "layout": 0.56, "new": 3.0}
    assert gate.slower(before, after) == ["layout"]
    assert gate.slower(after, before) == []


def test_the_best_of_the_calls_counts(gate):
    assert gate.least([{"all": 2.0, "search": 0.5}, {"all": 1.0, "search": 0.7}]) == {"all": 1.0, "search": 0.5}


def test_what_is_slower_is_repeated_before_it_fails(gate, monkeypatch, capsys):
    """Noise disturbs the first calls of the tree that is judged; a slow stage stays slow."""
    calls = []

    def noisy(tree, words):
        calls.append(tree)
        disturbed = tree == "now" and calls.count("now") <= 3
        return f'{{"all": {2.0 if disturbed else 1.0}, "slow": {0.5 if tree == "now" else 0.2}}}'

    monkeypatch.setattr(gate, "last_line", noisy)
    assert gate.compare("UMAP", ("earlier", "now")) == ["UMAP: slow"]
    assert calls.count("now") == calls.count("earlier") == gate.MAX_ROUNDS
    assert "slower" in capsys.readouterr().out
