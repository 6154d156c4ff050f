"""Random programs of every kind: bound <= optimum of a general solver <= value, two hundred of each."""

import numpy as np
import pytest
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._numerics.semidefinite.barrier_path import StretchOptions, stretch_out
from manifoldry._numerics.semidefinite.certificate import certify_basis
from manifoldry._numerics.semidefinite.frames import Bands, FrameLayout, Stretch
from manifoldry._numerics.semidefinite.newton import DistanceConstraints
from manifoldry._numerics.semidefinite.staircase import place
from manifoldry.methods.unfolding._fast_mvu import smooth_stretch
from twins import identity_lengths, least

N_PROGRAMS = 200
FEW = 4
"""Programs of each kind in the ordinary tests."""

TWIN_TOL = 1e-6
"""Relative error of the twin's optimum: its own tolerances of 1e-9, magnified by the condition of small programs."""

SEEDS = [*range(FEW), *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(FEW, N_PROGRAMS))]


def bracketed(certificate, optimum, scale=None):
    """Check that the optimum lies between the bound and the value of a certificate, to the twin's error."""
    error = TWIN_TOL * max(abs(optimum), scale or 0.0) + certificate.noise
    assert certificate.bound <= optimum + error
    assert optimum - error <= certificate.objective
    assert certificate.gap >= 0


def rigid_pieces(seed):
    """Return the sizes of random patches in a ring with a chord, and the form of their mismatch at shared points."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, size=rng.integers(3, 7))
    layout = FrameLayout(sizes)
    form = np.zeros((layout.n_rows, layout.n_rows))
    c = len(sizes)
    noise = rng.choice([0.0, 0.1, 1.0])
    figure = rng.normal(size=(40, 3))
    charts = [figure @ np.linalg.qr(rng.normal(size=(3, 3)))[0][:, :size] for size in sizes]
    for i, j in {(k, (k + 1) % c) for k in range(c)} | {(0, c // 2)}:
        shared = rng.choice(40, 6, replace=False)
        rows = np.zeros((6, layout.n_rows))
        for patch, sign in ((i, 1), (j, -1)):
            f = charts[patch][shared] + noise * rng.normal(size=(6, sizes[patch]))
            rows[:, layout.offsets[patch] : layout.offsets[patch + 1]] += sign * f
            rows[:, layout.n_frame_rows + patch] += sign
        form += rows.T @ rows
    return layout, form


def grounded(form, layout):
    """Return the form without the first shift, which may be zero."""
    keep = np.arange(layout.n_rows) != layout.n_frame_rows
    return form[np.ix_(keep, keep)], keep


@pytest.mark.parametrize("seed", SEEDS)
def test_placements_are_bracketed(seed):
    layout, form = rigid_pieces(seed)
    small, _ = grounded(form, layout)
    optimum, _ = least(small, identity_lengths(layout.sizes, len(small)), 1.0, 1.0)
    scale = np.trace(form[: layout.n_frame_rows, : layout.n_frame_rows])
    whole = place(sp.csr_array(form), layout.sizes, Run(0, 1)).certificate
    bracketed(whole, optimum, scale)
    assert whole.optimal
    flat = place(sp.csr_array(form), layout.sizes, Run(0, 1), max_rank=layout.max_size).certificate
    bracketed(flat, optimum, scale)
    assert not (flat.optimal and flat.objective > optimum + 1e-3 * scale)


@pytest.mark.parametrize("seed", SEEDS)
def test_placements_with_distances_are_bracketed(seed):
    layout, form = rigid_pieces(seed)
    rng = np.random.default_rng([seed, 1])
    # Distances of a placement exist together; upper bounds may be loose or not.
    V = layout.orthonormal(rng.normal(size=(layout.n_rows, 4)))
    B = np.zeros((3, layout.n_rows))
    for row in B:
        i, j = rng.choice(layout.n_patches, 2, replace=False)
        row[layout.n_frame_rows + i], row[layout.n_frame_rows + j] = 1, -1
    squares = np.square(B @ V).sum(axis=1)
    upper = rng.random(3) < 0.5
    distances = DistanceConstraints(sp.csr_array(B), squares, upper=upper, lower=np.zeros(3, dtype=bool))
    small, keep = grounded(form, layout)
    lengths = np.vstack([identity_lengths(layout.sizes, len(small)), B[:, keep] / np.sqrt(squares)[:, None]])
    low = np.r_[np.ones(len(lengths) - 3), np.where(upper, -np.inf, 1.0)]
    optimum, _ = least(small, lengths, low, 1.0)
    found = place(sp.csr_array(form), layout.sizes, Run(0, 1), distances=distances).certificate
    # Distances are kept to a tolerance, which moves the value by multipliers of the size of the form.
    scale = np.trace(form[: layout.n_frame_rows, : layout.n_frame_rows])
    assert found.bound <= optimum + TWIN_TOL * scale
    assert found.objective >= optimum - 10 * max(found.violation, TWIN_TOL) * scale


@pytest.mark.parametrize("seed", SEEDS)
def test_stretches_over_basis_functions_are_bracketed(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 6))
    differences = rng.normal(size=(int(rng.integers(m * m, 40)), m)) * rng.uniform(0.3, 3.0, m)
    P, kappa = smooth_stretch(differences, Run(0, 1), 1e-6)
    optimum, _ = least(-np.eye(m), differences, -np.inf, np.inf, squared=kappa / len(differences))
    certificate = certify_basis(differences, P, kappa, 1e-6)
    bracketed(certificate, optimum, np.trace(P))
    # Tight from both sides: a bound with the penalty's conjugate halved or doubled would contradict, or be loose.
    assert certificate.optimal
    assert certificate.bound == pytest.approx(optimum, rel=1e-6, abs=TWIN_TOL * np.trace(P))


def linked_pieces(seed, kept):
    """Return rigid pieces in a ring: layout, a placement, the bands of distances between them, and what is stretched.

    Distances are those of the placement, so that they exist together; single points are pieces without a frame.
    """
    rng = np.random.default_rng([seed, 2])
    c = int(rng.integers(4, 7))
    sizes = np.zeros(c, dtype=int) if seed % 2 else rng.integers(0, 3, size=c)
    layout = FrameLayout(sizes)
    V = layout.orthonormal(2 * rng.normal(size=(layout.n_rows, 3)))
    rows = []
    for i in range(c):
        for j in ((i + 1) % c, (i + 2) % c):
            row = np.zeros(layout.n_rows)
            for patch, sign in ((i, 1), (j, -1)):
                row[layout.offsets[patch] : layout.offsets[patch + 1]] += sign * rng.normal(size=sizes[patch])
                row[layout.n_frame_rows + patch] += sign
            rows.append(row / np.linalg.norm(row @ V))
    B, slack = sp.csr_array(np.array(rows)), 1e-2
    ones = np.ones(len(rows))
    bands = Bands(B, (1 - slack) * ones if kept else -np.inf * ones, (1 + slack) * ones if kept else ones)
    weights = rng.exponential(size=(c, c))
    W = np.zeros((layout.n_rows, layout.n_rows))
    W[layout.n_frame_rows :, layout.n_frame_rows :] = np.diag((weights + weights.T).sum(axis=0)) - weights - weights.T
    return layout, V, bands, W


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "at most"])
@pytest.mark.parametrize("seed", SEEDS)
def test_stretches_in_low_rank_are_bracketed(seed, kept):
    layout, V, bands, W = linked_pieces(seed if kept else 2 * seed + 1, kept)
    keep = np.arange(layout.n_rows) != layout.n_frame_rows
    frames = identity_lengths(layout.sizes, int(keep.sum()))
    rows = np.vstack([frames, bands.differences.toarray()[:, keep]])
    ones = np.ones(len(frames))
    optimum, _ = least(-W[np.ix_(keep, keep)], rows, np.r_[ones, bands.lower], np.r_[ones, bands.upper])
    few = seed % 3 == 0
    options = StretchOptions(1e-5, 1e-2, max_rank=3 if few else layout.n_rows)
    found = stretch_out(Stretch(sp.csr_array(W)), bands, layout, V, options, Run(0, 1))
    assert found.certificate.violation == 0.0
    assert found.error_certificate.bound <= found.error_certificate.noise  # the distances exist together
    if found.error_certificate.optimal:
        bracketed(found.certificate, optimum)
    else:  # three dimensions may not find how, and then stretch about other lengths: said, not hidden
        assert few
        assert found.error_certificate.verdict == "bound only"
