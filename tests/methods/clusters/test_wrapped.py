"""K-means and affinity propagation behind the same interface."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from manifoldry import AffinityPropagation, KMeans


def blobs(seed=0, n=25):
    rng = np.random.default_rng(seed)
    centers = np.array([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]])
    truth = np.repeat(np.arange(4), n)
    return centers[truth] + rng.uniform(-1, 1, (4 * n, 3)), truth


def test_k_means_finds_blobs_and_its_objective_is_the_scatter_about_the_means():
    X, truth = blobs()
    model = KMeans(n_clusters=4).fit(X)
    assert len(np.unique(np.column_stack([truth, model.labels_]), axis=0)) == 4
    scatter = sum(np.square(X[truth == label] - X[truth == label].mean(axis=0)).sum() for label in range(4))
    assert model.objective_ == pytest.approx(scatter, rel=1e-12)
    assert model.objectives_.shape == (10,)
    assert model.localized_.all()
    assert model.n_iter_ >= 1


def test_k_means_labels_are_the_nearest_centers_far_from_the_origin():
    X, truth = blobs(seed=1)
    near, far = KMeans(n_clusters=4).fit(X), KMeans(n_clusters=4).fit(X + 1e6)
    for model in (near, far):
        assert len(np.unique(np.column_stack([truth, model.labels_]), axis=0)) == 4
    assert np.array_equal(far.predict(X + 1e6), far.labels_)


def test_exemplars_are_the_best_members_and_their_own_clusters():
    X, truth = blobs(seed=2)
    model = AffinityPropagation(preference=-200.0).fit(X)
    assert len(np.unique(np.column_stack([truth, model.labels_]), axis=0)) == 4
    assert np.array_equal(model.labels_[model.medoids_], np.arange(4))
    squares = np.square(X[:, None] - X).sum(axis=-1)
    for label, medoid in enumerate(model.medoids_):
        members = np.flatnonzero(model.labels_ == label)
        assert medoid == members[np.argmin(squares[np.ix_(members, members)].sum(axis=1))]
    within = squares[np.arange(100), model.medoids_[model.labels_]].sum()
    assert model.objective_ == pytest.approx(within + 4 * 200.0, rel=1e-12)


def test_the_default_preference_is_the_median_similarity():
    X, _ = blobs(seed=3)
    model = AffinityPropagation().fit(X)
    median = -np.median(np.square(X[:, None] - X).sum(axis=-1))
    assert model.diagnostics_["preference"] == pytest.approx(median, rel=1e-12)
    assert model.diagnostics_["converged"] is True
    assert AffinityPropagation(preference=10 * median).fit(X).n_clusters_ <= model.n_clusters_


def test_messages_that_find_no_exemplar_leave_one_cluster_and_a_warning():
    X, _ = blobs(seed=4)
    with pytest.warns(ConvergenceWarning):
        model = AffinityPropagation(max_iter=1, preference=-1e6).fit(X)
    assert model.diagnostics_["converged"] is False
    assert model.n_clusters_ == 1
    squares = np.square(X[:, None] - X).sum(axis=-1)
    assert model.medoids_ == [np.argmin(squares.sum(axis=1))]


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"damping": 1.0}, "damping must be below 1"),
        ({"damping": 0.2}, "damping must be a number between 0.5 and 1; got 0.2"),
        ({"max_iter": 0}, "max_iter must be an integer of at least 1; got 0"),
        ({"convergence_iter": 0}, "convergence_iter must be an integer of at least 1; got 0"),
        ({"preference": "median"}, "preference must be a number or None; got 'median'"),
    ],
    ids=str,
)
def test_bad_words_are_refused(settings, match):
    with pytest.raises(ValueError, match=match):
        AffinityPropagation(**settings).fit(blobs()[0])
