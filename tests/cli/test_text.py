from pathlib import Path

import pytest

from manifoldry.cli._flow.fitting import methods_for
from manifoldry.cli._outputs import coordinates_path, source_stem
from manifoldry.cli._progress import steps_text
from manifoldry.cli._text import MAX_WIDTH, MIN_WIDTH, aligned, bug_text, error_text, terminal_width, wrapped


@pytest.mark.parametrize(("columns", "width"), [("80", 80), ("10", MIN_WIDTH), ("500", MAX_WIDTH)])
def test_the_width_is_that_of_the_terminal_within_bounds(columns, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal_width() == width


def test_lines_are_wrapped_with_their_indents(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    lines = wrapped("word " * 20, "  ", "- ")
    assert [line[:2] for line in lines] == ["- ", *["  "] * (len(lines) - 1)]
    assert max(map(len, lines)) <= 40
    assert " ".join(line[2:] for line in lines).split() == ["word"] * 20


def test_tables_are_aligned_and_the_last_column_is_wrapped_below_itself(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    lines = aligned([("name", "12", "short"), ("longer", "3", "many words that do not fit on the line")], "lrl")
    assert lines[0] == "name    12  short"
    assert lines[1].startswith("longer   3  many words")
    assert len(lines) > 2
    assert all(line.startswith(" " * 12) and line[12] != " " and len(line) <= 40 for line in lines[2:])


def test_outputs_are_named_after_the_source():
    assert [source_stem(name) for name in ("folder/data.csv.gz", "swiss-roll", "-")] == ["data", "swiss_roll", "stdin"]
    assert coordinates_path("cells.h5ad", Path("out")).as_posix() == "out/cells_embedding.h5ad"


def test_errors_are_one_line_and_bugs_say_so():
    assert error_text(OSError(28, "No space left on device", "a.csv")) == "No space left on device: 'a.csv'."
    assert bug_text(KeyError("a")) == "This is a bug in manifoldry; please report it: KeyError: 'a'"


def test_a_rate_is_shown_once_it_is_known():
    assert steps_text(50, 200, 2.0) == "50 of 200, 25/s, 6 s left"
    assert steps_text(50, 20_000, 20.0) == "50 of 20,000, 2.5/s, 2.2 hours left"
    assert steps_text(65_536, 2_000_000, 3e-5) == "65,536 of 2,000,000"


def test_many_rows_leave_only_the_methods_that_can_take_them():
    left_out = ("TSNE", "UMAP", "Isomap", "LTSA", "SymmetricSNE", "LaplacianEigenmaps")
    assert methods_for("keep neighbors", 1_000_000) == (["IPA"], left_out)
