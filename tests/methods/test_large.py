"""Large data, run by ``make heavy``: the answers, not the seconds."""

import numpy as np
import pytest

from manifoldry import LTSA, HessianEigenmaps, LandmarkIsomap, LaplacianEigenmaps, datasets, metrics

pytestmark = pytest.mark.heavy


def test_landmark_isomap_of_a_million_points():
    roll = datasets.swiss_roll(1_000_000)
    model = LandmarkIsomap(n_neighbors=10, n_landmarks=200).fit(roll.X)
    assert metrics.procrustes(model.embedding_, roll.truth).error < 0.01
    assert max(model.diagnostics_["memory"].values()) <= 4 * 200 * 1_000_000


@pytest.mark.parametrize("cls", [LTSA, HessianEigenmaps])
def test_true_scale_of_two_hundred_thousand_points(cls):
    roll = datasets.swiss_roll(200_000, hole=True)
    model = cls(n_neighbors=10).fit(roll.X)
    assert model.diagnostics_["isometric"]
    assert metrics.procrustes(model.embedding_, roll.truth).error < 1e-6


def test_high_dimensional_graphs_do_not_fill_memory():
    """A factor of this graph would be dense; residuals are those of an exact solver anyway."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, 20)) + 4 * rng.integers(0, 2, (30_000, 20))
    model = LaplacianEigenmaps(n_neighbors=15).fit(X)
    assert (model.spectrum_.residuals < 1e-10).all()
    assert max(model.diagnostics_["memory"].values(), default=0) < 2e9
