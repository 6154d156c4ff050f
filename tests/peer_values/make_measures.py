"""Write measures.json: quality measures by ZADU and scikit-learn, to be run where they are installed."""

import json
from pathlib import Path

import numpy as np
import scipy
import sklearn
from sklearn.datasets import load_wine
from sklearn.manifold import trustworthiness
from zadu.measures import (
    local_continuity_meta_criteria,
    mean_relative_rank_error,
    non_metric_stress,
    pearson_r,
    scale_normalized_stress,
    spearman_rho,
    stress,
    trustworthiness_continuity,
)

K = 12


def pairs():
    """Return the points before and after: a fold, two columns of real data, and a lattice with many equal distances."""
    rng = np.random.default_rng(14)
    X = rng.normal(size=(150, 4))
    wine = load_wine().data
    wine = (wine - wine.mean(axis=0)) / wine.std(axis=0)
    lattice = np.stack(np.meshgrid(np.arange(7.0), np.arange(7.0)), axis=2).reshape(-1, 2)
    return {
        "folded": (X, X[:, :2] ** 2 + 0.1 * X[:, 2:]),
        "wine": (wine, wine[:, [0, 6]]),
        "lattice": (lattice, lattice**2 + 0.3 * lattice[:, ::-1]),
    }


def figures(X, Y):
    """Return every measure that both libraries know by ZADU's names."""
    found = {"sklearn_trustworthiness": trustworthiness(X, Y, n_neighbors=K)}
    for measure in (trustworthiness_continuity, mean_relative_rank_error, local_continuity_meta_criteria):
        found |= measure.measure(X, Y, k=K)
    for measure in (stress, scale_normalized_stress, non_metric_stress, pearson_r, spearman_rho):
        found |= measure.measure(X, Y)
    return {name: float(value) for name, value in found.items()}


if __name__ == "__main__":
    from importlib.metadata import version

    made_with = (
        f"zadu {version('zadu')}, scikit-learn {sklearn.__version__}, numpy {np.__version__}, "
        f"scipy {scipy.__version__}; the points of pairs() in make_measures.py (numpy.random.default_rng(14), "
        f"scikit-learn's wine), k = {K}"
    )
    values = {"made_with": made_with, "k": K, "values": {name: figures(X, Y) for name, (X, Y) in pairs().items()}}
    path = Path(__file__).with_name("measures.json")
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
