"""Divergences of layouts: against the formulas written out over all pairs, and against finite differences."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from manifoldry._core.run import Run
from manifoldry._numerics.descent import optimizer
from manifoldry._numerics.descent.divergence import ConditionalDivergence, JointDivergence
from manifoldry._numerics.descent.optimizer import local_order, renumbered
from manifoldry._numerics.geometry.neighbor_affinity import ENTRIES_PER_TASK, negative_entropy, perplexity_probabilities
from manifoldry._numerics.repulsion import LayoutKernel, choose_repulsion
from manifoldry.graph._search import NeighborRule, neighbor_graph

KERNELS = {"t": LayoutKernel(1.0), "heavy": LayoutKernel(0.5), "light": LayoutKernel(4.0)}
KERNELS["gaussian"] = LayoutKernel(dof=None)


def conditional(n=40, k=15, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, 4))
    graph, _ = neighbor_graph(X, NeighborRule(k).resolve(n), Run(0))
    return perplexity_probabilities(graph, [5.0], Run(0))


def information(P):
    return float((P.data * np.log(P.data)).sum())


def joint(kernel, n=40, d=2):
    P = conditional(n).joint()
    repulsion = choose_repulsion(kernel, n, d, repulsion="exact")
    return JointDivergence(P, information(P), kernel, repulsion, Run(0)), P.toarray()


def rows(kernel, n=40, d=2):
    given = conditional(n)
    repulsion = choose_repulsion(kernel, n, d, repulsion="exact")
    total = information(given.matrix) / n
    return ConditionalDivergence(given.joint(), total, kernel, repulsion, Run(0)), given.matrix.toarray()


def layout(n=40, d=2, seed=1):
    return np.random.default_rng(seed).standard_normal((n, d))


def weights(kernel, Y):
    w = kernel.value(cdist(Y, Y, "sqeuclidean"))
    np.fill_diagonal(w, 0.0)
    return w


def differences(value, Y, step=1e-5):
    gradient = np.empty_like(Y)
    for at in np.ndindex(Y.shape):
        ahead, behind = Y.copy(), Y.copy()
        ahead[at] += step
        behind[at] -= step
        gradient[at] = (value(ahead) - value(behind)) / (2 * step)
    return gradient


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_joint_value_is_the_sum_over_pairs(kernel, d):
    divergence, P = joint(kernel, d=d)
    Y = layout(d=d)
    w = weights(kernel, Y)
    on = P > 0
    assert divergence.value(Y) == pytest.approx((P[on] * np.log(P[on] / (w / w.sum())[on])).sum(), rel=1e-12)
    assert divergence.value(Y) > 0


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_row_value_is_the_mean_over_rows(kernel):
    divergence, P = rows(kernel)
    Y = layout()
    w = weights(kernel, Y)
    Q = w / w.sum(axis=1, keepdims=True)
    on = P > 0
    assert divergence.value(Y) == pytest.approx((P[on] * np.log(P[on] / Q[on])).sum() / len(Y), rel=1e-12)


@pytest.mark.parametrize("make", [joint, rows])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_gradients_are_those_of_finite_differences(make, kernel, d):
    divergence, _ = make(kernel, d=d)
    Y = layout(d=d)
    gradient = divergence.gradient(Y)
    # Central differences with step 1e-5: truncation 1e-10 and rounding 1e-16 / 1e-5 of values about 1.
    np.testing.assert_allclose(gradient, differences(divergence.value, Y), atol=1e-8)
    np.testing.assert_allclose(gradient.sum(axis=0), 0.0, atol=1e-14)  # the mean of the layout is conserved


def test_the_printed_gradients_of_sne_symmetric_sne_and_t_sne():
    Y = layout()
    step = Y[:, None] - Y[None]
    divergence, P = rows(LayoutKernel(dof=None))
    w = weights(LayoutKernel(dof=None), Y)
    Q = w / w.sum(axis=1, keepdims=True)
    printed = 2 * np.einsum("ij,ijc->ic", P - Q + P.T - Q.T, step)
    np.testing.assert_allclose(divergence.gradient(Y), printed / len(Y), atol=1e-14)
    divergence, P = joint(LayoutKernel(dof=None))
    np.testing.assert_allclose(divergence.gradient(Y), 4 * np.einsum("ij,ijc->ic", P - w / w.sum(), step), atol=1e-14)
    divergence, P = joint(LayoutKernel(1.0))
    w = weights(LayoutKernel(1.0), Y)
    np.testing.assert_allclose(
        divergence.gradient(Y), 4 * np.einsum("ij,ijc->ic", (P - w / w.sum()) * w, step), atol=1e-14
    )


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_a_layout_that_makes_the_affinities_has_value_and_gradient_zero(kernel):
    Y = layout(12)
    w = weights(kernel, Y)
    P = csr_array(w / w.sum())
    repulsion = choose_repulsion(kernel, 12, 2, repulsion="exact")
    divergence = JointDivergence(P, information(P), kernel, repulsion, Run(0))
    assert divergence.value(Y) == pytest.approx(0.0, abs=1e-13)
    np.testing.assert_allclose(divergence.gradient(Y), 0.0, atol=1e-15)


def test_exaggeration_multiplies_the_attraction_alone():
    divergence, _ = joint(LayoutKernel(1.0))
    Y = layout()
    once, twice, thrice = (divergence.gradient(Y, factor) for factor in (1.0, 2.0, 3.0))
    np.testing.assert_allclose(thrice - twice, twice - once, atol=1e-14)
    assert np.abs(twice - once).max() > 0


def test_rigid_motions_do_not_change_the_value():
    divergence, _ = rows(LayoutKernel(dof=None))
    Y = layout()
    turn, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((2, 2)))
    assert divergence.value(Y @ turn + 3.0) == pytest.approx(divergence.value(Y), rel=1e-12)


def test_approximate_repulsions_give_the_gradient_to_their_accuracy():
    n = 3000
    P = conditional(n, 30).joint()
    kernel = LayoutKernel(1.0)
    Y = 20 * layout(n)
    each = [
        JointDivergence(P, information(P), kernel, choose_repulsion(kernel, n, 2, repulsion=name), Run(0))
        for name in ("exact", "fft", "barnes_hut")
    ]
    # Of the repulsion, which the attraction of random layouts leaves visible.
    exact, fft, barnes_hut = (one.gradient(Y, 0.0) for one in each)
    assert np.linalg.norm(fft - exact) < 1e-2 * np.linalg.norm(exact)
    assert np.linalg.norm(barnes_hut - exact) < 1e-2 * np.linalg.norm(exact)
    assert each[1].value(Y) == pytest.approx(each[0].value(Y), rel=1e-3)


def test_renumbering_is_a_permutation_of_rows_and_columns():
    P = conditional(60, 10).joint()
    order = local_order(P)
    assert np.array_equal(np.sort(order), np.arange(60))
    np.testing.assert_array_equal(renumbered(P, order, Run(0)).toarray(), P.toarray()[np.ix_(order, order)])


@pytest.mark.parametrize("ascending", [False, True])
def test_edges_renumbered_in_blocks_keep_their_order_or_ascend(ascending, monkeypatch):
    monkeypatch.setattr(optimizer, "EDGES_PER_TASK", 40)
    rng, n, k = np.random.default_rng(2), 60, 5
    columns = np.array([rng.permutation(n)[:k] for _ in range(n)], dtype=np.int32)
    A = csr_array((rng.random(n * k), columns.ravel(), np.arange(0, n * k + 1, k, dtype=np.int32)), shape=(n, n))
    order = rng.permutation(n)
    position = np.argsort(order)
    for n_jobs in (1, 2, 7):
        B = renumbered(A, order, Run(0, n_jobs), ascending=ascending)
        for row, old in enumerate(order):
            own = position[columns[old]]
            places = np.argsort(own) if ascending else np.arange(k)
            np.testing.assert_array_equal(B.indices[B.indptr[row] : B.indptr[row + 1]], own[places])
            np.testing.assert_array_equal(B.data[B.indptr[row] : B.indptr[row + 1]], A.data[k * old + places])


def test_entropy_of_several_blocks_is_that_of_all_and_the_same_for_any_number_of_threads():
    p = np.random.default_rng(0).random(3 * ENTRIES_PER_TASK + 7)
    p[:2] = 0.0
    one, *others = (negative_entropy(p, Run(0, n_jobs)) for n_jobs in (1, 2, 3, 7, 16))
    assert one == pytest.approx(math.fsum(p[2:] * np.log(p[2:])), rel=1e-13)
    assert all(other == one for other in others)
