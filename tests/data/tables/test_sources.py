"""Which source a name stands for, and which format it is in."""

import gzip
import io
import os
import threading

import numpy as np
import pytest

from helpers import in_new_process
from manifoldry import datasets
from manifoldry.data._tables import read_table
from manifoldry.data._tables.source import Source


def test_a_missing_file_suggests_the_nearest(tmp_path):
    (tmp_path / "measures.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FileNotFoundError, match=r"There is no file 'measure.csv' in .*; did you mean 'measures.csv'\?"):
        read_table(tmp_path / "measure.csv")
    with pytest.raises(FileNotFoundError, match=r"There is no folder .*nowhere', so no file 'data.csv' in it"):
        read_table(tmp_path / "nowhere" / "data.csv")
    with pytest.raises(FileNotFoundError, match=r"no built-in data set 'swisroll'; did you mean 'swiss_roll'\?"):
        read_table("swisroll")
    for strange in ("x" * 5000, "a\0b", ""):
        with pytest.raises(FileNotFoundError, match="There is no file"):
            read_table(strange)
    with pytest.raises(FileNotFoundError, match="no built-in data set 'qqq'; there are swiss_roll"):
        read_table("qqq", format="dataset")


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("data.csv", b"PAR1" * 9, "named like a text table, but its bytes are those of a Parquet file; rename it"),
        ("data.npy", b"PK\x03\x04" * 9, "but its bytes are those of a NumPy archive"),
        ("data.parquet", b"a,b\n1,2\n", "named like a Parquet file and does not begin like one"),
        ("data.xlsx", b"PK\x03\x04" * 9, "an Excel workbook; save the sheet as CSV"),
        ("data.png", b"\x89PNG\r\n\x1a\n", "one image; name the folder that holds all of them"),
        ("data", b"\x80\x04.", "a pickle, which is never opened"),
        ("data.npy.gz", gzip.compress(b"\x93NUMPY", mtime=0), "compressed with gzip, and a NumPy array is not read so"),
        ("data.csv.bz2", b"BZh9", "compressed with bzip2; unpack it first"),
        ("data.json", b"[]", "is JSON"),
        ("data.csv", b"version https://git-lfs.github.com/spec/v1\noid 4d\n", "a pointer of Git LFS .* git lfs pull"),
        ("data.csv", b"<!DOCTYPE html>\n<html>404</html>", "a page; save its table as CSV"),
        ("data.csv", b"", "data.csv is empty"),
    ],
)  # fmt: skip
def test_files_of_other_kinds_get_a_sentence(tmp_path, name, content, match):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=match):
        read_table(tmp_path / name)


def test_a_format_can_be_said(tmp_path):
    (tmp_path / "data.parquet").write_text("a,b\n1,2\n")
    assert read_table(tmp_path / "data.parquet", format="csv").X.tolist() == [[1, 2]]
    with pytest.raises(ValueError, match="cannot be read as a NumPy array"):
        read_table(tmp_path / "data.parquet", format="npy")
    with pytest.raises(ValueError, match=r"format must be one of 'csv'.*; got 'excel'"):
        read_table(tmp_path / "data.parquet", format="excel")
    with pytest.raises(ValueError, match="is a file, and format='images' reads a folder"):
        read_table(tmp_path / "data.parquet", format="images")
    with pytest.raises(ValueError, match="is a folder, and format='csv' reads a file"):
        read_table(tmp_path, format="csv")


@pytest.mark.parametrize("suffix", ["", ".foo", ".TXT", ".CSV"])
def test_other_suffixes_are_told_by_their_bytes(tmp_path, suffix):
    (tmp_path / f"data{suffix}").write_text("a,b\n1,2\n")
    assert read_table(tmp_path / f"data{suffix}").X.tolist() == [[1, 2]]


def npy(array):
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


@pytest.mark.parametrize(
    "content", [b"x0,x1\n1,2\n3,4\n", gzip.compress(b"1 2\n3 4\n", mtime=0), npy(np.array([[1.0, 2], [3, 4]]))]
)
def test_standard_input_is_read_by_its_content(monkeypatch, content):
    class Piped:
        buffer = io.BytesIO(content)

        def isatty(self):
            return False

    monkeypatch.setattr("sys.stdin", Piped())
    table = read_table("-")
    assert (table.X.tolist(), table.features, table.source) == ([[1, 2], [3, 4]], ("x0", "x1"), "standard input")


def test_standard_input_at_a_terminal_gets_a_sentence(monkeypatch):
    class Terminal:
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stdin", Terminal())
    with pytest.raises(ValueError, match="Standard input is empty"):
        read_table("-")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
def test_named_pipes(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"a,b\n1,2\n",))
    writer.start()
    table = read_table(tmp_path / "pipe")
    writer.join()
    assert table.X.tolist() == [[1, 2]]


def test_built_in_sets_bring_what_is_known():
    for name in ("swiss-roll", "swiss_roll"):
        roll = read_table(name)
        expected = datasets.swiss_roll(random_state=0)
        np.testing.assert_array_equal(roll.X, expected.X)
        np.testing.assert_array_equal(roll.columns["truth_1"], expected.truth[:, 1])
        np.testing.assert_array_equal(roll.columns["parameter_0"], expected.parameters[:, 0])
    iris = read_table("iris")
    assert (iris.label, iris.labels[0], iris.features[0]) == ("label", "setosa", "sepal length (cm)")
    digits = read_table("digits", drop=["pixel_0_0"])
    assert digits.X.shape == (1797, 63)
    assert digits.thumbnails.shape == (1797, 8, 8)
    assert digits.thumbnails.max() == 255


@pytest.mark.parametrize("name", [*datasets.GENERATORS])
def test_every_generator_is_a_table(name):
    table = read_table(name)
    assert table.X.shape == datasets.GENERATORS[name](random_state=0).X.shape


def test_a_file_goes_before_a_data_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "iris").write_text("a,b\n1,2\n")
    assert read_table("iris").X.shape == (1, 2)
    assert read_table("iris", format="dataset").X.shape == (150, 4)


def test_archives_of_the_users_folder(tmp_path, monkeypatch):
    np.savez(tmp_path / "mine.npz", X=np.arange(6.0).reshape(3, 2), y=np.array([0, 1, 0]), names=np.array(["u", "v"]))
    monkeypatch.setenv("MANIFOLDRY_DATA", str(tmp_path))
    assert read_table("mine").labels.tolist() == ["u", "v", "u"]


def test_a_broken_archive_of_the_users_folder(tmp_path, monkeypatch):
    (tmp_path / "mine.npz").write_bytes(b"PK\x03\x04")
    monkeypatch.setenv("MANIFOLDRY_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="mine cannot be read as a built-in data set"):
        read_table("mine")


def test_reading_needs_only_the_libraries_of_the_format():
    script = """
import sys
from manifoldry import read_table
read_table("swiss-roll")
print(sorted({"pyarrow", "anndata", "h5py", "PIL", "pandas", "matplotlib", "numba", "sklearn"} & set(sys.modules)))
"""
    assert in_new_process(script) == "[]"


def test_a_packed_file_is_closed_with_what_unpacks_it(tmp_path):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"1,2"))
    with Source(path.name, path).unpacked() as file:
        assert file.read() == b"1,2"
    assert file.packed.closed
