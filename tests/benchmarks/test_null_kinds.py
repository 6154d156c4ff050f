"""The benchmark of verdicts tells whole classes, parts of one, and mixtures apart."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def kind_of(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("null_comparison").kind_of
    for name in ("tables", "real_sets", "null_comparison"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("points", "kind"),
    [
        (range(100), "group"),
        (range(80), "group"),
        (range(200), "group"),
        (range(60), "fragment"),
        (range(30), "fragment"),
        (range(70, 130), "mixed"),
        ([*range(60), *range(100, 130)], "mixed"),
    ],
)
def test_kinds_by_hand(kind_of, points, kind):
    classes = np.repeat([0, 1, 2], 100)
    cluster = np.isin(np.arange(300), list(points))
    assert kind_of(cluster, classes) == kind
