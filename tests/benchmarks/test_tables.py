"""Benchmarks store what they measured and on what, and compare two trees by what both give."""

import importlib
import json
import platform
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module
    for name in ("tables", "before_after"):
        sys.modules.pop(name, None)


def test_a_table_is_stored_with_its_rows_and_circumstances(load, tmp_path, monkeypatch, capsys):
    tables = load("tables")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    table = tables.Table(
        "speed", "What it is.", {"library": "", "points": ",", "times ours": ".1f"}, ("no-such-package",)
    )
    table.add(library="a", points=2000, times_ours=1.04)
    table.add(library="b", points=2000, error="failed | badly")
    stored = json.loads((tmp_path / "speed.json").read_text(encoding="utf-8"))
    lines = tables.render(stored).splitlines()
    assert lines[:7] == [
        "What it is.",
        "",
        "| library | points | times ours |",
        "| --- | --- | --- |",
        "| a | 2,000 | 1.0 |",
        "| b | 2,000 | failed / badly |",
        "",
    ]
    assert stored["python"] == platform.python_version()
    assert {"manifoldry", "numpy", "scikit-learn"} <= set(stored["versions"])
    assert "no-such-package" not in stored["versions"]
    assert stored["machine"]["cores"] >= 1
    for told in (stored["commit"], stored["machine"]["cpu"], f"numpy {np.__version__}"):
        assert told in lines[7]
    assert lines[2] in capsys.readouterr().out


def test_rows_of_an_earlier_run_are_kept_and_put_in_order(load, tmp_path, monkeypatch):
    tables = load("tables")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    table = tables.Table("speed", "", {"library": "", "times ours": ".1f"})
    table.put([{"library": "b", "times ours": 2.0}])
    table.add(library="a", times_ours=1.0)
    stored = json.loads((tmp_path / "speed.json").read_text(encoding="utf-8"))["rows"]
    assert [row["library"] for row in stored] == ["b", "a"]
    table.put(reversed(stored))
    lines = tables.render(json.loads((tmp_path / "speed.json").read_text(encoding="utf-8"))).splitlines()
    assert lines[4:6] == ["| a | 1.0 |", "| b | 2.0 |"]


def test_a_cell_without_a_column_is_refused(load):
    table = load("tables").Table("speed", "", {"seconds": ".1f"})
    with pytest.raises(ValueError, match="no column"):
        table.add(second=1.0)


def test_results_of_two_trees_are_compared_by_bits_labels_and_shape(load):
    difference = load("before_after").relative_difference
    Y = np.arange(6.0).reshape(3, 2)
    assert difference(Y, Y.copy()) == 0
    assert difference(Y, 1.5 * Y) == pytest.approx(0.5)
    assert difference(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2])) == 0.25
    assert difference(Y, Y[:2]) == np.inf
