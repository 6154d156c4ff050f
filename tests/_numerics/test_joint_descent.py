"""Many steps in one call against the same steps one by one, written out in numpy; and the same for any threads."""

from dataclasses import replace

import numpy as np
import pytest

from manifoldry._core.run import Run
from manifoldry._numerics.descent.divergence import JointDivergence, MeshMomentum
from manifoldry._numerics.descent.optimizer import Momentum
from manifoldry._numerics.geometry.neighbor_affinity import negative_entropy, perplexity_probabilities
from manifoldry._numerics.repulsion import LayoutKernel, choose_repulsion
from manifoldry.graph._search import NeighborRule, neighbor_graph

N = 1500


@pytest.fixture(scope="module")
def joint():
    X = np.random.default_rng(0).standard_normal((N, 4))
    graph, _ = neighbor_graph(X, NeighborRule(15).resolve(N), Run(0))
    return perplexity_probabilities(graph, [5.0], Run(0)).joint()


def optimizer(joint, d=2, dof=1.0, n_jobs=1, restart="global", exaggeration=1.0, **options):
    kernel = LayoutKernel(dof)
    repulsion = choose_repulsion(kernel, N, d, repulsion="fft")
    divergence = JointDivergence(joint, negative_entropy(joint.data), kernel, repulsion, Run(0, n_jobs))
    single = Momentum(
        lambda Y: divergence.gradient(Y, exaggeration), divergence.value, N / 2, 0.9, restart=restart, max_move=5.0
    )
    return MeshMomentum(single, divergence, repulsion, exaggeration, **options)


def one_by_one(many):
    return replace(many.single, velocity=None, gains=None)


def layout(d=2, width=5.0):
    Y = width * np.random.default_rng(1).standard_normal((N, d))
    return Y - Y.mean(axis=0)


def run_steps(optimizer, Y, n_steps):
    done = 0
    while done < n_steps:
        done += optimizer.advance(Y, done, n_steps - done)
    return Y


@pytest.mark.parametrize("restart", ["global", "per_point"])
@pytest.mark.parametrize(("d", "dof"), [(2, 1.0), (1, 1.0), (2, 3.0), (2, None)])
@pytest.mark.parametrize("width", [1e-4, 5.0])
def test_steps_are_those_of_momentum(joint, restart, d, dof, width):
    many = optimizer(joint, d, dof, restart=restart, exaggeration=3.0)
    reference, Z = one_by_one(many), layout(d, width)
    for step in range(12):
        Y = Z.copy()
        many.single.velocity, many.single.gains = (array.copy() for array in reference.state(Z))
        assert many.advance(Y, step, 1) == 1
        reference.advance(Z, step, 1)
        # Gradients are sums of float32 numbers, here in another order. The sign of a product of the velocity with a
        # gradient near zero depends on that, and with it a gain or half of the velocity.
        close = np.isclose(Y, Z, rtol=0, atol=1e-5 * np.abs(Z).max()).all(axis=1)
        assert close.mean() > 0.995
        np.testing.assert_allclose(many.single.velocity[close], reference.velocity[close], atol=2e-5 * np.abs(Z).max())
        assert np.isclose(many.single.gains, reference.gains, rtol=1e-12, atol=0).mean() > 0.995
        np.testing.assert_allclose(Y.mean(axis=0), 0.0, atol=1e-13 * np.abs(Y).max())
    assert many.repulsion.n_barnes_hut == 0


@pytest.mark.parametrize("n_jobs", [2, 3, 7, 16])
def test_any_number_of_threads_gives_the_same_bits(joint, n_jobs):
    alone, together = (run_steps(optimizer(joint, n_jobs=threads), layout(), 40) for threads in (1, n_jobs))
    np.testing.assert_array_equal(together, alone)


def test_any_number_of_calls_gives_the_same_bits(joint):
    once, single, Y, Z = optimizer(joint), optimizer(joint), layout(width=1e-4), layout(width=1e-4)
    run_steps(once, Y, 60)
    for step in range(60):
        assert single.advance(Z, step, 1) == 1
    np.testing.assert_array_equal(Z, Y)


def test_points_far_from_all_others_are_summed_exactly(joint):
    start = layout(width=2.0)
    start[[3, 700]] = [[0.0, 30.0], [-25.0, 10.0]]
    many = optimizer(joint, dof=None)
    Y, Z = run_steps(many, start.copy(), 5), run_steps(one_by_one(many), start.copy(), 5)
    assert many.repulsion.n_barnes_hut == 0
    np.testing.assert_allclose(Y, Z, atol=5 * 1e-5 * np.abs(Z).max())


def test_layouts_that_do_not_suit_a_mesh_move_by_a_tree(joint):
    start = layout(width=1e-3)
    start[5] = 30.0
    many = optimizer(joint)
    Y, Z = start.copy(), start.copy()
    reference = one_by_one(many)
    assert many.advance(Y, 0, 8) == 1
    assert many.repulsion.n_barnes_hut == 1
    reference.advance(Z, 0, 1)
    np.testing.assert_array_equal(Y, Z)
    assert many.advance(Y, 1, 8) == 1  # until the next comparison with exact sums
    assert many.repulsion.n_barnes_hut == 3


def test_a_collapsed_layout_ends_the_steps(joint):
    many = optimizer(joint, min_width=1e3)
    assert many.advance(layout(), 0, 30) == 1
    assert many.collapsed
    wide = optimizer(joint, min_width=1e-3)
    assert wide.advance(layout(), 0, 30) > 1
    assert not wide.collapsed


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_layout_that_is_not_finite_is_an_error(joint):
    many = optimizer(joint)
    many.single.learning_rate, many.single.max_move = 1e300, np.inf
    Y = layout()
    with pytest.raises(ValueError, match="not finite numbers"):
        run_steps(many, Y, 30)
