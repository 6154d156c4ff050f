"""
Embed data that does not fit into memory
========================================

``chunked_data`` reads rows in chunks, from files or from a generator.
Every estimator accepts it in place of an array.
Here, a generator yields half a million rows of a noisy Swiss roll with a hole, 20,000 at a time.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from manifoldry import IPA, chunked_data, datasets

N_CHUNKS, ROWS = 25, 20_000


def chunks():
    """Yield the rows; the same rows at every call."""
    for seed in range(N_CHUNKS):
        yield datasets.swiss_roll(ROWS, hole=True, noise=0.1, random_state=seed).X


# %%
# Fit and transform
# -----------------
#
# The fit reads the rows at most twice.
# ``transform`` computes nothing yet; ``save`` writes the coordinates chunk by chunk.

data = chunked_data(chunks)
model = IPA(n_components=2, random_state=0).fit(data)
print(model.diagnostics_["fitted_to"])
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "coordinates.npy"
    model.transform(data).save(file)
    Y = np.load(file)
print(f"{len(Y):,} rows of coordinates")

# %%
# Color by the true coordinate along the roll
# -------------------------------------------
#
# Half a million points would hide each other.
# The plot shows the mean color and the number of points in small cells.

color = np.concatenate(
    [datasets.swiss_roll(ROWS, hole=True, random_state=seed).truth[:, 0] for seed in range(N_CHUNKS)]
)
figure, axes = plt.subplots(2, 1, figsize=(9, 5.6), layout="constrained")
cells = {"gridsize": (180, 45), "mincnt": 1}
mean = axes[0].hexbin(*Y.T, C=color, cmap="viridis", gridsize=(180, 45))
count = axes[1].hexbin(*Y.T, cmap="magma", **cells)
figure.colorbar(mean, ax=axes[0], shrink=0.7, label="true position along the roll")
figure.colorbar(count, ax=axes[1], shrink=0.7, label="rows per cell")
for ax in axes:
    ax.set_aspect("equal")
    ax.set(xticks=[], yticks=[])
axes[0].set_title(f"{len(Y):,} rows, unrolled without being in memory together")
plt.show()

# %%
# The colors change evenly along the sheet and the hole has straight edges: the roll is unrolled without folds.
