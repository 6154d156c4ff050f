"""
A surface that cannot be laid flat
==================================

Every map of the earth tears it, folds it or stretches it.
The same is true for any closed surface in data, such as the set of all views of an object.
``IPA`` notices this, and its warning says what to do.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from manifoldry import IPA, UMAP, EmbeddingWarning, datasets

sphere = datasets.sphere(3000, random_state=0)

# %%
# Two dimensions are not enough
# -----------------------------
#
# IPA covers the sphere with patches and looks for the plane layout in which they fit best.
# They do not fit well, and the warning gives the number of dimensions in which they do.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", EmbeddingWarning)
    flat = IPA(n_components=2, random_state=0).fit_transform(sphere.X)
print(caught[0].message)

# %%
# Follow the advice, or accept a cut
# ----------------------------------
#
# With three components the patches fit together.
# UMAP draws a plane map by opening the sphere.
# Many neighbors and a large ``min_dist`` keep it in one piece.

whole = IPA(n_components=3, random_state=0).fit_transform(sphere.X)
opened = UMAP(n_neighbors=60, min_dist=0.8, init="spectral", random_state=0).fit_transform(sphere.X)
radius = np.linalg.norm(whole - whole.mean(axis=0), axis=1)
print(f"radius of the sphere in three components: {radius.mean():.3f}, from {radius.min():.3f} to {radius.max():.3f}")

# %%
# Each point keeps its color
# --------------------------
#
# Red, green and blue are the three coordinates of a point on the sphere, so opposite points have opposite colors.
# The result with three components is rotated to match the data, and only the front of the spheres is drawn.

left, _, right = np.linalg.svd((whole - whole.mean(axis=0)).T @ sphere.X)
whole = (whole - whole.mean(axis=0)) @ left @ right
color = 0.5 + 0.48 * sphere.X
viewer = np.array([0.61, 0.61, 0.5])
figure = plt.figure(figsize=(11, 10.6), layout="constrained")
panels = {
    "the data": sphere.X,
    "IPA, 2 components: folded": flat,
    "UMAP, 2 components: opened at one side": opened,
    "IPA, 3 components: round": whole,
}
for i, (title, Y) in enumerate(panels.items()):
    if Y.shape[1] == 3:
        ax = figure.add_subplot(2, 2, i + 1, projection="3d")
        front = Y @ viewer > 0
        ax.scatter(*Y[front].T, s=60, c=color[front], linewidths=0, depthshade=False)
        ax.view_init(30, 45)
        ax.set_box_aspect((1, 1, 1), zoom=1.5)
        ax.set_axis_off()
    else:
        ax = figure.add_subplot(2, 2, i + 1)
        ax.scatter(*Y.T, s=36, c=color, linewidths=0)
        ax.set_aspect("equal", adjustable="datalim")
        ax.set(xticks=[], yticks=[])
    ax.set_title(title)
plt.show()

# %%
# In the folded map, points from opposite sides of the sphere lie on top of each other: a disk with two layers.
# UMAP draws one layer: it opens the sphere at the green side, whose points are now spread along the rim.
# Only three components show the sphere as it is.
