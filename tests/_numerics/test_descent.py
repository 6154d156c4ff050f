"""The one descent: phases, computations of the objective, reasons to stop."""

from dataclasses import replace

import numpy as np
import pytest

from manifoldry._core.run import Run
from manifoldry._core.values import Stop, Trace
from manifoldry._numerics.descent.optimizer import Momentum, Phase, descend, descend_rows


def bowl(rate=0.1, momentum=0.5, curvature=(1.0, 4.0)):
    weights = np.array(curvature)
    return Momentum(lambda Y: 2 * weights * Y, lambda Y: 1 + float((weights * Y**2).sum()), rate, momentum)


def pair():
    return np.array([[1.0, -2.0], [-1.0, 2.0]])


def test_the_first_step_is_the_plain_gradient_step():
    Y = pair()
    bowl(rate=0.1).advance(Y, 0, 1)
    # Gains start at 1 and shrink once, to 0.8, because no velocity points downhill yet.
    np.testing.assert_allclose(Y, pair() * (1 - 0.1 * 0.8 * 2 * np.array([1.0, 4.0])))


@pytest.mark.parametrize("restart", ["global", "per_point"])
def test_steps_are_momentum_gains_and_restart_written_out(restart):
    optimizer, Y = replace(bowl(rate=0.05, momentum=0.9), restart=restart), pair()
    Z, V, G = pair(), np.zeros((2, 2)), np.ones((2, 2))
    restarted = 0
    for step in range(60):
        optimizer.advance(Y, step, 1)
        slope = 2 * np.array([1.0, 4.0]) * Z
        ascent = V * slope
        if restart == "global" and ascent.sum() > 0:
            V, ascent, restarted = np.zeros((2, 2)), np.zeros((2, 2)), restarted + 1
        for i in range(2):
            if restart == "per_point" and ascent[i].sum() > 0:
                V[i], restarted = V[i] / 2, restarted + 1
        for i in np.ndindex(2, 2):
            G[i] = max(0.01, G[i] + 0.2 if ascent[i] < 0 else G[i] * 0.8)
            V[i] = 0.9 * V[i] - 0.05 * G[i] * slope[i]
        Z += V
        Z -= Z.mean(axis=0)
    np.testing.assert_allclose(Y, Z, rtol=1e-10, atol=1e-15)
    assert restarted > 0


def test_no_coordinate_moves_farther_than_allowed():
    Y = np.array([[1000.0], [-1000.0]])
    Momentum(lambda Y: Y, lambda _: 0.0, learning_rate=1.0, max_move=5.0).advance(Y, 0, 1)
    np.testing.assert_allclose(Y, [[995.0], [-995.0]])


def test_it_converges_and_says_so():
    Y = pair()
    trace = descend(Y, [Phase("down", bowl(), 5000, tol=1e-9, check_every=100)], Run())
    assert trace.stop is Stop.CONVERGED
    assert trace.n_iter < 5000
    assert trace.n_iter == trace.steps[-1]
    # 100 steps gained less than 1e-9 of the bottom's 1, so the square of the way left is about that.
    assert np.abs(Y).max() < 1e-4


def test_the_limit_is_kept_and_told():
    trace = descend(pair(), [Phase("a", bowl(), 3), Phase("b", bowl(), 4, tol=1e-9, check_every=2)], Run())
    assert trace.stop is Stop.LIMIT
    np.testing.assert_array_equal(trace.steps, [0, 3, 5, 7])


def test_the_trace_is_the_objective_at_that_moment():
    Y, watched = pair(), []
    optimizer = bowl()
    run = Run(callback=lambda _: watched.append(optimizer.objective(Y)))
    trace = descend(Y, [Phase("a", optimizer, 10, check_every=4)], run)
    np.testing.assert_array_equal(trace.objective[1:], np.array(watched)[[3, 7, 9]])


def test_the_callback_hears_every_step_and_can_stop_it():
    heard = []

    def listen(progress):
        heard.append((progress.done, progress.total, progress.message))
        return progress.done == 5

    trace = descend(pair(), [Phase("a", bowl(), 3), Phase("b", bowl(), 10)], Run(callback=listen))
    assert trace.stop is Stop.ASKED
    assert heard == [(1, 13, "a"), (2, 13, "a"), (3, 13, "a"), (4, 13, "b"), (5, 13, "b")]
    assert trace.n_iter == 5


def test_an_interrupt_keeps_the_layout_reached():
    def interrupt(progress):
        if progress.done == 7:
            raise KeyboardInterrupt

    Y, whole = pair(), pair()
    with pytest.warns(UserWarning, match="Interrupted"):
        trace = descend(Y, [Phase("a", bowl(), 100)], Run(callback=interrupt))
    descend(whole, [Phase("a", bowl(), 7)], Run())
    assert trace.stop is Stop.INTERRUPTED
    assert trace.n_iter == 7
    np.testing.assert_array_equal(Y, whole)


def test_a_trace_needs_a_step_for_each_objective():
    with pytest.raises(ValueError, match="one step per objective; got 1 and 2"):
        Trace(np.zeros(2), Stop.LIMIT, np.zeros(1, dtype=int))


def test_without_a_tolerance_a_rising_objective_does_not_stop_it():
    ascent = Momentum(lambda Y: -Y, lambda Y: float((Y**2).sum()), learning_rate=0.1)
    trace = descend(pair(), [Phase("up", ascent, 40, check_every=5)], Run())
    assert trace.n_iter == 40
    assert trace.objective[-1] > trace.objective[0]


def test_a_phase_ends_when_its_layout_says_so():
    phases = [Phase("a", bowl(), 100, stop_when=lambda Y: np.abs(Y).max() < 0.5), Phase("b", bowl(), 3)]
    Y = pair()
    trace = descend(Y, phases, Run())
    assert 3 < trace.n_iter < 100
    assert len(trace.steps) == 3


def test_rows_descend_one_by_one_and_stop_when_they_have_arrived():
    start = np.array([[1.0, -2.0], [0.0, 0.0], [30.0, 1.0]])
    asked = []

    def gradient(places, rows):
        asked.append(rows.copy())
        return 2 * places

    Y = start.copy()
    descend_rows(Y, gradient, learning_rate=0.1, momentum=0.5, max_move=1.0, max_iter=200, tol=1e-8)
    assert np.abs(Y).max() < 1e-6
    assert 1 not in asked[1]  # at its minimum, it does not move
    assert len(asked[-1]) == 1
    for i in range(3):
        alone = start[i : i + 1].copy()
        descend_rows(alone, lambda Y, _: 2 * Y, learning_rate=0.1, momentum=0.5, max_move=1.0, max_iter=200, tol=1e-8)
        np.testing.assert_array_equal(alone, Y[i : i + 1])
    one = start.copy()
    descend_rows(one, lambda Y, _: 2 * Y, learning_rate=0.1, momentum=0.5, max_move=1.0, max_iter=1, tol=1e-8)
    np.testing.assert_allclose(one, [[0.8, -1.6], [0, 0], [29.0, 0.8]])
