"""Semidefinite programs by a general interior-point solver: the slow twins of the library's own."""

import numpy as np
import pytest
import scipy.sparse as sp

TOL = 1e-9
"""Gap and feasibility to which the twin is solved."""


def least(cost, B, low, high, squared=None):
    """Return the minimum of tr(C A) over psd A with squared lengths b A b' between low and high, and the minimizer.

    ``squared`` are weights w of an additional w/2 (b A b' - 1)^2 for every length. Equal bounds are equalities,
    infinite ones are none. Clarabel takes the upper triangle of A by columns, off-diagonal entries times root 2.
    """
    clarabel = pytest.importorskip("clarabel")
    n, B = len(cost), np.asarray(B, dtype=float)
    column, row = np.tril_indices(n)
    entries, factor = len(row), np.where(row == column, 1.0, np.sqrt(2.0))
    forms = B[:, row] * B[:, column] * factor
    low, high = np.broadcast_to(low, len(B)), np.broadcast_to(high, len(B))
    weights = np.broadcast_to(0.0 if squared is None else squared, len(B))
    equal = low == high
    above, below = np.isfinite(high) & ~equal, np.isfinite(low) & ~equal
    held = [forms[equal], forms[above], -forms[below], -np.eye(entries)]
    right = [high[equal], high[above], -low[below], np.zeros(entries)]
    cones = [clarabel.ZeroConeT(int(equal.sum())), clarabel.NonnegativeConeT(int(above.sum() + below.sum()))]
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.tol_gap_abs, settings.tol_gap_rel, settings.tol_feas = False, TOL, TOL, TOL
    solved = clarabel.DefaultSolver(
        sp.csc_matrix(sp.triu(forms.T @ (weights[:, None] * forms))),
        factor * np.asarray(cost)[row, column] - forms.T @ weights,
        sp.csc_matrix(np.vstack(held)),
        np.concatenate(right),
        [*cones, clarabel.PSDTriangleConeT(n)],
        settings,
    ).solve()
    assert "Solved" in str(solved.status), solved.status
    A = np.zeros((n, n))
    A[row, column] = A[column, row] = np.array(solved.x) / factor
    return solved.obj_val + float(weights.sum()) / 2, A


def identity_lengths(sizes, width):
    """Return rows b with b A b' = 1 for all of them exactly where the blocks of A of these sizes are identities.

    Of e_a and (e_a + e_b)/root 2, among ``width`` columns of which the blocks come first.
    """
    rows, begin = [], 0
    for size in sizes:
        for a in range(size):
            rows.append(np.eye(width)[begin + a])
            rows += [(np.eye(width)[begin + a] + np.eye(width)[begin + b]) / np.sqrt(2) for b in range(a)]
        begin += size
    return np.array(rows).reshape(-1, width)
