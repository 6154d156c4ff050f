"""
Fold a protein from overlapping fragments
=========================================

A nuclear magnetic resonance experiment measures short distances between atoms.
The shape of short fragments is known well, and so are a few contacts between distant parts.
``align_patches`` combines the fragments into one three-dimensional structure.
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import pdist, squareform

from manifoldry import ClassicalMDS, align_patches

# %%
# A backbone with known geometry
# ------------------------------
#
# The backbone is a chain of atoms N, CA, C.
# Bond lengths and bond angles are constants of chemistry.
# The torsion angles determine the fold: here, two helices side by side with a turn between them.

LENGTHS = np.array([1.329, 1.458, 1.525])  # Angstrom: C-N, N-CA, CA-C
ANGLES = np.radians([121.7, 111.0, 117.2])  # at N, CA, C
HELIX, TURN = (-57, -47), [(-60, -45), (80, 10), (-120, 130), (60, 40)]
torsions = [HELIX] * 14 + TURN + [HELIX] * 14


def backbone(torsions):
    """Add atom after atom at the given lengths, angles and torsions."""
    bend = np.pi - ANGLES[1]
    atoms = [np.zeros(3), np.array([LENGTHS[1], 0, 0])]
    atoms.append(atoms[1] + LENGTHS[2] * np.array([np.cos(bend), np.sin(bend), 0]))
    turns = np.radians([angle for (_, psi), (phi, _) in itertools.pairwise(torsions) for angle in (psi, 180, phi)])
    for i, turn in enumerate(turns):
        a, b, c = atoms[-3:]
        length, angle = LENGTHS[i % 3], ANGLES[(i - 1) % 3]
        along = (c - b) / np.linalg.norm(c - b)
        normal = np.cross(b - a, along)
        normal /= np.linalg.norm(normal)
        side = np.cross(normal, along)
        step = -np.cos(angle) * along + np.sin(angle) * (np.cos(turn) * side + np.sin(turn) * normal)
        atoms.append(c + length * step)
    return np.array(atoms)


X = backbone(torsions)
print(f"{len(X)} atoms, {np.ptp(X, axis=0).round().astype(int)} Angstrom wide")

# %%
# What is measured
# ----------------
#
# Every fragment has 12 atoms, and half of them are shared with the next fragment.
# Distances inside a fragment have an error of 0.2 Angstrom.
# Classical scaling computes separate coordinates for each fragment.
# A mirror image has the same distances, but chemistry tells us that these helices are right-handed.


def handedness(Z):
    """Return the sign of the mean volume that three steps in a row span."""
    steps = np.diff(Z, axis=0)
    return np.sign(np.sum(np.cross(steps[:-2], steps[1:-1]) * steps[2:]))


rng = np.random.default_rng(2)
fragments = []
for first in range(0, len(X) - 6, 6):
    members = np.arange(first, first + 12)
    distances = pdist(X[members])
    measured = squareform(distances + rng.normal(0, 0.2, len(distances)))
    Z = ClassicalMDS(n_components=3, metric="precomputed").fit_transform(measured)
    fragments.append((members, Z * [1, 1, handedness(Z) * handedness(X[members])]))

# %%
# Contacts between distant parts of the chain are given as upper bounds, 5 percent above the true distances.

pairs = np.argwhere(np.triu(squareform(pdist(X)) < 8, 30))
pairs = pairs[rng.permutation(len(pairs))[:30]]
contacts = (pairs, 1.05 * np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1))

# %%
# Align the fragments, without and with the contacts
# --------------------------------------------------


def superposed(Y):
    """Rotate and shift Y to match the true atoms."""
    centered, target = Y - Y.mean(axis=0), X - X.mean(axis=0)
    left, _, right = np.linalg.svd(centered.T @ target)
    left[:, 2] *= np.linalg.det(left @ right)
    return centered @ left @ right + X.mean(axis=0)


figure = plt.figure(figsize=(11, 5), layout="constrained")
for k, (title, bounds) in enumerate({"fragments only": None, "fragments and 30 contacts": contacts}.items()):
    result = align_patches(fragments, 3, upper_bounds=bounds, chiral=True, random_state=0)
    Y = superposed(result.coordinates)
    error = np.sqrt(np.square(Y - X).sum(axis=1).mean())
    ax = figure.add_subplot(1, 2, k + 1, projection="3d")
    ax.plot(*X.T, color="#c9ced6", linewidth=8, solid_capstyle="round", label="true backbone")
    ax.scatter(*Y.T, c=np.arange(len(Y)), cmap="turbo", s=14, depthshade=False)
    ax.plot(*Y.T, color="#1d2433", linewidth=1.2, label="aligned fragments")
    ax.set_title(f"{title}: {error:.1f} Angstrom from the truth")
    ax.set_box_aspect(np.ptp(np.concatenate([X, Y]), axis=0), zoom=1.25)
    ax.set_axis_off()
ax.legend(frameon=False, loc="lower right")
plt.show()

# %%
# Small errors of the fragments add up along the chain, so the second helix drifts away.
# Thirty contacts hold the helices together.
# The colors run from the first atom to the last.
