"""
Embed a Dask array
==================

A Dask array is divided into chunks, which may be stored on many machines.
Every estimator accepts one, and ``transform`` returns one.
Nothing is computed before you ask for it.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from manifoldry import IPA, datasets

# %%
# A table in ten chunks
# ---------------------
#
# The rows are points of a star of four twisted strips, rotated into 15 dimensions, with noise.
# On a cluster, ``da.from_zarr`` or ``da.from_array`` would read them from storage.

star = datasets.star(40_000, random_state=0)
rng = np.random.default_rng(0)
rotation = np.linalg.qr(rng.normal(size=(15, 15)))[0][: star.X.shape[1]]
rows = star.X @ rotation + rng.normal(0, 0.01, (len(star.X), 15))
X = da.from_array(rows.astype(np.float32), chunks=(4_000, 15))
print(X)

# %%
# Fit and transform
# -----------------
#
# ``fit`` draws a random sample of the rows and computes flat patches from it.
# Each worker then computes how the patches overlap in its own chunks, and these sums are merged.
# ``transform`` maps the rows on the workers.

model = IPA(random_state=0).fit(X)
Y = model.transform(X)
print(Y)
coordinates = Y.compute()

# %%
# Color by the true position, and by the chunk
# --------------------------------------------

figure, axes = plt.subplots(1, 2, figsize=(10.5, 5), layout="constrained")
order = rng.permutation(len(rows))
chunk = np.repeat(np.arange(X.numblocks[0]), X.chunks[0])
for ax, color, title, palette in (
    (axes[0], star.color, "true position", "viridis"),
    (axes[1], chunk, "Dask chunk", "tab10"),
):
    ax.scatter(*coordinates[order].T, c=color[order], s=1.2, cmap=palette, linewidths=0, rasterized=True)
    ax.set_title(f"40,000 rows by {title}")
    ax.set_aspect("equal")
    ax.set(xticks=[], yticks=[])
plt.show()

# %%
# The star is flat and its arms are straight: the twist is gone.
# The chunks are mixed evenly, because all workers use the same map.
