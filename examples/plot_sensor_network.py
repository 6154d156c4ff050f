"""
Locate sensors from local distances
===================================

Many small sensors lie around a lake.
Each measures its distances to the sensors within its range, with some error.
No sensor knows its position.
We reconstruct the map from these distances alone.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from scipy.spatial import cKDTree

from manifoldry import ClassicalMDS, align_patches

rng = np.random.default_rng(0)
X = rng.uniform(0, 1, (900, 2))
X = X[np.linalg.norm((X - [0.5, 0.5]) / [0.28, 0.2], axis=1) > 1]  # no sensors in the lake
REACH, NOISE = 0.14, 0.03
pairs = cKDTree(X).query_pairs(REACH, output_type="ndarray")
lengths = np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1) * rng.normal(1, NOISE, len(pairs))
n = len(X)
network = csr_array((lengths, pairs.T), shape=(n, n))
network = csr_array(network + network.T)
print(f"{n} sensors, {len(pairs)} measured distances, {len(pairs) / (n * (n - 1) / 2):.1%} of all pairs")

# %%
# The usual way: shortest paths
# -----------------------------
#
# The length of the shortest path through the network replaces a missing distance.
# Around the lake such a path is too long.

paths = shortest_path(network, directed=False)
by_paths = ClassicalMDS(n_components=2, metric="precomputed").fit_transform(paths)

# %%
# Patches
# -------
#
# Sensors that all measure their distances to each other form a rigid patch.
# The sensors within about half of the range around one sensor are such a patch, except for a few pairs.
# Classical scaling computes separate coordinates for each patch.
# ``align_patches`` finds the positions in which all patches agree best.

patches = []
for center in range(0, n, 2):
    neighbors = np.append(network.indices[network.indptr[center] : network.indptr[center + 1]], center)
    near = neighbors[network[[center]].toarray()[0, neighbors] <= 0.55 * REACH]
    if len(near) >= 4:
        block = paths[np.ix_(near, near)]
        patches.append((near, ClassicalMDS(n_components=2, metric="precomputed").fit_transform(block)))
members = np.unique(np.concatenate([near for near, _ in patches]))
position = np.full(n, -1)
position[members] = np.arange(len(members))
result = align_patches([(position[near], Y) for near, Y in patches], 2, random_state=0)
print(f"{len(patches)} patches hold {len(members)} of {n} sensors")

# %%
# Compare with the true map
# -------------------------


def superposed(Y, target):
    """Rotate, reflect and shift Y to match the target."""
    centered = Y - Y.mean(axis=0)
    left, _, right = np.linalg.svd(centered.T @ (target - target.mean(axis=0)))
    return centered @ left @ right + target.mean(axis=0)


figure, axes = plt.subplots(1, 3, figsize=(12, 4.3), layout="constrained", sharex=True, sharey=True)
maps = {
    "true positions": (X, X),
    "shortest paths": (by_paths, X),
    "aligned patches": (result.coordinates, X[members]),
}
for ax, (name, (Y, truth)) in zip(axes, maps.items(), strict=True):
    placed = superposed(Y, truth)
    error = np.median(np.linalg.norm(placed - truth, axis=1)) / REACH
    ax.add_collection(LineCollection(np.stack([placed, truth], axis=1), colors="#bd1f01", linewidths=0.8))
    ax.scatter(*placed.T, s=7, c=truth[:, 0] + truth[:, 1], cmap="viridis", zorder=2)
    ax.set_title(name if Y is X else f"{name}: error {error:.0%} of the range")
    ax.set_aspect("equal")
    ax.set(xticks=[], yticks=[])
plt.show()

# %%
# Red lines lead from the estimated to the true positions.
# Shortest paths enlarge the lake.
# Aligned patches preserve its shape and its size.
