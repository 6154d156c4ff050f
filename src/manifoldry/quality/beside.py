"""The figures of an embedding beside those of principal components, which any embedding should be compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry.values import FloatArray

MEANINGS: Mapping[str, str] = {
    "trustworthiness": "1 is best: neighbors in the embedding are neighbors in the data",
    "continuity": "1 is best: neighbors in the data are neighbors in the embedding",
    "knn_kept": "1 is best: share of the nearest neighbors that stay nearest",
    "distance_deviation": "0 is best: half of the distances to neighbors change by less, at the best scale",
    "procrustes_similarity": "0 is best: share of the truth missed, at the best scale",
    "procrustes_affine": "0 is best: the same, after the best linear map",
    "scale": "1 in the units of the data: median ratio of the distances to neighbors",
    "distance_error": "0 is best, in the units of the data: mean of (squared ratio - 1)^2",
    "procrustes_rigid": "0 is best, in the units of the truth",
    "mrre_x": "0 is best: mean relative change of ranks, of neighbors in the data",
    "mrre_y": "0 is best: the same, of neighbors in the embedding",
}
"""What each figure says, in the order in which they are shown: first those that do not depend on the scale."""


class Score(dict[str, float]):
    """Figures of an embedding by name; ``pca`` holds those of the principal components. Printed, a table of both."""

    def __init__(self, figures: Mapping[str, float], pca: Mapping[str, float]) -> None:
        super().__init__(figures)
        self.pca = dict(pca)

    def __repr__(self) -> str:
        """Return a line per figure: its name, the embedding, PCA, and what it says."""
        lines = [f"{'':22}{'this':>9}{'PCA':>9}"]
        for name, value in self.items():
            lines.append(f"{name:22}{_number(value):>9}{_number(self.pca[name]):>9}  {MEANINGS[name]}")
        return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:.4f}" if 0.001 <= abs(value) < 1000 or value == 0 else f"{value:.1e}"


def principal_components(X: Any, n_components: int) -> FloatArray:
    """Return the scores of rows, dense or sparse, on the first principal components; zeros beyond their number."""
    from sklearn.decomposition import PCA

    sparse = issparse(X)
    count = min(n_components, min(X.shape) - sparse)
    scores = PCA(count, svd_solver="arpack" if sparse else "auto", random_state=0).fit_transform(X)
    return np.pad(scores, ((0, 0), (0, n_components - count)))
