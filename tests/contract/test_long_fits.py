"""Fits that would take hours: said before they begin, with what to do instead."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import manifoldry
from helpers import bent_sheet
from manifoldry import EAT, LDLC, MVU, FastMVU, LandmarkMVU
from manifoldry._core import run as run_module
from manifoldry._core.registry import LONG_FITS, announce_fit
from manifoldry._core.run import Run, duration
from manifoldry._numerics.eigen import solvers
from manifoldry._numerics.eigen.solvers import announce_factor, predicted_fill


def never(*args):
    raise AssertionError(args)


def test_mvu_of_200_000_points_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(MVU, "_sample", never)
    X = np.random.default_rng(0).standard_normal((200_000, 2))
    sentence = r"^MVU of 200,000 points would take about 10 hours: use LandmarkMVU, FastMVU or IPA, or fit a sample"
    with pytest.raises(ValueError, match=sentence):
        MVU().fit(X)


def test_mvu_refuses_more_than_half_an_hour_unless_a_callback_can_end_it_or_it_is_shown(capsys):
    """A thousand points of a surface take 13 s, n of them 13 (n / 1000)^1.5: half an hour are 26,800."""
    announce_fit("MVU", 26_000, Run(0))
    with pytest.raises(ValueError, match=r"^MVU of 27,000 points .* callback=lambda progress: progress.seconds > 3600"):
        announce_fit("MVU", 27_000, Run(0))
    heard = []
    announce_fit("MVU", 27_000, Run(0, callback=heard.append))
    assert [progress.message for progress in heard] == ["MVU of 27,000 points would take about 30 min"]
    announce_fit("MVU", 27_000, Run(0, verbose=True))
    assert capsys.readouterr().err == "[manifoldry] MVU of 27,000 points would take about 30 min\n"


@pytest.mark.parametrize("name", LONG_FITS)
def test_every_long_fit_is_refused_before_any_work(name, monkeypatch):
    """With half an hour set to the time of 50 points, 60 are too many; what is recommended exists."""
    seconds, power, instead = LONG_FITS[name]
    cls = getattr(manifoldry, name)
    for other in re.findall(r"\w*[A-Z]\w+", instead):
        assert getattr(manifoldry, other) is not cls
    monkeypatch.setattr(run_module, "MAX_SECONDS", seconds * 0.05**power)
    monkeypatch.setattr(cls, "_graph" if hasattr(cls, "_cluster") else "_embed_with", never)
    with pytest.raises(ValueError, match=rf"^{name} of 60 points would take about \d+ s: {instead}, or fit a sample"):
        cls().fit(bent_sheet(60))


def test_ldlc_without_geodesics_takes_no_long_time(monkeypatch):
    monkeypatch.setattr(run_module, "MAX_SECONDS", 1e-9)
    assert LDLC(3, rho=0.0).fit(bent_sheet(60)).n_clusters_ == 3
    with pytest.raises(ValueError, match=r"^LDLC of 60 points would take"):
        LDLC(3).fit(bent_sheet(60))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (99, "99 s"), (100, "2 min"), (5969, "99 min"), (6000, "1.7 hours"), (1e6, "280 hours")],
)
def test_durations_have_two_digits(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize("method", [MVU(constraints="at most", n_neighbors=5), EAT()])
def test_a_program_is_refused_by_its_own_size(method, monkeypatch):
    """Data of many dimensions take longer than a surface, and EAT by the cube of its pairs: known with the graph."""
    X = np.random.default_rng(1).normal(size=(300, 8))
    # The table expects 2.1 s of MVU and 0.35 s of EAT, the program of these data 4.3 s and more than 0.5 s.
    monkeypatch.setattr(run_module, "MAX_SECONDS", 3.0 if isinstance(method, MVU) else 0.4)
    with pytest.raises(ValueError, match=r"of 300 points would take about \d+ s: use LandmarkMVU"):
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
