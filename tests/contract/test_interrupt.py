"""Ctrl-C: what has been reached is kept with a warning, a second one raises, and before there is anything it raises."""

import signal
import sys
import threading
import warnings

import numpy as np
import pytest

from helpers import bent_sheet, in_new_process
from manifoldry import (
    EAT,
    L1PCA,
    MDS,
    MVE,
    MVU,
    SNE,
    SPE,
    TSNE,
    UMAP,
    Autoencoder,
    ColoredMVU,
    FastMVU,
    InfomaxICA,
    Isomap,
    LandmarkMVU,
    NonmetricMDS,
    ParametricTSNE,
    ParametricUMAP,
    PrincipalCurve,
    ProjectionPursuit,
    RobustPCA,
    SymmetricSNE,
    TesseraMap,
)
from manifoldry._core.run import Run
from manifoldry._core.values import Stop

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends the signal of Ctrl-C to its own process")

ITERATIVE = {
    TSNE: ("descent", {"max_iter": 400}),
    SNE: ("descent", {"max_iter": 400}),
    SymmetricSNE: ("descent", {"max_iter": 400}),
    UMAP: ("layout", {"n_epochs": 200}),
    MDS: ("majorization", {}),
    NonmetricMDS: ("majorization", {}),
    MVU: ("semidefinite program", {"n_neighbors": 5}),
    ColoredMVU: ("semidefinite program", {"n_neighbors": 5}),
    MVE: ("semidefinite program", {"n_neighbors": 5}),
    SPE: ("semidefinite program", {"n_neighbors": 5}),
    FastMVU: ("refinement", {"n_neighbors": 5}),
    LandmarkMVU: ("semidefinite program", {"n_neighbors": 5, "n_landmarks": 12}),
    EAT: ("unfolding", {}),
    TesseraMap: ("unfolding", {"n_neighbors": 6}),
    ProjectionPursuit: ("pursuit", {}),
    RobustPCA: ("pursuit", {}),
    L1PCA: ("directions", {}),
    InfomaxICA: ("likelihood", {}),
    PrincipalCurve: ("curve", {}),
    Autoencoder: ("training", {}),
    ParametricTSNE: ("training", {"n_epochs": 8}),
    ParametricUMAP: ("training", {"n_epochs": 8}),
}
"""Each iterative method, the stage from which on there is a layout to keep, and settings for few points."""


@pytest.fixture(autouse=True)
def _hears_ctrl_c():
    """Python's own handler, also where the tests run in the background of a shell, which ignores Ctrl-C."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


by_method = pytest.mark.parametrize("method", ITERATIVE, ids=lambda method: method.__name__)


def pressing(stage, times):
    """Return a callback that presses Ctrl-C in a stage: at its first steps, so many times in all."""
    left = [times]

    def press(progress):
        if progress.stage == stage and progress.total is not None and left[0]:
            left[0] -= 1
            signal.raise_signal(signal.SIGINT)

    return press


def pressing_any(stage, times):
    """Return the same for stages whose number of steps is not known beforehand."""
    left = [times]

    def press(progress):
        if progress.stage == stage and not progress.message.endswith("MB") and left[0]:
            left[0] -= 1
            signal.raise_signal(signal.SIGINT)

    return press


@by_method
def test_the_layout_reached_is_kept_with_a_warning(method):
    stage, settings = ITERATIVE[method]
    model = method(callback=pressing_any(stage, 1), **settings)
    with pytest.warns(UserWarning, match=rf"Interrupted in the stage '{stage}': the result is the one reached so far"):
        model.fit(bent_sheet(60))
    assert model.diagnostics_["stopped"] is True
    assert model.trace_.stop is Stop.INTERRUPTED
    assert model.embedding_.shape[0] == 60
    assert np.isfinite(model.embedding_).all()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@by_method
def test_the_second_ctrl_c_raises(method):
    stage, settings = ITERATIVE[method]

    def press_twice(progress):
        if progress.stage == stage and not progress.message.endswith("MB"):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        method(callback=press_twice, **settings).fit(bent_sheet(60))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_it_stops_where_the_callback_would_have_stopped_it():
    X = bent_sheet(60)
    asked = TSNE(callback=lambda progress: progress.stage == "descent" and progress.done == 7).fit(X)
    press = pressing("descent", 1)
    with pytest.warns(UserWarning, match="Interrupted"):
        pressed = TSNE(callback=lambda p: press(p) if p.done == 7 else None).fit(X)
    assert (asked.trace_.stop, pressed.trace_.stop) == (Stop.ASKED, Stop.INTERRUPTED)
    assert asked.n_iter_ == pressed.n_iter_ == 7
    np.testing.assert_array_equal(asked.embedding_, pressed.embedding_)


@pytest.mark.parametrize(("method", "stage"), [(TSNE, "neighbors"), (UMAP, "affinities"), (Isomap, "geodesics")])
def test_before_there_is_a_layout_it_raises_at_once(method, stage, monkeypatch):
    enter = Run.stage

    def press(run, name):
        if name == stage:
            signal.raise_signal(signal.SIGINT)
        return enter(run, name)

    monkeypatch.setattr(Run, "stage", press)
    with pytest.raises(KeyboardInterrupt):
        method().fit(bent_sheet(60))


def test_a_handler_of_the_program_is_left_alone():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append("program"))
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Interrupted")
            model = TSNE(max_iter=50, callback=pressing("descent", 1)).fit(bent_sheet(60))
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == ["program"]
    assert model.diagnostics_["stopped"] is False


def test_in_another_thread_there_is_nothing_to_hear():
    fitted = []
    thread = threading.Thread(target=lambda: fitted.append(TSNE(max_iter=50).fit(bent_sheet(60))))
    thread.start()
    thread.join()
    assert fitted[0].n_iter_ > 0


def test_a_signal_from_outside_is_heard_between_two_steps_of_compiled_loops():
    told = in_new_process(
        """
import os, signal, threading, warnings
import numpy as np
from manifoldry import UMAP

signal.signal(signal.SIGINT, signal.default_int_handler)
X = np.random.default_rng(0).standard_normal((3000, 5))
began = threading.Event()
threading.Thread(target=lambda: (began.wait(40), os.kill(os.getpid(), signal.SIGINT)), daemon=True).start()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = UMAP(n_epochs=100_000, callback=lambda p: p.stage == "layout" and began.set()).fit(X)
print(model.diagnostics_["stopped"], model.n_iter_ < 100_000, str(caught[0].message)[:17])
"""
    )
    assert told.strip() == "True True UMAP: Interrupted"


def test_verbose_tells_the_stages_and_the_divergence(capsys, monkeypatch):
    monkeypatch.setattr("manifoldry._core.run.SECONDS_BETWEEN_LINES", 0.0)
    TSNE(max_iter=60, verbose=True).fit(bent_sheet(60))
    spoken = capsys.readouterr()
    assert spoken.out == ""
    lines = spoken.err.splitlines()
    begun = [line for line in lines if line.endswith(" ...")]
    assert {"[manifoldry] neighbors ...", "[manifoldry] affinities ...", "[manifoldry] descent ..."} <= set(begun)
    steps = [line for line in lines if line.startswith("[manifoldry] descent: ") and "divergence" in line]
    assert len(steps) == 60
    assert steps[0].startswith("[manifoldry] descent: 1 of 60, ")
