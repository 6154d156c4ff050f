"""Scores of chunked data: the numbers of the same points in memory, whatever the source."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import manifoldry
from manifoldry._core import chunks as rows
from manifoldry._numerics.kernels.rank_counts import count_before
from manifoldry.data._chunked import chunked_data
from manifoldry.evaluation.score import _chunked as block_scoring
from manifoldry.evaluation.score import _score as scoring
from manifoldry.evaluation.score._chunked import zip_chunks
from manifoldry.evaluation.score._table import TABLE

da = pytest.importorskip("dask.array")

LEFT_OUT = {"r_nx_auc", "geodesic_correlation"}
DRAWN_FIGURES = {"spearman", "triplet_accuracy"}
N = 900


@pytest.fixture(autouse=True)
def _several_blocks(monkeypatch):
    monkeypatch.setattr(rows, "MAX_CHUNK_ROWS", 256)


def table(columns, *, grid=False):
    """Rows with a duplicate and, on a grid, many equal distances; their places, which are not those; and labels."""
    rng = np.random.default_rng(columns)
    X = rng.integers(4, size=(N, columns)).astype(float) if grid else rng.normal(size=(N, columns))
    X[700] = X[3]
    Y = np.round(2 * X[:, :2]) if grid else np.tanh(X[:, :2]) + 0.1 * rng.normal(size=(N, 2))
    return X, Y, np.array(["a", "b", "c"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 1)]


def forms(X, Y):
    """The same tables in other forms, cut at other rows."""
    cuts = np.sort(np.random.default_rng(1).choice(len(X), 5, replace=False))
    return {
        "functions": (chunked_data(lambda: iter(np.split(X, cuts))), chunked_data(lambda: iter(np.array_split(Y, 3)))),
        "arrays": (chunked_data(X), Y),
        "dask": (da.from_array(X, chunks=(101, 2)), da.from_array(Y, chunks=(400, 1))),
        "dask and array": (da.from_array(X, chunks=(500, -1)), Y),
    }


def same(found, known, figures, rtol=1e-10):
    for name in figures:
        assert found[name] == pytest.approx(known[name], rel=rtol, abs=rtol, nan_ok=True), name


@pytest.mark.parametrize(
    ("columns", "grid", "sample"),
    [(3, False, 60), (3, True, 60), (40, False, 60)],
    ids=["differences", "ties", "products"],
)
def test_scores_are_those_in_memory(columns, grid, sample):
    X, Y, labels = table(columns, grid=grid)
    known = manifoldry.score(X, Y, labels, sample=sample)
    for form, (X_blocks, Y_blocks) in forms(X, Y).items():
        found = manifoldry.score(X_blocks, Y_blocks, labels, sample=sample)
        assert set(known) - set(found) == LEFT_OUT, form
        same(found, known, found)
        same(found.errors, known.errors, found, 1e-7)
        # Equal distances are equal to rounding only in the components, and their order is by chance.
        same(found.pca, known.pca, found, 0.01 if grid else 1e-7)


def test_scores_of_all_points():
    X, Y, labels = (part[:500] for part in table(3))
    known = manifoldry.score(X, Y, labels)
    found = manifoldry.score(chunked_data(X), Y, labels)
    same(found, known, found)
    assert "all compared" in found.heading
    assert not any(found.errors[name] for name in set(found) - DRAWN_FIGURES)


def test_all_ranks_are_exact_with_ties():
    X, Y, _ = table(3, grid=True)
    names = ["trustworthiness", "continuity", "knn_kept", "mrre_x", "mrre_y"]
    known = manifoldry.score(X, Y, sample=200, figures=names)
    found = manifoldry.score(chunked_data(X), chunked_data(Y), sample=200, figures=names)
    assert dict(found) == dict(known)


def test_scores_of_a_sample_are_those_of_these_points_in_memory(monkeypatch):
    monkeypatch.setattr(block_scoring, "N_DRAWN_ROWS", 200)
    seen = []
    score = block_scoring.ChunkedScore.score
    monkeypatch.setattr(block_scoring.ChunkedScore, "score", lambda self: seen.append(self) or score(self))
    X, Y, labels = table(3)
    found = {form: manifoldry.score(*pair, labels, sample=70) for form, pair in forms(X, Y).items()}
    first = found["functions"]
    for other in found.values():
        assert dict(other) == dict(first)  # to the last bit
        assert (other.pca, other.errors, other.heading) == (first.pca, first.errors, first.heading)
    assert "900 points in 2 dimensions, 15 neighbors; 70 drawn and compared with all" in first.heading
    assert "PCA is fitted to 200 rows; r_nx_auc and geodesic_correlation need all rows" in first.heading
    chosen = seen[0].task.rows
    assert len(chosen) == 70
    monkeypatch.setattr(scoring, "sample_rows", lambda n, size, _: chosen if n == N else np.arange(size))
    known = manifoldry.score(X, Y, labels, sample=70)
    same(first, known, set(first) - DRAWN_FIGURES)
    for name in DRAWN_FIGURES:  # other pairs are drawn, from 200 rows
        assert abs(first[name] - known[name]) < 6 * known.errors[name]
    # The axes of PCA are those of 200 rows of three independent columns: the figures are about the same.
    assert first.pca["trustworthiness"] == pytest.approx(known.pca["trustworthiness"], abs=0.1)


def test_other_metrics_and_sparse_rows():
    X, Y, _ = table(3)
    known = manifoldry.score(X, Y, metric="manhattan", sample=50)
    same(manifoldry.score(chunked_data(X), Y, metric="manhattan", sample=50), known, set(known) - LEFT_OUT)
    sparse = csr_array(np.where(np.abs(X) > 1, X, 0.0))
    names = ["trustworthiness", "continuity", "pearson", "distance_deviation"]
    known = manifoldry.score(sparse, Y, sample=50, figures=names)
    same(manifoldry.score(chunked_data(sparse), Y, sample=50, figures=names), known, names)


def test_an_embedding_computed_when_it_is_read():
    X, _, _ = table(3)
    model = manifoldry.PCA(n_components=2).fit(X)
    known = manifoldry.score(X, model.transform(X), sample=50)
    for blocks in (chunked_data(X), da.from_array(X, chunks=(200, 3))):
        same(manifoldry.score(blocks, model.transform(blocks), sample=50), known, set(known) - LEFT_OUT, 1e-7)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sample": None}, "sample=None compares all 900 rows with all"),
        ({"truth": np.zeros((N, 2))}, "truth is compared with all rows in memory"),
        ({"metric": "precomputed"}, "metric='precomputed' needs more than individual rows"),
        ({"labels": [None] + ["a", "b"] * 449 + ["a"]}, "needs a label; 1 of 900 have none"),
        ({"labels": da.zeros(N)}, r"got a Dask Array: pass labels.compute\(\)"),
        ({"labels": ["a", "b"]}, "at least two classes"),
        ({"figures": ["r_nx_auc"]}, "'r_nx_auc' needs all rows in memory"),
        ({"figures": ["silhouette"]}, "'silhouette' needs labels"),
        ({"n_neighbors": 450}, "below n / 2"),
    ],
)
def test_what_chunks_do_not_define_is_an_error(monkeypatch, settings, words):
    monkeypatch.setattr(block_scoring, "N_DRAWN_ROWS", 100)
    X, Y, _ = table(3)
    with pytest.raises(ValueError, match=words):
        manifoldry.score(chunked_data(X), Y, **settings)


def test_tables_that_do_not_go_together_are_refused():
    X, Y, _ = table(3)
    once = iter(np.array_split(X, 3))
    with pytest.raises(ValueError, match="reads all rows three times"):
        manifoldry.score(once, Y)
    assert len(next(once)) == 300  # only the first block was looked at
    with pytest.raises(ValueError, match="one has 600, another at least 900"):
        manifoldry.score(chunked_data(X), Y[:600])
    short = chunked_data(lambda: iter([Y[:600]]))
    with pytest.raises(ValueError, match="one has 600, another at least"):
        list(zip_chunks(chunked_data(X), short))
    with pytest.raises(ValueError, match="cannot be read side by side"):
        manifoldry.score(da.from_array(X), chunked_data(lambda: iter([Y])))


def test_counts_of_rows_before_places_with_ties():
    rng = np.random.default_rng(0)
    distances, numbers = rng.integers(5, size=(4, 50)).astype(float), np.sort(rng.integers(200, size=(4, 6)), axis=1)
    values = np.sort(rng.integers(5, size=(4, 6)), axis=1).astype(float)
    counts = np.zeros((4, 6), dtype=np.int64)
    count_before(distances, 100, values, numbers, counts)
    for i in range(4):
        places = list(zip(values[i], numbers[i], strict=True))
        before = [sum((d, 100 + j) < place for j, d in enumerate(distances[i])) for place in places]
        assert counts[i].cumsum().tolist() == before


def test_the_figures_left_out_are_known():
    assert set(TABLE) >= LEFT_OUT
    assert block_scoring.WHOLE_METRICS >= LEFT_OUT
