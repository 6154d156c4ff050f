"""UMAP: its tables, its sweeps against a plain twin, and what a layout must show."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from manifoldry import TSNE, UMAP, NeighborGraph, Stop, datasets, metrics
from manifoldry._core.run import Run
from manifoldry._numerics.descent.negative_sampling import (
    REPULSION_OFFSET,
    LayoutParameters,
    NegativeSampling,
    sampling_rates,
)
from manifoldry._numerics.kernels import negative_sampling as compiled
from manifoldry._numerics.kernels import umap_layout, umap_layout_2d

A, B = 1.577, 0.895


def blobs(seed, n=60, columns=4, gap=30.0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.standard_normal((n, columns)), gap + rng.standard_normal((n, columns))])


def ring_of_affinities(seed, n=13):
    """Symmetric random affinities, each point joined to a few."""
    rng = np.random.default_rng(seed)
    W = np.triu(rng.uniform(size=(n, n)) * (rng.uniform(size=(n, n)) < 0.5), 1)
    W[0, 1] = 1.0
    W[np.arange(n - 1), np.arange(1, n)] += 0.1
    return csr_array((W + W.T).astype(np.float32))


def test_tabulated_gradients_are_within_a_ten_thousandth():
    for a, b, gamma in ((A, B, 1.0), (1.93, 0.79, 2.0), (0.115, 1.93, 0.5)):
        attraction, repulsion = LayoutParameters(a, b, 5, gamma, 1.0, 1).tables()
        s = np.exp2(np.random.default_rng(0).uniform(-24, 15.9, 20_000)).astype(np.float32)
        exact = s.astype(float)
        power = a * exact**b
        # 2^-26 is added to a square, which is a quarter at 2^-24: compared from 2^-10 on, and as a floor below.
        far = s > 2.0**-10
        found = np.array([compiled.tabulated(attraction, x) for x in s[far]])
        np.testing.assert_allclose(found, (2 * b * power / (exact * (1 + power)))[far], rtol=1e-4)
        found = np.array([compiled.tabulated(repulsion, x) for x in s])
        np.testing.assert_allclose(found, 2 * gamma * b / ((REPULSION_OFFSET + exact) * (1 + power)), rtol=1e-4)
    for lines in (attraction, repulsion):
        assert np.isfinite([compiled.tabulated(lines, np.float32(x)) for x in (0.0, 1e30)]).all()


def test_an_edge_is_sampled_evenly_and_in_the_same_sweeps_from_both_ends():
    shares = np.array([1.0, 0.73, 0.31, 0.02])
    rates = sampling_rates(shares, 1.0)
    indices = np.arange(4, dtype=np.int32)
    sweeps = 1000
    samples = np.zeros((sweeps, 4))
    sampled = np.zeros(5, dtype=np.uint32)
    for t in range(sweeps):
        sweep_number = np.uint32((987_654_321 + t) % 2**32)
        bits = np.uint64(t << 40)
        count, first = compiled.sample_edges(indices, rates, 0, 4, sweep_number, bits, sampled)
        samples[t, sampled[: int(count)]] = 1
        assert first <= count
        other, _ = compiled.sample_edges(indices, rates, 0, 4, sweep_number, np.uint64(12345), sampled)
        assert set(sampled[: int(other)]) == set(np.flatnonzero(samples[t]))
    # A share r of any stretch of sweeps, up to less than one sample at either end.
    for length in (50, 333, 1000):
        assert (np.abs(samples[:length].sum(axis=0) - length * shares) <= 1).all()


def slow_sweep(affinities, Y, p, step, sweep_number, seed):
    """One sweep by the formulas, in double precision, with the kernels' random numbers."""
    n = len(Y)
    rates = sampling_rates(affinities.data, affinities.data.max()).astype(object)
    moved = Y.astype(float).copy()
    for i in range(n):
        bits = int(compiled.mix(np.uint64(seed ^ i)))
        ends = affinities.indptr[i], affinities.indptr[i + 1]
        row = np.arange(*ends)
        row = np.roll(row, -(((bits >> 32) * len(row)) >> 32))
        sampled = [e for e in row if (rates[e] * sweep_number) % 2**32 < rates[e]]
        h = (bits % 2**32) | 1
        place = moved[i]
        for v, e in enumerate(sampled):
            gap = Y[affinities.indices[e]] - place
            s = gap @ gap
            power = p.a * s**p.b
            place = place + step * np.clip(2 * p.b * power / (s * (1 + power)) * gap, -4, 4)
            push = np.zeros_like(place)
            for _ in range(p.negative_sample_rate * (v + 1) // 2 - p.negative_sample_rate * v // 2):
                h ^= (h << 13) % 2**32
                h ^= h >> 17
                h ^= (h << 5) % 2**32
                r = (h * n) >> 32
                gap = place - Y[r]
                s = gap @ gap
                factor = 2 * p.repulsion_strength * p.b / ((REPULSION_OFFSET + s) * (1 + p.a * s**p.b))
                push += 0.0 if r == i else np.clip(factor * gap, -4, 4)
            place = place + step * push
        moved[i] = place
    return moved


@pytest.mark.parametrize("n_dims", [1, 2, 3])
@pytest.mark.parametrize("negative_sample_rate", [0, 1, 5])
def test_a_sweep_equals_its_twin(n_dims, negative_sample_rate):
    affinities = ring_of_affinities(1)
    n = affinities.shape[0]
    Y = np.random.default_rng(2).uniform(-3, 3, (n, n_dims)).astype(np.float32)
    parameters = LayoutParameters(A, B, negative_sample_rate, 1.3, 1.0, 10)
    rows = (
        affinities.indptr.astype(np.int64),
        affinities.indices.astype(np.int32),
        sampling_rates(affinities.data, affinities.data.max()),
    )
    sweep_number, seed, step = 3_000_000_019, 2**63 + 12_345, np.float32(0.05)
    wanted = slow_sweep(affinities, Y, parameters, 0.05, sweep_number, seed)
    for sweep in (umap_layout.move_rows, *([umap_layout_2d.move_rows_2d] if n_dims == 2 else [])):
        moved = np.empty_like(Y)
        for lo, hi in ((0, 7), (7, n)):
            sweep(
                *rows,
                Y,
                moved,
                parameters.tables(),
                negative_sample_rate,
                step,
                np.uint32(sweep_number),
                np.uint64(seed),
                lo,
                hi,
            )
        # The tables are good to 1e-4 of a move, and no coordinate moves by more than 0.05 * 4 for each force; a
        # row's few samples, each with at most 3 repulsions, add up.
        most = np.diff(affinities.indptr).max()
        np.testing.assert_allclose(moved, wanted, rtol=0, atol=1e-4 * 0.2 * 4 * most)
        assert np.abs(moved - Y).max() > 0.02


def test_the_estimated_objective_is_the_sum_over_pairs():
    affinities = ring_of_affinities(3, n=40)
    Y = np.random.default_rng(4).uniform(-3, 3, (40, 2)).astype(np.float32)
    found = np.mean(
        [
            NegativeSampling(affinities, LayoutParameters(A, B, 5, 1.0, 1.0, 1), Run(seed)).objective(Y)
            for seed in range(40)
        ]
    )
    shares = affinities.toarray().astype(float) / affinities.data.max()
    power = A * cdist(Y, Y, "sqeuclidean") ** B
    apart = np.log1p(power) - np.log(power + REPULSION_OFFSET)
    np.fill_diagonal(apart, 0)
    wanted = (shares * np.log1p(power)).sum() + 5 * (shares.sum(axis=1) * apart.sum(axis=1) / 39).sum()
    # 40 estimates from 16 partners of 40 points: the mean of 25,600 draws, each off by about its own size.
    assert found == pytest.approx(wanted / 40, rel=0.02)


@pytest.mark.parametrize("settings", [{"init": "pca"}, {"init": "spectral"}, {"init": "pca", "n_components": 3}])
def test_same_bits_for_any_number_of_threads(settings):
    X = np.random.default_rng(5).standard_normal((5000, 3))
    one, *others = (UMAP(n_epochs=10, n_jobs=jobs, **settings).fit_transform(X) for jobs in (1, 2, 3, 7, 16))
    assert all(np.array_equal(one, other) for other in others)
    assert not np.array_equal(one, UMAP(n_epochs=10, random_state=1, **settings).fit_transform(X))


@pytest.mark.parametrize("settings", [{}, {"n_components": 3}, {"densmap": True}])
def test_epochs_in_one_compiled_call_are_those_of_single_calls(settings):
    """With a callback every epoch is a call of its own."""
    X = np.random.default_rng(5).standard_normal((1000, 3))
    model = UMAP(n_epochs=20, init="pca", **settings)
    single = UMAP(n_epochs=20, init="pca", callback=lambda _: False, **settings)
    assert np.array_equal(model.fit_transform(X), single.fit_transform(X))


def test_permuted_rows_permute_the_layout_to_the_bit():
    X = np.random.default_rng(6).standard_normal((100, 3))
    order = np.random.default_rng(7).permutation(100)
    assert np.array_equal(UMAP(init="pca").fit_transform(X[order]), UMAP(init="pca").fit_transform(X)[order])


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_far_blobs_stay_apart_and_the_objective_falls(n_components):
    X = blobs(8)
    # On a line no point gets past a cluster: with every second seed one is left on the wrong side. Not so with seed 1.
    model = UMAP(n_components=n_components, n_epochs=200, random_state=1).fit(X)
    Y = model.embedding_
    assert (cKDTree(Y).query(Y, 6)[1] // 60 == (np.arange(120) // 60)[:, None]).all()
    assert model.trace_.objective[-1] < model.trace_.objective[0]
    assert model.n_iter_ == 200
    assert model.affinity_matrix_[:60][:, 60:].nnz == 0


def test_affinities_are_ready_for_clustering():
    from sklearn.cluster import SpectralClustering

    model = UMAP(n_epochs=0).fit(blobs(9))
    assert (model.affinity_matrix_ != model.affinity_matrix_.T).nnz == 0
    assert model.affinity_matrix_.indices.dtype == model.affinity_matrix_.indptr.dtype == np.int32
    with pytest.warns(UserWarning, match="not fully connected"):
        found = SpectralClustering(2, affinity="precomputed", random_state=0).fit_predict(model.affinity_matrix_)
    assert len({*found[:60]}) == len({*found[60:]}) == 1
    assert found[0] != found[-1]


def separation(Y, labels):
    """Mean distance between the classes over that within them."""
    distances = cdist(Y, Y)
    same = labels[:, None] == labels
    return distances[~same].mean() / distances[same].mean()


def test_labels_part_classes_that_overlap():
    rng = np.random.default_rng(10)
    labels = np.arange(160) % 2
    X = rng.standard_normal((160, 5)) + 0.7 * labels[:, None]
    alone = UMAP(n_epochs=200).fit_transform(X)
    told = UMAP(n_epochs=200).fit_transform(X, labels)
    some = UMAP(n_epochs=200).fit_transform(X, np.where(np.arange(160) % 4 < 2, labels, -1))
    assert separation(told, labels) > 2 * separation(alone, labels)
    known = np.arange(160) % 4 < 2
    assert separation(some[known], labels[known]) > 1.1 * separation(alone[known], labels[known])


def test_unknown_labels_change_nothing_and_names_are_as_good_as_numbers():
    X = np.random.default_rng(11).standard_normal((60, 3))
    labels = np.arange(60) % 3
    make = UMAP(n_epochs=20)
    alone, told = make.fit_transform(X), make.fit_transform(X, labels)
    for unknown in (np.full(60, -1), np.full(60, np.nan), np.full(60, None)):
        assert np.array_equal(make.fit_transform(X, unknown), alone)
    half = np.where(labels == 2, -1, labels)
    names = np.array(["a", "b", None], dtype=object)[labels]
    assert np.array_equal(make.fit_transform(X, np.array(["x", "y", "z"])[labels]), told)
    assert np.array_equal(make.fit_transform(X, names), make.fit_transform(X, half))
    assert np.array_equal(make.fit_transform(X, np.where(half < 0, np.nan, half)), make.fit_transform(X, half))


def test_numbers_as_targets_order_the_layout():
    rng = np.random.default_rng(12)
    X, target = rng.standard_normal((150, 6)), rng.uniform(size=150)
    model = UMAP(n_epochs=200, target_metric="numeric", target_weight=0.9)
    near = cKDTree(model.fit(X, target).embedding_).query(model.embedding_, 6)[1][:, 1:]
    # Two numbers drawn at random differ by 1/3 on average.
    assert np.abs(target[near] - target[:, None]).mean() < 0.1
    told_nothing = model.fit_transform(X, np.full(150, np.nan))
    assert np.array_equal(told_nothing, UMAP(n_epochs=200).fit_transform(X))


def test_new_points_depend_on_nobody_else_in_the_batch():
    X, Q = blobs(13), blobs(14, n=20)
    model = UMAP(n_epochs=100).fit(X)
    together = model.transform(Q)
    assert np.array_equal(together, np.concatenate([model.transform(q[None]) for q in Q]))
    assert np.array_equal(together[::-1], model.transform(Q[::-1]))
    assert np.array_equal(together, model.transform(Q))
    nearest = cKDTree(model.embedding_).query(together)[1]
    assert (nearest // 60 == np.arange(40) // 20).all()
    assert np.array_equal(model.transform(X), model.embedding_)


def test_new_points_without_a_seed_come_to_the_same_place_twice():
    model = UMAP(n_epochs=20, random_state=None).fit(blobs(15))
    Q = blobs(16, n=5)
    assert np.array_equal(model.transform(Q), model.transform(Q))


def test_a_sheet_stays_unrolled():
    roll = datasets.swiss_roll(3000, hole=True)
    flat, curled = UMAP().fit(roll.X), UMAP(init="spectral").fit(roll.X)
    assert (flat.diagnostics_["init"], curled.diagnostics_["init"]) == ("ipa", "spectral")
    errors = [metrics.procrustes(model.embedding_, roll.truth, kind="similarity").error for model in (flat, curled)]
    # The two slowest eigenvectors of a long sheet are functions of its length: a horseshoe.
    assert errors[0] < 0.02 < 0.1 < errors[1]
    assert flat.trace_.objective[-1] < curled.trace_.objective[-1]
    trust = [float(metrics.trustworthiness(roll.X, model.embedding_, sample=1000)) for model in (flat, curled)]
    assert trust[0] >= trust[1] - 1e-4


def test_a_start_that_has_its_shape_begins_at_the_scale_of_least_objective():
    roll = datasets.swiss_roll(600)
    model = UMAP(n_epochs=1, learning_rate=1e-9).fit(roll.X)
    weights, start = model.affinity_matrix_, model.embedding_.astype(np.float64)
    parameters = LayoutParameters(model.a_, model.b_, 5, 1.0, 1.0, 1)
    sampling = NegativeSampling(weights, parameters, Run(3))
    values = [sampling.objective(scale * start) for scale in (0.5, 1.0, 2.0)]
    assert min(values) == values[1]
    # Fewer negative samples repel less.
    weak = UMAP(n_epochs=1, learning_rate=1e-9, negative_sample_rate=1).fit(roll.X)
    assert weak.embedding_.std() < 0.8 * model.embedding_.std()


def test_learning_rate_and_epochs_follow_the_start_unless_they_are_given():
    X = datasets.swiss_roll(500).X
    model = UMAP().fit(X)
    assert (model.diagnostics_["init"], model.diagnostics_["n_epochs"]) == ("ipa", 250)
    assert np.array_equal(model.embedding_, UMAP(learning_rate=0.25, n_epochs=250).fit_transform(X))
    assert not np.array_equal(model.embedding_, UMAP(learning_rate=1.0).fit_transform(X))


def test_a_sheet_has_the_same_bits_for_any_number_of_threads():
    X = datasets.swiss_roll(6000).X
    one, two, eight = (UMAP(n_epochs=5, n_jobs=jobs).fit(X) for jobs in (1, 2, 8))
    assert one.diagnostics_["init"] == "ipa"
    assert np.array_equal(one.embedding_, two.embedding_)
    assert np.array_equal(one.embedding_, eight.embedding_)


def test_other_data_and_targets_begin_with_eigenvectors_to_the_bit():
    X = datasets.gaussian_clusters(400, random_state=3).X
    model = UMAP(n_epochs=20).fit(X)
    assert model.diagnostics_["init"] == "spectral"
    assert np.array_equal(model.embedding_, UMAP(n_epochs=20, init="spectral").fit_transform(X))
    roll = datasets.swiss_roll(400)
    y = roll.truth[:, 0] > np.median(roll.truth[:, 0])
    assert UMAP(n_epochs=5).fit(roll.X, y).diagnostics_["init"] == "spectral"
    assert UMAP(n_epochs=5, metric="precomputed").fit(cdist(roll.X, roll.X)).diagnostics_["init"] == "spectral"
    assert UMAP(n_epochs=5, init=roll.truth).fit(roll.X).diagnostics_["init"] == "given"


def test_a_request_to_stop_among_the_patches_leaves_a_layout():
    X = datasets.swiss_roll(1500, noise=0.3).X  # so noisy that several numbers of patches are tried
    stages = []

    def stop(progress):
        stages.append(progress.stage)
        return progress.stage == "patches" and progress.total is not None

    Y = UMAP(callback=stop).fit_transform(X)
    assert "patches" in stages
    assert Y.shape == (1500, 2)
    assert np.isfinite(Y).all()


def test_no_epochs_leave_the_given_start():
    """Its shape, that is: it is centered in a width of 10, and rounded to 10 / 2**14, once in either unit."""
    X = blobs(17)
    start = np.random.default_rng(18).standard_normal((120, 2)).astype(np.float32)
    Y = UMAP(n_epochs=0, init=start).fit_transform(X)
    scale = 10 / np.ptp(start, axis=0).max()
    np.testing.assert_allclose(Y - Y.mean(axis=0), scale * (start - start.mean(axis=0)), atol=2 * 10 / 2**14)


def test_no_number_of_epochs_is_the_automatic_one():
    X = blobs(24)
    told, untold = (UMAP(n_epochs=n, init="pca").fit(X) for n in ("auto", None))
    assert told.diagnostics_["n_epochs"] == untold.diagnostics_["n_epochs"] == 500
    assert np.array_equal(told.embedding_, untold.embedding_)


def test_a_graph_is_as_good_as_its_points():
    X = np.random.default_rng(19).standard_normal((80, 3))
    model = UMAP(n_neighbors=6, n_epochs=30).fit(X)
    given = UMAP(n_epochs=30).fit(model.graph_)
    assert isinstance(given.graph_, NeighborGraph)
    assert np.array_equal(given.embedding_, model.embedding_)
    Q = np.random.default_rng(20).standard_normal((4, 3))
    near = model._extension.index.query(Q, Run())
    rows = csr_array((near[1].reshape(-1), near[0].reshape(-1), np.arange(0, 25, 6)), shape=(4, 80))
    assert np.array_equal(given.transform(rows), model.transform(Q))


@pytest.mark.parametrize("model", [UMAP(metric="cosine", n_epochs=5), TSNE(metric="cosine", max_iter=5)])
def test_sparse_rows_stay_sparse(model):
    rng = np.random.default_rng(25)
    n, columns = 1500, 50_000
    entries = rng.uniform(0.1, 1.0, 20 * n), (np.repeat(np.arange(n), 20), rng.integers(columns, size=20 * n))
    X = csr_array(entries, shape=(n, columns))
    model.fit(X[:50])  # compile first
    tracemalloc.start()
    model.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n * columns / 4


def test_a_callback_stops_the_layout():
    model = UMAP(callback=lambda told: told.stage == "layout" and told.done == 7).fit(blobs(21))
    assert model.n_iter_ == 7
    assert model.trace_.stop is Stop.ASKED


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"min_dist": 2.0}, "min_dist must be at most spread = 1; got 2."),
        ({"set_op_mix_ratio": 1.5}, "set_op_mix_ratio must be a number between 0 and 1; got 1.5."),
        ({"target_weight": -0.1}, "target_weight must be a number between 0 and 1; got -0.1"),
        ({"n_neighbors": 200}, "n_neighbors must be between 1 and 119 for 120 points"),
        ({"target_metric": "ordinal"}, "target_metric must be one of 'categorical', 'numeric'"),
    ],
)
def test_bad_words_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        UMAP(**settings).fit(blobs(22))


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        ("metric_kwds", "here it is 'metric_params'"),
        ("force_approximation_algorithm", "here it is 'search'"),
        ("disconnection_distance", "sparse graph without the pairs beyond it"),
        ("output_dens", "rad_orig_ and rad_emb_"),
        ("output_metric", "layouts are Euclidean"),
        ("precomputed_knn", "pass the graph itself"),
    ],
)
def test_words_of_umap_learn_are_answered_with_ours(word, ours):
    with pytest.raises(TypeError, match=f"UMAP has no parameter '{word}'.*{ours}"):
        UMAP(**{word: 1})


def test_bad_targets_are_refused():
    X = blobs(23)
    with pytest.raises(ValueError, match="one class for each of the 120 points"):
        UMAP().fit(X, np.zeros(5))
    with pytest.raises(ValueError, match="one row for each of the 120 points"):
        UMAP(target_metric="numeric").fit(X, np.zeros(5))
    with pytest.raises(ValueError, match="must be numbers"):
        UMAP(target_metric="numeric").fit(X, ["a"] * 120)
