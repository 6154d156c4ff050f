"""What every registered clustering must honor, enumerated from the cards."""

import importlib.util
import inspect
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import manifoldry
from helpers import among, bent_sheet, make, subspace_error
from manifoldry._core.run import Run
from manifoldry.graph._operations import label_components

ROOT = Path(__file__).resolve().parent.parent.parent
CARDS = manifoldry.list_clusterings()
COUNTED = [card for card in CARDS if "n_clusters" in inspect.signature(card.cls).parameters]
STARTED = [card for card in CARDS if "n_init" in inspect.signature(card.cls).parameters]


each = among(CARDS)


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", manifoldry.DisconnectedWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def same_partition(a, b):
    """Whether two lists of labels tell the same points apart."""
    return len(np.unique(np.column_stack([a, b]), axis=0)) == len(np.unique(a)) == len(np.unique(b))


def documentation(card):
    spec = importlib.util.spec_from_file_location("build", ROOT / "docs" / "build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    sections = build.sections(inspect.getdoc(card.cls))
    return {
        head: {name for names, _, _ in build.entries(sections[head]) for name in names} for head in sections if head
    }


@parametrize_with_checks([make(card) for card in CARDS])
def test_scikit_learn_checks(estimator, check):
    if isinstance(estimator, manifoldry.VQPCA | manifoldry.GPCA) and check.func.__name__ == "check_clustering":
        with pytest.raises(AssertionError):  # it wants three blobs of the plane back, but one line may hold two of them
            check(estimator)
    else:
        check(estimator)


@each
def test_gives_what_its_card_says(card):
    X = bent_sheet(60)
    model = make(card).fit(X)
    c = model.n_clusters_
    assert model.labels_.shape == (60,)
    assert model.labels_.dtype == np.int64
    assert np.array_equal(np.unique(model.labels_), np.arange(c))
    for name in ("trace", "medoids"):
        assert hasattr(model, f"{name}_") == (name in card.gives), name
    assert "predict" in card.gives
    assert model.subspaces_.bases.shape == (c, 4, 1)
    assert model.objectives_.min() == model.objective_ or card.wrapped
    assert model.localized_.shape == (c,)
    assert model.diagnostics_["seconds"]


@each
def test_errors_and_connectedness_agree_with_the_measures_of_quality(card):
    X = bent_sheet(60)
    model = make(card).fit(X)
    total = float(np.square(X - X.mean(axis=0)).sum())
    # Sums of 60 x 4 squares by two routes, each within a few hundred roundings of the total.
    assert abs(model.reconstruction_error_ - subspace_error(X, model.labels_, 1)) <= 1e-12 * total
    assert abs(model.reconstruction_errors_.sum() - model.reconstruction_error_) <= 1e-12 * total
    _, owners = label_components(model.labels_, model.graph_)
    assert np.array_equal(model.localized_, np.bincount(owners) == 1)
    assert model.n_nonlocalized_ == np.count_nonzero(~model.localized_)


@each
def test_same_bits_for_any_number_of_threads(card, small_tasks):
    X, Q = bent_sheet(150), bent_sheet(41, seed=1)
    one, two = (make(card, n_jobs=jobs).fit(X) for jobs in (1, 2))
    assert small_tasks.shared or "n_init" not in card.test_params
    assert np.array_equal(one.labels_, two.labels_)
    assert np.array_equal(one.objectives_, two.objectives_)
    assert np.array_equal(one.subspaces_.bases, two.subspaces_.bases)
    assert np.array_equal(one.predict(Q), two.predict(Q))


@each
def test_same_bits_twice(card):
    first, second = (make(card).fit(bent_sheet(60)) for _ in range(2))
    assert np.array_equal(first.labels_, second.labels_)
    assert first.objective_ == second.objective_


@each
def test_training_points_keep_their_labels(card):
    X = bent_sheet(60)
    model = make(card).fit(X)
    assert np.array_equal(model.predict(X), model.labels_)


@each
def test_new_points_one_by_one_equal_a_batch(card):
    model, Q = make(card).fit(bent_sheet(60)), bent_sheet(9, seed=4)
    together = model.predict(Q)
    assert np.array_equal(together, np.concatenate([model.predict(q[None]) for q in Q]))


@each
def test_input_is_left_as_it_was(card):
    X, Q = bent_sheet(60), bent_sheet(7, seed=3)
    before = X.tobytes(), Q.tobytes()
    X.flags.writeable = Q.flags.writeable = False
    make(card).fit(X).predict(Q)
    assert (X.tobytes(), Q.tobytes()) == before


@each
def test_pickle_round_trip(card):
    model = make(card).fit(bent_sheet(60))
    again = pickle.loads(pickle.dumps(model))
    Q = bent_sheet(9, seed=5)
    assert np.array_equal(again.predict(Q), model.predict(Q))
    assert np.array_equal(again.labels_, model.labels_)


@each
def test_clone_and_data_frames(card):
    pandas = pytest.importorskip("pandas")
    assert clone(make(card)).get_params() == make(card).get_params()
    model = make(card).fit(pandas.DataFrame(bent_sheet(60), columns=list("abcd")))
    assert list(model.feature_names_in_) == list("abcd")
    assert np.array_equal(model.labels_, make(card).fit_predict(bent_sheet(60)))


@each
def test_single_precision_input(card):
    # 60 points of a smooth sheet: no two clusters are within 1e-6 of each other for any of them.
    X = bent_sheet(60).astype(np.float32)
    assert np.array_equal(make(card).fit_predict(X), make(card).fit_predict(X.astype(np.float64)))


@each
def test_constant_column_changes_nothing(card):
    X = bent_sheet(60)
    labels = make(card).fit_predict(np.column_stack([X, np.full(60, 3.0)]))
    assert same_partition(labels, make(card).fit_predict(X))


@each
def test_duplicates_share_a_label(card):
    X = np.concatenate([bent_sheet(30), bent_sheet(30)[:12], bent_sheet(30)[:12]])
    model = make(card).fit(X)
    assert np.array_equal(model.labels_[:12], model.labels_[30:42])
    assert np.isfinite(model.objective_)


@each
def test_few_distinct_points(card):
    X = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], 10, axis=0)
    settings = {"n_clusters": 5} if card in COUNTED else {}
    model = make(card, **settings).fit(X)
    assert model.n_clusters_ <= 3 or card.name in ("MPPCA", "MFA")
    assert np.isfinite(model.reconstruction_errors_).all()


@each
def test_two_far_pieces_are_told_apart(card):
    X = bent_sheet(40)
    X = np.concatenate([X, X + 100.0])
    model = make(card).fit(X)
    if model.n_clusters_ > 1 and card.name not in ("VQPCA", "GPCA", "MPPCA", "MFA"):  # these may join both
        for label in range(model.n_clusters_):
            assert len({i < 40 for i in np.flatnonzero(model.labels_ == label)}) == 1


@each
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(card, value):
    X = bent_sheet(60)
    X[3, 1] = value
    with pytest.raises(ValueError, match="NaN or infinity in 1 of its entries"):
        make(card).fit(X)
    with pytest.raises(ValueError, match="NaN or infinity in 1 of its entries"):
        make(card).fit(bent_sheet(60)).predict(X)


BAD = [
    ({"n_components": 0}, "n_components"),
    ({"n_components": 1.5}, "n_components"),
    ({"n_neighbors": 60}, "n_neighbors"),
    ({"n_jobs": 0}, "n_jobs"),
    ({"random_state": -1}, "random_state"),
]


@each
@pytest.mark.parametrize(("settings", "match"), BAD, ids=lambda value: str(value))
def test_bad_parameters_are_refused_before_any_work(card, settings, match, monkeypatch):
    def refuse(self, name):
        raise AssertionError(f"stage {name!r} began")

    monkeypatch.setattr(Run, "stage", refuse)
    with pytest.raises(ValueError, match=match) as caught:
        make(card, **settings).fit(bent_sheet(60))
    assert len(re.findall(r"[.!?] [A-Z]", str(caught.value))) <= 1


@among(COUNTED)
@pytest.mark.parametrize("n_clusters", [0, 61, 2.0])
def test_a_number_of_clusters_that_cannot_be_is_refused(card, n_clusters):
    with pytest.raises(ValueError, match="n_clusters must be"):
        make(card, n_clusters=n_clusters).fit(bent_sheet(60))


@among([card for card in CARDS if "metric" in inspect.signature(card.cls).parameters])
def test_distances_instead_of_points_are_refused(card):
    with pytest.raises(ValueError, match="needs points"):
        make(card, metric="precomputed").fit(np.ones((9, 9)) - np.eye(9))
    with pytest.raises(ValueError, match="metric must be"):
        make(card, metric="euclid").fit(bent_sheet(60))


@among(COUNTED)
def test_one_cluster_and_as_many_as_points(card):
    X = bent_sheet(8)
    whole = make(card, n_clusters=1, n_neighbors=3).fit(X)
    assert whole.n_clusters_ == 1
    assert whole.localized_.shape == (1,)
    if card.name not in ("MPPCA", "MFA", "GPCA"):  # the last has too few points for its polynomial, and says so
        assert make(card, n_clusters=8, n_neighbors=3).fit(X).reconstruction_error_ <= 1e-12 * np.square(X).sum()


@each
def test_progress_is_reported_and_nothing_is_printed(card, capsys):
    make(card, callback=lambda _: None).fit(bent_sheet(60))
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    make(card, verbose=True).fit(bent_sheet(60))
    assert "[manifoldry]" in capsys.readouterr().err


@among(STARTED)
def test_stopping_at_once_still_leaves_a_result(card):
    model = make(card, callback=lambda _: True).fit(bent_sheet(60))
    assert model.labels_.shape == (60,)
    assert model.diagnostics_["stopped"] is True


@among(STARTED)
def test_the_best_start_is_kept_and_more_starts_add_to_the_same(card):
    X = bent_sheet(60)
    three, five = make(card, n_init=3).fit(X), make(card, n_init=5).fit(X)
    assert np.array_equal(five.objectives_[:3], three.objectives_)


@each
def test_docstring_describes_parameters_attributes_and_papers(card):
    described = documentation(card)
    assert described["Parameters"] == set(inspect.signature(card.cls).parameters)
    promised = {f"{gift}_" for gift in card.gives if gift != "predict"}
    always = {"labels_", "n_clusters_", "subspaces_", "reconstruction_error_", "localized_", "graph_", "diagnostics_"}
    assert promised | always <= described["Attributes"]
    cited = set(re.findall(r"\b[a-z]+(?:1[89]|20)\d\d[a-z]?\b", inspect.getdoc(card.cls)))
    assert cited <= set(card.papers)
    assert card.name in manifoldry.__all__
