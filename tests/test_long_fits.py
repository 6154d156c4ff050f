"""Fits that would take hours: said before they begin, with what to do instead."""

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import bent_sheet
from manifoldry import MVU, FastMVU, LandmarkMVU
from manifoldry import run as run_module
from manifoldry.run import Run
from manifoldry.solve.eigen import solvers
from manifoldry.solve.eigen.solvers import announce_factor, predicted_fill


def never(progress):
    raise AssertionError(progress)


def test_mvu_of_200_000_points_is_refused_before_any_work():
    X = np.random.default_rng(0).standard_normal((200_000, 2))
    sentence = r"^MVU of 200,000 points takes about 10 hours on a surface, .*: use FastMVU or IPA, or fit a sample"
    with pytest.raises(ValueError, match=sentence):
        MVU(callback=never).fit(X)


def test_mvu_warns_of_long_fits_and_is_silent_about_short_ones(recwarn):
    with pytest.warns(UserWarning, match=r"^MVU of 50,000 points takes about 1.3 hours .* Ctrl-C ends it"):
        MVU()._check_parameters(50_000)
    MVU()._check_parameters(5_000)
    assert len(recwarn) == 0


@pytest.mark.parametrize("method", [FastMVU, LandmarkMVU])
def test_factors_that_do_not_fit_into_memory_are_refused_with_what_to_use_instead(method, monkeypatch):
    monkeypatch.setattr(run_module, "available_memory", lambda: 1000)
    with pytest.raises(
        MemoryError, match=r"^matrix factor: 0 MB are needed .*; use IPA or LandmarkIsomap, or fit a sa"
    ):
        method(n_neighbors=5).fit(bent_sheet(60))


@pytest.mark.parametrize("method", [FastMVU, LandmarkMVU])
def test_factors_that_take_hours_are_refused_too(method, monkeypatch):
    monkeypatch.setattr(solvers, "MAX_FACTOR_HOURS", 0.0)
    sentence = r"^The neighbor graph of \d+ points has no small separators .* hours: use IPA or LandmarkIsomap"
    with pytest.raises(ValueError, match=sentence):
        method(n_neighbors=5).fit(bent_sheet(60))


def test_hours_follow_from_the_widest_level(monkeypatch):
    """A path has levels of one point, a complete graph one of all: w^3 / 3e9 seconds."""
    n = 50
    path = sp.csr_array(sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1]))
    complete = sp.csr_array(np.ones((n, n)) - np.eye(n))
    assert predicted_fill(path)[1] == 1
    assert predicted_fill(complete)[1] == n - 1
    run = Run(0)
    announce_factor(complete, run, "take fewer")
    assert run.memory["matrix factor"] > 0
    monkeypatch.setattr(solvers, "MAX_FACTOR_HOURS", (n - 2) ** 3 / 3e9 / 3600)
    announce_factor(path, run, "take fewer")
    with pytest.raises(ValueError, match="would take about"):
        announce_factor(complete, run, "take fewer")
