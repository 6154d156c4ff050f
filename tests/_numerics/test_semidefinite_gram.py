"""Both stages over Gram matrices: bracketed by a general solver, whatever the program's kind, and stable."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

from manifoldry import datasets
from manifoldry._core.run import Run
from manifoldry._core.values import Stop
from manifoldry._numerics.semidefinite import interior
from manifoldry._numerics.semidefinite.interior import unfold_gram
from manifoldry.graph._search import NeighborRule, neighbor_graph
from twins import least

N_PROGRAMS, FEW = 200, 6
SEEDS = [*range(FEW), *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(FEW, N_PROGRAMS))]
SLACK, TOL = 1e-3, 1e-6

TWIN_TOL = 1e-6
"""Relative error of the twin's optimum: its own tolerances of 1e-9, magnified by the condition of small programs."""


def random_program(seed):
    """Return W, rows of relative differences, hard lengths and a basis: points on a random connected graph.

    A third has distances that contradict each other; in every second a spanning tree is hard, which any points can
    satisfy; in every third the points are linear maps of a few coordinates.
    """
    rng = np.random.default_rng([seed, 7])
    n = int(rng.integers(5, 10))
    X = rng.normal(size=(n, 3))
    tree = np.column_stack([np.arange(1, n), [rng.integers(0, k) for k in range(1, n)]])
    others = np.array([(a, b) for a in range(n) for b in range(a) if (a, b) not in set(map(tuple, tree))])
    more = others[rng.permutation(len(others))[: int(rng.integers(n, 2 * n))]]
    i, j = np.concatenate([tree, more]).T
    noise = [0.0, 0.1, 0.5][seed % 3]
    tau = np.linalg.norm(X[i] - X[j], axis=1) * np.exp(noise * rng.normal(size=len(i)))
    B = (np.eye(n)[i] - np.eye(n)[j]) / tau[:, None]
    weights = rng.uniform(size=(n, n))
    weights = (weights + weights.T) / n**2
    W = np.diag(weights.sum(axis=1)) - weights
    hard = (np.arange(len(i)) < len(tree)) & (seed % 2 == 1)
    basis = np.eye(n)[:, 1:]
    if seed % 3 == 2 and not hard.any():
        basis = np.linalg.qr(X - X.mean(axis=0))[0]
    return W, B, hard, basis


def reduced(W, B, basis):
    return basis.T @ W @ basis, B @ basis


@pytest.mark.parametrize("seed", SEEDS)
def test_both_stages_are_bracketed(seed):
    W, B, hard, basis = random_program(seed)
    found = unfold_gram(W, sp.csr_array(B), Run(0, 1), slack=SLACK, tol=TOL, hard=hard, basis=sp.csr_array(basis))
    form, rows = reduced(W, B, basis)
    open_low, open_high = np.where(hard, 1.0, -np.inf), np.where(hard, 1.0, np.inf)
    error, _ = least(np.zeros_like(form), rows, open_low, open_high, squared=np.where(hard, 0.0, 1.0))
    # The twin's squared errors are exact to its tolerance times those of lengths that are far from 1.
    room = TWIN_TOL * max(1.0, error) + found.error_noise
    assert found.error_bound <= error + room
    assert error - room <= found.error
    assert found.error - found.error_bound <= 1e-4 * max(error, SLACK**2) + found.error_noise
    low = np.where(hard, 1.0, found.center - SLACK)
    high = np.where(hard, 1.0, found.center + SLACK)
    stretch = -least(-form, rows, low, high)[0]
    assert found.bound >= stretch * (1 - TWIN_TOL)
    assert found.stretch <= stretch * (1 + TWIN_TOL) + found.noise
    if error <= len(B):  # hard lengths a hundred times too long for their neighbors leave rounding of that size
        assert found.stop is Stop.CONVERGED
        assert found.bound - found.stretch <= 2 * TOL * stretch
        assert found.noise <= TOL * stretch


@pytest.mark.parametrize("seed", range(6))
def test_solutions_are_what_they_say(seed):
    W, B, hard, basis = random_program(seed)
    found = unfold_gram(W, B, Run(0, 1), slack=SLACK, tol=TOL, hard=hard, basis=basis)
    np.testing.assert_allclose(np.square(B @ found.root).sum(axis=1), found.lengths, rtol=1e-10)
    assert np.vdot(W, found.root @ found.root.T) == pytest.approx(found.stretch, rel=1e-10)
    width = np.where(hard, 0.0, SLACK)
    outside = np.maximum(np.abs(found.lengths - found.center) - width, 0.0)
    assert outside.max() == pytest.approx(found.violation, abs=1e-12)
    assert found.violation <= 5e-6
    assert (found.center[hard] == 1).all()
    # The points stay where the basis lets them be.
    inside = basis @ np.linalg.lstsq(basis, found.root, rcond=None)[0]
    np.testing.assert_allclose(inside, found.root, atol=1e-9 * np.abs(found.root).max())


@pytest.mark.parametrize("seed", range(4))
def test_steps_may_start_in_single_precision(seed, monkeypatch):
    W, B, hard, basis = random_program(seed)
    settings = {"slack": SLACK, "tol": TOL, "hard": hard}
    double = unfold_gram(W, sp.csr_array(B), Run(0, 2), basis=basis, **settings)
    monkeypatch.setattr(interior, "MIN_SINGLE_LENGTHS", 1)
    single = unfold_gram(W, sp.csr_array(B), Run(0, 2), basis=basis, **settings)
    # Each is within its gap of its optimum, and the centers of the bands within a thousandth of the slack.
    room = 2 * TOL + 1e-3 * SLACK * float(np.abs(double.multipliers).sum()) / double.stretch
    assert single.stretch == pytest.approx(double.stretch, rel=room)


def test_a_false_bound_is_not_proven(monkeypatch):
    """Multipliers that leave the dual matrix indefinite are raised until they prove something, or prove nothing."""
    from manifoldry._numerics.semidefinite.gram_newton import GramOperator, LengthBands
    from manifoldry._numerics.semidefinite.interior import prove_bound

    W, B, _, basis = random_program(0)
    soft = np.ones(len(B), dtype=bool)
    form, rows = reduced(W, B, basis)
    best = -least(-form, rows, 1 - SLACK, 1 + SLACK)[0]
    operator = GramOperator(sp.csr_array(B), W, basis, Run(0, 1))
    term = LengthBands(np.ones(len(B)), SLACK, soft)
    for seed in range(5):
        wild = np.random.default_rng(seed).normal(size=len(B))
        bound, smallest = prove_bound(operator, term, wild, np.eye(basis.shape[1]))
        assert bound >= best * (1 - TWIN_TOL)
        assert np.isfinite(bound)
        assert smallest > 0
    monkeypatch.setattr("manifoldry._numerics.semidefinite.interior.MAX_RAISES", 1)
    for seed in range(5):  # a millionth beside the border of what is feasible, a million times what rounding does
        wild = np.random.default_rng(seed).normal(size=len(B))
        missing = -scipy.linalg.eigvalsh(rows.T @ (wild[:, None] * rows) - form, rows.T @ rows)[0]
        for share, proven in ((-1e-6, False), (1e-6, True)):
            border = wild + missing + share * np.abs(wild + missing).max()
            assert np.isfinite(prove_bound(operator, term, border, np.eye(basis.shape[1]))[0]) == proven
    assert prove_bound(operator, term, -np.ones(len(B)), np.eye(basis.shape[1]))[0] == np.inf


def test_rounding_calls_for_new_coordinates(monkeypatch):
    """In the coordinates of the points alone the Gram matrix of a surface loses its last directions to rounding."""
    X = datasets.s_curve(80).X
    graph = neighbor_graph(X, NeighborRule(5, None, "euclidean"), Run(0, 1))[0]
    i, j = graph.rows(), graph.indices
    i, j = np.unique(np.sort(np.column_stack([i, j]), axis=1), axis=0).T
    B = sp.csr_array((np.eye(80)[i] - np.eye(80)[j]) / np.linalg.norm(X[i] - X[j], axis=1)[:, None])
    settings = {"slack": 1e-4, "tol": 1e-6, "fits": True, "basis": sp.eye_array(80, format="csr")[:, 1:]}
    found = unfold_gram(np.eye(80) - 1 / 80, B, Run(0, 1), **settings)
    assert found.stop is Stop.CONVERGED
    assert -found.noise <= found.bound - found.stretch <= 2e-6 * found.stretch
    monkeypatch.setattr(interior._Path, "_sharpen", lambda _: False)
    assert unfold_gram(np.eye(80) - 1 / 80, B, Run(0, 1), **settings).stop is Stop.LIMIT
