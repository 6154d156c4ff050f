"""
Single cells: from counts to a map you can trust
================================================

We simulate counts of 800 genes in 1,500 blood cells and follow the usual steps.
Real counts are difficult because cells differ in depth, many counts are zero, and the variance is larger than that of
a Poisson distribution.
The simulated counts have these properties too.
"""

import anndata
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from manifoldry import PCA, UMAP, embed_anndata, metrics, plot

# %%
# A model of the counts
# ---------------------
#
# Each type has active genes of its own, in addition to those of its family and of a common profile.
# Their activity differs from cell to cell.
# A gene program that all types share, such as the cell cycle, adds variation that is unrelated to the type.
# Counts are negative binomial, with a depth of about 2,000 per cell.

TYPES = {  # name: number of cells, family
    "CD4 T cells": (420, "lymphoid"),
    "CD8 T cells": (230, "lymphoid"),
    "NK cells": (160, "lymphoid"),
    "B cells": (210, "lymphoid"),
    "CD14 monocytes": (290, "myeloid"),
    "CD16 monocytes": (90, "myeloid"),
    "Dendritic cells": (60, "myeloid"),
    "Platelets": (40, "platelets"),
}
N_GENES = 800
rng = np.random.default_rng(0)


def program():
    """Return the log fold changes of a few active genes."""
    return np.where(rng.random(N_GENES) < 0.05, 1.2 * rng.normal(1.5, 0.5, N_GENES), 0.0)


types = np.repeat(list(TYPES), [size for size, _ in TYPES.values()])
n_cells = len(types)
families = {family: program() for _, family in TYPES.values()}
activity, cycle = rng.beta(4, 2, (n_cells, 1)), rng.normal(0, 0.3, (n_cells, 1))
log_rates = cycle * program() + rng.normal(0, 0.25, (n_cells, N_GENES))
for name, (_, family) in TYPES.items():
    cells = types == name
    log_rates[cells] += families[family] + activity[cells] * program()
rates = rng.gamma(0.5, 1.0, N_GENES) * np.exp(log_rates)
depth = 2000 * np.exp(rng.normal(0, 0.35, n_cells))
mean = depth[:, None] * rates / rates.sum(axis=1, keepdims=True)
counts = rng.poisson(rng.gamma(2.0, mean / 2.0)).astype(np.float32)
adata = anndata.AnnData(counts, obs=pd.DataFrame({"type": types}, index=[f"cell {i}" for i in range(n_cells)]))
print(f"{(counts == 0).mean():.0%} of the counts are zero; {counts.sum(axis=1).mean():,.0f} counts per cell")

# %%
# Normalize, reduce, embed
# ------------------------
#
# These are the steps of scanpy: divide by the depth, take logarithms, keep the most variable genes, compute 30
# principal components.
# ``embed_anndata`` stores the embedding where ``scanpy.pl.embedding`` finds it.

logarithms = np.log1p(1e4 * counts / counts.sum(axis=1, keepdims=True))
variable = np.argsort(-logarithms.var(axis=0))[:400]
adata.obsm["X_pca"] = PCA(n_components=30).fit_transform(logarithms[:, variable])
model = UMAP(min_dist=0.3, random_state=0)
embed_anndata(adata, model)
print(adata)

# %%
# Which clusters are real?
# ------------------------

X, Y = adata.obsm["X_pca"], adata.obsm["X_umap"]
comparison = metrics.null_comparison(model, X)
print(comparison.sentence)

# %%
# The map, with the types written over it
# ---------------------------------------

figure, axes = plt.subplots(1, 2, figsize=(12, 5.2), layout="constrained")
plot.scatter(Y, adata.obs["type"], annotate=True, ax=axes[0]).set_title("cell types")
plot.scatter(Y, color=np.log10(depth), annotate=types, ax=axes[1]).set_title("depth (log10 counts per cell)")
for ax in axes:
    ax.set(xticks=[], yticks=[])
plt.show()

# %%
# Related types are next to each other, and the position of a cell does not depend on its depth.
