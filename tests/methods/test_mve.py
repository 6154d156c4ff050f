"""Minimum volume embedding: planes, stars and noisy rolls, and the steps that lead to them."""

import numpy as np
import pytest

from helpers import graph_of, rigid_error
from manifoldry import MVE, MVU, datasets
from manifoldry._core.run import Run
from manifoldry._numerics.semidefinite.pairs import PairDistances, unfold_points
from manifoldry.methods.unfolding._mvu_variants import least_volume
from twins import least


def share(model, d=2):
    values = model.spectrum_.values
    return values[:d].sum() / values.sum()


def eigengap(V, d):
    values = np.linalg.svd(V - V.mean(axis=0), compute_uv=False) ** 2
    return values[:d].sum() - values[d:].sum()


@pytest.mark.parametrize("constraints", ["equal", "at most"])
def test_a_plane_is_its_own_answer_and_proven_among_all(constraints):
    """A braced planar graph has no variance to move: all of it is in two dimensions, the most that any G has."""
    rng = np.random.default_rng(0)
    plane = rng.uniform(size=(40, 2)) * [3, 2]
    X = plane @ np.linalg.qr(rng.standard_normal((5, 5)))[0][:2] + 7
    settings = {"n_neighbors": 12, "constraints": constraints, "slack": 1e-5, "tol": 1e-5}
    mve = MVE(**settings).fit(X)
    assert share(mve) > 1 - 1e-4
    assert rigid_error(mve.embedding_, plane) < 2e-3
    assert mve.eigengap_ == pytest.approx(np.square(plane - plane.mean(axis=0)).sum(), rel=1e-4)
    # Some 1e-5 of the variance is beside the plane, on the central path, and counts twice.
    assert mve.overall_certificate_.gap < 2e-4
    assert mve.certificate_.optimal


def test_without_steps_it_is_mvu():
    X = datasets.swiss_roll(40).X
    mve, mvu = MVE(n_neighbors=5, max_iter=0).fit(X), MVU(n_neighbors=5).fit(X)
    assert np.array_equal(mve.embedding_, mvu.embedding_)
    assert mve.certificate_ == mvu.certificate_


def test_three_arms_on_a_line():
    """Arms of 5, 4 and 3 unit steps have sums of squares 55 + 30 + 14 = 99, and sums 15, 10 and 6.

    MVU balances them in the plane, 15, 10 and 6 being sides of a triangle: variance 99. On a line the longest goes one
    way, the others go the other: 99 - (15 - 10 - 6)^2 / 13.
    """
    edges = []
    for first, steps in ((1, 5), (6, 4), (10, 3)):
        edges += [(0, first, 1.0)] + [(first + k, first + k + 1, 1.0) for k in range(steps - 1)]
    star = graph_of(13, edges)
    mve = MVE(n_components=1, constraints="at most", tol=1e-7).fit(star)
    assert mve.eigengap_ == pytest.approx(99 - 1 / 13, rel=1e-5)
    assert share(mve, 1) > 1 - 1e-5
    # The other end of the bracket is the variance in any number of dimensions, which a line does not reach.
    assert -mve.overall_certificate_.bound == pytest.approx(99, rel=1e-5)
    assert mve.overall_certificate_.gap == pytest.approx(99 / (99 - 1 / 13) - 1, rel=2e-2)
    assert share(MVU(n_components=1, constraints="at most").fit(star), 1) < 0.97


@pytest.mark.parametrize("constraints", ["equal", "at most"])
def test_the_sequence_never_falls_and_each_step_is_bracketed(constraints):
    """f(G') >= tr(G' B) >= tr(G B) - gap = f(G) - gap, for B of the leading eigenvectors of G."""
    X = datasets.swiss_roll(50, noise=0.5, random_state=2).X
    mve = MVE(n_neighbors=5, constraints=constraints).fit(X)
    pairs = PairDistances.of_graph(mve.graph_)
    settings = {"slack": 1e-2, "tol": 1e-4, "fits": True, "at_most": constraints == "at most"}
    run, n = Run(0), len(X)
    before = unfold_points(pairs, run, **settings)
    gaps = [eigengap(before.V, 2)]
    for _ in range(mve.trace_.n_iter):
        V = before.V - before.V.mean(axis=0)
        axes = np.linalg.svd(V, full_matrices=False)[0][:, :2]
        form = 2 * axes @ axes.T - np.eye(n) + 1 / n
        after = unfold_points(pairs, run, form=form, **settings)
        reached = -after.certificate.objective
        assert reached == pytest.approx(np.vdot(after.V, form @ after.V), rel=1e-9)
        assert reached >= gaps[-1] - (after.certificate.objective - after.certificate.bound)
        gaps.append(eigengap(after.V, 2))
        assert gaps[-1] >= reached * (1 - 1e-9)
        before = after
    assert -mve.trace_.objective == pytest.approx(np.maximum.accumulate(gaps), rel=1e-6)
    assert np.all(np.diff(mve.trace_.objective) <= 0)
    assert mve.eigengap_ == pytest.approx(max(gaps), rel=1e-6)


def test_a_step_agrees_with_a_general_solver():
    """A form with negative eigenvalues too: the twin finds the same largest value."""
    rng = np.random.default_rng(4)
    n = 9
    X = rng.standard_normal((n, 5))
    pairs = PairDistances.of_graph(MVU(n_neighbors=3).fit(X).graph_)
    axis = rng.standard_normal(n)
    axis = (axis - axis.mean()) / np.linalg.norm(axis - axis.mean())
    form = 2 * np.outer(axis, axis) - np.eye(n) + 1 / n
    for at_most in (False, True):
        found = unfold_points(pairs, Run(0), slack=1e-6, tol=1e-7, fits=True, form=form, at_most=at_most)
        low = -np.inf if at_most else 1.0
        best = -least(-form[1:, 1:], pairs.matrix().toarray()[:, 1:], low, 1.0)[0]
        # What the width of the bands is worth, by the multipliers, and the twin's own error.
        width = (0.0 if at_most else 1e-6 * np.abs(found.multipliers).sum()) + 1e-6 * (1 + abs(best))
        assert -found.certificate.objective == pytest.approx(best, abs=2 * width)
        assert -found.certificate.bound >= best - width


@pytest.mark.parametrize("seed", range(3))
def test_noisy_rolls_have_a_larger_share_in_two_dimensions_than_mvu_leaves(seed):
    """The claim of the paper; and distances are as well kept."""
    X = datasets.swiss_roll(60, noise=0.5, random_state=seed).X
    mve, mvu = (method(n_neighbors=5).fit(X) for method in (MVE, MVU))
    assert share(mve) > share(mvu)
    assert mve.eigengap_ > eigengap(mvu.spectrum_.scaled(0.5), 2)
    assert mve.error_ <= 1e-4 * (1 + 1e-6)  # the slack's square
    assert mve.certificate_.optimal


def test_a_stop_keeps_the_last_whole_step():
    X = datasets.swiss_roll(40).X
    calls = []

    def after_the_first(progress):
        calls.append(progress)
        return progress.stage == "semidefinite program" and len(calls) > 30

    mve = MVE(n_neighbors=5, callback=after_the_first).fit(X)
    assert mve.certificate_.optimal
    assert mve.diagnostics_["stopped"]


def test_more_dimensions_than_the_points_span_leave_the_variance():
    X = np.random.default_rng(0).standard_normal((8, 3))
    pairs = PairDistances.of_graph(MVU(n_neighbors=4).fit(X).graph_)
    _, overall, _ = least_volume(pairs, 7, Run(0), tol=1e-6, max_iter=5, slack=1e-4, fits=True)
    assert overall.objective == pytest.approx(overall.bound, rel=2e-6)
