"""Proteins: rigid groups of atoms, and upper bounds of distances between hydrogens, give back the fold.

Groups have their inner distances from the deposited structure: bond lengths, angles and flat groups, which do not
depend on the fold. Half of the pairs of hydrogens within 6 Angstrom are bounded by their distance times 1 + 0.1 |z|,
z normal: how we read 10 % multiplicative noise on an upper bound.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, shortest_path
from scipy.spatial import cKDTree

from harness import Lab, experiment, main
from manifoldry import ClassicalMDS, align_patches
from manifoldry.methods.unfolding._align_patches import PatchAlignment
from rules import at_most, equals, no_more

RADII = {b"H": 0.31, b"C": 0.76, b"N": 0.71, b"O": 0.66, b"S": 1.05}
"""Covalent radii in Angstrom."""

MAX_BOND_RATIO = 1.25
"""Atoms are bonded below this multiple of the sum of their radii."""

MAX_OUT_OF_PLANE = 0.2
"""Angstrom by which a carbon is at most out of the plane of its neighbors in a flat group; 0.5 where it has four."""

MAX_CONTACT = 6.0
RELATIVE_NOISE = 0.1
STRETCH_WEIGHT = 0.1
"""Upper bounds alone would let the chain shrink; so little variance wanted is enough against that."""

RELAXED_TOL = 0.1
"""Relative error of squared bounds at which the relaxed program may end: it only has to find the fold."""

CLOSE = at_most(1.5, "the two structures are very close")
"""The source shows pictures; below 1.5 Angstrom two folds are told apart only by looking closely."""

NAMES = ("2JUY", "1EJG", "1GB1", "1D3Z", "2M3T")

Patch = tuple[NDArray[Any], NDArray[Any]]


class Protein(NamedTuple):
    """Atoms of one structure: places in Angstrom, elements, names in the residue."""

    X: NDArray[Any]
    element: NDArray[Any]
    atom: NDArray[Any]


def bonds(protein: Protein) -> sp.csr_array:
    """Return who is bonded to whom: heavy atoms by distance, a hydrogen to its nearest heavy atom."""
    X, n = protein.X, len(protein.X)
    radius = np.array([RADII[element] for element in protein.element])
    light = protein.element == b"H"
    near = cKDTree(X).query_pairs(MAX_BOND_RATIO * 2 * radius.max(), output_type="ndarray")
    length = np.linalg.norm(X[near[:, 0]] - X[near[:, 1]], axis=1)
    heavy = near[(length < MAX_BOND_RATIO * radius[near].sum(axis=1)) & ~light[near].any(axis=1)]
    owner = np.flatnonzero(~light)[cKDTree(X[~light]).query(X[light])[1]]
    pairs = np.concatenate([heavy, np.column_stack([np.flatnonzero(light), owner])])
    adjacency = sp.csr_array((np.ones(len(pairs)), pairs.T), shape=(n, n))
    return sp.csr_array(adjacency + adjacency.T)


def groups(protein: Protein, adjacency: sp.csr_array) -> list[tuple[NDArray[Any], int]]:
    """Return the rigid groups, members and dimension.

    Carbons in the plane of their three neighbors, and nitrogens that have such a carbon among three, are flat, and so
    is all that is bonded to a connected set of them: peptide planes, rings, amides. Other atoms hold their neighbors.
    """
    X, degree = protein.X, np.diff(adjacency.indptr)
    three = np.flatnonzero(degree == 3)
    away = X[adjacency.indices[adjacency.indptr[three][:, None] + np.arange(3)]] - X[three][:, None]
    normal = np.cross(away[:, 1] - away[:, 0], away[:, 2] - away[:, 0])
    height = np.abs((normal * away[:, 0]).sum(axis=1)) / np.linalg.norm(normal, axis=1)
    carbon = np.zeros(len(X))
    carbon[three[(height < MAX_OUT_OF_PLANE) & (protein.element[three] == b"C")]] = 1
    flat = (carbon > 0) | ((protein.element == b"N") & (degree == 3) & (adjacency @ carbon > 0))
    planes = np.flatnonzero(flat)
    label = connected_components(adjacency[planes][:, planes])[1]
    inside = sp.csr_array((np.ones(len(planes)), (label, planes)), shape=(label.max() + 1, len(X)))
    whole = sp.csr_array(inside + inside @ adjacency)
    found = [(members, _dimension(X[members])) for members in np.split(whole.indices, whole.indptr[1:-1])]
    for center in np.flatnonzero(~flat & (degree > 1)):
        around = adjacency.indices[adjacency.indptr[center] : adjacency.indptr[center + 1]]
        found.append((np.append(around, center), 2 if len(around) == 2 else 3))
    return found


def _dimension(X: NDArray[Any]) -> int:
    """Return 2 for a group within half of `MAX_OUT_OF_PLANE` of its plane: some deposited ones are not."""
    thickness = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[2] / np.sqrt(len(X))
    return 2 if thickness < MAX_OUT_OF_PLANE / 2 else 3


def patch(protein: Protein, members: NDArray[Any], dimension: int) -> Patch:
    """Return a group with coordinates of its own: the structure's, turned to principal axes, not mirrored."""
    away = protein.X[members] - protein.X[members].mean(axis=0)
    axes = np.linalg.svd(away)[2].T
    axes[:, 2] *= np.linalg.det(axes)
    return members, away @ axes[:, :dimension]


def bounds(protein: Protein) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return half of the pairs of hydrogens in reach, and how far apart they may be."""
    rng = np.random.default_rng(0)
    hydrogens = np.flatnonzero(protein.element == b"H")
    near = hydrogens[cKDTree(protein.X[hydrogens]).query_pairs(MAX_CONTACT, output_type="ndarray")]
    pairs = near[rng.permutation(len(near))[: len(near) // 2]]
    lengths = np.linalg.norm(protein.X[pairs[:, 0]] - protein.X[pairs[:, 1]], axis=1)
    return pairs, lengths * (1 + RELATIVE_NOISE * np.abs(rng.standard_normal(len(pairs))))


def superposed(Y: NDArray[Any], X: NDArray[Any]) -> NDArray[Any]:
    """Return Y turned, not mirrored, and shifted as close to X as it goes."""
    away = Y - Y.mean(axis=0)
    left, _, right = np.linalg.svd(away.T @ (X - X.mean(axis=0)))
    left[:, 2] *= np.linalg.det(left @ right)
    return away @ left @ right + X.mean(axis=0)


def rmsd(Y: NDArray[Any], X: NDArray[Any]) -> float:
    """Return the root mean square deviation after superposition."""
    return float(np.sqrt(np.square(superposed(Y, X) - X).sum(axis=1).mean()))


def along_paths(patches: list[Patch], upper: tuple[NDArray[Any], NDArray[Any]], n: int) -> NDArray[Any]:
    """Return a first guess in four dimensions: classical scaling of the shortest paths through groups and bounds."""
    ends, lengths = [upper[0]], [upper[1]]
    for members, f in patches:
        a, b = np.triu_indices(len(members), 1)
        ends.append(np.column_stack([members[a], members[b]]))
        lengths.append(np.linalg.norm(f[a] - f[b], axis=1))
    pairs, steps = np.sort(np.concatenate(ends), axis=1), np.concatenate(lengths)
    order = np.lexsort((steps, *pairs.T))
    first = order[np.unique(pairs[order] @ [n, 1], return_index=True)[1]]
    ways = shortest_path(sp.csr_array((steps[first], pairs[first].T), shape=(n, n)), directed=False)
    return ClassicalMDS(n_components=4, metric="precomputed").fit_transform(ways)


def solved(protein: Protein) -> PatchAlignment:
    """Return the atoms placed from groups and bounds alone."""
    patches = [patch(protein, *group) for group in groups(protein, bonds(protein))]
    upper, n = bounds(protein), len(protein.X)
    guess = along_paths(patches, upper, n)
    return align_patches(
        patches, 3, upper_bounds=upper, stretch=STRETCH_WEIGHT, chiral=True, start=guess, tol=RELAXED_TOL
    )


@experiment("Proteins from rigid groups and bounds", source="khajehpour2013, Fig. 5.12", needs=("proteins",))
def proteins(lab: Lab) -> None:
    data = lab.load("proteins")
    stored = list(data.extras["names"])
    traces = {}
    for name in NAMES:
        mine = data.labels == stored.index(name)
        protein = Protein(data.X[mine], data.extras["element"][mine], data.extras["atom"][mine])
        with lab.time(name):
            found = solved(protein)
        Y, X, alpha = found.coordinates, protein.X, protein.atom == b"CA"
        lab.claim(f"{name}: RMSD over CA, Angstrom", rmsd(Y[alpha], X[alpha]), CLOSE)
        lab.claim(f"{name}: RMSD over all atoms, Angstrom", rmsd(Y, X), CLOSE)
        lab.target(f"{name}: the right hand", rmsd(Y, X) < rmsd(Y * [1, 1, -1], X), equals(True))
        lab.target(f"{name}: share of bounds exceeded by 0.1 %", float((found.violations > 1e-3).mean()), no_more(0.0))
        lab.note(
            f"{name}: {len(X)} atoms in {len(found.frames)} groups, {len(found.violations)} bounds, "
            f"{lab.seconds[name]:.0f} s; atoms shared by groups agree to {found.disagreement.max():.2g} Angstrom; "
            f"mirror image {rmsd(Y * [1, 1, -1], X):.1f} Angstrom off; relaxed in {found.certificate.rank} dimensions, "
            f"gap {found.certificate.gap:.1e}"
        )
        traces[name] = (superposed(Y[alpha], X[alpha]), X[alpha])
    with lab.figure(size=(12.0, 3.2)) as figure:
        for place, (name, (ours, deposited)) in enumerate(traces.items()):
            axes = figure.add_subplot(1, len(traces), place + 1, projection="3d")
            axes.plot(*deposited.T, color="tab:green", label="deposited")
            axes.plot(*ours.T, color="tab:orange", label="from groups and bounds")
            axes.set_title(name, fontsize=9)
            axes.set_axis_off()
        figure.legend(*axes.get_legend_handles_labels(), loc="lower center", ncols=2, fontsize=8)


if __name__ == "__main__":
    main(proteins)
