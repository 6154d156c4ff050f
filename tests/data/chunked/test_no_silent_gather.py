"""Every public function that takes a table: chunked data are sampled, which is said, or refused; never gathered."""

import inspect

import numpy as np
import pytest

import manifoldry
from manifoldry import dimension, metrics, plot
from manifoldry.data import _chunked as opening
from manifoldry.data._chunked import chunked_data

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

N = 400
TABLES = {"X", "Y", "Y1", "Y2", "D", "graph", "classes", "truth"}
OTHERS = {"labels": np.arange(N) % 2, "kind": "gaussian", "n_components": 2, "rng": None}
SAMPLED = {"dimension.consensus", "metrics.score"}
"""Functions of these modules that take chunked data."""


@pytest.fixture(name="X", scope="module")
def rows():
    places = np.random.default_rng(0).uniform(size=(N, 2))
    return np.column_stack([places, (places**2).sum(axis=1), 0.01 * places[:, 0] ** 3])


def unread(chunk):
    if chunk.size:
        raise AssertionError("A chunk was computed.")
    return chunk


def unread_blocks():
    yield np.ones((2, 4))  # looked at when the blocks are opened
    raise AssertionError("All blocks were read.")


def unread_forms(X):
    """Tables that cannot be computed or read without an AssertionError."""
    array = da.from_array(X, chunks=(100, 4)).map_blocks(unread, dtype=float, meta=np.empty((0, 0)))
    return {
        "array": array,
        "frame": dd.from_dask_array(array, columns=list("abcd")),
        "blocks": chunked_data(unread_blocks),
    }


def calls():
    """Every function that takes a table, by name, called with one; found by the names of the arguments."""
    found = {}
    for module in (dimension, metrics, plot):
        for name in module.__all__:
            function, full = getattr(module, name), f"{module.__name__.split('.')[-1]}.{name}"
            if not inspect.isfunction(function) or full in SAMPLED:
                continue
            needed = [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]
            if TABLES.intersection(needed):
                found[full] = (function, needed)
    return found


CALLS = calls()


def test_the_functions_are_found():
    assert len(CALLS) >= 40
    assert {"plot.scatter", "metrics.trustworthiness", "dimension.local", "metrics.purity"} <= set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_tables_that_are_not_in_memory_are_refused(name, X):
    function, needed = CALLS[name]
    model = manifoldry.PCA(n_components=2)
    known = {**OTHERS, "model": model, "estimator": model, "embeddings": X[:, :2]}
    for form in ("array", "frame", "blocks"):
        table = unread_forms(X)[form]
        given = [table if word in TABLES else known[word] for word in needed]
        with pytest.raises(ValueError, match="is not in memory, and is not gathered silently"):
            function(*given)


@pytest.mark.parametrize("form", ["array", "frame", "blocks"])
@pytest.mark.parametrize(
    "call",
    [
        lambda table, X: metrics.trustworthiness(X, table),
        lambda table, X: metrics.score(X, X[:, :2], labels=table),
        lambda table, X: metrics.neighborhood_hit(X, table),
        lambda table, X: plot.scatter(X, color=table),
        lambda table, X: plot.scatter(X, labels=table),
        lambda table, X: manifoldry.build_report(table, {"PCA": X[:, :2]}),
        lambda table, X: manifoldry.build_report(X, {"PCA": table}),
        lambda table, X: manifoldry.build_report(X, {"PCA": X[:, :2]}, label=table),
        lambda table, _: manifoldry.KNeighborsTransformer(n_neighbors=3).fit(table),
        lambda table, X: manifoldry.KNeighborsTransformer(n_neighbors=3).fit(X).transform(table),
        lambda table, _: manifoldry.align_patches([(np.arange(N), table)]),
    ],
)
def test_other_arguments_are_refused(call, form, X):
    with pytest.raises(ValueError, match="is not in memory, and is not gathered silently"):
        call(unread_forms(X)[form], X)


def test_iterators_are_refused_in_words(X):
    for call in (dimension.two_nn, manifoldry.KNeighborsTransformer(n_neighbors=3).fit):
        with pytest.raises(ValueError, match="got a list_iterator, which is read only once"):
            call(iter([X]))


def test_lazy_frames_of_other_libraries_are_refused(X):
    polars = pytest.importorskip("polars")
    lazy = polars.LazyFrame({name: column for name, column in zip("abcd", X.T, strict=True)})
    for call in (manifoldry.diagnose, manifoldry.suggest_neighbors, manifoldry.Isomap().fit):
        with pytest.raises(ValueError, match=r"pass X.collect\(\)"):
            call(lazy)


def test_functions_that_sample_anyway_say_so(X, monkeypatch):
    monkeypatch.setattr(opening, "MAX_SAMPLED_ENTRIES", 4 * 250)
    monkeypatch.setattr(opening, "MIN_SAMPLED_ROWS", 250)
    collection = dd.from_dask_array(da.from_array(X, chunks=(100, 4)), columns=["left", "right", "up", "down"])
    texts = []
    for table in (chunked_data(lambda: iter(np.array_split(X, 3))), collection):
        said = [
            str(manifoldry.diagnose(table)),
            str(dimension.consensus(table)),
            repr(manifoldry.suggest_n_components(table)),
            repr(manifoldry.suggest_neighbors(table)),
        ]
        assert all("sample of 250 of 400 rows" in " ".join(text.split()) for text in said)
        texts.append(said)
    assert texts[0][1:] == texts[1][1:]  # a diagnosis calls columns by their names


def test_a_comparison_is_of_a_sample(X, monkeypatch):
    monkeypatch.setattr(opening, "MAX_SAMPLED_ENTRIES", 4 * 250)
    monkeypatch.setattr(opening, "MIN_SAMPLED_ROWS", 250)
    labels = (X[:, 0] > 0.5).astype(int)
    found = manifoldry.compare(chunked_data(X), "see clusters", None, methods=["PCA"], labels=labels)
    assert len(found.rows) == len(found.best.embedding) == 250
    assert "250 points (a sample of 400)" in str(found)
    known = manifoldry.compare(X[found.rows], "see clusters", None, methods=["PCA"], labels=labels[found.rows])
    np.testing.assert_array_equal(found.best.embedding, known.best.embedding)
    with pytest.raises(ValueError, match="labels must have one entry for each of the 400 rows"):
        manifoldry.compare(chunked_data(X), "see clusters", None, labels=labels[:5])


@pytest.mark.parametrize("call", [manifoldry.diagnose, manifoldry.suggest_neighbors, manifoldry.compare])
def test_distances_in_blocks_are_refused(call):
    with pytest.raises(ValueError, match="needs all pairs in memory"):
        call(da.zeros((10, 10)), metric="precomputed")


def test_an_estimator_is_diagnosed_by_rows_in_memory(X):
    model = manifoldry.PCA(n_components=2).fit(X)
    with pytest.raises(ValueError, match="needs the rows of its embedding_ in memory"):
        manifoldry.diagnose(model, unread_forms(X)["array"])


def test_targets_of_a_collection_are_those_of_an_array(X, monkeypatch):
    monkeypatch.setattr(manifoldry.UMAP, "_sample_size", lambda _: 100)
    labels = da.from_array((X[:, 0] > 0.5).astype(int), chunks=50)
    model = manifoldry.UMAP(n_epochs=2, random_state=0).fit(chunked_data(X), labels)
    again = manifoldry.UMAP(n_epochs=2, random_state=0).fit(chunked_data(X), np.asarray(labels))
    assert len(model.embedding_) == 100
    np.testing.assert_array_equal(model.embedding_, again.embedding_)
