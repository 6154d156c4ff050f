"""Data that is not a surface: what IPA returns, compared with PCA, Isomap and IPA without Isomap.

    python benchmarks/fallbacks.py

Up to 1,000 rows of each set, default parameters, ``random_state=0``. Trustworthiness with 15 neighbors, accuracy of the
labels by 10 neighbors (5-fold cross-validation).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from manifoldry import IPA, PCA, Isomap, datasets, metrics
from manifoldry._core.values import FloatArray
from manifoldry._numerics.patches import layout
from real_sets import RealSet, standardized
from tables import Table

N_ROWS, N_NEIGHBORS, N_VOTERS = 1000, 15, 10
SETS = {
    "iris": "iris",
    "wine, standardized": "wine",
    "breast cancer, standardized": "breast_cancer",
    "olive oil": "olive_oil",
    "flow cytometry": "flow_cytometry",
    "digits": "digits",
    "UMIST faces": "umist_faces32",
    "Frey faces": "frey_faces",
    "Isomap faces": "isomap_faces32",
    "Fashion-MNIST": "fashion_mnist",
    "COIL-20": "coil20_32",
    "PBMC 3k": "pbmc3k_pca50",
    "MNIST": "mnist",
}


def load(title: str, name: str) -> RealSet:
    """Return at most `N_ROWS` rows of a set, standardized if the title says so."""
    data = datasets.load(name)
    found = RealSet(np.asarray(data.X, dtype=float), data.labels).sample(N_ROWS)
    return RealSet(standardized(found.X), found.labels) if title.endswith("standardized") else found


def scores(data: RealSet, Y: FloatArray) -> str:
    """Return trustworthiness, and accuracy where there are labels."""
    kept = f"{metrics.trustworthiness(data.X, Y, n_neighbors=N_NEIGHBORS):.3f}"
    if data.labels is None:
        return kept
    return f"{kept}, {cross_val_score(KNeighborsClassifier(N_VOTERS), Y, data.labels, cv=5).mean():.2f}"


def without_isomap(X: FloatArray) -> FloatArray:
    """Return the layout of IPA if Isomap is not considered."""
    usual, layout.MIN_ISOMAP_GAIN = layout.MIN_ISOMAP_GAIN, np.inf
    try:
        return IPA(random_state=0).fit_transform(X)
    finally:
        layout.MIN_ISOMAP_GAIN = usual


def main() -> None:
    """Fit, print and store."""
    caption = (
        f"Up to {N_ROWS:,} rows of sets that are not surfaces, in two dimensions: trustworthiness with {N_NEIGHBORS} "
        f"neighbors, and the accuracy of the labels by {N_VOTERS} neighbors where there are some. *Without Isomap* IPA "
        "chooses among patches and PCA alone."
    )
    heads = ("set", "PCA", "Isomap", "IPA without Isomap", "IPA", "IPA returns")
    table = Table("fallbacks", caption, dict.fromkeys(heads, ""))
    for title, name in SETS.items():
        data = load(title, name)
        row: dict[str, Any] = {"set": f"{title}, {data.X.shape[0]:,} x {data.X.shape[1]:,}"}
        row["PCA"] = scores(data, PCA().fit_transform(data.X))
        row["Isomap"] = scores(data, Isomap().fit_transform(data.X))
        row["IPA without Isomap"] = scores(data, without_isomap(data.X))
        model = IPA(random_state=0)
        row["IPA"], row["IPA returns"] = scores(data, model.fit_transform(data.X)), model.diagnostics_["layout"]
        table.add(**row)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
