"""Rigid patches that come from anywhere, moved until they fit: parts of a molecule, local maps, overlapping scans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manifoldry import check
from manifoldry.patches.overlaps import find_overlaps, matching_form, patch_components
from manifoldry.patches.rigid import Given, Pairs, RigidPatches
from manifoldry.patches.stitch import Stitched, joint_certificate
from manifoldry.patches.unfold import Unfolded, unfold
from manifoldry.run import Callback, Run
from manifoldry.solve.factor import proven_factor
from manifoldry.solve.semidefinite import DistanceConstraints, Placement, place, spectral_start
from manifoldry.values import Array, Certificate, FloatArray, IntArray, Spectrum, Trace

MIDDLE = 12
"""Points whose mean stands for that of all in the variance, where there are more: the exact mean would tie every patch
to every other. It is off by a third of the spread, which counts as a ninth of the variance."""


@dataclass(frozen=True)
class PatchAlignment:
    """Rigid patches placed together, and how good that is.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_components)
        The points: each the mean of what its patches say.
    frames : ndarray of shape (c, w, n_components)
        Coordinates g of patch i go to ``g @ frames[i] + shifts[i]``; w is the most columns that a patch was given in.
        Rows across a flat patch, and beyond a patch's columns, are zero.
    shifts : ndarray of shape (c, n_components)
        Images of the patches' origins.
    certificate : Certificate
        Of the relaxed program, in as many dimensions as it wants: ``optimal``, ``gap``.
    spectrum : Spectrum
        Of the points in those dimensions; beyond the first n_components stands what the projection lost.
    disagreement : ndarray of shape (n,)
        How far apart a point's patches put it: root mean square distance from its coordinates.
    residuals : ndarray of shape (c,)
        The same per patch: how far its points are from their coordinates.
    violations : ndarray of shape (E,)
        Relative errors of the wanted lengths, zero where a bound holds: distances, then upper, then lower bounds.
    multipliers : ndarray of shape (E,)
        What each of them costs in the relaxed program, per relative error of its square: positive where it pulls,
        negative where it pushes, zero where it does nothing.
    mirrored : ndarray of bool of shape (c,)
        Which patches as wide as the picture had to be turned over.
    components : ndarray of shape (c,)
        Patches that are joined by shared points have the same number; the components stand side by side.
    trace : Trace
        The objective on the way to the relaxed solution of the largest component.
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


def align_patches(  # noqa: PLR0913
    patches: Sequence[Given],
    n_components: int | None = None,
    *,
    n_points: int | None = None,
    distances: Given | None = None,
    upper_bounds: Given | None = None,
    lower_bounds: Given | None = None,
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
    r"""Return rigid patches moved so that the points they share lie on each other.

    Minimizes the matching error over rigid moves of all patches, in as many dimensions as it takes,

    .. math:: \min_{R_i^\top R_i = I,\; t_i} \sum_{i \sim j} \frac{1}{n_{ij}} \sum_{x \in C_i \cap C_j}
              |R_i f_i(x) + t_i - R_j f_j(x) - t_j|^2 - \gamma \operatorname{var}(y),

    where the points :math:`y(x)`, means of :math:`R_i f_i(x) + t_i` over the patches of x, keep wanted distances and
    bounds. In the Gram matrix of frames and shifts this is a semidefinite program with one optimum, whose dual tells
    how close the solution is. It is then projected to n_components dimensions and the patches made rigid again.

    Parameters
    ----------
    patches : sequence of (members, coordinates)
        Numbers of the points in the patch, shape (m,), and their coordinates there, shape (m, r); r may differ.
        Every point is in some patch.
    n_components : int, optional
        Dimension of the result; that of the widest patch if left out.
    n_points : int, optional
        Number of points; the largest number listed and one, if left out.
    distances : (pairs, lengths), optional
        Exact distances: pairs of points, shape (E, 2), and E lengths. Both ends are joined by shared points.
    upper_bounds, lower_bounds : (pairs, lengths), optional
        Distances not to exceed, and not to fall below, in the same form.
    stretch : float
        Gamma: how much the variance of the points counts. It decides between placements that fit equally, for those
        that are spread out, at the price of a little matching error until the refinement.
    chiral : bool
        Whether coordinates with n_components columns may not be mirrored, as those of four atoms around a carbon: the
        picture is mirrored as a whole if most such patches came out turned over, and those still turned over are
        turned back before the refinement, which keeps them so.
    relax : bool
        Whether to allow more dimensions on the way. Without, the search stays near ``start``.
    refine : bool
        Whether to place the patches once more in n_components dimensions after the projection.
    start : ndarray of shape (n, q), optional
        Points near which to begin, q at least the dimension of the patches, and n_components without ``relax``;
        eigenvectors otherwise.
    tol : float
        Relative error of squared lengths that may be left. With 0.01, say, a large relaxed program ends early, without
        proof; the refinement always goes to 1e-6.
    random_state : None, int or numpy generator
        Draws the points whose mean is taken for that of all in the variance.
    n_jobs : int, optional
        Threads; the result does not depend on it.
    verbose : bool
        Report the stages.
    callback : callable, optional
        Told of progress; a true answer stops with the placement reached.

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
    rigid = RigidPatches.read(patches, None if n_points is None else check.integer("n_points", n_points, 1))
    n, widest = rigid.members.n_points, rigid.layout.max_size
    because = f" because a patch fills {widest} dimensions"
    width = widest if n_components is None else check.integer("n_components", n_components, widest, None, because)
    pairs = Pairs.read(distances, upper_bounds, lower_bounds, n)
    begin = None if start is None else _checked_start(start, n, widest, None if relax else width)
    tol = check.number("tol", tol, 0.0, open_low=True)
    run = Run(random_state, n_jobs, verbose, callback)
    parts = _parts(rigid, pairs, check.number("stretch", stretch, 0.0), run)
    most = None if relax else width
    with run.stage("alignment"):
        first = [part.place(part.start(begin, most, chiral), most, tol, run) for part in parts]
        whole = laid = _laid_out(rigid, parts, first, width, chiral)
    wide = any(placement.shifts.shape[1] > width for placement in first)
    if refine and (wide or stretch > 0 or (chiral and rigid.mirrored(whole.stitched.frames).any())):
        with run.stage("refinement"):
            again = [part.refine(whole.coordinates, chiral, run) for part in parts]
            laid = _laid_out(rigid, parts, again, width, chiral)
    forces = np.zeros(len(pairs.lengths))
    for part, placement in zip(parts, first, strict=True):
        forces[part.chosen] = placement.multipliers
    stitched = laid.stitched
    apart = np.square(stitched.images(rigid.members.patches, rigid.f) - laid.coordinates[rigid.members.points])
    counts = np.bincount(rigid.members.patches)
    frames = rigid.axes @ stitched.frames
    return PatchAlignment(
        coordinates=laid.coordinates,
        frames=frames,
        shifts=stitched.shifts - np.einsum("cw,cwd->cd", rigid.middles, frames),
        certificate=joint_certificate(first),
        spectrum=whole.spectrum,
        disagreement=laid.disagreement,
        residuals=np.sqrt(np.bincount(rigid.members.patches, apart.sum(axis=1)) / counts),
        violations=pairs.violations(laid.coordinates),
        multipliers=forces,
        mirrored=rigid.mirrored(stitched.frames),
        components=stitched.components,
        trace=first[0].trace,
    )


@dataclass(frozen=True)
class _Part:
    """One component: its patches, points and pairs, and the forms to be made small without and with stretch."""

    rigid: RigidPatches
    patches: IntArray
    points: IntArray
    chosen: Array
    distances: DistanceConstraints | None
    form: sp.csr_array
    stretched: sp.csr_array

    def start(self, Y: FloatArray | None, most: int | None, proper: bool) -> FloatArray:
        """Return unknowns to begin with: near the rows of Y, or from eigenvectors."""
        if Y is not None:
            return self.rigid.fitted(Y[self.points], proper)
        if self.rigid.layout.n_frame_rows == 0:
            return np.zeros((self.rigid.layout.n_rows, 1))
        return spectral_start(self.form, self.rigid.layout, most)

    def place(self, V: FloatArray, most: int | None, tol: float, run: Run) -> Placement:
        """Return the best placement found from V."""
        wanted = None if self.distances is None else replace(self.distances, tol=tol)
        return place(self.stretched, self.rigid.layout.sizes, run, start=V, distances=wanted, max_rank=most)

    def refine(self, Y: FloatArray, proper: bool, run: Run) -> Placement:
        """Return the placement near the rows of Y, in as many dimensions and without stretch."""
        V, sizes = self.start(Y, None, proper), self.rigid.layout.sizes
        return place(self.form, sizes, run, start=V, distances=self.distances, max_rank=Y.shape[1])


def _parts(rigid: RigidPatches, pairs: Pairs, stretch: float, run: Run) -> list[_Part]:
    """Return the components of the patch graph, the largest first."""
    overlaps = find_overlaps(rigid.members, rigid.f, rigid.n_patches)
    components = patch_components(overlaps, rigid.n_patches)
    home = np.empty(rigid.members.n_points, dtype=np.int64)
    home[rigid.members.points] = components[rigid.members.patches]
    if (home[pairs.ends[:, 0]] != home[pairs.ends[:, 1]]).any():
        raise ValueError(
            f"The patches are in {components.max() + 1} pieces that share no points, and distances or bounds cannot "
            "tie these: add a patch across, for an exact distance d one of two points with coordinates [[0], [d]]."
        )
    parts = []
    for number in np.argsort(-np.bincount(components), kind="stable"):
        patches = np.flatnonzero(components == number)
        mine, points = rigid.part(patches)
        alone = sp.csr_array((mine.layout.n_rows, mine.layout.n_rows))
        shared = find_overlaps(mine.members, mine.f, len(patches))
        form = matching_form(shared, mine.layout.sizes) if len(shared) else alone
        chosen = np.flatnonzero(home[pairs.ends[:, 0]] == number)
        wanted = pairs.among(chosen, points).distances(mine.positions)
        parts.append(_Part(mine, patches, points, chosen, wanted, form, _stretched(mine, form, stretch, run)))
    return parts


def _stretched(rigid: RigidPatches, form: sp.csr_array, stretch: float, run: Run) -> sp.csr_array:
    """Return the form less the variance of the points, or refuse a stretch under which patches would fly apart."""
    if stretch == 0:
        return form
    n, k = rigid.members.n_points, rigid.layout.n_frame_rows
    rows = rigid.positions
    middle = np.arange(n) if n <= MIDDLE else run.rng("middle").choice(n, MIDDLE, replace=False)
    mean = sp.csr_array(rows[middle].sum(axis=0)[None] / len(middle))
    total = sp.csr_array(rows.sum(axis=0)[None] / n)
    spread = rows.T @ rows / n - mean.T @ total - total.T @ mean + mean.T @ mean
    stretched = sp.csr_array(form - stretch * spread)
    if rigid.n_patches > 1 and proven_factor(sp.csc_array(stretched[k + 1 :, k + 1 :])) is None:
        raise ValueError(f"With stretch = {stretch:g} shared points would fly apart without end; try a tenth of it.")
    return stretched


def _laid_out(
    rigid: RigidPatches, parts: list[_Part], placements: list[Placement], width: int, chiral: bool
) -> Unfolded:
    """Return all components in ``width`` dimensions; chiral ones so that most full patches are not mirrored."""
    p = max(placement.shifts.shape[1] for placement in placements)
    frames = np.zeros((rigid.n_patches, rigid.layout.max_size, p))
    shifts = np.zeros((rigid.n_patches, p))
    components = np.empty(rigid.n_patches, dtype=np.int64)
    for number, (part, placement) in enumerate(zip(parts, placements, strict=True)):
        _, r, columns = placement.frames.shape
        frames[part.patches, :r, :columns] = placement.frames
        shifts[part.patches, :columns] = placement.shifts
        components[part.patches] = number
    stitched = Stitched(frames, shifts, components, joint_certificate(placements), placements[0].trace)
    laid = unfold(rigid.members, rigid.f, stitched, width)
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
