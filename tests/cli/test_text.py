import pytest

from manifoldry.cli._text import MAX_WIDTH, MIN_WIDTH, aligned, terminal_width, wrapped


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
