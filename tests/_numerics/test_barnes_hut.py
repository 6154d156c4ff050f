"""The tree's parts: codes, cells, moments, and the sum of a far cell, each against a plain twin."""

from itertools import pairwise

import numpy as np
import pytest

from manifoldry._core.run import Run
from manifoldry._numerics.repulsion import LayoutKernel
from manifoldry._numerics.repulsion.sums import MAX_LEAF_POINTS, BarnesHutPotential, morton_codes


def tree(Y, charges=None, angle=0.5, kernel=None):
    return BarnesHutPotential.of(kernel or LayoutKernel(), angle, Y, charges, Run(0, n_jobs=2))


def test_codes_interleave_the_bits_of_the_coordinates():
    unit = np.random.default_rng(1).uniform(size=(3, 50))
    unit[:, 0], unit[:, 1] = 0.0, 1.0
    for code, point in zip(morton_codes(unit).tolist(), (unit * (2**21 - 1)).astype(int).T.tolist(), strict=True):
        assert code == sum(((x >> bit) & 1) << (3 * bit + axis) for axis, x in enumerate(point) for bit in range(21))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_cells_divide_their_points_among_their_parts(d):
    Y = np.random.default_rng(2).normal(size=(900, d)) ** 3
    Y[100:160] = Y[7]  # more than a leaf takes, in one place
    built = tree(Y)
    cells = built.cells
    np.testing.assert_array_equal(built.points[:d], Y[built.order].T)
    np.testing.assert_array_equal(np.sort(built.order), np.arange(900))
    assert cells[0].tolist() == [0, 900, len(cells)]
    unit = (built.points[:3] - built.points[:3].min(axis=1, keepdims=True)) / np.ptp(Y, axis=0).max()
    codes = morton_codes(unit)
    assert (np.diff(codes) >= 0).all()
    leaf_points = 0
    for k, (lo, hi, skip) in enumerate(cells.tolist()):
        parts, at = [], k + 1
        while at < skip:
            parts.append(cells[at, :2].tolist())
            at = cells[at, 2]
        assert at == skip
        if parts:
            assert len(parts) >= 2
            assert parts[0][0] == lo
            assert parts[-1][1] == hi
            assert all(a[1] == b[0] for a, b in pairwise(parts))
            # The parts are the eight boxes of the smallest box that holds all.
            level = ((codes[lo] ^ codes[hi - 1]).item().bit_length() - 1) // 3
            assert len({code >> (3 * level) for code in codes[lo:hi].tolist()}) == len(parts)
        else:
            assert hi - lo <= MAX_LEAF_POINTS or codes[lo] == codes[hi - 1]
            leaf_points += hi - lo
    assert leaf_points == 900


def test_moments_are_those_of_the_charges():
    rng = np.random.default_rng(3)
    Y, charges = rng.normal(size=(300, 3)), rng.uniform(size=300)
    charges[:40] = 0
    built = tree(Y, charges)
    for (lo, hi, _), m in zip(built.cells.tolist(), built.moments, strict=True):
        y, q = built.points[:3, lo:hi].T, built.points[3, lo:hi]
        center = q @ y / q.sum() if q.any() else (y.min(axis=0) + y.max(axis=0)) / 2
        S = (q[:, None] * (y - center)).T @ (y - center)
        wanted = [*center, q.sum(), *np.diag(S), S[0, 1], S[0, 2], S[1, 2], np.ptp(y, axis=0).max() ** 2]
        np.testing.assert_allclose(m, wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kernel", [LayoutKernel(), LayoutKernel(0.5), LayoutKernel(dof=None)])
def test_a_far_cell_acts_by_its_second_order(kernel):
    """With the points drawn towards their center by t, the potential is even in t to third order: f(0) + f''(0) / 2."""
    rng = np.random.default_rng(4)
    Y, charges = rng.normal(size=(40, 3)) * 0.1, rng.uniform(size=40)
    center = charges @ Y / charges.sum()
    place = np.array([[1.0, 0.7, -0.4]])

    def potential(t):
        s = ((place - center - t * (Y - center)) ** 2).sum(axis=1)
        return charges @ kernel.value(s)

    h = 1e-3
    wanted = potential(0.0) + (potential(h) - 2 * potential(0.0) + potential(-h)) / (2 * h**2)
    phi, _ = tree(Y, charges, 2.0, kernel)(place, Run(0))
    # The difference quotient is off by EPS f / h^2 = 1e-9 and by h^2 / 12 of the fourth order, which is below 1.
    np.testing.assert_allclose(phi, wanted, rtol=1e-7)
    assert abs(phi[0] - potential(1.0)) > 1e-6  # so it is the cell that answers, and not its points


def test_gaussians_out_of_sight_are_left_out():
    Y = np.vstack([np.random.default_rng(5).normal(size=(100, 2)), [[300.0, 0.0]]])
    phi, grad = tree(Y, None, 0.5, LayoutKernel(dof=None)).at_points(Y, Run(0))
    assert phi[-1] == 0
    assert not grad[-1].any()
