"""
Choose the number of neighbors and the dimension
================================================

Most methods start with a graph of nearest neighbors.
With too few neighbors, the graph is disconnected; with too many, it has short circuits between layers.
``suggest_neighbors`` finds the range in between, and ``dimension.consensus`` estimates the number of dimensions.
"""

import warnings

import matplotlib.pyplot as plt

from manifoldry import EmbeddingWarning, Isomap, datasets, dimension, plot, suggest_neighbors

roll = datasets.swiss_roll(1000, random_state=0)
suggestion = suggest_neighbors(roll.X)
print(suggestion)

# %%
# The dimension
# -------------
#
# The consensus combines several estimators with confidence intervals.

print(dimension.consensus(roll.X))

# %%
# What the wrong number does
# --------------------------
#
# The first panel shows the share of geodesic distances that short circuits shorten.
# The others show Isomap with the suggested number and with more neighbors.
# The second fit would warn of short circuits; we switch the warning off.

warnings.simplefilter("ignore", EmbeddingWarning)
n_neighbors = int(suggestion)
rows = suggestion.rows
figure, axes = plt.subplots(1, 3, figsize=(12.5, 3.8), layout="constrained", width_ratios=(1, 1.3, 1.3))
axes[0].axvspan(suggestion.low, suggestion.high, color="#e4e7ed", label="as good")
axes[0].plot([row.n_neighbors for row in rows], [row.affected for row in rows], "o-", color="#bd1f01")
axes[0].axvline(n_neighbors, color="#3f90da", label="suggested")
axes[0].set(xlabel="neighbors", ylabel="share of affected distances", title="short circuits")
axes[0].legend(framealpha=1.0, loc="center left")
for ax, k in zip(axes[1:], (n_neighbors, 25), strict=True):
    plot.scatter(Isomap(n_neighbors=k).fit(roll.X), color=roll.color, ax=ax, legend=False)
    ax.set_title(f"Isomap with {k} neighbors")
    ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
plt.show()

# %%
# The suggested number unrolls the sheet.
# With 25 neighbors, edges jump between the layers of the roll, and the sheet bends.
