"""Repulsion of layouts: all pairs against plain sums, Barnes-Hut and FFT against all pairs."""

import pickle

import numpy as np
import pytest

from manifoldry._core.run import Run
from manifoldry._numerics.repulsion import LayoutKernel
from manifoldry._numerics.repulsion.fft import ERROR_SLACK, FFTRepulsion
from manifoldry._numerics.repulsion.sums import BarnesHutRepulsion, ExactRepulsion

EPS, EPS32 = np.finfo(float).eps, float(np.finfo(np.float32).eps)
KERNELS = {
    "half": LayoutKernel(0.5),
    "cauchy": LayoutKernel(),
    "three": LayoutKernel(3.0),
    "gaussian": LayoutKernel(dof=None),
}
kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
WAYS = {"exact": ExactRepulsion, "barnes_hut": BarnesHutRepulsion, "fft": FFTRepulsion}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def blob(seed, n, d=2, width=1.0):
    return np.random.default_rng(seed).normal(size=(n, d)) * width


def disk(seed, n, width):
    rng = np.random.default_rng(seed)
    angle, radius = rng.uniform(0, 2 * np.pi, n), width / 2 * np.sqrt(rng.uniform(size=n))
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def clusters(seed, n, width, d=2):
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-width / 2, width / 2, size=(20, d))
    return centers[rng.integers(20, size=n)] + rng.normal(size=(n, d)) * width / 40


def charged(seed, n):
    return np.random.default_rng(seed).uniform(0.1, 2.0, n)


def slow(kernel, Y, charges, places, own):
    """Potential and gradient at places, from the formulas, pair by pair in numpy."""
    step = places[:, None] - Y[None]
    s = (step**2).sum(axis=2)
    if kernel.dof is None:
        w, slope = np.exp(-s), -np.exp(-s)
    else:
        nu = kernel.dof
        w = (1 + s / nu) ** (-(nu + 1) / 2)
        slope = -(nu + 1) / (2 * nu) * (1 + s / nu) ** (-(nu + 3) / 2)
    if own:
        np.fill_diagonal(w, 0.0)
    return w @ charges, 2 * np.einsum("ij,ijc->ic", slope * charges, step)


def off(got, true):
    """The error of gradients: norm of the difference over the norm."""
    return np.linalg.norm(got - true) / np.linalg.norm(true)


@kernels
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_pairs_are_the_plain_sum(kernel, d):
    n = 1100  # three blocks of the kernel, the last not full
    Y, charges = blob(1, n, d, 2.0), charged(2, n)
    places = blob(3, 7, d, 3.0)
    repulsion, run = ExactRepulsion(kernel), Run(0, n_jobs=2)
    for got, true in (
        (repulsion.at_points(Y, charges, run), slow(kernel, Y, charges, Y, own=True)),
        (repulsion.at_points(Y, None, run), slow(kernel, Y, np.ones(n), Y, own=True)),
        (repulsion.potential(Y, charges, run)(places, run), slow(kernel, Y, charges, places, own=False)),
    ):
        # Sums of n terms of one sign (potential) or of bounded size (gradient), each off by a few EPS.
        np.testing.assert_allclose(got[0], true[0], rtol=n * EPS)
        np.testing.assert_allclose(got[1], true[1], atol=n * EPS * np.abs(true[1]).max())


def test_pairs_of_float32_are_summed_in_double_precision():
    Y = blob(4, 600, 2, 3.0).astype(np.float32)
    phi, grad = ExactRepulsion(LayoutKernel()).at_points(Y, None, Run(0))
    true_phi, true_grad = slow(LayoutKernel(), Y.astype(float), np.ones(600), Y.astype(float), own=True)
    assert phi.dtype == grad.dtype == np.float32
    np.testing.assert_allclose(phi, true_phi, rtol=EPS32)
    np.testing.assert_allclose(grad, true_grad, rtol=EPS32, atol=1e-9)


def test_weights_of_pairs_keep_their_digits_over_the_whole_range():
    run = Run(0)
    s = np.concatenate([np.geomspace(1e-12, 707.0, 200), [709.0, 1e4, 1e300]])
    origin, places = np.zeros((1, 1)), np.sqrt(s)[:, None]
    phi, _ = ExactRepulsion(LayoutKernel(dof=None)).potential(origin, None, run)(places, run)
    # The square root and its square, and the range reduction, move the exponent by a few EPS of itself.
    np.testing.assert_allclose(phi[:200], np.exp(-s[:200]), rtol=4 * EPS * 707)
    assert (phi[200:] == 0).all()
    s = np.geomspace(1e-12, 1e200, 300)
    for dof in (0.3, 7.0):
        phi, _ = ExactRepulsion(LayoutKernel(dof)).potential(origin, None, run)(np.sqrt(s)[:, None], run)
        logs = -(dof + 1) / 2 * np.log1p(s / dof)
        kept = logs > -700
        np.testing.assert_allclose(phi[kept], np.exp(logs[kept]), rtol=4 * EPS * 700)


def test_pairs_keep_the_digits_of_a_lonely_point():
    Y = np.array([[0.0, 0.0], [0.5, 0.0], [15.0, 0.0]])
    phi, _ = ExactRepulsion(LayoutKernel(dof=None)).at_points(Y, None, Run(0))
    np.testing.assert_allclose(phi[2], np.exp(-(14.5**2)) + np.exp(-225.0), rtol=1e-12)


def test_repulsions_of_pairs_are_opposite():
    Y, charges = clusters(5, 900, 30.0), charged(6, 900)
    _, grad = ExactRepulsion(LayoutKernel()).at_points(Y, charges, Run(0))
    total = charges @ grad
    assert np.abs(total).max() <= 900 * EPS * np.abs(charges[:, None] * grad).sum()


LAYOUTS = {
    "early": (blob(10, 2500, width=1e-2), None),
    "smallest": (blob(11, 2500, width=1e-7), None),
    "middle": (disk(12, 4000, 20.0), None),
    "late": (disk(13, 4000, 95.0), None),  # as many per area as t-SNE leaves
    "clusters": (clusters(14, 4000, 95.0), None),
    "charged": (clusters(15, 3000, 60.0), charged(16, 3000)),
    "narrow": (disk(17, 3000, 60.0) * [1.0, 0.05], None),
    "line": (clusters(18, 3000, 300.0, d=1), None),
}
layouts = pytest.mark.parametrize(("Y", "charges"), LAYOUTS.values(), ids=LAYOUTS)


@kernels
@layouts
@pytest.mark.parametrize("error", [1e-2, 1e-4])
def test_fft_and_barnes_hut_keep_the_error_they_promise(kernel, Y, charges, error):
    run = Run(0, n_jobs=2)
    true_phi, true = ExactRepulsion(kernel).at_points(Y, charges, run)
    for repulsion in (FFTRepulsion(kernel, error), BarnesHutRepulsion(kernel, error)):
        phi, grad = repulsion.at_points(Y, charges, run)
        assert off(grad, true) < error
        assert off(phi, true_phi) < error


@layouts
def test_the_mesh_itself_answers_for_usual_layouts(Y, charges):
    repulsion = FFTRepulsion(LayoutKernel())
    repulsion.at_points(Y, charges, Run(0))
    assert repulsion.n_barnes_hut == 0


@kernels
@pytest.mark.parametrize(("Y", "error"), [(blob(20, 2500, 3, 1e-2), 1e-2), (clusters(21, 3000, 40.0, 3), 1e-4)])
def test_barnes_hut_serves_in_space(kernel, Y, error):
    run = Run(0)
    true = ExactRepulsion(kernel).at_points(Y, None, run)
    phi, grad = BarnesHutRepulsion(kernel, error).at_points(Y, None, run)
    assert off(grad, true[1]) < error
    assert off(phi, true[0]) < error


@kernels
def test_a_tree_that_opens_every_cell_is_exact(kernel):
    Y, charges, places = clusters(22, 700, 20.0, 3), charged(23, 700), blob(24, 5, 3, 9.0)
    repulsion, run = BarnesHutRepulsion(kernel, 1e-14), Run(0)
    exact = ExactRepulsion(kernel)
    for got, true in (
        (repulsion.at_points(Y, charges, run), exact.at_points(Y, charges, run)),
        (repulsion.potential(Y, charges, run)(places, run), exact.potential(Y, charges, run)(places, run)),
    ):
        np.testing.assert_allclose(got[0], true[0], rtol=700 * EPS, atol=1e-300)
        np.testing.assert_allclose(got[1], true[1], atol=700 * EPS * np.abs(true[1]).max())


@ways
@pytest.mark.parametrize("Y", [clusters(25, 4000, 60.0), clusters(26, 4000, 60.0).astype(np.float32)])
def test_threads_and_earlier_questions_change_no_bit(way, Y):
    charges = charged(27, len(Y))
    before = Y.tobytes(), charges.tobytes()
    fresh = way(LayoutKernel()).at_points(Y, charges, Run(0, n_jobs=1))
    used = way(LayoutKernel())
    used.at_points(blob(28, 5000, width=20.0), None, Run(0))
    for n_jobs in (1, 2, 3):
        again = used.at_points(Y, charges, Run(0, n_jobs=n_jobs))
        for a, b in zip(fresh, again, strict=True):
            assert a.dtype == Y.dtype
            np.testing.assert_array_equal(a, b)
    assert before == (Y.tobytes(), charges.tobytes())


@ways
@kernels
def test_duplicates_feel_each_other_like_others(way, kernel):
    Y = clusters(30, 800, 40.0)
    Y[200:500] = Y[3]
    true_phi, true = slow(kernel, Y, np.ones(800), Y, own=True)
    phi, grad = way(kernel).at_points(Y, None, Run(0))
    assert off(grad, true) < 1e-2
    assert off(phi, true_phi) < 1e-2


@ways
@pytest.mark.parametrize("n", [1, 2, 2000])
def test_points_at_one_place(way, n):
    phi, grad = way(LayoutKernel()).at_points(np.full((n, 2), 3.25), None, Run(0))
    np.testing.assert_allclose(phi, n - 1, atol=n * EPS)
    assert not grad.any()


@ways
@pytest.mark.parametrize("width", [1e-200, 1e-40, 1e40])
def test_layouts_of_any_width_have_a_potential(way, width):
    Y = blob(29, 1200) * width
    true_phi, true = ExactRepulsion(LayoutKernel()).at_points(Y, None, Run(0))
    phi, grad = way(LayoutKernel()).at_points(Y, None, Run(0))
    np.testing.assert_allclose(phi, true_phi, rtol=1e-2)
    # Scaled, because the squares of such numbers are none.
    assert off(grad / np.abs(true).max(), true / np.abs(true).max()) < 1e-2


@pytest.mark.parametrize("way", [BarnesHutRepulsion, FFTRepulsion])
@kernels
@pytest.mark.parametrize("far", [10.0, 100.0, 1e9])
def test_one_point_far_away_spoils_nothing(way, kernel, far):
    Y = np.vstack([blob(31, 1500, width=1e-2), [[far, 0.0]]])
    true_phi, true = ExactRepulsion(kernel).at_points(Y, None, Run(0))
    phi, grad = way(kernel).at_points(Y, None, Run(0))
    assert off(grad, true) < ERROR_SLACK * 1e-2  # most points share a cell, and the check of a mesh allows this
    # To each point its own accuracy, however small its potential: SNE divides by it.
    np.testing.assert_allclose(phi, true_phi, rtol=1e-2, atol=1e-300)


def test_faint_potentials_of_a_mesh_are_exact():
    Y = np.vstack([disk(32, 2000, 12.0), [[9.5, 0.0], [0.0, -10.5]]])
    true, _ = ExactRepulsion(LayoutKernel(dof=None)).at_points(Y, None, Run(0))
    repulsion = FFTRepulsion(LayoutKernel(dof=None))
    phi, _ = repulsion.at_points(Y, None, Run(0))
    assert true[-2:].max() < 1e-3 * true.max()
    assert repulsion.n_barnes_hut == 0
    np.testing.assert_allclose(phi[-2:], true[-2:], rtol=1e-9)
    np.testing.assert_allclose(phi, true, rtol=1e-2)


def test_layouts_too_wide_for_a_mesh_go_to_barnes_hut():
    Y, run = clusters(33, 2000, 5000.0), Run(0)
    repulsion = FFTRepulsion(LayoutKernel())
    for got, wanted in zip(
        repulsion.at_points(Y, None, run), repulsion.barnes_hut.at_points(Y, None, run), strict=True
    ):
        np.testing.assert_array_equal(got, wanted)
    assert repulsion.n_barnes_hut == 1


@ways
@kernels
def test_frozen_layouts_give_a_potential_and_its_gradient(way, kernel):
    Y, charges, run = clusters(34, 2000, 30.0), charged(35, 2000), Run(0, n_jobs=2)
    frozen = way(kernel).potential(Y, charges, run)
    places = np.vstack([Y[:20] + 0.3, blob(36, 20, width=8.0)])
    phi, grad = frozen(places, run)
    true_phi, true = slow(kernel, Y, charges, places, own=False)
    assert off(grad, true) < 1e-2
    assert off(phi, true_phi) < 1e-2
    h = 0.05 if way is FFTRepulsion else 1e-4
    slopes = np.empty_like(grad)
    for c in range(2):
        nudge = h * np.eye(2)[c]
        slopes[:, c] = (frozen(places + nudge, run)[0] - frozen(places - nudge, run)[0]) / (2 * h)
    # Rounding (float32 on a mesh) over h, and h^2 / 6 of a third derivative, which is below 10 of the potential.
    noise = (20 * EPS32 if way is FFTRepulsion else 20 * EPS) / h + 10 * h**2 / 6
    np.testing.assert_allclose(grad, slopes, atol=noise * phi.max())


@ways
@pytest.mark.parametrize("d", [1, 2])
def test_frozen_layouts_answer_place_by_place_anywhere_and_after_a_journey(way, d):
    Y, run = clusters(37, 2000, 40.0, d), Run(0, n_jobs=2)
    frozen = way(LayoutKernel()).potential(Y, None, run)
    places = np.vstack([Y[:30] + 0.1, np.full((1, d), 35.0), np.full((1, d), -1e7)])
    phi, grad = frozen(places, run)
    true_phi, true = slow(LayoutKernel(), Y, np.ones(2000), places, own=False)
    np.testing.assert_allclose(phi, true_phi, rtol=1e-2)
    assert off(grad, true) < 1e-2
    np.testing.assert_allclose(grad[30:], true[30:], rtol=1e-2)
    sent = pickle.loads(pickle.dumps(frozen))
    for i in range(0, len(places), 5):
        one_phi, one_grad = sent(places[i : i + 1], run)
        assert one_phi[0] == phi[i]
        np.testing.assert_array_equal(one_grad[0], grad[i])
    assert frozen(places.astype(np.float32), run)[1].dtype == np.float32


@ways
@pytest.mark.parametrize("d", [1, 2])
def test_a_frozen_layout_stays_when_the_layout_moves_on(way, d):
    Y, charges, run = clusters(43, 1500, 30.0, d), charged(44, 1500), Run(0)
    places = Y[:9] + 0.2
    repulsion = way(LayoutKernel())
    frozen = repulsion.potential(Y, charges, run)
    before = frozen(places, run)[1]
    Y += 5.0
    charges *= 2.0
    repulsion.potential(Y, charges, run)
    np.testing.assert_array_equal(frozen(places, run)[1], before)


@ways
def test_a_frozen_layout_contains_the_point_itself(way):
    Y, charges, run = clusters(38, 1500, 30.0), charged(39, 1500), Run(0)
    repulsion = way(LayoutKernel(), *([] if way is ExactRepulsion else [1e-4]))
    phi, grad = repulsion.at_points(Y, charges, run)
    whole_phi, whole_grad = repulsion.potential(Y, charges, run)(Y, run)
    assert off(whole_phi - charges, phi) < 2e-4
    assert off(whole_grad, grad) < 2e-4


@ways
@pytest.mark.parametrize("d", [1, 2])
def test_arrays_that_may_only_be_read_are_read(way, d):
    Y, charges, run = clusters(41, 300, 20.0, d), charged(42, 300), Run(0)
    frozen = way(LayoutKernel()).potential(Y, charges, run)
    wanted = way(LayoutKernel()).at_points(Y, charges, run)[1], frozen(Y[:9], run)[1]
    held = [vars(frozen), vars(frozen.layout)] if way is FFTRepulsion else [vars(frozen)]
    kept = [value for part in held for value in part.values() if isinstance(value, np.ndarray)]
    for array in (Y, charges, *kept):
        array.flags.writeable = False
    np.testing.assert_array_equal(way(LayoutKernel()).at_points(Y, charges, run)[1], wanted[0])
    np.testing.assert_array_equal(frozen(Y[:9], run)[1], wanted[1])


@pytest.mark.parametrize("way", [BarnesHutRepulsion, FFTRepulsion])
def test_layouts_that_ran_away_are_refused(way):
    Y = blob(40, 50)
    Y[7, 1] = np.inf
    with pytest.raises(ValueError, match="not finite"):
        way(LayoutKernel()).at_points(Y, None, Run(0))
