"""Restarts: the contradiction of a layout by the points, against loops and paper; which layout is chosen."""

import numpy as np
import pytest

from helpers import tilted
from manifoldry import datasets
from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry._numerics.patches.restarts import (
    MAX_INCONSISTENCY,
    N_HOPELESS_INIT,
    N_INCONSISTENCY_POINTS,
    InconsistencyScore,
    best_restart,
    resolve_n_init,
    thinned,
    without_torn,
)
from manifoldry.graph._operations import components, symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph

RUN = Run(0, 1)
SHEET = np.random.default_rng(3).uniform(size=(200, 2))


def neighbors(X, k=6):
    return symmetrize(neighbor_graph(X, NeighborRule(k).resolve(len(X)), RUN)[0])


def in_loops(X, graph, Y):
    """Return the contradiction by its definition, pair by pair."""
    part = np.empty(len(X), dtype=int)
    for number, members in enumerate(components(graph)):
        part[members] = number
    shrunk = [
        max(0.0, 1 - np.linalg.norm(Y[i] - Y[j]) / np.linalg.norm(X[i] - X[j]))
        for i in range(len(X))
        for j in range(i)
        if part[i] == part[j] and np.any(X[i] != X[j])
    ]
    stretched = [
        min(1.0, max(0.0, np.linalg.norm(Y[i] - Y[j]) / length - 1)) if length > 0 else 0.0
        for i, j, length in zip(graph.rows(), graph.indices, graph.lengths, strict=True)
    ]
    return np.mean(shrunk) + np.mean(stretched)


@pytest.mark.parametrize("unit", [1.0, 1e-9, 1e9])
def test_isometric_layouts_are_not_contradicted_and_collapsed_ones_wholly(unit):
    X = unit * tilted(SHEET, 4)
    measure = InconsistencyScore.of(X, neighbors(X), RUN)
    turned = unit * SHEET @ [[0.6, 0.8], [0.8, -0.6]] + unit
    assert measure(turned) < 1e-6  # the nearest points lose digits to the shift
    assert measure(np.zeros((200, 2))) == 1.0
    assert measure(0.75 * turned) == pytest.approx(0.25, rel=1e-6)
    assert measure(1.25 * turned) == pytest.approx(0.25, rel=1e-6)
    assert measure(9 * turned) == 1.0  # an edge counts once, however long it has become


def test_contradictions_are_those_of_all_pairs():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(20, 3)), rng.normal(size=(15, 3)) + 50])  # two components
    X[3] = X[4]  # coincident points have no ratio
    graph, Y = neighbors(X, 4), rng.normal(size=(35, 2))
    assert len(components(graph)) == 2
    assert InconsistencyScore.of(X, graph, RUN)(Y) == pytest.approx(in_loops(X, graph, Y), rel=1e-12)


def test_the_compression_of_three_points_is_that_on_paper():
    """Of distances 1, 3, 2 the layout has 1, 1/2, 1/2: short by 0, 5/2, 3/2. Stretched layouts are not compressed."""
    X, Y = np.array([[0.0, 0], [1, 0], [3, 0]]), np.array([[0.0], [1.0], [0.5]])
    measure = InconsistencyScore.of(X, neighbors(X, 2), RUN)
    assert measure.both(Y)[1] == pytest.approx(np.sqrt(8.5 / 1.5), rel=1e-12)
    assert measure.both(X)[1] == measure.both(2 * X)[1] == 0.0
    assert measure.both(np.zeros((3, 2)))[1] == 0.0  # no spread to compare with


@pytest.mark.parametrize("moved", [1, 5, 300])
def test_the_compression_of_a_roll_is_a_lower_bound_of_the_error(moved):
    """Also of a single point on the wrong sheet, which the mean over pairs in a contradiction hardly shows."""
    roll, rng = datasets.swiss_roll(300, random_state=3), np.random.default_rng(4)
    Z = roll.truth - roll.truth.mean(axis=0)
    Y = Z.copy()
    Y[:moved] = Z[rng.permutation(300)[:moved]]
    Y -= Y.mean(axis=0)
    measure = InconsistencyScore.of(roll.X, neighbors(roll.X), RUN)
    assert measure.both(Z)[1] < 1e-12
    assert 0 < measure.both(Y)[1] <= np.linalg.norm(Y - Z) / np.linalg.norm(Y)


def test_the_unrolled_roll_is_not_contradicted_and_the_roll_seen_from_the_side_is():
    roll = datasets.swiss_roll(1500)
    measure = InconsistencyScore.of(roll.X, neighbors(roll.X), RUN)
    assert len(measure.points) == N_INCONSISTENCY_POINTS < 1500
    # Chords are shorter than arcs by (l / r)^2 / 24, with edges of about 2 on bends of 5 and more: below 1 %.
    assert measure(roll.truth) < MAX_INCONSISTENCY
    assert measure(roll.X[:, [0, 2]]) > 0.1


def layouts(*stretches):
    """Return a `make` whose layouts are the sheet, shrunk in the given ratios one after the other, and what it saw."""
    seen = []

    def make(trial):
        seen.append(trial)
        return (1 - stretches[trial.number - 1]) * SHEET

    return make, seen


def chosen(first, make, n_init, run=RUN, graph=None):
    graph = neighbors(SHEET) if graph is None else graph
    return best_restart((1 - first) * SHEET, make, lambda Y: Y, SHEET, graph, n_init, run)


def test_a_layout_that_is_not_contradicted_is_taken_as_it_is():
    make, seen = layouts()
    assert chosen(0.9 * MAX_INCONSISTENCY, make, 16).scores == pytest.approx([0.9 * MAX_INCONSISTENCY])
    assert seen == []
    assert len(chosen(0.5, make, 1).scores) == 1


def test_the_first_layout_that_is_not_contradicted_ends_the_search():
    make, seen = layouts(0.3, 0.005, 0.0)
    found = chosen(0.4, make, 16)
    assert found.scores == pytest.approx([0.4, 0.3, 0.005])
    assert found.score == pytest.approx(found.scores[-1])
    assert np.array_equal(found.layout, 0.995 * SHEET)
    assert [trial.number for trial in seen] == [1, 2]


@pytest.mark.parametrize(("best", "taken"), [(0.19, 0.19), (0.21, 0.4)])
def test_one_that_is_contradicted_too_has_to_be_so_by_half(best, taken):
    make, _ = layouts(0.3, best, 0.3, 0.3, 0.3)
    assert chosen(0.4, make, 4).score == pytest.approx(taken)


def test_restarts_that_change_little_are_given_up():
    make, seen = layouts(*[0.35] * 15)
    assert len(chosen(0.4, make, 16).scores) == N_HOPELESS_INIT == len(seen) + 1
    make, seen = layouts(0.1, *[0.35] * 14)
    assert len(chosen(0.4, make, 16).scores) == 16


def test_restarts_are_made_without_short_circuits():
    """Two long strips side by side, joined at one end, and one edge across near the other."""
    x = np.arange(60.0)
    X = np.concatenate([np.column_stack([x, np.zeros(60)]), np.column_stack([x, np.full(60, 3.0)])])
    rows = np.concatenate([np.arange(59), 60 + np.arange(59), np.arange(58), 60 + np.arange(58), [0, 55]])
    columns = np.concatenate([np.arange(1, 60), 61 + np.arange(59), np.arange(2, 60), 62 + np.arange(58), [60, 115]])
    both = np.concatenate([rows, columns]), np.concatenate([columns, rows])
    lengths = np.linalg.norm(X[both[0]] - X[both[1]], axis=1)
    graph = NeighborGraph.from_pairs(*both, lengths, 120, symmetric=True)
    seen = []

    def make(trial):
        seen.append(trial)
        return np.zeros((120, 2))

    found = best_restart(np.zeros((120, 2)), make, lambda Y: Y, X, graph, 2, RUN)
    cut = seen[0].graph
    assert cut.n_edges == graph.n_edges - 2
    assert 115 not in cut.indices[cut.rows() == 55]
    assert found.graph is graph  # the first is kept, with its graph


def test_a_callback_keeps_what_there_is():
    make, seen = layouts(*[0.35] * 15)
    run = Run(0, 1, callback=lambda progress: progress.stage == "restarts")
    assert chosen(0.4, make, 16, run).scores == pytest.approx([0.4])
    assert seen == []


def test_torn_edges_are_cut_unless_they_hold_the_graph_together():
    X = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1], [5, 0]])
    rows, columns = np.array([0, 1, 2, 3, 1]), np.array([1, 2, 3, 0, 4])
    both = np.concatenate([rows, columns]), np.concatenate([columns, rows])
    lengths = np.linalg.norm(X[both[0]] - X[both[1]], axis=1)
    graph = NeighborGraph.from_pairs(*both, lengths, 5, symmetric=True)
    Y = X.copy()
    Y[[3, 4]] += [[0, 1.5], [9, 0]]  # 3-0 and 1-4 become more than twice as long, and only 1-4 reaches 4
    left = without_torn(graph, Y, RUN)
    kept = set(zip(left.rows().tolist(), left.indices.tolist(), strict=True))
    assert kept == {(a, b) for a, b in zip(*both, strict=True)} - {(0, 3), (3, 0)}


def test_thinned_graphs_have_the_nearest_of_each_end_and_stay_connected():
    X = np.concatenate([SHEET, np.add(SHEET[:40], [1.1, 0.0])])
    graph = neighbors(X, 9)
    left = thinned(graph)
    kept = set(zip(left.rows().tolist(), left.indices.tolist(), strict=True))
    near = np.argsort(np.linalg.norm(X[:, None] - X, axis=2), axis=1)[:, 1:5]
    wanted = {(i, int(j)) for i in range(240) for j in near[i]}
    wanted |= {(j, i) for i, j in wanted}
    assert wanted <= kept
    assert len(components(left)) == len(components(graph))
    # What is more than these joins points that these alone leave apart.
    bare = NeighborGraph.from_pairs(*np.array(sorted(wanted)).T, np.ones(len(wanted)), 240, symmetric=True)
    part = {int(i): number for number, members in enumerate(components(bare)) for i in members}
    assert all(part[i] != part[j] for i, j in kept - wanted)


def test_auto_restarts_up_to_five_thousand_points():
    assert [resolve_n_init("auto", n) for n in (5000, 5001)] == [16, 1]
    assert resolve_n_init(3, 10**6) == 3
