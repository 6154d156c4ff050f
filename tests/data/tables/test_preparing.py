"""Steps before an embedding, coordinates after it, and features of new rows."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pyarrow import feather, parquet
from scipy import sparse
from sklearn.pipeline import Pipeline

from manifoldry import Isomap
from manifoldry.data._tables import Table, features_of, preparation, read_table, write_coordinates
from manifoldry.data._tables.writing import writable_suffix

RNG = np.random.default_rng(0)
X = RNG.gamma(2, size=(40, 5))


def prepared(X, *settings, **more):
    return Pipeline(preparation(*settings, X=X, **more)).fit_transform(X)


def test_scaling_by_definition():
    deviations = X.std(axis=0)
    np.testing.assert_allclose(prepared(X, "standard"), (X - X.mean(axis=0)) / deviations)
    low, middle, high = np.percentile(X, [25, 50, 75], axis=0)
    np.testing.assert_allclose(prepared(X, "robust"), (X - middle) / (high - low))
    np.testing.assert_allclose(prepared(X, "unit"), X / np.linalg.norm(X, axis=1, keepdims=True))
    np.testing.assert_array_equal(prepared(X, "log1p"), np.log1p(X))
    assert preparation() == []


def test_steps_come_in_order_and_end_with_an_estimator():
    holes = X.copy()
    holes[3, 1] = np.nan
    steps = preparation("standard", 3, True, 7, X=holes)
    assert [name for name, _ in steps] == ["impute", "scale", "pca"]
    assert steps[-1][1].random_state == 7
    pipeline = Pipeline([*steps, ("embed", Isomap(n_neighbors=8))])
    assert pipeline.fit_transform(holes).shape == (40, 2)
    filled = Pipeline(preparation(impute=True)).fit_transform(holes)
    assert filled[3, 1] == np.median(np.delete(X[:, 1], 3))


@pytest.mark.parametrize("scale", ["none", "standard", "robust", "unit", "log1p"])
def test_sparse_features_stay_sparse_up_to_the_projection(scale):
    counts = sparse.random(40, 6, 0.6, format="csr", random_state=0)
    if scale != "none":
        assert prepared(counts, scale).nnz == counts.nnz
    assert prepared(counts, scale, 2).shape == (40, 2)


def test_what_cannot_be_done_is_refused():
    for settings_, match in [
        (("log1p", None), "scale='log1p' needs values above -1, but the smallest is -2"),
        (("none", 6), "pca must be at most 5, .* of 40 rows of 5 features; got 6"),
        (("none", 0), "pca must be at least 1; got 0"),
        (("z", None), "scale must be one of 'none', 'standard'.*; got 'z'"),
    ]:
        with pytest.raises(ValueError, match=match):
            preparation(*settings_, X=np.where(X == X[0, 0], -2, X))
    with pytest.raises(ValueError, match="the smallest is -1"):
        preparation("log1p", X=sparse.csr_array([[0.0, -1.0]]))


TABLE = Table(np.zeros((3, 2)), ("a", "b"), np.array(['say "hi"', "b,c", "Ä"], dtype=object), id_name="my id")


@settings(max_examples=40, deadline=None)
@given(arrays.arrays(st.sampled_from([np.float64, np.float32]), (3, 2), elements=st.floats(width=32)))
def test_text_comes_back_to_the_bit(tmp_path_factory, Y):
    Y = np.nan_to_num(Y)
    for suffix in ("csv", "tsv"):
        path = tmp_path_factory.mktemp("out") / f"out.{suffix}"
        write_coordinates(path, Y, TABLE)
        read = read_table(path, id="my id")
        np.testing.assert_array_equal(read.X.astype(Y.dtype), Y)
        assert (read.ids.tolist(), read.features) == (TABLE.ids.tolist(), ("y0", "y1"))


def test_every_format_holds_ids_and_coordinates(tmp_path):
    Y = RNG.normal(size=(3, 2))
    for suffix, read in (
        ("parquet", parquet.read_table),
        ("arrow", feather.read_table),
        ("feather", feather.read_table),
    ):
        write_coordinates(tmp_path / f"out.{suffix}", Y, TABLE, names=["u", "v"])
        expected = pa.table({"my id": TABLE.ids.tolist(), "u": Y[:, 0], "v": Y[:, 1]})
        assert read(tmp_path / f"out.{suffix}").equals(expected)
    write_coordinates(tmp_path / "out.npy", Y, TABLE)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), Y)
    write_coordinates(tmp_path / "out.csv", Y, Table(Y, ("a", "b"), np.arange(3)), names=["u", 'v,"'])
    assert (tmp_path / "out.csv").read_text().splitlines()[:2] == ['row,u,"v,"""', f"0,{Y[0, 0]!s},{Y[0, 1]!s}"]


def test_nothing_is_overwritten_or_left_half_written(tmp_path, monkeypatch):
    write_coordinates(tmp_path / "out.csv", TABLE.X, TABLE)
    before = (tmp_path / "out.csv").read_bytes()
    with pytest.raises(FileExistsError, match="not overwritten unless asked for"):
        write_coordinates(tmp_path / "out.csv", TABLE.X + 1, TABLE)
    monkeypatch.setattr("pyarrow.csv.write_csv", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_coordinates(tmp_path / "out.csv", TABLE.X + 1, TABLE, overwrite=True)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


def test_coordinates_that_cannot_be_written(tmp_path):
    for path, Y, settings_, match in [
        ("out.xlsx", TABLE.X, {}, r"files that end with .csv, .tsv, .*, .npy or .h5ad; got 'out.xlsx'"),
        ("out.csv", TABLE.X[:2], {}, r"one row for each of the 3 rows of the table; got shape \(2, 2\)"),
        ("out.csv", TABLE.X, {"names": ["u"]}, "2 coordinates need the same number of names; got 1"),
        ("out.h5ad", TABLE.X, {}, r"a copy of the .h5ad file that was read, but none was"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=match):
            write_coordinates(tmp_path / path, Y, TABLE, **settings_)
    assert [*tmp_path.iterdir()] == []
    assert writable_suffix("A.CSV") == ".csv"


NEW = Table(np.array([[1.0, 2, 3], [4, 5, 6]]), ("c", "a", "b"), np.arange(2), source="new.csv")


def test_features_are_matched_by_name():
    matched = features_of(NEW, ["a", "b"])
    assert (matched.X.tolist(), matched.features) == ([[2, 3], [5, 6]], ("a", "b"))
    assert matched.remarks == ("Columns that the model does not know were left out: c.",)
    assert features_of(NEW, NEW.features) is NEW
    with pytest.raises(ValueError, match=r"new.csv lacks 1 of the 2 features of the model: bb; did you mean 'b'\?"):
        features_of(NEW, ["a", "bb"])


def test_features_without_names_are_matched_by_position():
    assert features_of(NEW, ["x0", "x1", "x2"]).X.tolist() == NEW.X.tolist()
    with pytest.raises(ValueError, match=r"new.csv has 3 features, and the model has 2"):
        features_of(NEW, ["x0", "x1"])
    nameless = Table(NEW.X, ("x0", "x1", "x2"), np.arange(2))
    matched = features_of(nameless, ["p", "q", "r"])
    assert matched.features == ("p", "q", "r")
    assert "matched by position" in matched.remarks[0]
