"""Membership strengths of each point's neighbors: the rows of a fuzzy simplicial set."""

from __future__ import annotations

import numpy as np

from manifoldry._core.kernel import kernel

MAX_NEWTON_STEPS = 200
PRECISION_TOL = 1e-12  # relative change of the precision 1 / sigma at which Newton's method has converged


@kernel(
    "void(int64[::1], float64[::1], float64, float64, float64, float32[::1], float64[::1], float64[::1], int64, int64)"
)
def membership_rows(indptr, lengths, local_connectivity, min_share, mean_length, strength, rho, sigma, lo, hi):  # type: ignore[no-untyped-def]
    """For rows lo..hi write ``exp(-max(0, d - rho) / sigma)``, which sum to log2(k + 1) over the row's k entries.

    Lengths ascend within rows. rho is the ``local_connectivity``-th positive length, interpolated between two of them,
    or the largest if there are fewer. sigma is at least ``min_share`` of the row's mean length, which includes the
    point itself at 0, or of ``mean_length`` if rho is 0.
    """
    for i in range(lo, hi):
        a, b = indptr[i], indptr[i + 1]
        first = a
        total = 0.0
        for e in range(a, b):
            total += lengths[e]
            if lengths[e] == 0.0:
                first = e + 1
        n_full = int(np.floor(local_connectivity))
        fraction = local_connectivity - n_full
        if first == b:
            offset = 0.0
        elif b - first < local_connectivity:
            offset = lengths[b - 1]
        else:
            offset = lengths[first + n_full - 1] if n_full > 0 else 0.0
            if fraction > 0.0:
                offset += fraction * (lengths[first + n_full] - offset)
        target = np.log2(b - a + 1.0)
        n_within = 0
        for e in range(a, b):
            if lengths[e] <= offset:
                n_within += 1
        # The sum falls and is convex in t = 1 / sigma, so from t = 0 Newton's method approaches the root from below. If
        # as many neighbors are within rho as the target, there is no root and sigma is its floor.
        floor = min_share * (total / (b - a + 1.0) if offset > 0.0 else mean_length)
        t = 0.0
        if n_within < target:
            for _ in range(MAX_NEWTON_STEPS):
                excess, slope = n_within - target, 0.0
                for e in range(a + n_within, b):
                    d = lengths[e] - offset
                    w = np.exp(-t * d)
                    excess += w
                    slope += w * d
                step = excess / slope
                t += step
                if not step > PRECISION_TOL * t or t * floor > 1.0:
                    break
            width = max(1.0 / t, floor) if t > 0.0 else np.inf
        else:
            width = floor
        for e in range(a, b):
            beyond = lengths[e] - offset
            strength[e] = 1.0 if beyond <= 0.0 or width == 0.0 else np.exp(-beyond / width)
        rho[i], sigma[i] = offset, width
