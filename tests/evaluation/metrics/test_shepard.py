"""Shepard's diagram and the geodesic correlation against scipy and paths found one by one."""

import heapq

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import pearsonr, spearmanr

from helpers import distances_by_differences
from manifoldry import metrics
from manifoldry.evaluation._metrics import _shepard as module
from manifoldry.graph._pairwise import sample_rows

ROUNDING = 1e-11  # correlations from centered sums of at most 20,000 terms; scipy takes the same sums in another order


def folded(seed, n=60, d=4):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, X[:, :2] ** 2


def lattice(seed):
    X = np.random.default_rng(seed).integers(0, 4, size=(50, 2)).astype(float)
    return X, X**2


def strip(n=400, seed=0):
    """A strip rolled up to three quarters of a circle, and its flat coordinates."""
    rng = np.random.default_rng(seed)
    t, h = rng.uniform(0, 1.5 * np.pi, n), rng.uniform(0, 1, n)
    return np.column_stack([np.cos(t), np.sin(t), h]), np.column_stack([t, h])


@pytest.mark.parametrize("data", [folded, lattice])
def test_all_pairs_and_their_correlations(data):
    X, Y = data(1)
    D, E = distances_by_differences(X), distances_by_differences(Y)
    upper = np.triu_indices(len(X), 1)
    found = metrics.shepard_diagram(X, Y)
    assert set(zip(found.rows.tolist(), found.columns.tolist(), strict=True)) == set(
        zip(*(side.tolist() for side in upper), strict=True)
    )
    np.testing.assert_allclose(found.before, D[found.rows, found.columns], rtol=1e-14)
    np.testing.assert_allclose(found.after, E[found.rows, found.columns], rtol=1e-14)
    assert (np.diff(found.before) >= 0).all()
    assert found.pearson == pytest.approx(pearsonr(D[upper], E[upper]).statistic, abs=ROUNDING)
    assert found.spearman == pytest.approx(spearmanr(D[upper], E[upper]).statistic, abs=ROUNDING)
    assert found.nonmetric_stress_1 == metrics.nonmetric_stress_1(X, Y)
    assert 1 - found.pearson**2 == pytest.approx(metrics.residual_variance(D, Y), abs=ROUNDING)


def test_the_line_is_the_monotone_one_closest_to_the_points():
    """Optimality of a least-squares projection on the cone of monotone lists: residuals are orthogonal to the fit,
    and no sum of residuals from the end is positive.
    """
    X, Y = folded(2)
    found = metrics.shepard_diagram(X, Y)
    rest = found.after - found.fitted
    assert (np.diff(found.fitted) >= 0).all()
    scale = np.sum(found.after**2)
    assert abs(rest @ found.fitted) < 1e-12 * scale
    assert abs(rest.sum()) < 1e-12 * scale
    assert np.cumsum(rest[::-1]).max() < 1e-12 * scale
    assert found.nonmetric_stress_1 == pytest.approx(np.sqrt(rest @ rest / scale), rel=1e-12)


def test_a_perfect_embedding_and_a_mirrored_one():
    X, _ = folded(3)
    found = metrics.shepard_diagram(X, -2.0 * X[:, ::-1])
    assert found.pearson == pytest.approx(1.0, abs=ROUNDING)
    assert found.spearman == pytest.approx(1.0, abs=ROUNDING)
    np.testing.assert_allclose(found.fitted, found.after, rtol=1e-12)
    assert repr(found).startswith("Shepard(1,770 pairs: pearson=1.0000, spearman=1.0000")


def test_independent_points_are_uncorrelated():
    rng = np.random.default_rng(4)
    found = [metrics.shepard_diagram(rng.normal(size=(60, 3)), rng.normal(size=(60, 2))).spearman for _ in range(40)]
    assert abs(np.mean(found)) < 4 * np.std(found) / np.sqrt(40)


def test_a_sample_of_pairs_is_unbiased():
    X, Y = folded(5, n=80)
    whole = metrics.shepard_diagram(X, Y)
    means = []
    for seed in range(150):
        some = metrics.shepard_diagram(X, Y, n_pairs=400, random_state=seed)
        assert len(some.before) == 400
        assert (some.rows != some.columns).all()
        means.append(some.after.mean())
    assert abs(np.mean(means) - whole.after.mean()) < 4 * np.std(means) / np.sqrt(150)
    again = metrics.shepard_diagram(X, Y, n_pairs=400, random_state=3, n_jobs=1)
    np.testing.assert_array_equal(
        again.after, metrics.shepard_diagram(X, Y, n_pairs=400, random_state=3, n_jobs=2).after
    )


def test_pairs_of_many_points_are_those_of_some(monkeypatch):
    monkeypatch.setattr(module, "N_SHEPARD_POINTS", 20)
    X, Y = folded(6, n=80)
    found = metrics.shepard_diagram(X, Y, n_pairs=100)
    rows, counts = np.unique(found.rows, return_counts=True)
    assert len(rows) == 20
    assert set(counts) == {5}
    assert len(set(zip(found.rows.tolist(), found.columns.tolist(), strict=True))) == 100


def slow_geodesics(X, k):
    """Dijkstra from every point along the undirected graph of the k nearest."""
    D = distances_by_differences(X)
    n = len(X)
    near = [set() for _ in range(n)]
    for i in range(n):
        for j in sorted((j for j in range(n) if j != i), key=lambda j: (D[i, j], j))[:k]:
            near[i].add(j)
            near[j].add(i)
    lengths = np.full((n, n), np.inf)
    for source in range(n):
        queue = [(0.0, source)]
        while queue:
            length, i = heapq.heappop(queue)
            if length < lengths[source, i]:
                lengths[source, i] = length
                for j in near[i]:
                    heapq.heappush(queue, (length + D[i, j], j))
    return lengths


def geodesic_correlation(X, Y, **options):
    found = metrics.score(X, Y, figures=["geodesic_correlation"], **options)
    return found["geodesic_correlation"], found.errors["geodesic_correlation"]


@pytest.mark.parametrize("sample", [None, 12])
def test_geodesic_correlation_is_that_of_the_shortest_paths(sample):
    X, flat = strip(n=90)
    found, error = geodesic_correlation(X, flat[:, ::-1] ** 2, n_neighbors=6, sample=sample)
    G, E = slow_geodesics(X, 6), distances_by_differences(flat[:, ::-1] ** 2)
    rows = np.arange(90) if sample is None else sample_rows(90, sample, 0)
    pairs = [(i, j) for i in rows for j in range(90) if i != j]
    lengths, distances = (np.array([matrix[i, j] for i, j in pairs]) for matrix in (G, E))
    assert np.isfinite(lengths).all()
    assert found == pytest.approx(pearsonr(lengths, distances).statistic, abs=ROUNDING)
    assert (error == 0.0) == (sample is None)


def test_unfolding_is_better_than_keeping_the_distances_in_space():
    X, flat = strip()
    assert geodesic_correlation(X, flat)[0] > 0.999
    assert geodesic_correlation(X, X)[0] < 0.95
    assert metrics.shepard_diagram(X, flat).pearson < metrics.shepard_diagram(X, X).pearson


def test_components_are_evaluated_one_by_one():
    """Two strips far apart: wherever the embedding puts the second one, the correlation is the same."""
    X, flat = strip(n=100)
    two = np.vstack([X, X + 50.0])
    near, far = (np.vstack([flat, flat + shift]) for shift in (0.0, 1000.0))
    found = [geodesic_correlation(two, Y, n_neighbors=8)[0] for Y in (near, far)]
    assert found[0] == pytest.approx(found[1], abs=1e-9)
    assert found[0] > 0.99


def test_the_error_over_sources_is_true():
    X, flat = strip(n=120)
    Y = flat**2
    values, errors = np.array([geodesic_correlation(X, Y, sample=30, random_state=seed) for seed in range(120)]).T
    # The spread of 120 values is known to 1 / sqrt(240) = 6%.
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(values), rel=0.25)
    whole = geodesic_correlation(X, Y)[0]
    # The bias of a correlation of m rows is of order 1 / m, below its error over the root of m.
    assert abs(np.mean(values) - whole) < 4 * np.std(values) / np.sqrt(120) + np.std(values) / np.sqrt(30)


def test_geodesics_of_sparse_rows_and_of_distances():
    X, flat = strip(n=80)
    plain = geodesic_correlation(X, flat, n_neighbors=7)[0]
    D = distances_by_differences(X)
    for found in (
        geodesic_correlation(csr_array(X), flat, n_neighbors=7),
        geodesic_correlation(D, flat, n_neighbors=7, metric="precomputed"),
        geodesic_correlation(1e9 * X, 1e-9 * flat, n_neighbors=7),
    ):
        assert found[0] == pytest.approx(plain, abs=1e-9)


def test_a_collapsed_embedding_is_correlated_with_nothing():
    X, _ = folded(7)
    flat = np.full((len(X), 2), 0.3)
    found = metrics.shepard_diagram(X, flat)
    assert (found.pearson, found.spearman, found.nonmetric_stress_1) == (0.0, 0.0, 1.0)
    assert geodesic_correlation(X, flat, n_neighbors=5)[0] == 0.0


def test_bad_input_is_refused_in_a_sentence():
    X, Y = folded(8, n=20)
    with pytest.raises(ValueError, match=r"n_pairs must be at least 3; got 2"):
        metrics.shepard_diagram(X, Y, n_pairs=2)
    with pytest.raises(ValueError, match=r"distances in X are all equal"):
        metrics.shepard_diagram(np.eye(40)[:20], Y)
