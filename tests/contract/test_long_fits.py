"""Fits that would take hours: said before they begin, with what to do instead."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from helpers import bent_sheet
from manifoldry import EAT, MVU, FastMVU, LandmarkMVU
from manifoldry._core import run as run_module
from manifoldry._core.run import Run
from manifoldry._numerics.eigen import solvers
from manifoldry._numerics.eigen.solvers import announce_factor, predicted_fill
from manifoldry._numerics.extension import local as unfolded


def never(*args):
    raise AssertionError(args)


def test_mvu_of_200_000_points_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(MVU, "_sample", never)
    X = np.random.default_rng(0).standard_normal((200_000, 2))
    sentence = r"^MVU of 200,000 points would take about 10 hours: use LandmarkMVU, FastMVU or IPA, or fit a sample"
    with pytest.raises(ValueError, match=sentence):
        MVU().fit(X)


def test_mvu_refuses_more_than_half_an_hour_unless_a_callback_can_end_it():
    """A thousand points of a surface take 13 s, n of them 13 (n / 1000)^1.5: half an hour are 26,800."""
    MVU()._check_parameters(26_000)
    with pytest.raises(ValueError, match=r"^MVU of 27,000 points .* callback=lambda progress: progress.seconds > 3600"):
        MVU()._check_parameters(27_000)
    MVU(callback=lambda progress: progress.seconds > 3600)._check_parameters(27_000)


@pytest.mark.parametrize("method", [MVU(constraints="at most", n_neighbors=5), EAT()])
def test_a_program_is_refused_by_its_own_size(method, monkeypatch):
    """Data of many dimensions take longer than a surface, and EAT by the cube of its pairs: known with the graph."""
    X = np.random.default_rng(1).normal(size=(300, 8))
    monkeypatch.setattr(unfolded, "MAX_SECONDS", 3.0 if isinstance(method, MVU) else 0.1)
    with pytest.raises(ValueError, match=r"of 300 points would take about .* hours: use LandmarkMVU"):
        method.fit(X)
    if isinstance(method, MVU):  # a surface of 300 points takes 2.1 s, other data 4.3 s
        assert clone(method).fit(X[:, :2]).embedding_.shape == (300, 2)
    ended = clone(method).set_params(callback=lambda progress: progress.seconds > 0).fit(X)
    assert ended.diagnostics_["stopped"]


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
