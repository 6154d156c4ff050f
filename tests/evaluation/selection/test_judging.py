"""The figures that decide, against their definitions; rows left out; dense groups."""

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.stats import spearmanr
from sklearn.metrics import pairwise_distances

import manifoldry
from helpers import bent_sheet, knn_graph, knn_lists
from manifoldry import metrics
from manifoldry._core.run import Run
from manifoldry._numerics.ranks import rank_measures
from manifoldry.data.datasets import swiss_roll
from manifoldry.evaluation.selection._evaluate import (
    LayoutEvaluator,
    accuracies,
    density_peaks,
    folds,
    n_dense_groups,
    reconstruction,
)

LABELS = np.arange(120) % 3


def evaluator(X, k=8, labels=None):
    return LayoutEvaluator(X, "euclidean", k, labels, Run(0, 1))


def test_figures_are_those_of_quality():
    X = bent_sheet(120)
    Y = manifoldry.PCA(n_components=2).fit_transform(X)
    found = evaluator(X, labels=LABELS).metrics(Y)
    assert found["knn_kept"] == rank_measures(X, Y, n_neighbors=12).knn_kept
    assert found["trustworthiness"] == metrics.trustworthiness(X, Y, n_neighbors=12)
    assert found["r_nx_auc"] == pytest.approx(metrics.r_nx_auc(X, Y), abs=1e-12)
    near = np.argsort(pairwise_distances(Y) + np.diag(np.full(120, np.inf)), axis=1, kind="stable")[:, :12]
    assert found["neighborhood_hit"] == pytest.approx(np.mean(LABELS[near] == LABELS[:, None]), abs=1e-12)


def test_distances_near_and_far_by_definition():
    X = bent_sheet(120)
    Y = 3.0 * manifoldry.PCA(n_components=2).fit_transform(X)
    judged = evaluator(X)
    found = judged.metrics(Y)
    straight, flat = pairwise_distances(X), pairwise_distances(Y)
    order = np.argsort(straight + np.diag(np.full(120, np.inf)), axis=1, kind="stable")
    near = np.take_along_axis(flat, order[:, :12], 1) / np.take_along_axis(straight, order[:, :12], 1)
    paths, s = dijkstra(knn_graph(X, 8).to_sparse()), judged.sources
    beyond = np.take_along_axis(paths[s], order[s, 8:32], 1) / np.take_along_axis(straight[s], order[s, 8:32], 1)
    far = [flat[i, j] / paths[i, j] * np.median(beyond) for i in s for j in range(120) if j != i]
    scale = np.sqrt(np.median(near) * np.median(far))
    assert found["near_deviation"] == pytest.approx(np.median(np.abs(near / scale - 1)), abs=1e-9)
    assert found["far_deviation"] == pytest.approx(np.median(np.abs(np.array(far) / scale - 1)), abs=1e-9)
    assert found["scale"] == pytest.approx(np.median(near), rel=1e-9)
    assert judged.metrics(5.0 * Y)["worse_deviation"] == pytest.approx(found["worse_deviation"], abs=1e-9)


def test_the_truth_of_a_roll_keeps_distances_and_its_projection_does_not():
    roll = swiss_roll(600)
    judged = evaluator(roll.X)
    true, projected = (judged.metrics(Y) for Y in (roll.truth, roll.X[:, [0, 2]]))
    # Paths of a graph of 600 points zigzag by a few hundredths, more in some places than in others.
    assert true["worse_deviation"] < 0.04
    assert true["near_deviation"] < 0.01
    assert projected["worse_deviation"] > 0.3


def test_the_order_along_a_line():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 3, 120))
    X = np.column_stack([np.cos(t), np.sin(t)])
    judged = evaluator(X, labels=t)
    assert judged.metrics(t[:, None])["order_kept"] > 0.999
    assert judged.metrics(-t[:, None])["label_order"] == pytest.approx(1.0, abs=1e-12)
    shuffled = rng.permutation(t)
    found = judged.metrics(shuffled[:, None])
    assert found["label_order"] == pytest.approx(abs(spearmanr(shuffled, t).statistic), abs=1e-12)
    assert found["order_kept"] < 0.3


def test_a_layout_of_one_place_has_no_distances():
    found = evaluator(bent_sheet(60)).metrics(np.zeros((60, 2)))
    assert found["worse_deviation"] == 1.0


def test_pieces_of_the_graph_are_joined():
    X = np.concatenate([bent_sheet(60), bent_sheet(60) + 50.0])
    judged = evaluator(X, k=5)
    assert len(judged.bridges) == 1
    assert np.isfinite(judged.far).all()


def test_rows_left_out_are_in_no_fit():
    parts = folds(40, np.arange(40) % 2, 0)
    assert sorted(np.concatenate([left for _, left in parts])) == list(range(40))
    for fit, left in parts:
        assert not set(fit) & set(left)
        assert set(np.arange(40)[left] % 2) == {0, 1}


def test_reconstruction_of_principal_components_by_definition():
    X = bent_sheet(90)
    parts = folds(90, None, 0)
    missing = total = 0.0
    for fit, left in parts:
        center = X[fit].mean(axis=0)
        _, _, directions = np.linalg.svd(X[fit] - center, full_matrices=False)
        away = X[left] - center
        missing += np.sum((away - away @ directions[:1].T @ directions[:1]) ** 2)
        total += np.sum(away**2)
    found = reconstruction(manifoldry.PCA(n_components=1), X, parts)
    assert found["reconstruction_error"] == pytest.approx(missing / total, rel=1e-9)


def test_a_classifier_of_new_points():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 40)
    X = rng.standard_normal((80, 5)) + 20.0 * labels[:, None]
    assert accuracies(manifoldry.PCA(n_components=1), X, labels, folds(80, labels, 0))["accuracy"] == 1.0
    assert accuracies(None, X, labels, folds(80, labels, 0))["accuracy"] == 1.0
    noise = accuracies(None, rng.standard_normal((80, 2)), labels, folds(80, labels, 0))
    # 80 fair guesses are right in 40 +- 4.5; four standard deviations.
    assert noise["accuracy"] < 0.73


def depths_by_definition(lists, dimension):
    """Depths of all groups, from components of the denser points alone, recomputed for every point."""
    n = lists.n_points
    near = lists.indices.reshape(n, -1)
    rough = -dimension * np.log(lists.lengths.reshape(n, -1)[:, -1])
    density = np.array([np.mean([rough[i], *rough[near[i]]]) for i in range(n)])
    adjacent = np.zeros((n, n), dtype=bool)
    adjacent[np.repeat(np.arange(n), near.shape[1]), near.ravel()] = True
    adjacent |= adjacent.T
    order, depths = np.argsort(-density, kind="stable"), []
    for step, i in enumerate(order):
        above = order[:step]
        _, group = connected_components(adjacent[np.ix_(above, above)])
        tops = [density[above[group == g]].max() for g in set(group[adjacent[i, above]])]
        depths += [top - density[i] for top in sorted(tops)[:-1]]
    return sorted(depths, reverse=True)


def test_depths_of_valleys_by_definition():
    X = np.random.default_rng(3).uniform(size=(150, 2))
    lists = knn_lists(X, 5)
    expected = depths_by_definition(lists, 2.0)
    assert len(expected) > 3
    depths, _ = density_peaks(lists, 2.0)
    np.testing.assert_allclose(depths[np.isfinite(depths)], expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_points_without_groups_have_none_and_clusters_are_counted(seed):
    rng = np.random.default_rng(seed)
    centers = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    clusters = rng.standard_normal((600, 2)) + centers[np.arange(600) % 3]
    assert n_dense_groups(knn_lists(clusters, 15), 2.0) == 3
    for X, d in ((rng.uniform(size=(600, 2)), 2.0), (rng.standard_normal((600, 10)), 9.0), (swiss_roll(600).X, 2.0)):
        assert n_dense_groups(knn_lists(X, 15), d) == 1
    line = np.column_stack([rng.uniform(size=2000), np.zeros(2000)])
    assert n_dense_groups(knn_lists(line, 15), 1.0) == 1


def test_pieces_of_the_graph_are_groups():
    X = np.concatenate([bent_sheet(60), bent_sheet(60) + 50.0])
    assert n_dense_groups(knn_lists(X, 10), 2.0) == 2
