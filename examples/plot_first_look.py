"""
A first look at a table: scale the columns
==========================================

The wine data has 178 wines of three cultivars and 13 measurements.
The measurements have different units.
The column ``proline`` has values up to 1,680, while ``hue`` is near 1.
A distance between raw rows therefore depends on ``proline`` alone.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from manifoldry import UMAP, EmbeddingWarning, diagnose, metrics, plot

wine = load_wine(as_frame=True)
raw = wine.data
cultivar = [f"cultivar {label + 1}" for label in wine.target]

# %%
# Find problems before the first fit
# ----------------------------------
#
# ``diagnose`` reports problems of the data, with advice.

problem = diagnose(raw).problems[0]
print(problem.sentence)
print("Advice:", problem.advice)

# %%
# Embed both versions
# -------------------
#
# The fit to the raw columns would warn too; we switch this warning off.
# ``neighborhood_hit`` is the share of neighbors in the picture that have the same label.

warnings.simplefilter("ignore", EmbeddingWarning)
scaled = StandardScaler().set_output(transform="pandas").fit_transform(raw)
figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
for ax, X, title in zip(axes, (raw, scaled), ("raw columns", "standardized columns"), strict=True):
    model = UMAP(random_state=0).fit(X)
    hit = metrics.score(X, model.embedding_, labels=wine.target)["neighborhood_hit"]
    plot.scatter(model, cultivar, annotate=True, ax=ax)
    ax.set_title(f"{title}: {hit:.0%} of neighbors\nhave the same cultivar")
plt.show()

# %%
# The three cultivars are separated only after scaling.
# On the command line, ``manifoldry embed`` scales columns with different units automatically.
