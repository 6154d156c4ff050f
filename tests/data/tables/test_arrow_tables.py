"""Parquet and Arrow files: every type of column, exactly."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, ipc, parquet

from manifoldry.data._chunked import chunked_data
from manifoldry.data._tables import read_table
from manifoldry.data._tables.arrow import unpacked_bytes

N = 12
VECTORS = np.arange(3.0 * N).reshape(N, 3)


@pytest.fixture(params=["parquet", "feather", "stream", "uncompressed"])
def save(request, tmp_path):
    """Return a function that saves an Arrow table in one of the formats and gives the path."""

    def run(table):
        if request.param == "parquet":
            parquet.write_table(table, tmp_path / "data.parquet", row_group_size=5)
            return tmp_path / "data.parquet"
        path = tmp_path / "data.arrow"
        if request.param == "stream":
            with ipc.new_stream(path, table.schema) as writer:
                writer.write_table(table, max_chunksize=5)
        else:
            compression = "lz4" if request.param == "feather" else "uncompressed"
            feather.write_feather(table, path, compression=compression, chunksize=5)
        return path

    return run


def test_columns_of_every_type(save):
    table = pa.table(
        {
            "single": pa.array(VECTORS[:, 0], pa.float32()),
            "whole": pa.array([5] * N, pa.int16()),
            "amount": pa.array([decimal.Decimal("1.25")] * N),
            "flag": pa.array([True, False] * 6),
            "code": pa.array([3, 4] * 6).dictionary_encode(),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), 3),
            "list": pa.array([[1.5, 2.5]] * N),
            "kind": pa.array(["x", None, "y"] * 4).dictionary_encode(),
            "text": pa.array(["p", "q", None] * 4),
            "day": pa.array([datetime.date(2020, 1, 2)] * N),
            "ragged": pa.array([[1.0] * (i % 3) for i in range(N)]),
            "nothing": pa.nulls(N),
        }
    )
    read = read_table(save(table))
    names = "single", "whole", "amount", "flag", "code", "vector_0", "vector_1", "vector_2", "list_0", "list_1"
    assert read.features == names
    expected = [VECTORS[:, 0], [5] * N, [1.25] * N, [1, 0] * 6, [3, 4] * 6, *VECTORS.T, [1.5] * N, [2.5] * N]
    np.testing.assert_array_equal(read.X, np.array(expected).T)
    assert sorted(read.columns) == ["day", "kind", "ragged", "text"]
    assert read.columns["kind"].tolist() == ["x", "", "y"] * 4
    assert read.columns["text"].tolist() == ["p", "q", ""] * 4
    assert read.columns["day"][0] == "2020-01-02"


def test_single_precision_stays(save):
    read = read_table(
        save(pa.table({"a": pa.array([1.5, 2.5], pa.float32()), "b": pa.array([0.1, 0.2], pa.float32())}))
    )
    assert read.X.dtype == np.float32
    np.testing.assert_array_equal(read.X, np.array([[1.5, 0.1], [2.5, 0.2]], np.float32))


def test_nulls_are_missing(save):
    path = save(pa.table({"a": [1, None, 3], "b": [1.5, 2.5, None], "c": pa.array([[1.0], None, [2.0]])}))
    with pytest.raises(ValueError, match=r"2 rows of 3 have missing values, in columns a \(1\), b \(1\), c_0 \(1\)"):
        read_table(path)
    np.testing.assert_array_equal(
        read_table(path, missing="impute").X, [[1, 1.5, 1], [np.nan, 2.5, np.nan], [3, np.nan, 2]]
    )
    assert read_table(path, missing="drop").ids.tolist() == [0]


def test_ids_of_large_integers_and_text(save):
    path = save(pa.table({"id": [2**60 + 1, 2**60 + 3], "x": [1.0, 2.0], "name": ["a", "b"]}))
    assert read_table(path).ids.tolist() == [2**60 + 1, 2**60 + 3]
    assert read_table(path, id="name", drop=["id"]).ids.tolist() == ["a", "b"]


def test_a_vector_is_chosen_by_its_features(save):
    path = save(pa.table({"v": pa.array(VECTORS.tolist()), "x": [0.5] * N, "y": [1.5] * N}))
    assert read_table(path, features=["v_0", "v_1", "y"]).features == ("v_0", "v_1", "v_2", "y")
    with pytest.raises(ValueError, match="'v' holds vectors, which cannot color rows"):
        read_table(path, color=["v"])
    with pytest.raises(ValueError, match="'v' holds vectors, which cannot name rows"):
        read_table(path, id="v")


def test_tables_without_rows(save):
    with pytest.raises(ValueError, match="holds no rows"):
        read_table(save(pa.table({"a": pa.array([], pa.float64())})))


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_arrow_files_are_measured_before_they_are_unpacked(tmp_path, monkeypatch, compression):
    path = tmp_path / "data.arrow"
    table = pa.table({"a": np.zeros(10**6), "b": pa.array(["word"] * 10**6).dictionary_encode()})
    feather.write_feather(table, path, compression=compression, chunksize=10**6)
    assert path.stat().st_size < 10**6 < table.nbytes
    with path.open("rb") as file:
        assert table.nbytes <= sum(unpacked_bytes(file, stream=False)) <= table.nbytes + 1000
    unpacked = []
    monkeypatch.setattr("pyarrow.ipc.open_file", unpacked.append)
    monkeypatch.setattr("manifoldry.data._tables.errors.available_memory", lambda: 10**7)
    with pytest.raises(ValueError, match=r"takes 24 MB once it is unpacked, and 10 MB of memory are free"):
        read_table(path)
    assert unpacked == []


def test_a_text_that_comes_often_is_in_memory_once(tmp_path, monkeypatch):
    long = "x" * 10**4
    words = pa.DictionaryArray.from_arrays(np.array([0, 1] * 25_000), [long, long + "y"])
    table = pa.table({"a": np.arange(50_000.0) ** 2, "t": words})
    parquet.write_table(table, tmp_path / "data.parquet")
    texts = read_table(tmp_path / "data.parquet").columns["t"]  # 500 MB if each had a copy
    assert texts[0] is texts[2]
    monkeypatch.setattr("manifoldry.data._tables.errors.available_memory", lambda: 1000)
    with pytest.raises(ValueError, match="0 MB of memory are free"):
        read_table(tmp_path / "data.parquet")


def test_rows_without_bytes_are_not_believed(tmp_path, monkeypatch):
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([10**9]), pa.array([1.5]))
    with ipc.new_file(tmp_path / "runs.arrow", pa.schema([("x", runs.type)])) as writer:
        writer.write_batch(pa.record_batch([runs], ["x"]))
    monkeypatch.setattr("manifoldry.data._tables.errors.available_memory", lambda: 10**10)
    with pytest.raises(ValueError, match=r"runs.arrow takes 64.0 GB once it is unpacked"):
        read_table(tmp_path / "runs.arrow")


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_integers_that_collapse_in_double_precision_are_refused(save, kind):
    close = pa.array([2**60 + i for i in range(N)], kind)
    far = pa.array([2**60 + 2**45 * i for i in range(N)], kind)
    with pytest.raises(ValueError, match=r"12 different integers of column 'a' .* subtract 1152921504606846976"):
        read_table(save(pa.table({"a": close, "b": far})))
    table = read_table(save(pa.table({"id": close, "b": far})))
    assert table.ids.tolist() == [2**60 + i for i in range(N)]
    assert table.X[:, 0].tolist() == [float(2**60 + 2**45 * i) for i in range(N)]


@pytest.mark.parametrize("made", [pa.array, lambda values: pa.array(values).dictionary_encode()])
def test_so_are_those_with_missing_values(save, made, tmp_path):
    close = made([None, *(2**60 + i for i in range(1, N))])
    far = made([None, *(2**60 + 2**45 * i for i in range(1, N))])
    with pytest.raises(ValueError, match=r"11 different integers of column 'a' .* subtract 1152921504606846977"):
        read_table(save(pa.table({"a": close, "b": far})))
    parquet.write_table(pa.table({"a": close, "b": far}), tmp_path / "blocks.parquet")
    with pytest.raises(ValueError, match=r"11 different integers of column 'a' .* subtract 1152921504606846977"):
        chunked_data(tmp_path / "blocks.parquet", missing="drop")
    table = read_table(save(pa.table({"a": close, "b": far})), id="a", missing="keep")
    assert table.ids.tolist() == ["", *(str(2**60 + i) for i in range(1, N))]
    assert table.X[1:, 0].tolist() == [float(2**60 + 2**45 * i) for i in range(1, N)]
