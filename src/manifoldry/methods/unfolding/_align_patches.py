"""Alignment of given rigid patches: parts of a molecule, local maps of a sensor network, overlapping scans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manifoldry._core import check
from manifoldry._core.run import Callback, Run
from manifoldry._core.values import Array, Certificate, FloatArray, IntArray, Spectrum, Trace
from manifoldry._numerics.linalg import proven_factor
from manifoldry._numerics.patches.layout import UnfoldedPatches, unfold
from manifoldry._numerics.patches.overlaps import (
    find_overlaps,
    joined,
    joint_certificate,
    matching_form,
    patch_components,
)
from manifoldry._numerics.patches.rigid import ArrayPair, PairConstraints, RigidPatches
from manifoldry._numerics.semidefinite.newton import DistanceConstraints
from manifoldry._numerics.semidefinite.staircase import Placement, place, spectral_start
from manifoldry.graph._operations import component_labels

N_MEAN_POINTS = 12
"""Maximum number of points whose mean replaces that of all in the variance: the exact mean would couple all patches."""


@dataclass(frozen=True)
class PatchAlignment:
    """Aligned rigid patches with their certificate and errors.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_components)
        The points: each the mean of its images in its patches.
    frames : ndarray of shape (c, w, n_components)
        Coordinates g of patch i go to ``g @ frames[i] + shifts[i]``; w is the most columns that a patch was given in.
        Rows across a flat patch, and beyond a patch's columns, are zero.
    shifts : ndarray of shape (c, n_components)
        Images of the patches' origins.
    certificate : Certificate
        Of the relaxed program, in as many dimensions as it takes: ``optimal``, ``gap``.
    spectrum : Spectrum
        Of the points in those dimensions; values beyond the first n_components were lost by the projection.
    disagreement : ndarray of shape (n,)
        Root mean square distance of each point's images from its coordinates.
    residuals : ndarray of shape (c,)
        The same for each patch.
    violations : ndarray of shape (E,)
        Relative errors of the constraints, zero where a bound holds: distances, then upper, then lower bounds.
    multipliers : ndarray of shape (E,)
        Lagrange multipliers of the constraints in the relaxed program, per relative error of the squared length:
        positive for an active upper bound, negative for an active lower bound, zero if inactive.
    mirrored : ndarray of bool of shape (c,)
        Which patches of n_components dimensions were reflected.
    components : ndarray of shape (c,)
        Component of the patch graph that each patch is in; the components stand side by side.
    trace : Trace
        The objective of the relaxed program of the largest component.
    """

    coordinates: FloatArray
    frames: FloatArray
    shifts: FloatArray
    certificate: Certificate
    spectrum: Spectrum
    disagreement: FloatArray
    residuals: FloatArray
    violations: FloatArray
    multipliers: FloatArray
    mirrored: Array
    components: IntArray
    trace: Trace


def align_patches(
    patches: Sequence[ArrayPair],
    n_components: int | None = None,
    *,
    distances: ArrayPair | None = None,
    upper_bounds: ArrayPair | None = None,
    lower_bounds: ArrayPair | None = None,
    stretch: float = 0.0,
    chiral: bool = False,
    relax: bool = True,
    refine: bool = True,
    start: Array | None = None,
    tol: float = 1e-6,
    random_state: Any = 0,
    n_jobs: int | None = None,
    verbose: bool = False,
    callback: Callback | None = None,
) -> PatchAlignment:
    r"""Align rigid patches so that their shared points coincide.

    Minimizes the matching error over rigid motions of all patches, in as many dimensions as it takes,

    .. math:: \min_{R_i^\top R_i = I,\; t_i} \sum_{i \sim j} \frac{1}{n_{ij}} \sum_{x \in C_i \cap C_j}
              |R_i f_i(x) + t_i - R_j f_j(x) - t_j|^2 - \gamma \operatorname{var}(y),

    where the points :math:`y(x)`, means of :math:`R_i f_i(x) + t_i` over the patches of x, satisfy the constraints.
    In the Gram matrix of frames and shifts this is a semidefinite program, whose dual bounds the distance to the
    optimum. The solution is then projected to n_components dimensions and the patches made rigid again.

    Parameters
    ----------
    patches : sequence of (members, coordinates)
        Indices of the points in the patch, shape (m,), and their coordinates there, shape (m, r); r may differ.
        Every index from 0 to the largest is in some patch.
    n_components : int, optional
        Dimension of the result; that of the widest patch if left out.
    distances : (pairs, lengths), optional
        Exact distances: pairs of points, shape (E, 2), and E lengths. Both ends are in one component of the patches.
    upper_bounds, lower_bounds : (pairs, lengths), optional
        Upper and lower bounds of distances, in the same form.
    stretch : float
        Gamma: weight of the variance of the points, which spreads out placements of equal error.
    chiral : bool
        Whether patches of n_components dimensions must not be reflected, as four atoms around a carbon. The layout is
        reflected if most such patches were; the others are reflected back before the refinement.
    relax : bool
        Whether to allow more dimensions than n_components before the projection. Without, the search stays near
        ``start``.
    refine : bool
        Whether to minimize again in n_components dimensions after the projection.
    start : ndarray of shape (n, q), optional
        Initial points, q at least the dimension of the patches, and n_components without ``relax``; by default
        the initialization is spectral.
    tol : float
        Tolerance of the constraints: relative error of squared lengths. With 0.01, say, a large relaxed program ends
        early, without a certificate; the refinement always goes to 1e-6.
    random_state : None, int or numpy generator
        Seed of the sample of points whose mean is used in the variance.
    n_jobs : int, optional
        Number of threads; the result does not depend on it.
    verbose : bool
        Report the stages.
    callback : callable, optional
        Called with the progress; a true return value stops with the placement reached.

    Returns
    -------
    PatchAlignment

    Notes
    -----
    References: khajehpour2013

    Examples
    --------
    Two triangles with a common side, opened until their tips are a distance 1 apart, make a tetrahedron:

    >>> from manifoldry import align_patches
    >>> triangle = [[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]]
    >>> hinge = [([0, 1, 2], triangle), ([0, 1, 3], triangle)]
    >>> tetrahedron = align_patches(hinge, 3, distances=([[2, 3]], [1.0]))
    >>> tetrahedron.spectrum.values.round(3).tolist(), tetrahedron.certificate.optimal
    ([0.5, 0.5, 0.5], True)
    """
    rigid = RigidPatches.read(patches)
    n, widest = rigid.members.n_points, rigid.layout.max_size
    because = f" because a patch fills {widest} dimensions"
    width = widest if n_components is None else check.integer("n_components", n_components, widest, None, because)
    most = None if relax else width
    first = None if start is None else _checked_start(start, n, widest, most)
    stretch, tol = check.number("stretch", stretch, 0.0), check.number("tol", tol, 0.0, open_low=True)
    constraints = PairConstraints.read(distances, upper_bounds, lower_bounds, n)
    run = Run(random_state, n_jobs, verbose, callback)
    parts = _components(rigid, constraints, stretch, run)
    with run.stage("alignment"):
        relaxed = [part.relaxed(first, most, chiral, tol, run) for part in parts]
        projected = laid = _laid_out(rigid, parts, relaxed, width, chiral, run)
    wide = any(placement.shifts.shape[1] > width for placement in relaxed)
    mirrored = chiral and rigid.mirrored(projected.stitched.frames).any()
    if refine and (wide or stretch > 0 or mirrored):
        with run.stage("refinement"):
            refined = [part.refined(projected.coordinates, chiral, run) for part in parts]
            laid = _laid_out(rigid, parts, refined, width, chiral, run)
    multipliers = np.zeros(len(constraints.lengths))
    for part, placement in zip(parts, relaxed, strict=True):
        multipliers[part.chosen] = placement.multipliers
    members, stitched = rigid.members, laid.stitched
    squares = np.square(stitched.images(members.patches, rigid.f) - laid.coordinates[members.points]).sum(axis=1)
    frames = rigid.axes @ stitched.frames
    return PatchAlignment(
        coordinates=laid.coordinates,
        frames=frames,
        shifts=stitched.shifts - np.einsum("cw,cwd->cd", rigid.middles, frames),
        certificate=joint_certificate(relaxed),
        spectrum=projected.spectrum,
        disagreement=laid.disagreement,
        residuals=np.sqrt(np.bincount(members.patches, squares) / np.bincount(members.patches)),
        violations=constraints.violations(laid.coordinates),
        multipliers=multipliers,
        mirrored=rigid.mirrored(stitched.frames),
        components=stitched.components,
        trace=relaxed[0].trace,
    )


@dataclass(frozen=True)
class _Component:
    """A component: its patches, points and constraints, and the forms to minimize without and with stretch."""

    rigid: RigidPatches
    patches: IntArray
    points: IntArray
    chosen: Array
    distances: DistanceConstraints | None
    form: sp.csr_array
    stretched: sp.csr_array

    def relaxed(self, start: FloatArray | None, most: int | None, proper: bool, tol: float, run: Run) -> Placement:
        """Return the placement of the relaxed program, in at most ``most`` dimensions."""
        if start is not None:
            V = self.rigid.fitted(start[self.points], proper)
        elif self.rigid.layout.n_frame_rows == 0:
            V = np.zeros((self.rigid.layout.n_rows, 1))
        else:
            V = spectral_start(self.form, self.rigid.layout, most)
        distances = None if self.distances is None else replace(self.distances, tol=tol)
        return place(self.stretched, self.rigid.layout.sizes, run, start=V, distances=distances, max_rank=most)

    def refined(self, Y: FloatArray, proper: bool, run: Run) -> Placement:
        """Return the placement near the rows of Y, in as many dimensions and without stretch."""
        V, sizes = self.rigid.fitted(Y[self.points], proper), self.rigid.layout.sizes
        return place(self.form, sizes, run, start=V, distances=self.distances, max_rank=Y.shape[1])


def _components(rigid: RigidPatches, pairs: PairConstraints, stretch: float, run: Run) -> list[_Component]:
    """Return the components of the patch graph, the largest first."""
    overlaps = find_overlaps(rigid.members, rigid.f, rigid.n_patches)
    components = patch_components(overlaps, rigid.n_patches)
    home = np.empty(rigid.members.n_points, dtype=np.int64)
    home[rigid.members.points] = components[rigid.members.patches]
    if (home[pairs.ends[:, 0]] != home[pairs.ends[:, 1]]).any():
        raise ValueError(
            f"The patches have {components.max() + 1} components that share no points, and distances or bounds cannot "
            "connect these: add a patch across, for an exact distance d one of two points with coordinates [[0], [d]]."
        )
    parts = []
    for number in np.argsort(-np.bincount(components), kind="stable"):
        patches = np.flatnonzero(components == number)
        part, points = rigid.part(patches)
        shared = find_overlaps(part.members, part.f, len(patches))
        form = sp.csr_array((part.layout.n_rows, part.layout.n_rows))
        form = matching_form(shared, part.layout.sizes) if len(shared) else form
        chosen = np.flatnonzero(home[pairs.ends[:, 0]] == number)
        distances = pairs.among(chosen, points).distances(part.positions)
        parts.append(_Component(part, patches, points, chosen, distances, form, _stretched(part, form, stretch, run)))
    return parts


def _stretched(rigid: RigidPatches, form: sp.csr_array, stretch: float, run: Run) -> sp.csr_array:
    """Return the form less the variance of the points; raise an error for a stretch that makes it unbounded."""
    if stretch == 0:
        return form
    n, k = rigid.members.n_points, rigid.layout.n_frame_rows
    rows = rigid.positions
    middle = np.arange(n) if n <= N_MEAN_POINTS else run.rng("middle").choice(n, N_MEAN_POINTS, replace=False)
    mean = sp.csr_array(rows[middle].sum(axis=0)[None] / len(middle))
    total = sp.csr_array(rows.sum(axis=0)[None] / n)
    spread = rows.T @ rows / n - mean.T @ total - total.T @ mean + mean.T @ mean
    stretched = sp.csr_array(form - stretch * spread)
    if rigid.n_patches > 1 and proven_factor(sp.csc_array(stretched[k + 1 :, k + 1 :])) is None:
        raise ValueError(f"With stretch = {stretch:g} shared points would fly apart without end; try a tenth of it.")
    return stretched


def _laid_out(
    rigid: RigidPatches, parts: list[_Component], placements: list[Placement], width: int, chiral: bool, run: Run
) -> UnfoldedPatches:
    """Return all components in ``width`` dimensions; chiral ones so that most full patches are not mirrored."""
    components = component_labels([part.patches for part in parts])
    stitched = joined(components, dict(enumerate(placements)), rigid.layout.max_size)
    laid = unfold(rigid.members, rigid.f, stitched, width, run)
    if not chiral:
        return laid
    Y, frames, shifts = laid.coordinates, laid.stitched.frames, laid.stitched.shifts
    turned, full = rigid.mirrored(frames), rigid.layout.sizes == width
    for part in parts:
        if 2 * turned[part.patches].sum() > full[part.patches].sum():
            Y[part.points, -1] *= -1
            frames[part.patches, :, -1] *= -1
            shifts[part.patches, -1] *= -1
    return laid


def _checked_start(start: Array, n_points: int, widest: int, exactly: int | None) -> FloatArray:
    Y = np.asarray(start, dtype=float)
    needed = f"exactly {exactly}" if exactly is not None else f"at least {widest}"
    if Y.ndim != 2 or len(Y) != n_points or Y.shape[1] < widest or (exactly is not None and Y.shape[1] != exactly):
        raise ValueError(f"start must have {n_points} rows and {needed} columns; got shape {Y.shape}.")
    if not np.isfinite(Y).all():
        raise ValueError("start must be finite; leave it out to begin with eigenvectors.")
    return Y
