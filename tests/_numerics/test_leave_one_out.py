"""The loss of a point left out: against the whole loss written as loops, and its derivatives against differences."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from manifoldry import UMAP, SymmetricSNE
from manifoldry._core.run import Run
from manifoldry._numerics.descent.leave_one_out import JointLeftOut, LeftOut, SampledLeftOut, embed_left_out
from manifoldry._numerics.descent.negative_sampling import LayoutParameters
from manifoldry._numerics.repulsion import LayoutKernel, choose_repulsion

STEP = 1e-4
"""Of central differences: their error is STEP^2 / 6 times a third derivative, about 1e-8, and in second differences
rounding of eps / STEP^2 = 2e-8 times a value of size 100, so about 1e-6."""


def layout_and_affinities(seed, n=30, d=2):
    rng = np.random.default_rng(seed)
    joint = rng.uniform(size=(n, n)) * (rng.uniform(size=(n, n)) < 0.3)
    joint = np.triu(joint, 1) + np.triu(joint, 1).T + np.eye(n, k=1) + np.eye(n, k=-1)
    return 2.0 * rng.normal(size=(n, d)), joint / joint.sum()


def slow_divergence(Y, joint, dof):
    """n times the Kullback-Leibler divergence of all points, up to what does not depend on the layout."""
    n = len(Y)
    w = {}
    for i in range(n):
        for j in range(n):
            if i != j:
                s = float(np.sum((Y[i] - Y[j]) ** 2))
                w[i, j] = np.exp(-s) if dof is None else (1 + s / dof) ** (-(dof + 1) / 2)
    total = sum(w.values())
    return -n * sum(joint[pair] * np.log(value / total) for pair, value in w.items())


def slow_sampled(Y, i, v, parameters):
    """The docstring's loss of UMAP, pair by pair."""
    n, value = len(Y), 0.0
    a, b = parameters.a, parameters.b
    for j in range(n):
        if j == i:
            continue
        q = 1 / (1 + a * (np.sum((Y[i] - Y[j]) ** 2) + 1e-3) ** b)
        value -= v[i, j] / v[i].sum() * np.log(q)
        value -= parameters.negative_sample_rate * parameters.repulsion_strength / n * np.log(1 - q)
    return value


def left_out(joint, own):
    near = np.tile(np.arange(len(joint)), (len(own), 1))
    return LeftOut(np.asarray(own), near, joint[own])


def at(Y, i, place):
    moved = Y.copy()
    moved[i] = place
    return moved


def differences(f, place):
    """Gradient and Hessian of f by central differences."""
    d = len(place)
    E = STEP * np.eye(d)
    gradient = np.array([(f(place + e) - f(place - e)) / (2 * STEP) for e in E])
    hessian = np.empty((d, d))
    for a in range(d):
        for b in range(d):
            plus, minus = (
                f(place + E[a] + E[b]) + f(place - E[a] - E[b]),
                f(place + E[a] - E[b]) + f(place - E[a] + E[b]),
            )
            hessian[a, b] = (plus - minus) / (4 * STEP**2)
    return gradient, hessian


@pytest.mark.parametrize(("dof", "d"), [(1.0, 2), (1.0, 3), (0.5, 2), (3.0, 1), (None, 2)])
def test_the_divergence_of_one_place_and_its_derivatives(dof, d):
    Y, joint = layout_and_affinities(0, d=d)
    kernel = LayoutKernel(dof)
    potential = choose_repulsion(kernel, *Y.shape, repulsion="exact").potential(Y, None, Run(0, 1))
    loss = JointLeftOut.of(Y, kernel, potential, Run(0, 1))
    own = np.array([3, 17])
    points = left_out(joint, own)
    places = Y[own] + np.random.default_rng(1).normal(size=(2, d))
    gradient, hessian = loss.half_gradient(places, points), loss.hessian(places, points)
    for row, i in enumerate(own):
        slow = differences(lambda y, i=i: slow_divergence(at(Y, i, y), joint, dof), places[row])
        np.testing.assert_allclose(4 * gradient[row], slow[0], atol=1e-5)
        np.testing.assert_allclose(hessian[row], slow[1], atol=1e-4)
        # Values differ by the same number at any place.
        one = LeftOut(own[row : row + 1], points.neighbors[row : row + 1], points.weights[row : row + 1])
        change = loss.value(places[row : row + 1], one) - loss.value(Y[i : i + 1], one)
        slowly = slow_divergence(at(Y, i, places[row]), joint, dof) - slow_divergence(Y, joint, dof)
        np.testing.assert_allclose(change[0], slowly, atol=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_sampled_loss_of_one_place_and_its_derivatives(d):
    Y, v = layout_and_affinities(1, d=d)
    parameters = LayoutParameters(1.577, 0.895, 5, 1.3, 1.0, 100)
    loss = SampledLeftOut.of(Y, parameters, Run(0, 1))
    own = np.array([0, 29])
    points, places = left_out(v, own), Y[own] + 0.5
    value, half, hessian = (f(places, points) for f in (loss.value, loss.half_gradient, loss.hessian))
    for row, i in enumerate(own):
        f = lambda y, i=i: slow_sampled(at(Y, i, y), i, v, parameters)  # noqa: E731
        slow = differences(f, places[row])
        np.testing.assert_allclose(value[row], f(places[row]), rtol=1e-12)
        np.testing.assert_allclose(2 * half[row], slow[0], atol=1e-6)
        np.testing.assert_allclose(hessian[row], slow[1], rtol=1e-5, atol=1e-5)


def test_a_point_left_out_comes_back():
    """Two clusters: from anywhere the loss of a point is least in its own."""
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(60, 2)) + np.repeat([[0.0, 0.0], [30.0, 0.0]], 30, axis=0)
    v = np.kron(np.eye(2), np.ones((30, 30))) - np.eye(60)
    potential = choose_repulsion(LayoutKernel(1.0), 60, 2).potential(Y, None, Run(0, 1))
    for loss in (
        JointLeftOut.of(Y, LayoutKernel(1.0), potential, Run(0, 1)),
        SampledLeftOut.of(Y, LayoutParameters(1.577, 0.895, 5, 1.0, 1.0, 100), Run(0, 1)),
    ):
        points = left_out(v / v.sum(), np.array([5, 40]))
        placed = embed_left_out(loss, points, Y[[40, 5]])
        assert np.linalg.norm(placed - [[0, 0], [30, 0]], axis=1).max() < 10
        here, beside = (np.abs(loss.half_gradient(Y, points)).max() for Y in (placed, placed + 0.5))
        assert here < 0.05 * beside  # a place of rest
        assert np.linalg.eigvalsh(loss.hessian(placed, points)).min() > 0  # a minimum


def test_fitted_layouts_are_where_their_losses_are_flat():
    """The divergence of a converged fit has no gradient left in any place: the two agree on what is minimized."""
    X = np.random.default_rng(2).normal(size=(150, 3))
    model = SymmetricSNE(perplexity=15, tol=0, max_iter=2000).fit(X)
    loss = model._extension.left_out(Run(0, 1))
    points = left_out(csr_array(model.affinity_matrix_).toarray(), np.arange(150))
    far = loss.half_gradient(model.embedding_ + 0.1, points)
    here = loss.half_gradient(model.embedding_, points)
    assert np.abs(here).max() < 1e-3 * np.abs(far).max()
    fuzzy = UMAP(n_neighbors=10).fit(X)
    assert isinstance(fuzzy._extension.left_out(Run(0, 1)), SampledLeftOut)
