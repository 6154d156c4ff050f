"""Components side by side, and new points that find the component they belong to."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score

from manifoldry import LaplacianEigenmaps
from manifoldry._core.run import Run
from manifoldry._numerics.extension.components import (
    GAP_SHARE,
    MIN_ROOMY_SHARE,
    ComponentExtension,
    SeparateComponents,
    SinglePointExtension,
    side_by_side,
)
from manifoldry.graph._search import NeighborIndex, NeighborRule


@dataclass(frozen=True)
class Times:
    """An extension that multiplies: y = factor * (first columns of x)."""

    factor: float
    width: int

    def __call__(self, X, _run):
        return self.factor * X[:, : self.width]


def pieces(seed, sizes=(30, 12, 1, 5), columns=3):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(size, columns)) * rng.uniform(1, 5) + rng.normal(size=columns) * 50 for size in sizes]


def test_pieces_stand_in_a_row_without_overlap():
    given = pieces(1)
    placed = side_by_side(given)
    least = GAP_SHARE * np.mean([np.ptp(piece[:, 0]) for piece in given])
    right = None
    for piece, (rows, shift) in zip(given, placed, strict=True):
        np.testing.assert_array_equal(rows, piece + shift)
        left = rows[:, 0].min()
        # Coordinates of a few hundred, added and subtracted a few times: 1e3 eps.
        if right is None:
            assert left == pytest.approx(0.0, abs=1e-12)
        else:
            assert left - right >= least - 1e-12
        right = rows[:, 0].max()
        np.testing.assert_allclose(rows[:, 1:].min(axis=0), -rows[:, 1:].max(axis=0), atol=1e-12)


def test_moving_a_piece_changes_no_picture():
    given = pieces(2)
    placed = side_by_side(given)
    moved = side_by_side([piece + 8.0 for piece in given])
    for (rows, _), (again, _) in zip(placed, moved, strict=True):
        np.testing.assert_allclose(rows, again, atol=1e-12)  # 1e3 eps, as above


def test_lone_points_keep_their_distance():
    placed = side_by_side([np.zeros((1, 2)), np.ones((1, 2)), np.full((1, 2), 9.0)])
    np.testing.assert_allclose(
        [rows[0] for rows, _ in placed], [[0.0, 0.0], [GAP_SHARE, 0.0], [2 * GAP_SHARE, 0.0]], atol=1e-15
    )


def test_pieces_are_left_as_they_were():
    given = pieces(3)
    before = [piece.copy() for piece in given]
    side_by_side(given)
    for piece, old in zip(given, before, strict=True):
        np.testing.assert_array_equal(piece, old)


def test_a_component_of_few_dimensions_is_padded():
    X = np.arange(12.0).reshape(4, 3)
    placed = ComponentExtension(Times(2.0, 1), None, 3)(X, Run(0))
    np.testing.assert_array_equal(placed, np.column_stack([2 * X[:, 0], np.zeros((4, 2))]))


def test_a_component_of_a_table_sees_its_own_columns():
    D = np.arange(20.0).reshape(4, 5)
    placed = ComponentExtension(Times(1.0, 2), np.array([1, 4]), 2)(D, Run(0))
    np.testing.assert_array_equal(placed, D[:, [1, 4]])
    sparse = ComponentExtension(lambda X, _run: X.toarray(), np.array([1, 4]), 2)(csr_array(D), Run(0))
    np.testing.assert_array_equal(sparse, D[:, [1, 4]])


def test_a_lone_point_takes_every_newcomer_to_itself():
    np.testing.assert_array_equal(SinglePointExtension(2)(np.ones((3, 7)), Run(0)), np.zeros((3, 2)))


def apart(seed=4):
    """Three far clusters, each with its own rule; the third is a lone point."""
    rng = np.random.default_rng(seed)
    label = np.repeat([0, 1, 2], [20, 15, 1])
    centers = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]])
    X = centers[label] + rng.normal(size=(36, 2))
    order = rng.permutation(36)
    X, label = X[order], label[order]
    index = NeighborIndex(X, NeighborRule(3).resolve(36), Run(0))
    rules = [
        ComponentExtension(Times(1.0, 2), None, 2),
        ComponentExtension(Times(-1.0, 1), None, 2),
        SinglePointExtension(2),
    ]
    shifts = [np.zeros(2), np.array([7.0, 1.0]), np.array([-3.0, 5.0])]
    return SeparateComponents(index, label, rules, shifts), X, label, centers


def test_new_points_go_to_the_component_of_their_nearest_old_point():
    extension, _, _, centers = apart()
    rng = np.random.default_rng(5)
    mine = rng.integers(0, 3, size=25)
    Q = centers[mine] + rng.normal(size=(25, 2))
    rules = {
        0: lambda q: q,
        1: lambda q: np.array([7.0 - q[0], 1.0]),
        2: lambda _: np.array([-3.0, 5.0]),
    }
    expected = np.array([rules[int(number)](q) for number, q in zip(mine, Q, strict=True)])
    np.testing.assert_array_equal(extension(Q, Run(0)), expected)
    one_by_one = np.concatenate([extension(Q[i : i + 1], Run(0)) for i in range(25)])
    np.testing.assert_array_equal(one_by_one, expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(extension))(Q, Run(0, 2)), expected)


def test_on_a_given_graph_edges_tell_the_component_and_no_edge_means_no_place():
    label = np.array([0, 0, 1, 1, 2])
    rules = [ComponentExtension(lambda X, _run: X.toarray()[:, :1], members, 2) for members in ([0, 1], [2, 3])]
    extension = SeparateComponents(
        NeighborIndex.of_graph(5),
        label,
        [*rules, SinglePointExtension(2)],
        [np.zeros(2), np.ones(2), np.full(2, 9.0)],
    )
    edges = csr_array(([3.0, 0.5, 0.25, 4.0], ([0, 1, 3, 3], [0, 2, 4, 2])), shape=(4, 5))
    placed = extension(edges, Run(0))
    np.testing.assert_array_equal(placed, [[3.0, 0.0], [1.5, 1.0], [np.nan, np.nan], [9.0, 9.0]])


@pytest.mark.parametrize("n_pieces", [3, 4, 5])
@pytest.mark.parametrize("seed", range(3))
def test_k_means_finds_the_pieces(n_pieces, seed):
    """Blobs of 20 to 200 points, whose Laplacian eigenmaps are the wider the fewer points they have."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(20, 200, n_pieces)
    X = np.concatenate([rng.normal(size=(size, 3)) + 60.0 * np.eye(5, 3)[i] * (i + 1) for i, size in enumerate(sizes)])
    X[:, 0] += np.repeat(60.0 * np.arange(n_pieces), sizes)
    label = np.repeat(np.arange(n_pieces), sizes)
    for n_components in (2, n_pieces):
        Y = LaplacianEigenmaps(n_components=n_components).fit_transform(X)
        found = KMeans(n_pieces, n_init=3, random_state=0).fit_predict(Y)
        assert normalized_mutual_info_score(label, found) == pytest.approx(1.0)


def test_a_stray_piece_keeps_clear_and_takes_no_room():
    rng = np.random.default_rng(0)
    big, stray = rng.uniform(size=(200, 2)), 0.01 * rng.uniform(size=(3, 2))
    (first, _), (second, _) = side_by_side([big, stray])
    assert first[:, 0].max() < second[:, 0].min()
    assert np.ptp(np.r_[first, second][:, 0]) < 1.2 * np.ptp(big[:, 0])


def test_every_point_is_nearest_to_the_mean_of_its_piece():
    found = [piece for piece in pieces(4) if len(piece) >= MIN_ROOMY_SHARE * max(map(len, pieces(4)))]
    assert len(found) > 1
    placed = [rows for rows, _ in side_by_side(found)]
    means = np.array([rows.mean(axis=0) for rows in placed])
    for number, rows in enumerate(placed):
        away = np.linalg.norm(rows[:, None] - means, axis=2)
        assert (away.argmin(axis=1) == number).all()
