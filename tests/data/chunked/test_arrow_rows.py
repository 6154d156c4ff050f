"""Files and datasets as chunked data: the same rows as in memory, only the necessary parts are read, clear errors."""

import gzip

import numpy as np
import pytest

import manifoldry
from manifoldry.data._chunked import chunked_data
from manifoldry.data._chunked.arrow import ParquetBatches

pa = pytest.importorskip("pyarrow")
from pyarrow import csv, dataset, feather, parquet  # noqa: E402

N = 70_000  # more than one block of 65,536 rows


@pytest.fixture(name="X", scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((N, 3))


@pytest.fixture(name="files", scope="module")
def written(X, tmp_path_factory):
    """The same table in all formats, and beside the numbers a text."""
    folder = tmp_path_factory.mktemp("files")
    table = pa.table({f"a{j}": X[:, j] for j in range(3)})
    parquet.write_table(table, folder / "x.parquet", row_group_size=9_999)
    feather.write_feather(table, folder / "x.arrow")
    csv.write_csv(table, folder / "x.csv")
    (folder / "x.csv.gz").write_bytes(gzip.compress((folder / "x.csv").read_bytes(), 1))
    np.save(folder / "x.npy", X)
    (folder / "several").mkdir()
    for i, lo in enumerate(range(0, N, 30_000)):
        parquet.write_table(table[lo : lo + 30_000], folder / "several" / f"{i}.parquet")
    named = table.append_column("name", pa.array(np.char.mod("r%d", np.arange(N))))
    parquet.write_table(named, folder / "named.parquet")
    return folder


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.csv", "x.csv.gz", "x.npy", "several"])
def test_every_file_gives_the_same_rows_and_samples_again_and_again(files, X, name):
    blocks = chunked_data(files / name)
    for _ in range(2):
        np.testing.assert_array_equal(np.concatenate(list(blocks)), X)
    assert blocks.n_rows == N
    ((start, rest),) = blocks.blocks(blocks.chunk_rows)
    assert start == 65_536
    np.testing.assert_array_equal(rest, X[65_536:])
    expected = chunked_data(X).sample(50, np.random.default_rng(3))
    sample = blocks.sample(50, np.random.default_rng(3))
    np.testing.assert_array_equal(sample.numbers, expected.numbers)
    np.testing.assert_array_equal(sample.rows, expected.rows)


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "several"])
def test_rows_are_counted_without_reading(files, name):
    assert chunked_data(files / name).n_rows == N
    assert chunked_data(files / "x.csv").n_rows is None


def test_datasets_and_readers_go_directly_to_an_estimator(files, X):
    table = parquet.read_table(files / "x.parquet")
    data = dataset.dataset(files / "several")
    model = manifoldry.PCA(n_components=2).fit(data)
    assert list(model.feature_names_in_) == ["a0", "a1", "a2"]
    expected = np.concatenate(list(model.transform(chunked_data(X))))
    np.testing.assert_array_equal(np.concatenate(list(model.transform(data))), expected)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(1000))
    placed = model.transform(reader)
    np.testing.assert_array_equal(np.concatenate(list(placed)), expected)
    with pytest.raises(ValueError, match="read only once"):
        list(placed)


def test_only_the_row_groups_that_are_needed_are_read(files, monkeypatch):
    read = []
    usual = parquet.ParquetFile.iter_batches
    monkeypatch.setattr(
        parquet.ParquetFile,
        "iter_batches",
        lambda self, size, groups, columns: read.append((groups, columns)) or usual(self, size, groups, columns),
    )
    batches = ParquetBatches([files / "x.parquet"], "x")
    ((start, *_),) = [(start, batch) for start, batch in batches(["a1"], 69_994)]
    assert start == 69_994
    assert read == [([7], ["a1"])]  # rows 69,993 on, of groups of 9,999


def test_columns_are_chosen_by_name_and_type(files, tmp_path, X):
    chosen = chunked_data(files / "named.parquet", columns=["a2", "a0"])
    np.testing.assert_array_equal(next(iter(chosen))[:9], X[:9, [2, 0]])
    single = pa.table(
        {"a": pa.array([1, 2, 3], pa.float32()), "v": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32()))}
    )
    parquet.write_table(single, tmp_path / "v.parquet")
    blocks = chunked_data(tmp_path / "v.parquet")
    assert (blocks.dtype, blocks.feature_names) == (np.float32, ("a", "v_0", "v_1"))
    np.testing.assert_array_equal(next(iter(blocks)), [[1, 1, 2], [2, 3, 4], [3, 5, 6]])
    (tmp_path / "n.csv").write_text("a,b\n1,2\n3,4.5\n")  # the first line of b is whole
    np.testing.assert_array_equal(next(iter(chunked_data(tmp_path / "n.csv"))), [[1, 2], [3, 4.5]])


def test_rows_with_missing_values_are_refused_by_number_or_left_out(tmp_path):
    values = np.arange(100_000.0)
    missing = np.isin(np.arange(100_000), [3, 70_000])
    parquet.write_table(pa.table({"a": values, "b": pa.array(values, mask=missing)}), tmp_path / "m.parquet")
    with pytest.raises(
        ValueError, match=r"Row 3 \(counted from 0\) of m.parquet has a missing value in column 'b'.*drop"
    ):
        list(chunked_data(tmp_path / "m.parquet"))
    blocks = chunked_data(tmp_path / "m.parquet", missing="drop")
    np.testing.assert_array_equal(np.concatenate(list(blocks))[:, 1], values[~missing])
    ((_, rest),) = blocks.blocks(65_536)  # counted among those that are left
    np.testing.assert_array_equal(rest[:, 0], values[~missing][65_536:])
    np.testing.assert_array_equal(np.concatenate(list(blocks.ids(None))), np.flatnonzero(~missing))


@pytest.mark.parametrize(
    ("name", "columns", "words"),
    [
        (
            "named.parquet",
            None,
            r"hold no numbers: 'name' \(text, such as 'r0'\); leave them out with columns=\['a0', 'a1', 'a2'\]",
        ),
        ("named.parquet", ["name"], "hold no numbers: 'name' .text, such as 'r0'.; choose others"),
        ("x.parquet", ["a7"], "has no column 'a7'; there are a0, a1, a2"),
        ("y.parquet", None, "There is no file 'y.parquet'"),
        ("none", None, "has no Parquet, Arrow or CSV file"),
        ("cut.parquet", None, "cut.parquet cannot be read as a Parquet file"),
        ("cut.arrow", None, "cut.arrow cannot be read as an Arrow file"),
        ("cut.npy", None, "cut.npy cannot be read as a NumPy array"),
        ("odd.csv", None, "odd.csv: line 302 has 3 fields, the first lines have 2"),
        ("text.csv", None, "text.csv: 'cheap' in column 'b' is not read as a number"),
        ("mixed", None, "different formats: csv, parquet"),
        ("other", None, "All files need the same columns; those of 2.csv and 1.csv are others: 'c'"),
        ("x.json", None, "x.json is JSON"),
    ],
)
def test_what_cannot_be_read_is_an_error(files, tmp_path, name, columns, words):
    folder = tmp_path
    for kind in ("parquet", "arrow", "npy"):
        whole = (files / f"x.{kind}").read_bytes()
        (folder / f"cut.{kind}").write_bytes(whole[: len(whole) // 2])
    for inner in ("none", "mixed", "other"):
        (folder / inner).mkdir()
    (folder / "mixed" / "1.csv").write_text("a,b\n1,2\n")
    (folder / "mixed" / "x.parquet").write_bytes((files / "x.parquet").read_bytes())
    (folder / "other" / "1.csv").write_text("a,b\n1,2\n")
    (folder / "other" / "2.csv").write_text("a,c\n1,2\n")
    (folder / "odd.csv").write_text("a,b\n" + "1,2\n" * 300 + "1,2,3\n")
    (folder / "text.csv").write_text("a,b\n" + "1,2\n" * 300 + "1,cheap\n")
    (folder / "x.json").write_text("{}")
    for kept in ("named.parquet", "x.parquet"):
        (folder / kept).write_bytes((files / kept).read_bytes())
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        list(chunked_data(folder / name, columns=columns))


def test_a_late_word_is_named_with_its_column_among_chosen_ones(tmp_path):
    (tmp_path / "late.csv").write_text("a,b,c,d\n" + "1,2,3,4\n" * 300 + "1,2,cheap,4\n")
    with pytest.raises(ValueError, match=r"late.csv: 'cheap' in column 'c' is not read as a number"):
        list(chunked_data(tmp_path / "late.csv", columns=["b", "c"]).blocks())
    (tmp_path / "late.csv").write_text("a,b,c,d\n" + "1,2,3,4\n" * 300 + "1,2,3\n")
    with pytest.raises(ValueError, match="line 302 has 3 fields, the first lines have 4"):
        list(chunked_data(tmp_path / "late.csv", columns=["b", "c"]).blocks())
