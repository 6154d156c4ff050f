"""The parts of the mesh: splines against scipy's, transforms against plain ones, and exactness at the nodes."""

import numpy as np
import pytest
from scipy.interpolate import BSpline

from manifoldry._core.run import Run
from manifoldry._numerics.kernels.fourier import LANES, plan, transform_back, transform_lines
from manifoldry._numerics.kernels.mesh import N_GUARD_NODES, SPLINE_DEGREE, gather_values, solve_mesh
from manifoldry._numerics.repulsion import LayoutKernel
from manifoldry._numerics.repulsion.fft import FFTRepulsion, KernelTransform, Mesh
from manifoldry._numerics.repulsion.sums import ExactRepulsion

EPS32 = float(np.finfo(np.float32).eps)
QUINTIC = BSpline.basis_element(np.arange(7.0), extrapolate=False)


def positions(seed, n, rows, columns):
    return np.random.default_rng(seed).uniform(size=(2, n)) * [[rows], [columns]]


def spline_matrix(x, n_nodes, spline=QUINTIC):
    """Values at positions ``x`` of the splines of all nodes; that of node k lies on cells k - 5 to k."""
    return np.nan_to_num(spline(x[:, None] + SPLINE_DEGREE - np.arange(n_nodes)))


def on_mesh(where, charges, halves, run):
    """The arrays of a mesh with unit spacing, and its potential solved."""
    repulsion, mesh = FFTRepulsion(LayoutKernel()), Mesh((0.0, 0.0), 1.0, halves)
    arrays, transform = repulsion.arrays(mesh, where, charges)
    run.team(solve_mesh, arrays)
    return arrays, transform


def spread(arrays):
    """The charges on the nodes: all strips added."""
    rows, columns, shift = arrays.shape
    grid = np.zeros((rows + arrays.strips.shape[1], arrays.strips.shape[2]))
    for band, strip in enumerate(arrays.strips):
        top = band << shift
        grid[top : top + len(strip)] += strip
    return grid[:rows, :columns]


@pytest.mark.parametrize("rows", [40, 300])
def test_points_are_sorted_by_bands_and_stay_in_order_within_them(rows):
    where = positions(1, 3000, rows, 40)
    arrays, _ = on_mesh(where, np.ones(3000), (80 if rows == 40 else 384, 80), Run(0, 1))
    bands = where[0].astype(int) >> arrays.shape[2]
    np.testing.assert_array_equal(arrays.order, np.argsort(bands, kind="stable"))
    np.testing.assert_array_equal(arrays.first, np.searchsorted(np.sort(bands), np.arange(len(arrays.first))))
    assert (arrays.shape[2] == 0) == (rows == 40)


@pytest.mark.parametrize("halves", [(64, 48), (240, 48)])
def test_charges_are_spread_and_values_gathered_by_quintic_splines(halves):
    run, charges = Run(0, 3), np.random.default_rng(3).uniform(size=3000)
    rows, columns = (half - N_GUARD_NODES for half in halves)
    where = positions(2, 3000, rows - SPLINE_DEGREE, columns - SPLINE_DEGREE)
    arrays, _ = on_mesh(where, charges, halves, run)
    down, across = spline_matrix(where[0], rows), spline_matrix(where[1], columns)
    true = np.einsum("p,pi,pj->ij", charges / charges.max(), down, across)
    # Every term is a product of a few float32 numbers.
    np.testing.assert_allclose(spread(arrays), true, atol=20 * EPS32 * true.max())

    values, got = np.random.default_rng(4).uniform(size=(rows, columns)).astype(np.float32), np.empty((3000, 3), "f")
    gather_values(where, arrays.place, values, got, 0, 3000)
    slope = QUINTIC.derivative()
    steep_down, steep_across = spline_matrix(where[0], rows, slope), spline_matrix(where[1], columns, slope)
    for column, (a, b) in enumerate([(down, across), (steep_down, across), (down, steep_across)]):
        np.testing.assert_allclose(got[:, column], np.einsum("pi,ij,pj->p", a, values, b), atol=40 * EPS32)


@pytest.mark.parametrize("n", [16, 48, 80, 144, 240, 512])
def test_lines_are_transformed_and_back(n):
    axis, frequencies = plan(n)
    lines = np.random.default_rng(n).normal(size=(n, 2, LANES)).astype(np.float32)
    data = lines.reshape(-1).copy()
    transform_lines(data, axis)
    waves = data.reshape(lines.shape)
    wanted = np.fft.fft(lines[:, 0] + 1j * lines[:, 1], axis=0)[frequencies]
    # Each of at most nine steps rounds a few times.
    np.testing.assert_allclose(waves[:, 0] + 1j * waves[:, 1], wanted, atol=20 * EPS32 * np.abs(wanted).max())
    transform_back(data, axis)
    np.testing.assert_allclose(data.reshape(lines.shape) / n, lines, atol=20 * EPS32 * np.abs(lines).max())


def test_boxes_hold_their_points_with_room_to_spare():
    plane = np.random.default_rng(5).normal(size=(2, 100)) * [[9.0], [2.0]]
    mesh = Mesh.around(plane, 0.3, 24)
    where = mesh.positions(plane)
    assert (where >= 0).all()
    assert (where.max(axis=1) < np.array(mesh.shape) - SPLINE_DEGREE).all()
    assert mesh.shape == (mesh.halves[0] - N_GUARD_NODES, mesh.halves[1] - N_GUARD_NODES)
    assert mesh.spacing == 0.3
    small = Mesh.around(plane * 1e-9, 0.3, 24)
    cells = np.ptp(plane, axis=1).max() * 1e-9 / small.spacing
    assert 24 <= cells <= 24 / 0.8 * (1 + 1e-12)  # the spacing is one of a series, and so is its transform
    assert Mesh.around(np.zeros((2, 4)), 0.3, 24).spacing == 0.3
    roomy = Mesh.around(plane, 0.3, 24, margin=0.5)
    assert (roomy.positions(plane).min(axis=1) * 0.3 >= 0.49 * np.ptp(plane[0])).all()


@pytest.mark.parametrize("kernel", [LayoutKernel(), LayoutKernel(0.5), LayoutKernel(dof=None)])
@pytest.mark.parametrize("spacing", [0.4, 1e-6])
def test_transforms_are_those_of_the_kernel_over_those_of_the_splines(kernel, spacing):
    halves = (32, 48)
    transform = KernelTransform.of(kernel, spacing, halves)
    orders = [plan(half)[1] for half in halves]
    offsets = [np.arange(-half + 1, half) for half in halves]
    drop = kernel.value_minus_one(((offsets[0] * spacing) ** 2)[:, None] + (offsets[1] * spacing) ** 2)
    mean = drop[31:, 47:].mean()
    spline, waves = [], []
    for order, half, offset in zip(orders, halves, offsets, strict=True):
        angles = 2 * np.pi * (order + 0.25) / half  # every second of the shifted frequencies
        waves.append(np.exp(1j * np.outer(angles, offset)))
        spline.append((66 + 52 * np.cos(angles) + 2 * np.cos(2 * angles)) / 120)
    wanted = (waves[0] @ ((drop - mean) / -mean) @ waves[1].T).real
    wanted /= 2 * 32 * 48 * np.outer(spline[0] ** 2, spline[1] ** 2)
    got = transform.values.transpose(0, 2, 1).reshape(32, 48)
    np.testing.assert_allclose(got, wanted, atol=10 * EPS32 * np.abs(wanted).max())
    np.testing.assert_allclose([transform.mean, transform.span], [1 + mean, -mean], rtol=1e-12)


def test_convolutions_do_not_close_on_themselves():
    kernel, corners = LayoutKernel(), np.array([[0.0, 42.0], [0.0, 26.0]])
    arrays, transform = on_mesh(corners, np.array([1.0, 2.0]), (64, 48), Run(0, 1))
    got = 2.0 * arrays.nodes[:, :32]
    # A charge at the corner of a cell is spread like the spline at the nodes: with the spline of the nodes it undoes
    # both divisions, also across the whole mesh.
    at_nodes = np.array([1, 26, 66, 26, 1]) / 120
    for axis in (0, 1):
        got = np.apply_along_axis(np.convolve, axis, got, at_nodes, mode="same")
    i, j = np.indices((48, 32))
    first, last = (kernel.value((i - 2.0 - a) ** 2 + (j - 2.0 - b) ** 2) for a, b in corners.T)
    wanted = (first + 2 * last - 3 * transform.mean) / transform.span
    inner = np.s_[2:-2, 2:-2]  # nearer to the edge, "same" has cut nodes off
    np.testing.assert_allclose(got[inner], wanted[inner], atol=20 * EPS32 * got.max())


@pytest.mark.parametrize("kernel", [LayoutKernel(), LayoutKernel(3.0), LayoutKernel(dof=None)])
def test_at_the_nodes_a_mesh_is_exact(kernel):
    """The answer interpolates the weight in both arguments, so points on nodes feel it as it is."""
    repulsion, run = FFTRepulsion(kernel, 1e-1), Run(0)
    rng = np.random.default_rng(6)
    Y = rng.integers(0, 40, size=(2000, 2)) * repulsion.spacing
    Y[0], Y[1] = 0.0, 39 * repulsion.spacing
    phi, _ = repulsion.at_points(Y, None, run)
    true, _ = ExactRepulsion(kernel).at_points(Y, None, run)
    assert repulsion.n_barnes_hut == 0
    # Transforms of float32, about twenty roundings of the largest value.
    np.testing.assert_allclose(phi, true, atol=20 * EPS32 * true.max())
