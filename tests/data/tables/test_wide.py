"""Wide text tables are read like others, in less memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifoldry.data._tables import delimited as wide
from manifoldry.data._tables import read_table

FIELDS = st.sampled_from(["1.5", "-2", "3e4", "0", " 7 ", "", "NA", '"8.25"', "1e-300", "12345678901234567890"])
WORDS = st.sampled_from(["u", "v", '"a, b"', '"two\nlines"', '"say ""hi"""', "é", "", "NA", '5" pipe', "2020-01-02"])


def outcome(path, least):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("manifoldry.data._tables.delimited.MIN_COLUMNS", least)
        try:
            table = read_table(path, missing="keep")
        except ValueError as error:
            return str(error)
    beside = {name: column.tolist() for name, column in table.columns.items()}
    return table.X.tolist(), table.features, table.ids.tolist(), table.id_name, table.label, beside, table.remarks


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(FIELDS, WORDS, FIELDS, FIELDS), min_size=1, max_size=8),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
    st.booleans(),
    st.sampled_from([1, 5, 2**20]),
)
def test_wide_tables_are_read_like_others(tmp_path_factory, rows, end, named, chunk):
    path = tmp_path_factory.mktemp("wide") / "data.csv"
    lines = [("a", "kind", "id", "c")] * named + rows
    path.write_bytes((end.join(map(",".join, lines)) + end * (chunk > 1)).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("manifoldry.data._tables.quotes.TEXT_CHUNK", chunk)
        np.testing.assert_equal(outcome(path, 2), outcome(path, 10_000))


def test_regular_wide_tables_are_not_left_to_arrow(tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(size=(6, 800)).round(3)
    lines = [",".join(["cell", *(f'"g,{j}"' for j in range(800))])]
    lines += [f'"c{i}",' + ",".join(map(str, row)) for i, row in enumerate(X.tolist())]
    (tmp_path / "data.csv").write_text("\n".join(lines))
    monkeypatch.setattr("manifoldry.data._tables.delimited._columns", lambda *_: pytest.fail("columns of Arrow"))
    table = read_table(tmp_path / "data.csv")
    np.testing.assert_array_equal(table.X, X)
    assert table.ids.tolist() == [f"c{i}" for i in range(6)]
    assert table.features[:2] == ("g,0", "g,1")
    assert table.X.flags.c_contiguous
    assert read_table(tmp_path / "data.csv", features=["g,5", "g,2"]).X.tolist() == X[:, [5, 2]].tolist()
    dropped = read_table(tmp_path / "data.csv", drop=["g,0"], label="g,1")
    np.testing.assert_array_equal(dropped.X, X[:, 2:])
    np.testing.assert_array_equal(dropped.labels, X[:, 1])


def test_names_of_megabytes_are_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("manifoldry.data._tables.sniffing.HEAD_BYTES", 100)
    names = [f"ENSG{j:011d}" for j in range(700)]
    (tmp_path / "data.csv").write_text(",".join(names) + "\n" + "\n".join([",".join(["1.5"] * 700)] * 4))
    assert read_table(tmp_path / "data.csv").features == tuple(names)


def test_numbers_in_a_wide_column_of_mostly_numbers_are_refused(tmp_path):
    rows = [["1.5"] * wide.MIN_COLUMNS for _ in range(8)]
    rows[5][3] = "cheap"
    (tmp_path / "data.csv").write_text("\n".join(map(",".join, rows)))
    with pytest.raises(ValueError, match="Column 'x3': 'cheap' in row 6"):
        read_table(tmp_path / "data.csv")


PEAK = """
import re, sys
from manifoldry.data._tables import read_table

def peak():  # of this program; ru_maxrss would begin with that of the one which started it
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])

read_table(sys.argv[1])
before = peak()
X = read_table(sys.argv[2]).X
print((peak() - before) / X.size)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is known on Linux only")
def test_wide_tables_take_little_memory(tmp_path):
    """Names and what else is kept of each column take about 500 bytes, 8 times less than Arrow's columns (8 kB)."""
    row = ",".join(f"{value:.3f}" for value in np.random.default_rng(0).normal(size=40_000))
    (tmp_path / "small.csv").write_text("a,b\n1.5,2.5\n3.5,4.5\n")
    (tmp_path / "wide.csv").write_text("\n".join([row] * 5))
    command = [sys.executable, "-c", PEAK, str(tmp_path / "small.csv"), str(tmp_path / "wide.csv")]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    assert 8 < float(found.stdout) < 250
