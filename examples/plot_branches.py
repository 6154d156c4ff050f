"""
Branches: PHATE, PaCMAP, UMAP and PCA
=====================================

Cells that develop, or documents that specialize, lie on a tree.
We generate a tree with known branches in 60 dimensions, and compare which methods show it.
"""

import matplotlib.pyplot as plt
import numpy as np

from manifoldry import PCA, PHATE, UMAP, PaCMAP, plot

# %%
# A tree with six branches
# ------------------------
#
# Each branch starts at the end or in the middle of another one, and continues in a random direction.

rng = np.random.default_rng(1)
SHAPE = {"trunk": None, "A": ("trunk", 1.0), "B": ("trunk", 1.0), "C": ("trunk", 0.4), "D": ("A", 1.0), "E": ("A", 1.0)}
N, DIMENSION = 250, 60
paths, points, branches = {}, [], []
for name, origin in SHAPE.items():
    steps = rng.normal(size=DIMENSION) / np.sqrt(DIMENSION) + 0.8 * rng.normal(size=(N, DIMENSION)) / np.sqrt(DIMENSION)
    start = np.zeros(DIMENSION) if origin is None else paths[origin[0]][int(origin[1] * (N - 1))]
    paths[name] = start + np.cumsum(steps, axis=0) / 20
    points.append(paths[name] + rng.normal(0, 0.3, (N, DIMENSION)))
    branches += [name] * N
X = np.concatenate(points)

# %%
# Four embeddings
# ---------------
#
# ``t`` is the diffusion time of PHATE.
# The default is chosen from the spectrum; a longer time removes more noise.

models = {
    "PCA": PCA(n_components=2),
    "UMAP": UMAP(random_state=0),
    "PaCMAP": PaCMAP(random_state=0),
    "PHATE": PHATE(n_neighbors=15, t=40, random_state=0),
}
figure, axes = plt.subplots(2, 2, figsize=(10, 8), layout="constrained")
for ax, (name, model) in zip(axes.ravel(), models.items(), strict=True):
    plot.scatter(model.fit(X), branches, annotate=True, ax=ax).set_title(name)
    ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
plt.show()

# %%
# PaCMAP and PHATE keep the tree nearly in one piece: branch C begins in the middle of the trunk.
# UMAP separates C from the trunk.
# PCA keeps the directions of largest variance, so C covers the end of the trunk.
# Lengths and angles of branches mean little, except in PCA.
