"""SNE, symmetric SNE and t-SNE: what must be true of their layouts, and of the points that join them."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.neighbors import kneighbors_graph

from manifoldry import SNE, TSNE, UMAP, NeighborGraph, Stop, SymmetricSNE, datasets, metrics
from manifoldry._core.run import Run
from manifoldry._numerics.descent import divergence
from manifoldry._numerics.geometry.neighbor_affinity import perplexity_probabilities
from manifoldry.graph._search import NeighborRule, neighbor_graph

ALL = pytest.mark.parametrize("method", [SNE, SymmetricSNE, TSNE])


def blobs(n=90, classes=3, gap=8.0, seed=0):
    """Unit Gaussians in ten dimensions, their centers ``gap`` along the axes."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    return gap * np.eye(10)[labels] + rng.standard_normal((n, 10)), labels


def first_neighbor_right(Y, labels):
    D = cdist(Y, Y)
    np.fill_diagonal(D, np.inf)
    return np.mean(labels[D.argmin(axis=1)] == labels)


@ALL
def test_separated_clusters_stay_separated(method):
    X, labels = blobs()
    model = method(perplexity=20).fit(X)
    assert first_neighbor_right(model.embedding_, labels) == 1.0
    assert model.kl_divergence_ < model.trace_.objective[0]
    np.testing.assert_allclose(model.embedding_.mean(axis=0), 0.0, atol=1e-10)


@ALL
def test_the_divergence_is_that_of_the_layout_from_the_affinities(method):
    X, _ = blobs()
    model = method(perplexity=20).fit(X)
    Y = model.embedding_
    s = cdist(Y, Y, "sqeuclidean")
    w = 1 / (1 + s) if method is TSNE else np.exp(-s)
    np.fill_diagonal(w, 0.0)
    if method is SNE:
        graph, _ = neighbor_graph(X, NeighborRule(60).resolve(90), Run(0))
        P, Q = (
            perplexity_probabilities(graph, [20.0], Run(0)).matrix.toarray() / 90,
            w / w.sum(axis=1, keepdims=True) / 90,
        )
    else:
        P, Q = model.affinity_matrix_.toarray(), w / w.sum()
    on = P > 0
    assert model.kl_divergence_ == pytest.approx((P[on] * np.log(P[on] / Q[on])).sum(), rel=1e-10)
    assert model.diagnostics_["kl_divergence"] == "exact"


@ALL
def test_attraction_and_repulsion_balance_in_the_end(method):
    X, _ = blobs()
    model = method(perplexity=20, tol=0.0, max_iter=2000).fit(X)
    Y, P = model.embedding_, model.affinity_matrix_.toarray()
    s = cdist(Y, Y, "sqeuclidean")
    w = 1 / (1 + s) if method is TSNE else np.exp(-s)
    np.fill_diagonal(w, 0.0)
    pull = w if method is TSNE else np.ones_like(w)
    if method is SNE:
        rows = w / w.sum(axis=1, keepdims=True) / 180
        Q = rows + rows.T
    else:
        Q = w / w.sum()
    step = Y[:, None] - Y[None]
    left = np.einsum("ij,ijc->ic", (P - Q) * pull, step)
    attraction = np.einsum("ij,ijc->ic", P * pull, step)
    # At the start nothing balances; what is left are clusters that still drift apart.
    assert np.linalg.norm(left) < 1e-2 * np.linalg.norm(attraction)


def test_t_sne_makes_room_where_sne_crowds():
    X, labels = blobs(300, 10, gap=5.0)

    def gap(Y):
        centers = np.array([Y[labels == k].mean(axis=0) for k in range(10)])
        spread = np.mean([np.linalg.norm(Y[labels == k] - centers[k], axis=1).mean() for k in range(10)])
        return np.sort(cdist(centers, centers) + 1e9 * np.eye(10), axis=1)[:, 0].mean() / spread

    assert gap(TSNE().fit_transform(X)) > 1.5 * gap(SymmetricSNE().fit_transform(X))


@ALL
@pytest.mark.parametrize("n", [90, 2500])  # exact, and by FFT
def test_same_bits_for_any_number_of_threads(method, n):
    X, _ = blobs(n)
    one, two, eight = (method(max_iter=60, n_jobs=jobs).fit(X) for jobs in (1, 2, 8))
    assert np.array_equal(one.embedding_, two.embedding_)
    assert np.array_equal(one.embedding_, eight.embedding_)
    Q, _ = blobs(40, seed=1)
    assert np.array_equal(one.transform(Q), eight.transform(Q))


def test_approximate_repulsions_lead_to_as_low_a_divergence():
    X, _ = blobs(1200, 6)
    each = {name: TSNE(repulsion=name).fit(X) for name in ("exact", "fft", "barnes_hut")}
    assert {name: model.diagnostics_["repulsion"] for name, model in each.items()} == {name: name for name in each}
    exact = each["exact"].kl_divergence_
    for model in each.values():
        # Layouts part for good when anything is rounded otherwise; what they reach is the same to a few per cent.
        assert model.kl_divergence_ == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_any_dimension(d):
    X, labels = blobs(120)
    model = TSNE(n_components=d).fit(X)
    assert model.embedding_.shape == (120, d)
    assert first_neighbor_right(model.embedding_, labels) > 0.95


def test_several_perplexities_and_fixed_bandwidths():
    X, labels = blobs(120)
    several = TSNE(perplexity=[5, 30]).fit(X)
    assert several.bandwidths_.shape == (120, 2)
    assert several.graph_.degrees[0] == 90
    fixed = TSNE(bandwidth=2.0).fit(X)
    np.testing.assert_array_equal(fixed.bandwidths_, 2.0)
    for model in (several, fixed, TSNE(bandwidth=np.linspace(1, 2, 120)).fit(X)):
        assert first_neighbor_right(model.embedding_, labels) == 1.0


def test_heavier_tails_and_late_exaggeration_tighten_clusters():
    X, labels = blobs(300, 5, gap=5.0)

    def tightness(Y):
        inside = np.mean([Y[labels == k].std() for k in range(5)])
        return Y.std() / inside

    plain = tightness(TSNE().fit_transform(X))
    assert tightness(TSNE(dof=0.5).fit_transform(X)) > plain
    assert tightness(TSNE(late_exaggeration=4.0).fit_transform(X)) > plain


def test_a_layout_that_would_collapse_does_not():
    # One round cloud: exaggerated affinities draw all of it into a point.
    X = np.random.default_rng(3).standard_normal((60, 20))
    model = TSNE().fit(X)
    assert model.trace_.steps[1] < 250
    assert model.embedding_.std() > 1.0
    nudged = TSNE().fit(X + 1e-12 * np.random.default_rng(4).standard_normal(X.shape))
    np.testing.assert_allclose(nudged.embedding_, model.embedding_, atol=1e-3)


@ALL
def test_starts(method):
    X, labels = blobs()
    for init in ("pca", "spectral", "random", np.random.default_rng(0).standard_normal((90, 2))):
        assert first_neighbor_right(method(init=init).fit_transform(X), labels) > 0.95


@ALL
def test_graphs_sparse_rows_and_other_metrics(method):
    X, labels = blobs()
    graph = kneighbors_graph(X, 30, mode="distance")
    lists, _ = neighbor_graph(X, NeighborRule(30).resolve(90), Run(0))
    given = [method(perplexity=10, metric="precomputed").fit(graph), method(perplexity=10).fit(lists)]
    np.testing.assert_allclose(given[0].affinity_matrix_.toarray(), given[1].affinity_matrix_.toarray(), rtol=1e-9)
    for model in (*given, method(metric="cosine").fit(X), method().fit(csr_array(np.maximum(X, 0)))):
        assert first_neighbor_right(model.embedding_, labels) > 0.9
    new = kneighbors_graph(X, 5, mode="distance")[:7]
    assert np.isfinite(given[0].transform(new)).all()


def test_short_lists_of_a_graph_lower_the_automatic_perplexity_and_refuse_a_larger_one():
    X, _ = blobs()
    graph = kneighbors_graph(X, 15, mode="distance")
    model = TSNE(metric="precomputed", max_iter=10).fit(graph)
    assert model.diagnostics_["perplexity_missed"] == 0
    rows = perplexity_probabilities(NeighborGraph.from_sparse(graph), [5.0], Run(0))
    np.testing.assert_allclose(model.bandwidths_, rows.bandwidths)
    with pytest.raises(ValueError, match="perplexity 40 needs lists of at least that many neighbors; got 15"):
        TSNE(metric="precomputed", perplexity=40).fit(graph)


def test_isolated_points_of_a_graph_are_refused():
    lonely = NeighborGraph(np.array([0, 1, 2, 2]), np.array([1, 0]), np.ones(2))
    with pytest.raises(ValueError, match=r"1 points without a neighbor \(the first is 2\)"):
        TSNE(perplexity=1).fit(lonely)


@ALL
def test_pieces_without_affinities_are_laid_out_together_and_silently(method):
    X, labels = blobs(120, 3, gap=500.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Y = method(perplexity=5).fit_transform(X)
    assert np.isfinite(Y).all()
    assert first_neighbor_right(Y, labels) == 1.0


@ALL
def test_copies_of_a_point_stay_together(method):
    X, _ = blobs(60)
    X = np.concatenate([X, np.repeat(X[:1], 40, axis=0)])  # more copies than any perplexity here
    model = method(perplexity=10).fit(X)
    assert np.isfinite(model.embedding_).all()
    assert model.diagnostics_["perplexity_missed"] >= 41
    copies = model.embedding_[[0, *range(60, 100)]]
    others = model.embedding_[1:60]
    assert np.abs(copies - copies.mean(axis=0)).max() < np.abs(others - others.mean(axis=0)).max()


@ALL
def test_new_points_join_their_cluster_whatever_comes_with_them(method):
    X, labels = blobs(150)
    Q, kinds = blobs(60, seed=5)
    model = method(perplexity=10).fit(X)
    placed = model.transform(Q)
    assert (labels[cdist(placed, model.embedding_).argmin(axis=1)] == kinds).all()
    np.testing.assert_array_equal(model.transform(Q), placed)  # twice the same
    np.testing.assert_array_equal(model.transform(Q[::-1]), placed[::-1])
    np.testing.assert_array_equal(np.concatenate([model.transform(q[None]) for q in Q]), placed)
    np.testing.assert_array_equal(model.transform(X[:9]), model.embedding_[:9])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(Q), placed)


def test_a_new_point_is_where_its_own_divergence_is_least():
    X, _ = blobs(150)
    Q, _ = blobs(10, seed=6)
    model = TSNE(perplexity=10).fit(X)
    placed = model.transform(Q)
    rule = model._extension
    neighbors, distances = rule.index.query(Q, Run(0))
    p = rule._probabilities(neighbors, distances, Run(0))

    def value(places):
        s = cdist(places, model.embedding_, "sqeuclidean")
        near = np.take_along_axis(s, neighbors, 1)
        return (p * np.log1p(near)).sum(axis=1) + np.log((1 / (1 + s)).sum(axis=1))

    best = value(placed)
    for direction in ((0.05, 0), (-0.05, 0), (0, 0.05), (0, -0.05)):
        assert (value(placed + direction) >= best - 1e-9).all()


@ALL
def test_the_callback_stops_it_and_an_interrupt_keeps_the_layout(method):
    X, _ = blobs()
    stopped = method(callback=lambda progress: progress.stage == "descent" and progress.done == 40).fit(X)
    assert stopped.n_iter_ == 40
    assert stopped.trace_.stop is Stop.ASKED

    def interrupt(progress):
        if progress.stage == "descent" and progress.done == 40:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="Interrupted in the stage 'descent'"):
        broken = method(callback=interrupt).fit(X)
    assert broken.trace_.stop is Stop.INTERRUPTED
    np.testing.assert_array_equal(broken.embedding_, stopped.embedding_)
    assert np.isfinite(broken.transform(X[:3] + 0.1)).all()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"perplexity": 0.5}, "perplexity must be at least 1; got 0.5"),
        ({"perplexity": 90}, "perplexity must be at most n - 1 = 89"),
        ({"perplexity": 30, "n_neighbors": 20}, "perplexity 30 needs lists of at least that many neighbors; got 20"),
        ({"perplexity": "many"}, "perplexity must be a number above 0, 'auto' or several numbers; got 'many'"),
        ({"perplexity": []}, "perplexity must be a number, several, or 'auto'"),
        ({"bandwidth": -1.0}, "bandwidth must be a number above 0, an array of shape .n_samples,. or None; got -1.0"),
        ({"bandwidth": np.ones(3)}, "bandwidth must be a positive number, or one for each of the 90 points"),
        ({"learning_rate": 0.0}, "learning_rate must be a number above 0 or 'auto'; got 0.0"),
        ({"max_iter": 0}, "max_iter must be an integer of at least 1; got 0"),
        ({"repulsion": "magic"}, "repulsion must be one of 'auto', 'exact', 'barnes_hut', 'fft'"),
        ({"accuracy": 0.0}, "accuracy must be a number above 0 or None; got 0.0"),
        ({"dof": 0.0}, "dof must be a number above 0; got 0.0"),
        ({"early_exaggeration": 0.5}, "early_exaggeration must be a number of at least 1; got 0.5"),
        ({"late_exaggeration_iter": -1}, "late_exaggeration_iter must be an integer of at least 0"),
        ({"init": "best"}, "init must be 'auto', 'ipa', 'pca', 'spectral', 'random' or an array of shape"),
        ({"init": np.zeros((3, 2))}, "one row of real numbers for each of the 90 points"),
    ],
)
def test_bad_settings_are_refused_before_any_work(settings, sentence):
    def never(progress):
        raise AssertionError(progress)

    with pytest.raises(ValueError, match=sentence):
        TSNE(callback=never, **settings).fit(blobs()[0])


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        ("forces", "here it is 'repulsion'"),
        ("negative_gradient_method", "here it is 'repulsion'"),
        ("method", "here it is 'repulsion'"),
        ("theta", "here it is 'accuracy'"),
        ("angle", "here it is 'accuracy'"),
        ("early_steps", "here it is 'early_exaggeration_iter'"),
        ("late_steps", "here it is 'late_exaggeration_iter'"),
        ("exaggeration", "here it is 'late_exaggeration'"),
        ("n_iter", "here it is 'max_iter'"),
        ("initialization", "here it is 'init'"),
        ("min_grad_norm", "here it is 'tol'"),
        ("n_interpolation_points", "follows from accuracy"),
        ("final_momentum", "momentum depends on the phase"),
    ],
)
def test_words_of_scikit_learn_and_opentsne_are_answered_with_ours(word, ours):
    with pytest.raises(TypeError, match=f"TSNE has no parameter '{word}'.*{ours}"):
        TSNE(**{word: 1})


def test_a_start_that_a_graph_cannot_have_is_refused_before_any_work():
    def never(progress):
        raise AssertionError(progress)

    graph = kneighbors_graph(blobs()[0], 30, mode="distance")
    with pytest.raises(ValueError, match="init='pca' needs rows of features or all distances"):
        TSNE(metric="precomputed", init="pca", callback=never).fit(graph)


def test_patches_of_distances_are_refused_before_any_work():
    def never(progress):
        raise AssertionError(progress)

    D = cdist(blobs()[0], blobs()[0])
    with pytest.raises(ValueError, match="init='ipa' needs rows of features"):
        TSNE(metric="precomputed", init="ipa", callback=never).fit(D)


def test_a_sheet_stays_unrolled():
    roll = datasets.swiss_roll(1200, hole=True)
    flat, curled = TSNE().fit(roll.X), TSNE(init="pca").fit(roll.X)
    assert (flat.diagnostics_["init"], curled.diagnostics_["init"]) == ("ipa", "pca")
    errors = [metrics.procrustes(model.embedding_, roll.truth, kind="similarity").error for model in (flat, curled)]
    # Principal components lay the sheets of a roll on each other, and the descent cannot lay them out again.
    assert errors[0] < 0.02 < 0.1 < errors[1]
    assert flat.kl_divergence_ < curled.kl_divergence_
    assert flat.n_iter_ < curled.n_iter_
    exaggerated = TSNE(early_exaggeration_iter=50, max_iter=100).fit(roll.X)
    assert exaggerated.n_iter_ == 100
    assert not np.array_equal(exaggerated.embedding_, TSNE(max_iter=100).fit_transform(roll.X))


@pytest.mark.parametrize("method", [SNE, SymmetricSNE])
def test_a_sheet_stays_unrolled_by_gaussian_kernels(method):
    roll = datasets.swiss_roll(1500)
    flat, curled = (method(perplexity=15, init=init).fit(roll.X) for init in ("auto", "pca"))
    assert (flat.diagnostics_["init"], curled.diagnostics_["init"]) == ("ipa", "pca")
    assert flat.kl_divergence_ < curled.kl_divergence_
    errors = [metrics.procrustes(model.embedding_, roll.truth, kind="similarity").error for model in (flat, curled)]
    assert errors[0] < 0.1 * errors[1]


@pytest.mark.parametrize("method", [SNE, SymmetricSNE])
def test_gaussian_kernels_do_not_begin_with_a_sheet_that_their_neighbors_fold(method):
    X = datasets.swiss_roll(500).X  # 90 neighbors of 500 points are across the sheets
    model = method(max_iter=20).fit(X)
    assert model.diagnostics_["init"] == "pca"
    assert np.array_equal(model.embedding_, method(max_iter=20, init="pca").fit_transform(X))
    assert method(max_iter=20, init="ipa").fit(X).diagnostics_["init"] == "ipa"


def test_clusters_begin_with_principal_components_to_the_bit():
    X = datasets.gaussian_clusters(400, random_state=3).X
    model = TSNE(max_iter=60).fit(X)
    assert model.diagnostics_["init"] == "pca"
    assert np.array_equal(model.embedding_, TSNE(max_iter=60, init="pca").fit_transform(X))


def test_a_divergence_that_was_estimated_says_so(monkeypatch):
    X, _ = blobs(400)
    exact = TSNE(repulsion="fft", max_iter=100).fit(X)
    monkeypatch.setattr(divergence, "MAX_POINTS_EXACT_VALUE", 100)
    estimated = TSNE(repulsion="fft", max_iter=100).fit(X)
    assert exact.diagnostics_["kl_divergence"] == "exact"
    assert estimated.diagnostics_["kl_divergence"] == "estimated (fft)"
    # The repulsion is good to 1e-2, of which the divergence has the logarithm of a sum.
    assert estimated.kl_divergence_ == pytest.approx(exact.kl_divergence_, abs=1e-2)


@pytest.mark.parametrize("method", [TSNE, SNE, SymmetricSNE, UMAP])
def test_the_unit_of_a_given_start_does_not_matter(method):
    """The start is rounded to 2**-14 of its width, so rounding errors of 1e-13 change no bit of it, but for ties."""
    data = datasets.gaussian_clusters(150, random_state=8)
    Y = np.random.default_rng(9).normal(size=(150, 2))
    first, second = (method(init=start, random_state=0).fit_transform(data.X) for start in (Y, 1000 * Y + 5))
    assert np.array_equal(first, second)
    assert first_neighbor_right(second, data.labels) > 0.95
