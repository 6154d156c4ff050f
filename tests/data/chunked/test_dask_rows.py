"""Dask collections as chunked data: what is computed when, the type of the output, what is sent, and errors."""

import threading

import cloudpickle
import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix, issparse

import manifoldry
from helpers import among, make
from manifoldry.data._chunked import as_chunked, chunked_data
from manifoldry.methods._base._clusterer import Clusterer

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

ROLL = manifoldry.datasets.swiss_roll(600).X
EVERY = [*manifoldry.list_methods(), *manifoldry.list_clusterings()]


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


class CountedRows:
    """Rows by their numbers that remember how many were asked for at once, and how often."""

    def __init__(self, X):
        self.X, self.asked, self.lock = X, [], threading.Lock()
        self.shape, self.dtype, self.ndim = X.shape, X.dtype, 2

    def __getitem__(self, places):
        taken = self.X[places]
        with self.lock:
            self.asked.append(len(taken))
        return taken


def frame_of(X, n_parts=3):
    index = pd.Index(np.arange(len(X)) * 10, name="id")
    return dd.from_pandas(
        pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])], index=index), npartitions=n_parts
    )


def test_building_computes_nothing_and_a_fit_never_sees_all_rows():
    X = np.random.default_rng(0).standard_normal((30_000, 5)) * [5, 4, 1, 1, 1]
    source = CountedRows(X)
    rows = da.from_array(source, chunks=(1000, 5), asarray=False, name=False)
    model = manifoldry.PCA(n_components=2).fit(X[:500])
    source.asked.clear()
    placed = model.transform(rows)
    again = model.inverse_transform(placed)
    assert source.asked == []
    assert (placed.chunks[0], again.chunks[0], again.shape) == (rows.chunks[0], rows.chunks[0], X.shape)
    placed.compute()
    assert sum(source.asked) == len(X)
    source.asked.clear()
    manifoldry.KMeans(n_clusters=3, n_init=1).fit(rows)
    assert max(source.asked) == 1000


@among(EVERY)
def test_the_announced_type_is_that_of_what_is_computed(card):
    X = np.abs(ROLL[:120]).astype(np.float32)
    model = make(card).fit(X)
    for method in ("transform", "inverse_transform", "predict", "predict_proba", "score_samples"):
        if not hasattr(model, method):
            continue
        other = model.embedding_ if method == "inverse_transform" else X.astype(np.float64)
        in_memory = getattr(model, method)(other)
        made = getattr(model, method)(da.from_array(other, chunks=(50, 2)))
        computed = made.compute()
        assert (made.dtype, made.shape) == (computed.dtype, computed.shape)
        if method != "inverse_transform" and not isinstance(model, Clusterer):
            assert method == "score_samples" or computed.dtype == model.embedding_.dtype
        np.testing.assert_allclose(computed, in_memory, rtol=1e-5, atol=1e-5 * np.abs(in_memory).max())


@pytest.mark.parametrize("kind", [np.int16, np.float16, np.float32, bool])
def test_other_numbers_are_those_of_an_array_in_memory(kind):
    X = (10 * ROLL).astype(kind)
    model = manifoldry.PCA(n_components=1).fit(ROLL)
    np.testing.assert_allclose(
        model.transform(da.from_array(X, chunks=(77, 2))).compute(), model.transform(X), rtol=1e-5, atol=1e-4
    )


def test_chunks_of_unknown_size_and_without_rows():
    rows = da.from_array(ROLL, chunks=(100, 2))
    unknown = rows[(da.arange(600, chunks=100) // 100) % 3 != 1]  # nothing is left of two chunks
    known = unknown.compute()
    model = manifoldry.PCA(n_components=2).fit(unknown)
    np.testing.assert_array_equal(model.sampled_rows_, np.arange(len(known)))
    placed = model.transform(unknown)
    assert np.isnan(placed.shape[0])
    np.testing.assert_allclose(placed.compute(), model.transform(known), atol=1e-12)
    empty = unknown.copy().compute_chunk_sizes()
    assert empty.chunks[0] == (100, 0, 100, 100, 0, 100)
    placed = manifoldry.PCA(n_components=2).fit_transform(empty)
    assert placed.chunks[0] == empty.chunks[0]
    np.testing.assert_allclose(placed.compute(), model.transform(known), atol=1e-12)
    none = rows[rows[:, 1] > 1e9]
    assert model.transform(none).compute().shape == (0, 2)
    with pytest.raises(ValueError, match="no rows"):
        model.fit(none)


@pytest.mark.parametrize("kind", [csr_array, csr_matrix])
def test_sparse_chunks_stay_sparse(kind):
    X = np.where(np.random.default_rng(0).random((400, 30)) < 0.1, 1.0, 0.0) * np.arange(1, 31)
    rows = da.from_array(X, chunks=(150, 30)).map_blocks(kind, dtype=float)
    assert issparse(chunked_data(rows).sample(50, np.random.default_rng(0)).rows)
    model = manifoldry.SparseRandomProjection(n_components=3).fit(rows)
    np.testing.assert_allclose(model.transform(rows).compute(), model.transform(X), atol=1e-12)


def test_a_frame_keeps_index_and_divisions():
    frame = frame_of(ROLL)
    model = manifoldry.PCA(n_components=2).fit(frame)
    assert list(model.feature_names_in_) == ["c0", "c1", "c2"]
    placed = model.transform(frame)
    computed = placed.compute()
    assert placed.divisions == frame.divisions
    assert (placed.index.name, computed.index.name) == ("id", "id")
    pd.testing.assert_frame_equal(placed._meta, computed.iloc[:0])
    pd.testing.assert_index_equal(computed.index, frame.compute().index)
    np.testing.assert_allclose(computed.to_numpy(), model.embedding_, atol=1e-12)
    back = model.inverse_transform(placed)
    assert list(back.columns) == ["c0", "c1", "c2"]
    labels = manifoldry.KMeans(n_clusters=3, n_init=1).fit_predict(frame)
    pd.testing.assert_series_equal(labels._meta, labels.compute().iloc[:0])
    with pytest.raises(ValueError, match="not those of the fit"):
        model.transform(frame[["c1", "c0", "c2"]])


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_nullable_columns_of_a_parquet_file(tmp_path, backend):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"a": ROLL[:, 0], "b": np.arange(600), "c": np.arange(600) % 2 == 0})
    for number in range(3):
        table[number * 200 : number * 200 + 200].to_parquet(tmp_path / f"{number}.parquet")
    frame = dd.read_parquet(tmp_path, dtype_backend=backend)
    model = manifoldry.PCA(n_components=2).fit(frame)
    np.testing.assert_allclose(
        np.abs(model.transform(frame).compute()), np.abs(manifoldry.PCA(n_components=2).fit_transform(table)), atol=1e-9
    )
    missing = frame.assign(b=frame.b.where(frame.b != 250))
    with pytest.raises(ValueError, match=r"In the part from index .*Row 50 has NaN"):
        model.transform(missing).compute()
    with pytest.raises(ValueError, match="Row 250 has NaN"):
        model.fit(missing)


def test_rows_that_are_not_finite_are_named():
    X = ROLL.copy()
    X[417, 1] = np.inf
    with pytest.raises(ValueError, match="Row 417 has NaN or infinity; finite"):
        manifoldry.PCA().fit(ROLL).transform(da.from_array(X, chunks=(100, 3))).compute()


def words_of_other_collections():
    text = pd.DataFrame({"a": [1.0, 2.0], "when": pd.to_datetime(["2020", "2021"]), "who": ["x", "y"]})
    rows = da.from_array(ROLL, chunks=100)
    return [
        (dd.from_pandas(text, npartitions=1), r"other columns, 'when' \(datetime64.*'who'"),
        (dd.from_pandas(text.astype({"who": "category"})[["a", "who"]], npartitions=1), r"'who' \(category\)"),
        (dd.from_pandas(text, npartitions=1).a, r"got a Dask Series: pass X.to_frame\(\)"),
        (rows[:, 0], "got a Dask array of shape"),
        (rows[:, :, None], "got a Dask array of shape"),
        (rows.astype(complex), "must hold real numbers"),
        (rows.astype(str), "must hold real numbers"),
        (dask.delayed(ROLL), "got a Dask Delayed"),
        (pytest.importorskip("dask.bag").from_sequence([1, 2]), "got a Dask Bag"),
    ]


@pytest.mark.parametrize("number", range(9))
def test_other_collections_are_errors_before_any_work(number):
    collection, words = words_of_other_collections()[number]
    model = manifoldry.PCA(n_components=2).fit(ROLL)
    for call in (model.fit, model.transform, model.fit_transform, as_chunked):
        with pytest.raises(ValueError, match=words):
            call(collection)


def test_nothing_is_gathered_without_a_word():
    rows = da.from_array(ROLL, chunks=100)
    model = manifoldry.PCA(n_components=2).fit(ROLL)
    for call in (
        model.score,
        manifoldry.IncrementalPCA(n_components=2).partial_fit,
        manifoldry.KNeighborsTransformer().fit,
        lambda X: manifoldry.build_report(X, {"PCA": model.embedding_}),
        manifoldry.MDS(metric="precomputed").fit,
    ):
        with pytest.raises(ValueError, match=r"not in memory|takes rows in memory|all pairs in memory"):
            call(rows)
    np.testing.assert_allclose(model.score_samples(rows).compute(), model.score_samples(ROLL), atol=1e-9)


def test_the_map_is_shipped_once_and_tasks_have_names():
    width = 100_000
    model = manifoldry.PCA(n_components=2).fit(np.random.default_rng(0).standard_normal((20, width)))
    map_alone = len(cloudpickle.dumps(model._strip_for_transform("transform")))
    assert map_alone > 2 * 8 * width

    def graph_of(n_blocks):
        rows = da.zeros((n_blocks * 256, width), chunks=(256, width))
        (placed,) = dask.optimize(model.transform(rows))
        return placed.__dask_graph__()

    few, many = (len(cloudpickle.dumps(dict(graph_of(n)))) for n in (2, 40))
    assert many < few + 0.1 * map_alone
    names = {dask.utils.key_split(key) for key in model.transform(da.zeros((9, width))).__dask_graph__()}
    assert "manifoldry-PCA-transform" in names


def test_targets_are_sampled():
    X, y = ROLL, (ROLL[:, 1] > 10).astype(int)
    rows = da.from_array(X, chunks=100)
    model = manifoldry.UMAP(n_epochs=5).fit(X, y)
    source = CountedRows(np.column_stack([y, y]))
    targets = da.from_array(source, chunks=(100, 2), asarray=False, name=False)[:, 0]
    for given in (targets, y, dd.from_pandas(pd.Series(y), npartitions=4), targets[targets < 2]):
        np.testing.assert_array_equal(manifoldry.UMAP(n_epochs=5).fit(rows, given).embedding_, model.embedding_)
    assert max(source.asked) <= 100
    with pytest.raises(ValueError, match="one entry for each of the 600"):
        manifoldry.UMAP().fit(rows, targets[:-1])


def test_targets_of_a_parquet_file(tmp_path):
    """Dask reads small files as one part where few columns are asked for, so parts of ``y`` are not those of ``X``."""
    pytest.importorskip("pyarrow")
    table = pd.DataFrame(ROLL, columns=list("abc")).assign(kind=np.where(ROLL[:, 1] > 10, "far", "near"))
    for column in range(20):
        table[f"other{column}"] = np.arange(600.0)
    for number in range(6):
        table[number * 100 : number * 100 + 100].to_parquet(tmp_path / f"{number}.parquet")
    frame = dd.read_parquet(tmp_path)
    model = manifoldry.UMAP(n_epochs=5).fit(frame[list("abc")], frame.kind)
    np.testing.assert_array_equal(
        model.embedding_, manifoldry.UMAP(n_epochs=5).fit(table[list("abc")], table.kind).embedding_
    )


@pytest.mark.parametrize("method", ["PCA", "UMAP"])
def test_a_table_as_output_is_refused_before_the_fit(method):
    source = CountedRows(ROLL)
    model = getattr(manifoldry, method)().set_output(transform="pandas")
    with pytest.raises(ValueError, match="would gather all rows"):
        model.fit_transform(da.from_array(source, chunks=(100, 3), asarray=False, name=False))
    assert not any(source.asked)  # Dask asks for no rows, to see their type
