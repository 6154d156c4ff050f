"""Values of ZADU and scikit-learn, stored by peer_values/make_measures.py, and where their definitions differ."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine

from helpers import distances_by_differences
from manifoldry import metrics
from manifoldry._numerics.ranks import rank_measures

STORED = json.loads((Path(__file__).parents[2] / "peer_values" / "measures.json").read_text(encoding="utf-8"))
K = STORED["k"]
ROUNDING = 1e-11  # two orders of summation of at most 16,000 terms, in relative numbers


def pairs():
    """The points of make_measures.py."""
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


PAIRS = pairs()


@pytest.mark.parametrize("name", PAIRS)
def test_zadu_agrees(name):
    """Ranks with ties by index; MRRE is one minus ours, false neighbors those of Y; its stress is normalized stress."""
    X, Y = PAIRS[name]
    peer = STORED["values"][name]
    measures = rank_measures(X, Y, n_neighbors=K)
    pairs = metrics.shepard_diagram(X, Y, n_pairs=20_000)
    ours = {
        "trustworthiness": measures.trustworthiness,
        "continuity": measures.continuity,
        "mrre_missing": 1 - measures.mrre_x,
        "mrre_false": 1 - measures.mrre_y,
        "lcmc": metrics.lcmc(X, Y, n_neighbors=K),
        "stress": metrics.normalized_stress(X, Y),
        "scale_normalized_stress": metrics.normalized_stress(X, Y, scaled=True),
        "pearson_r": pairs.pearson,
        "spearman_rho": pairs.spearman,
    }
    for measure, value in ours.items():
        assert value == pytest.approx(peer[measure], rel=ROUNDING), measure


@pytest.mark.parametrize("name", ["folded", "wine"])
def test_peers_agree_where_no_distances_are_equal(name):
    X, Y = PAIRS[name]
    peer = STORED["values"][name]
    assert metrics.trustworthiness(X, Y, n_neighbors=K) == pytest.approx(peer["sklearn_trustworthiness"], rel=ROUNDING)
    assert metrics.nonmetric_stress_1(X, Y) == pytest.approx(peer["non_metric_stress"], rel=ROUNDING)


def test_peers_differ_where_distances_are_equal():
    """scikit-learn orders equal distances as its sort leaves them. ZADU gives pairs equally far apart in X one common
    target (Kruskal's secondary approach), we allow each its own (the primary one), so our stress is no larger.
    """
    X, Y = PAIRS["lattice"]
    peer = STORED["values"]["lattice"]
    assert metrics.trustworthiness(X, Y, n_neighbors=K) != pytest.approx(peer["sklearn_trustworthiness"], abs=1e-4)
    ours = metrics.nonmetric_stress_1(X, Y)
    assert ours < peer["non_metric_stress"]
    upper = np.triu_indices(len(X), 1)
    before, after = distances_by_differences(X)[upper], distances_by_differences(Y)[upper]
    levels, place = np.unique(before.round(9), return_inverse=True)
    means = np.bincount(place, after) / np.bincount(place)
    fitted = weighted_monotone(means, np.bincount(place))[place]
    secondary = np.sqrt(np.sum((after - fitted) ** 2) / np.sum(after**2))
    assert len(levels) < len(before)
    assert secondary == pytest.approx(peer["non_metric_stress"], rel=ROUNDING)


def weighted_monotone(values, weights):
    """Pool adjacent violators, with weights."""
    blocks = []
    for value, weight in zip(values, weights, strict=True):
        blocks.append([value, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, v, m), (b, w, k) = blocks[-2:]
            blocks[-2:] = [[(v * a + w * b) / (v + w), v + w, m + k]]
    return np.array([mean for mean, _, size in blocks for _ in range(size)])
