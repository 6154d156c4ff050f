"""Bad input gets one sentence before any work starts; `test_inputs` has the kinds of input by name."""

import inspect
import re

import numpy as np
import pytest

import manifoldry
from helpers import AUTO, among
from manifoldry._core.run import Run

CARDS = (*manifoldry.list_methods(), AUTO)
OWN = [card for card in CARDS if not card.wrapped]
GRAPHS = [card for card in OWN if "graph" in card.gives]
MEASURED = [card for card in OWN if "metric" in inspect.signature(card.cls).parameters]


every, each, each_graph, each_measured = among(CARDS), among(OWN), among(GRAPHS), among(MEASURED)
each_radius = among([card for card in GRAPHS if "radius" in inspect.signature(card.cls).parameters])


@pytest.fixture(autouse=True)
def _no_work(monkeypatch):
    """Fail the test if a stage of work begins before the refusal."""

    def refuse(self, name):
        raise AssertionError(f"stage {name!r} began")

    monkeypatch.setattr(Run, "stage", refuse)


def gaussian(n=20):
    return np.random.default_rng(0).standard_normal((n, 3))


def with_entry(value):
    data = gaussian()
    data[3, 1] = value
    return data


def square(change):
    D = np.abs(np.subtract.outer(np.arange(8.0), np.arange(8.0)))
    change(D)
    return D


def asymmetric(D):
    D[0, 1] = 5.0


def negative(D):
    D[0, 1] = D[1, 0] = -1.0


def heavy_diagonal(D):
    D[2, 2] = 1.0


def refused(card, data, match, **settings):
    with pytest.raises((ValueError, TypeError), match=match) as caught:
        card.cls(**{**card.test_params, **settings}).fit(data)
    text = str(caught.value)
    assert "\n" not in text
    assert len(re.findall(r"[.!?] [A-Z]", text)) <= 1, text  # one sentence, or two short ones
    assert len(text) < 400


@every
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite(card, value):
    if np.isnan(value) and card.cls().__sklearn_tags__().input_tags.allow_nan:
        return  # missing entries are part of its model
    refused(card, with_entry(value), "infinity in 1 of its entries")


@every
def test_one_dimensional(card):
    refused(card, np.arange(20.0), "two-dimensional.*Reshape your data")


@every
def test_three_dimensional(card):
    refused(card, np.zeros((4, 3, 5)), r"two-dimensional.*reshape\(4, -1\), one image or tensor per row")


@every
def test_strings(card):
    refused(card, np.array([["a", "b"], ["c", "d"], ["e", "f"]]), "must hold numbers; got text")


@every
def test_objects_that_are_no_numbers(card):
    data = gaussian().astype(object)
    data[0, 0] = "red"
    refused(card, data, "must hold numbers.*'red'")


@every
def test_complex(card):
    refused(card, gaussian() + 1j, "omplex")


@every
@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_empty(card, shape):
    refused(card, np.empty(shape), "0 (sample|feature)")


@every
def test_one_point(card):
    refused(card, np.ones((1, 3)), "1 sample")


@every
def test_constant(card):
    refused(card, np.ones((20, 3)), "All 20 points are identical")


@each
@pytest.mark.parametrize("value", [0, -1, 20, 2.5, "two", True, None])
def test_n_components(card, value):
    refused(card, gaussian(), "n_components must be", n_components=value)


@each_measured
def test_not_square(card):
    refused(card, gaussian(), "square", metric="precomputed")


@each_measured
@pytest.mark.parametrize(
    ("change", "match"),
    [(asymmetric, "symmetric"), (negative, "non-negative"), (heavy_diagonal, "zeros on the diagonal")],
)
def test_not_distances(card, change, match):
    refused(card, square(change), match, metric="precomputed")


@each_measured
def test_all_distances_zero(card):
    refused(card, np.zeros((8, 8)), "All distances are zero", metric="precomputed")


@each_measured
@pytest.mark.parametrize("metric", ["euclidian", 7])
def test_unknown_metric(card, metric):
    refused(card, gaussian(), "metric must be", metric=metric)


@each
@pytest.mark.parametrize("value", [0, 1.5, "all"])
def test_n_jobs(card, value):
    refused(card, gaussian(), "n_jobs must be", n_jobs=value)


@each
@pytest.mark.parametrize("value", [-1, 0.5, "now"])
def test_random_state(card, value):
    refused(card, gaussian(), "random_state must be", random_state=value)


@each_graph
@pytest.mark.parametrize("value", [0, -3, 20, 21, 2.5, "many", True])
def test_n_neighbors(card, value):
    refused(card, gaussian(), "n_neighbors must be", n_neighbors=value)


@each_radius
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, -np.inf, "wide"])  # infinity is all points, as in scikit-learn
def test_radius(card, value):
    refused(card, gaussian(), "radius must be", n_neighbors=None, radius=value)


@each_radius
def test_no_rule(card):
    refused(card, gaussian(), "n_neighbors or radius", n_neighbors=None)


@pytest.mark.parametrize("word", ["search", "symmetry", "disconnected"])
def test_words(word):
    cards = [card for card in GRAPHS if word in inspect.signature(card.cls).parameters]
    assert cards
    for card in cards:
        refused(card, gaussian(), f"{word} must be one of", **{word: "perhaps"})


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"n_landmarks": 2}, "n_landmarks must be at least 3"),
        ({"landmarks": [0, 1, 99]}, "indices below 20"),
        ({"landmarks": [0.5, 1.5, 2.5]}, "indices below 20"),
        ({"landmarks": [1, 2, 3], "disconnected": "apart"}, "one connected graph"),
    ],
)
def test_landmarks(settings, match):
    card = next(card for card in CARDS if card.name == "LandmarkIsomap")
    refused(card, gaussian(), match, **settings)


@pytest.mark.parametrize("name", ["MDS", "NonmetricMDS"])
@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"max_iter": 0}, "max_iter must be"),
        ({"n_init": 0}, "n_init must be"),
        ({"tol": -1e-3}, "tol must be"),
        ({"init": "pca"}, "init must be 'classical', 'random' or an array; got 'pca'"),
        ({"init": np.zeros((3, 2))}, "array of shape"),
        ({"metric": "gram"}, "metric must be"),
    ],
)
def test_descent_settings(name, settings, match):
    card = next(card for card in CARDS if card.name == name)
    refused(card, gaussian(), match, **settings)


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        (np.ones((3, 3)), "must have shape"),
        (-np.ones((20, 20)), "non-negative"),
        (np.triu(np.ones((20, 20))), "symmetric"),
        (np.kron(np.eye(2), np.ones((10, 10))), "2 groups"),
    ],
)
def test_weights(weights, match):
    card = next(card for card in CARDS if card.name == "MDS")
    refused(card, gaussian(), match, weights=weights)


def test_gram_must_be_symmetric():
    card = next(card for card in CARDS if card.name == "ClassicalMDS")
    refused(card, np.triu(np.ones((6, 6))), "symmetric", metric="gram")
    refused(card, gaussian(), "square", metric="gram")
    refused(card, np.ones((6, 6)), "equal", metric="gram")


@among(CARDS)
def test_new_points_with_other_columns(card, monkeypatch):
    monkeypatch.undo()
    model = card.cls(**card.test_params).fit(np.abs(gaussian()))
    with pytest.raises(ValueError, match="features"):
        model.transform(np.abs(gaussian()[:, :2]))


@among(CARDS)
def test_not_fitted(card):
    with pytest.raises(Exception, match="not fitted"):
        card.cls().transform(gaussian())
