"""
Catch a misleading t-SNE plot
=============================

t-SNE draws islands even where the data has none.
We embed a square that is filled uniformly with points, and a data set with four real clusters.
Then we test which islands can be trusted.
"""

import matplotlib.pyplot as plt
import numpy as np

from manifoldry import PCA, TSNE, datasets, metrics, plot

square = np.random.default_rng(0).random((600, 2))
clusters = datasets.gaussian_clusters(600, n_clusters=4, n_features=20, separation=9, random_state=0)
data = {"an even square": square, "four clusters in 20 dimensions": clusters.X}
models = {name: TSNE(perplexity=8, random_state=0).fit(X) for name, X in data.items()}

# %%
# Which islands are real?
# -----------------------
#
# ``null_comparison`` fits the same method, with the same settings, to data without structure.
# An island is real if it is much better separated in the data than the islands of such null data.

verdicts = {name: metrics.null_comparison(models[name], X) for name, X in data.items()}
for name, verdict in verdicts.items():
    print(f"{name}: {verdict.sentence}\n")

# %%
# Which points have their true neighbors?
# ---------------------------------------
#
# ``reliability`` compares the neighbors of each point in the plot with those in the data.
# This is a different question: the neighbors may be right and the gaps wrong.

figure, axes = plt.subplots(2, 3, figsize=(12, 8), layout="constrained")
for row, (name, X) in zip(axes, data.items(), strict=True):
    verdict, model = verdicts[name], models[name]
    flat = X if X.shape[1] == 2 else PCA(n_components=2).fit_transform(X)
    plot.scatter(flat, verdict.labels, ax=row[0], legend=False)
    row[0].set_title(f"the data: {name}")
    plot.scatter(model, verdict.labels, ax=row[1], legend=False)
    row[1].set_title(f"t-SNE: {len(verdict.real)} of {verdict.n_clusters} islands are real")
    plot.reliability(X, model, ax=row[2])
    share = metrics.reliability(X, model.embedding_).share_trustworthy
    row[2].set_title(f"{share:.0%} of the points are trustworthy")
    row[2].get_legend().remove()
    for ax in row:
        ax.set(xticks=[], yticks=[])
plt.show()

# %%
# Each point has the color of its island in the t-SNE plot.
# In the square, these islands touch each other: t-SNE has cut the square.
# The neighbors are right (blue), but the gaps are not in the data.
# The four clusters are real, but a quarter of the points have no reliable position inside their cluster (gray).
