"""Colored maximum variance unfolding: the variance where targets say nothing, and what is known on paper of others."""

import numpy as np
import pytest

from helpers import graph_of
from manifoldry import MVU, ColoredMVU, datasets
from manifoldry._numerics.semidefinite.pairs import PairDistances
from twins import least

TIGHT = {"slack": 1e-6, "tol": 1e-7}


def centered(L):
    H = np.eye(len(L)) - 1 / len(L)
    return H @ L @ H


def form_of(L):
    """Return the centered kernel with the trace of the centering matrix."""
    found = centered(L)
    return found * (len(L) - 1) / np.trace(found)


@pytest.mark.parametrize("y", [None, np.arange(40), np.full(40, -1)])
def test_without_color_it_is_mvu_to_the_bit(y):
    """One class for every point has the kernel L = I, and tr(H G H) is the variance; so it is of unknown targets."""
    X = datasets.swiss_roll(40).X
    colored, plain = ColoredMVU(n_neighbors=5).fit(X, y), MVU(n_neighbors=5).fit(X)
    assert colored.embedding_ == pytest.approx(plain.embedding_, rel=0, abs=1e-7 * np.abs(plain.embedding_).max())
    assert colored.stretch_ == pytest.approx(plain.stretch_, rel=1e-12)
    assert colored.certificate_.bound == pytest.approx(plain.certificate_.bound, rel=1e-9)


def test_upper_bounds_alone_reach_the_variance_that_low_rank_reaches():
    """The band from 0 to 1 is the upper bound alone: the same program as that of MVU's central path in low rank."""
    X = datasets.swiss_roll(60).X
    settings = {"n_neighbors": 5, "constraints": "at most", "tol": 1e-7}
    colored, plain = ColoredMVU(**settings).fit(X), MVU(**settings).fit(X)
    assert colored.certificate_.optimal
    assert plain.certificate_.optimal
    assert colored.stretch_ == pytest.approx(plain.stretch_, rel=2e-7)
    assert colored.certificate_.violation <= 5e-6


@pytest.mark.parametrize("metric", ["categorical", "numeric", "linear"])
@pytest.mark.parametrize("constraints", ["equal", "at most"])
def test_small_programs_agree_with_a_general_solver(metric, constraints):
    rng = np.random.default_rng(3)
    n = 9
    X, y = rng.standard_normal((n, 5)), rng.integers(0, 3, n).astype(float)
    y[4] = np.nan
    known = np.flatnonzero(np.isfinite(y))
    away = y[known, None] - y[known]
    kernels = {
        "categorical": (away == 0).astype(float),
        "numeric": np.exp(-(away**2) / (2 * np.median(away[away != 0] ** 2))),
        "linear": np.outer(y[known] - y[known].mean(), y[known] - y[known].mean()) / y[known].var(),
    }
    L = np.eye(n)  # a point whose target is not known is like no other
    L[np.ix_(known, known)] = kernels[metric]
    settings = {"constraints": constraints, "target_metric": metric, "n_neighbors": 3, "disconnected": "raise"}
    colored = ColoredMVU(**settings, **TIGHT).fit(X, y)
    pairs = PairDistances.of_graph(colored.graph_)
    low = 1.0 if constraints == "equal" else -np.inf
    best = -least(-form_of(L)[1:, 1:], pairs.matrix().toarray()[:, 1:], low, 1.0)[0]
    assert colored.stretch_ == pytest.approx(best, rel=1e-5)
    assert colored.certificate_.gap < 1e-5
    assert -colored.certificate_.bound >= best * (1 - 1e-6)


def test_two_classes_pull_a_chain_apart_at_its_middle():
    """Two halves of an evenly spaced chain: no larger distance of their means is possible than of a straight line's.

    With the centered kernel of two equal classes, z z' / 2 for z = +-1, tr(G L) is n^2 / 8 times the squared distance
    of the means; the means of a chain are farthest apart if it is straight.
    """
    n = 12
    chain = graph_of(n, [(k, k + 1, 1.0) for k in range(n - 1)])
    y = np.repeat([0, 1], n // 2)
    colored = ColoredMVU(n_components=1, **TIGHT).fit(chain, y)
    means = n / 2  # of 0..5 and of 6..11
    expected = n**2 / 8 * means**2 * (n - 1) / (n / 2)  # L centered has trace n / 2, and is brought to n - 1
    assert colored.stretch_ == pytest.approx(expected, rel=1e-5)
    assert np.abs(np.diff(colored.embedding_[:, 0])) == pytest.approx(np.ones(n - 1), rel=1e-3)


def test_targets_choose_which_arm_of_a_star_is_stretched():
    """Of three arms two are of one class: they fold onto each other, opposite to the third, which MVU's 120 do not."""
    per_arm = 4
    edges = []
    for arm in range(3):
        first = 1 + arm * per_arm
        edges += [(0, first, 1.0)] + [(first + k, first + k + 1, 1.0) for k in range(per_arm - 1)]
    star = graph_of(13, edges)
    y = np.r_[-1, np.zeros(per_arm), np.zeros(per_arm), np.ones(per_arm)]
    colored = ColoredMVU(n_components=2, constraints="at most", tol=1e-6).fit(star, y)
    tips = colored.embedding_[[4, 8, 12]] - colored.embedding_[0]
    tips /= np.linalg.norm(tips, axis=1)[:, None]
    assert tips[0] @ tips[1] == pytest.approx(1.0, abs=1e-2)
    assert tips[0] @ tips[2] == pytest.approx(-1.0, abs=1e-2)


def test_targets_go_with_the_points_of_each_component():
    """Components embedded apart are those of fits to each component alone, with its own targets."""
    rng = np.random.default_rng(5)
    near, far = rng.standard_normal((14, 3)), rng.standard_normal((11, 3)) + 100
    order = rng.permutation(25)
    X, y = np.vstack([near, far])[order], np.r_[rng.integers(0, 2, 14), rng.integers(0, 2, 11)][order]
    settings = {"n_neighbors": 6, "disconnected": "apart"}
    whole = ColoredMVU(**settings).fit(X, y).embedding_
    members = X[:, 0] > 50
    alone = ColoredMVU(**settings).fit(X[members], y[members]).embedding_
    apart = whole[members]
    assert np.linalg.norm(apart[:, None] - apart, axis=2) == pytest.approx(
        np.linalg.norm(alone[:, None] - alone, axis=2), abs=1e-6
    )


def test_targets_that_say_nothing_are_named():
    X = datasets.swiss_roll(40).X
    colored = ColoredMVU(n_neighbors=5).fit(X, np.ones(40))
    assert any("all the same" in sentence for sentence in colored.diagnostics_["advice"])
    assert colored.stretch_ == pytest.approx(MVU(n_neighbors=5).fit(X).stretch_, rel=1e-12)
    for y in (None, np.full(40, -1)):
        assert any("No target is known" in sentence for sentence in colored.fit(X, y).diagnostics_["advice"])


def test_too_many_distances_are_refused_with_what_to_try():
    X = np.random.default_rng(0).standard_normal((1000, 3))
    with pytest.raises(ValueError, match=r"^ColoredMVU keeps up to 9,000 distances.*lower n_neighbors"):
        ColoredMVU(n_neighbors=20).fit(X)
