"""The largest stretch with many upper bounds, of which few are active: cutting planes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from manifoldry.run import Run
from manifoldry.solve.scaling import principal_axes
from manifoldry.solve.semidefinite.barrier import Bands
from manifoldry.solve.semidefinite.barrier_path import StretchOptions, stretch_out
from manifoldry.solve.semidefinite.forms import PairStretch
from manifoldry.solve.semidefinite.frames import FrameLayout
from manifoldry.values import Certificate, FloatArray, IntArray, Stop, Trace

MAX_CUTS_PER_ROUND, MAX_CUT_ROUNDS, CUT_TOL = 200, 30, 1e-4
"""Pairs that join in a round, rounds, and the excess of a squared length at which a pair joins."""

THIN_COLUMN_SHARE = 1e-2
"""Columns thinner than this share of the widest are left out of the next round's start; they return if they help."""


def cutting_plane_stretch(
    differences: FloatArray, form: FloatArray, start: FloatArray, first: IntArray, options: StretchOptions, run: Run
) -> tuple[FloatArray, Certificate, Trace]:
    """Return rows V of the largest stretch with no length above 1, the certificate, and minus the stretch by rounds.

    Rows of ``differences`` are those of pairs of points as combinations of the rows of V, divided by the distances; the
    form W does not change with shifts. Only the ``first`` pairs are constrained at first; the longest of those that
    exceed 1 join, until none does. The multipliers of a part of the pairs prove a bound for all.
    """
    layout, stretch = FrameLayout.of_points(len(form)), PairStretch(sp.csr_array(form))
    joined = np.zeros(len(differences), dtype=bool)
    joined[first] = True
    reached, stop = [-stretch.total(start)], Stop.LIMIT
    for _ in range(MAX_CUT_ROUNDS):
        count = int(joined.sum())
        bands = Bands(sp.csr_array(differences[joined]), np.full(count, -np.inf), np.ones(count))
        found = stretch_out(stretch, bands, layout, start, options, run)
        reached.append(found.certificate.objective)
        lengths = np.square(differences @ found.V).sum(axis=1)
        longest = np.argsort(-lengths, kind="stable")[:MAX_CUTS_PER_ROUND]
        longest = longest[lengths[longest] > 1 + CUT_TOL]
        if run.stopped or len(longest) == 0:
            stop = Stop.ASKED if run.stopped else found.trace.stop
            break
        joined[longest] = True
        turned, spectrum = principal_axes(found.V, found.V.shape[1])
        start = turned[:, spectrum.values > THIN_COLUMN_SHARE**2 * spectrum.values[0]]
    shrunk = 1 / max(1.0, float(lengths.max()))
    certificate = replace(found.certificate, objective=shrunk * found.certificate.objective)
    return np.sqrt(shrunk) * found.V, certificate, Trace(np.array(reached), stop)
