"""
Compare methods on your own data
================================

No method is the best for everything.
``compare`` fits several methods to the same data, scores them in the same way, and ranks them for a purpose.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from manifoldry import compare, plot

X, y = load_digits(return_X_y=True)
X, y = X[:800], y[:800]
METHODS = ["TSNE", "UMAP", "PaCMAP", "PHATE", "Isomap", "LaplacianEigenmaps", "MDS"]

# %%
# The ranking
# -----------
#
# ``budget=None`` sets no time limit, so the result is reproducible.
# PCA is always added.

comparison = compare(X, "see clusters", budget=None, labels=y, methods=METHODS)
print("\n".join(str(comparison).splitlines()[:11]))

# %%
# The table
# ---------
#
# ``table`` holds all scores, also those that the ranking does not use.
# The bars show three of them.
# ``neighborhood_hit`` is the share of neighbors in the picture with the same digit.
# ``knn_kept`` is the share of nearest neighbors in the data that are nearest in the picture.
# ``triplet_accuracy`` is the share of triplets of points whose order of distances is kept.

SCORES = {"neighborhood_hit": "#9cc9f0", "knn_kept": "#f0a99c", "triplet_accuracy": "#ffd78a"}
figure, axes = plt.subplots(4, 4, figsize=(12, 10), layout="constrained", height_ratios=(3, 1, 3, 1))
panels = zip(axes[::2].ravel(), axes[1::2].ravel(), comparison.table, strict=True)
for rank, (drawing, bars, row) in enumerate(panels, 1):
    plot.scatter(comparison.embeddings[row["method"]], y, ax=drawing, legend=False, size=6)
    drawing.set_title(f"{rank}. {row['method']}")
    drawing.set_aspect("equal", adjustable="datalim")
    drawing.set(xticks=[], yticks=[], xlabel="", ylabel="")
    for position, (name, color) in enumerate(SCORES.items()):
        bars.barh(position, row[name], color=color)
        bars.text(0.02, position, f"{name} {row[name]:.2f}", va="center", fontsize=8)
    bars.set(xlim=(0, 1), yticks=[], xticks=[])
    bars.invert_yaxis()
    bars.spines[:].set_visible(False)
plt.show()

# %%
# The first four methods separate most digits and keep most neighbors.
# MDS and PCA mix the digits, and yet they keep the order of distances best (yellow).
# What is best depends on the purpose.
