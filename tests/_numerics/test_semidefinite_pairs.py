"""Single points whose distances are held: refined to a minimum, stepped to the best place, and bounds that hold."""

import numpy as np
import pytest
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._numerics.semidefinite.certificate import certify_basis
from manifoldry._numerics.semidefinite.pairs import MIN_LENGTH_SHARE as LEAST
from manifoldry._numerics.semidefinite.pairs import PairDistances, _line_minimum, _value, refine
from manifoldry.evaluation.metrics import procrustes
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph


def test_differences_of_pairs_are_those_of_a_loop_also_through_images():
    rng = np.random.default_rng(1)
    i, j = np.array([0, 3, 2, 0]), np.array([1, 4, 5, 5])
    pairs = PairDistances.of(i, j, rng.uniform(0.5, 2.0, 4), 6)
    images, V = sp.csr_array(rng.standard_normal((6, 3)) * (rng.random((6, 3)) < 0.6)), rng.standard_normal((3, 2))
    for through, Q in ((None, rng.standard_normal((6, 2))), (images, images @ V)):
        expected = [(Q[a] - Q[b]) / length for a, b, length in zip(i, j, pairs.lengths, strict=True)]
        ends = pairs.matrix(through) @ (Q if through is None else V)
        np.testing.assert_allclose(ends, expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(pairs.of_points(Q), expected, rtol=1e-12)
        bands, at_most = pairs.bands(0.1, through), pairs.bands(None, through)
        np.testing.assert_allclose(bands.lengths(Q if through is None else V), np.square(expected).sum(axis=1))
        np.testing.assert_allclose([bands.lower, bands.upper], [[0.9] * 4, [1.1] * 4])
        np.testing.assert_array_equal([at_most.lower, at_most.upper], [[-np.inf] * 4, [1.0] * 4])


@pytest.mark.parametrize(
    ("lengths", "held"),
    [
        ([0.0, 2.0, 4.0, 0.0], [3 * LEAST, 2.0, 4.0, 3 * LEAST]),
        ([0.0, 0.0], [LEAST] * 2),
    ],
)
def test_coinciding_points_are_held_at_a_share_of_the_usual_distance(lengths, held):
    given = np.array(lengths)
    pairs = PairDistances.of(np.arange(len(held)), np.arange(len(held)) + 1, given, len(held) + 1)
    np.testing.assert_allclose(pairs.lengths, held)
    np.testing.assert_array_equal(given, lengths)


def test_edges_of_a_graph_are_held_once():
    X = np.random.default_rng(2).uniform(size=(20, 2))
    graph = symmetrize(neighbor_graph(X, NeighborRule(4).resolve(20), Run(0))[0])
    pairs = PairDistances.of_graph(graph)
    assert 2 * len(pairs) == graph.n_edges
    assert (pairs.i < pairs.j).all()
    np.testing.assert_allclose(pairs.lengths, np.linalg.norm(X[pairs.i] - X[pairs.j], axis=1), rtol=1e-12)


def test_a_refined_layout_is_a_minimum():
    rng = np.random.default_rng(4)
    flat = rng.uniform(size=(60, 2))
    pairs = PairDistances.of_graph(symmetrize(neighbor_graph(flat, NeighborRule(8).resolve(60), Run(0))[0]))
    Y, trace = refine(pairs, flat + 0.01 * rng.standard_normal(flat.shape), 1e-6, 500, Run(0))
    assert (np.diff(trace.objective) <= 0).all()
    # With the pull of a millionth lengths stretch by about that.
    assert np.abs(np.square(pairs.of_points(Y)).sum(axis=1) - 1).max() < 1e-3
    assert np.sqrt(procrustes(Y, flat).error) < 1e-3


def test_the_step_along_a_line_is_the_best_one():
    rng = np.random.default_rng(5)
    Y, move = rng.standard_normal((20, 2)), rng.standard_normal((20, 2))
    i, j = np.triu_indices(20, 1)
    pairs = PairDistances.of(i[::5], j[::5], rng.uniform(0.5, 2.0, len(i[::5])), 20)
    ends, along = pairs.of_points(Y), pairs.of_points(move)
    best = _line_minimum(ends, along, Y, move, 0.1)
    tried = np.array([_value(ends + t * along, Y + t * move, 0.1) for t in np.linspace(-3, 3, 4001)])
    assert _value(ends + best * along, Y + best * move, 0.1) <= tried.min() * (1 + 1e-12)


def test_no_directions_do_better_than_the_bound():
    """The certificate's bound is below the penalized value of every matrix tried."""
    rng = np.random.default_rng(6)
    differences = rng.standard_normal((40, 3))
    kappa = 1e3 * 3 / np.mean(np.square(differences).sum(axis=1))
    bound = certify_basis(differences, np.eye(3) / 3, kappa, 1e-4).bound
    for _ in range(200):
        root = rng.standard_normal((3, 3))
        direction = root @ root.T
        l0 = np.einsum("em,mk,ek->e", differences, direction, differences)
        # The best multiple t of the direction: -t tr + kappa/2 mean (t l - 1)^2.
        t = (np.trace(direction) + kappa * l0.mean()) / (kappa * np.mean(l0**2))
        assert -t * np.trace(direction) + kappa / 2 * np.mean((t * l0 - 1) ** 2) >= bound
