"""The parts of the mesh: splines against scipy's, transforms against plain ones, and exactness at the nodes."""

import numpy as np
import pytest
from scipy.interpolate import BSpline

from manifoldry._core.run import Run
from manifoldry._numerics.repulsion import LayoutKernel
from manifoldry._numerics.repulsion.fft import (
    N_GUARD_NODES,
    SPLINE_DEGREE,
    FFTRepulsion,
    KernelTransform,
    Mesh,
    SortedPoints,
    Workspace,
    convolve,
)
from manifoldry._numerics.repulsion.sums import ExactRepulsion

EPS32 = float(np.finfo(np.float32).eps)
QUINTIC = BSpline.basis_element(np.arange(7.0), extrapolate=False)


def positions(seed, n, rows, columns):
    return np.random.default_rng(seed).uniform(size=(2, n)) * [[rows], [columns]]


def spline_matrix(x, n_nodes, spline=QUINTIC):
    """Values at positions ``x`` of the splines of all nodes; that of node k lies on cells k - 5 to k."""
    return np.nan_to_num(spline(x[:, None] + SPLINE_DEGREE - np.arange(n_nodes)))


def test_points_are_sorted_by_rows_and_stay_in_order_within_them():
    where = positions(1, 500, 9, 4)
    points = SortedPoints.of(where, 11, Workspace())
    rows = where[0].astype(int)
    np.testing.assert_array_equal(points.order, np.argsort(rows, kind="stable"))
    np.testing.assert_array_equal(points.first, np.searchsorted(np.sort(rows), np.arange(12)))
    np.testing.assert_array_equal(points.cell, where.T[points.order].astype(int))
    np.testing.assert_allclose(points.cell + points.part, where.T[points.order], atol=EPS32)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_charges_are_spread_and_values_gathered_by_quintic_splines(n_jobs):
    shape, run = (40, 30), Run(0, n_jobs=n_jobs)
    where, charges = positions(2, 3000, 34, 24), np.random.default_rng(3).uniform(size=3000).astype(np.float32)
    points, grid = SortedPoints.of(where, 35, Workspace()), np.full(shape, 7.0)
    points.spread(charges, grid, run)
    down, across = spline_matrix(where[0], 40), spline_matrix(where[1], 30)
    true = np.einsum("p,pi,pj->ij", charges, down, across)
    # Every term is a product of a few float32 numbers.
    np.testing.assert_allclose(grid, true, atol=20 * EPS32 * true.max())
    np.testing.assert_allclose(grid.sum(), charges.sum(dtype=float), rtol=20 * EPS32)

    values = np.random.default_rng(4).uniform(size=shape).astype(np.float32)
    got = points.gather(values, run, Workspace())
    slope = QUINTIC.derivative()
    steep_down, steep_across = spline_matrix(where[0], 40, slope), spline_matrix(where[1], 30, slope)
    for column, (a, b) in enumerate([(down, across), (steep_down, across), (down, steep_across)]):
        np.testing.assert_allclose(got[:, column], np.einsum("pi,ij,pj->p", a, values, b), atol=40 * EPS32)


def test_boxes_hold_their_points_with_room_to_spare():
    plane = np.random.default_rng(5).normal(size=(2, 100)) * [[9.0], [2.0]]
    mesh = Mesh.around(plane, 0.3, 24)
    where = mesh.positions(plane)
    assert (where >= 0).all()
    assert (where.max(axis=1) < np.array(mesh.shape) - SPLINE_DEGREE).all()
    assert mesh.shape == (mesh.halves[0] - N_GUARD_NODES, mesh.halves[1] - N_GUARD_NODES)
    assert mesh.spacing == 0.3
    small = Mesh.around(plane * 1e-9, 0.3, 24)
    np.testing.assert_allclose(small.spacing, np.ptp(plane, axis=1).max() * 1e-9 / 24)
    assert Mesh.around(np.zeros((2, 4)), 0.3, 24).spacing == 0.3
    roomy = Mesh.around(plane, 0.3, 24, margin=0.5)
    assert (roomy.positions(plane).min(axis=1) * 0.3 >= 0.49 * np.ptp(plane[0])).all()


@pytest.mark.parametrize("kernel", [LayoutKernel(), LayoutKernel(0.5), LayoutKernel(dof=None)])
@pytest.mark.parametrize("spacing", [0.4, 1e-6])
def test_transforms_are_those_of_the_kernel_over_those_of_the_splines(kernel, spacing):
    mesh = Mesh((0.0, 0.0), spacing, (20, 25))
    transform = KernelTransform.of(kernel, mesh.spacing, mesh.halves)
    r, c = (np.minimum(np.arange(2 * half), 2 * half - np.arange(2 * half)) * spacing for half in mesh.halves)
    fall = kernel.value_minus_one(r[:, None] ** 2 + c**2)
    far = kernel.value_minus_one(np.array((20**2 + 25**2) * spacing**2))
    spline = [np.fft.fft(spline_matrix(np.array([SPLINE_DEGREE + 1.0]), 2 * half)[0]) for half in mesh.halves]
    wanted = np.fft.fft2((fall - far) / -far) / np.abs(spline[0])[:, None] ** 2 / np.abs(spline[1]) ** 2
    np.testing.assert_allclose(transform.values, wanted.real[:21, :26], atol=10 * EPS32 * np.abs(wanted).max())
    np.testing.assert_allclose([transform.far, transform.span], [1 + far, -far], rtol=1e-14)


def test_convolutions_do_not_close_on_themselves():
    kernel, run = LayoutKernel(), Run(0)
    mesh = Mesh((0.0, 0.0), 0.5, (32, 24))
    transform, grid = KernelTransform.of(kernel, mesh.spacing, mesh.halves), np.zeros(mesh.shape)
    grid[0, 0], grid[-1, -1] = 1.0, 2.0
    got = convolve(grid, transform, mesh, run, Workspace())[:, : mesh.shape[1]]
    # Both divisions undone, by the spline's values at the nodes, it is the weight itself, also across the whole mesh.
    at_nodes = np.array([1, 26, 66, 26, 1]) / 120
    for axis in (0, 1):
        got = np.apply_along_axis(np.convolve, axis, got, np.convolve(at_nodes, at_nodes), mode="same")
    i, j = np.indices(mesh.shape)
    first = kernel.value(((i**2 + j**2) * 0.25).astype(float))
    last = kernel.value((((mesh.shape[0] - 1 - i) ** 2 + (mesh.shape[1] - 1 - j) ** 2) * 0.25).astype(float))
    wanted = (first + 2 * last - 3 * transform.far) / transform.span
    inner = np.s_[4:-4, 4:-4]  # nearer to the edge, "same" has cut nodes off
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
