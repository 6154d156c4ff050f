"""
Embeddings over time: a cluster splits in two
=============================================

The same customers are measured in four quarters of a year.
Between the first and the last quarter, one of five groups splits in two.
Four separate fits give four maps that cannot be compared.
``AlignedEmbedding`` keeps shared rows close from one map to the next.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.collections import LineCollection

from manifoldry import UMAP, AlignedEmbedding

# %%
# Four tables with shared rows
# ----------------------------
#
# Each quarter, 40 of 400 customers leave and 40 new ones come.
# The index of a data frame names the customers, so the rows need not be in the same order.
# The halves of group E move apart along the last column.

rng = np.random.default_rng(0)
N, LEAVE = 400, 40
n_customers = N + 3 * LEAVE
group = rng.choice(
    ["A", "B", "C", "D", "E, first half", "E, second half"], n_customers, p=[0.2, 0.2, 0.18, 0.16, 0.13, 0.13]
)
centers = dict(zip("ABCDE", 8 * np.eye(5, 9), strict=True))
habits = np.array([centers[name[0]] for name in group]) + rng.normal(size=(n_customers, 9))
sign = (group == "E, second half").astype(float) - (group == "E, first half")
quarters, kinds = [], []
for t in range(4):
    rows = rng.permutation(np.arange(LEAVE * t, LEAVE * t + N))
    X = habits[rows] + 0.3 * rng.normal(size=(N, 9))
    X[:, -1] += 1.8 * t * sign[rows]
    quarters.append(pd.DataFrame(X, index=rows))
    kinds.append(group[rows])

# %%
# Separate fits and aligned fits
# ------------------------------
#
# Unlike separate fits, ``AlignedEmbedding`` fits all tables together.
# The shift is the median distance by which a customer moves from one map to the next, in units of the size of the map.

separate = [UMAP(min_dist=0.6, random_state=0).fit_transform(X) for X in quarters]
aligned = AlignedEmbedding(UMAP(min_dist=0.6, random_state=0)).fit(quarters).embeddings_


def moves(maps, t):
    """Return the positions in maps t and t + 1 of the customers in both."""
    _, old, new = np.intersect1d(quarters[t].index, quarters[t + 1].index, return_indices=True)
    return np.stack([np.asarray(maps[t])[old], np.asarray(maps[t + 1])[new]], axis=1)


COLORS = ["#8fa3bf", "#7fa893", "#b39bc2", "#cfb875", "#bd1f01", "#3f90da"]
palette = dict(zip(np.unique(group), COLORS, strict=True))
figure, axes = plt.subplots(2, 4, figsize=(13, 6.8), layout="constrained", sharex="row", sharey="row")
for row, (name, maps) in zip(axes, {"separate fits": separate, "aligned fits": aligned}.items(), strict=True):
    steps = np.concatenate([moves(maps, t) for t in range(3)])
    shift = np.median(np.linalg.norm(steps[:, 1] - steps[:, 0], axis=1)) / np.sqrt(np.var(steps[:, 0], axis=0).sum())
    print(f"{name}: a shift of {shift:.2f}")
    for t, ax in enumerate(row):
        if t:
            ax.add_collection(LineCollection(moves(maps, t - 1), colors="#c9ced6", linewidths=0.4, zorder=0))
        ax.scatter(*np.asarray(maps[t]).T, s=11, c=[palette[kind] for kind in kinds[t]], linewidths=0)
        ax.set_title(f"quarter {t + 1}" + (f": {name}" if t == 0 else ""))
        ax.set_aspect("equal")
        ax.set(xticks=[], yticks=[])
plt.show()

# %%
# Red and blue are the halves of the group that splits; lines lead from the positions of the quarter before.
# In the aligned maps the other groups stay where they are, and the split is visible.
