"""Every estimator works with its default parameters, which agree on what they have in common.

These are also the tests of the lowest declared versions (``make lowest``).
"""

import inspect

import numpy as np
import pytest

from manifoldry import datasets, load
from manifoldry._core.registry import list_clusterings, list_methods

ROLL = datasets.swiss_roll(80, random_state=3).X
CLASSES = np.arange(len(ROLL)) % 2


@pytest.mark.parametrize("card", [*list_methods(), *list_clusterings()], ids=lambda card: card.name)
def test_a_default_fit_embeds_new_rows_and_survives_a_file(card, tmp_path):
    X = np.abs(ROLL) if card.name == "NMF" else ROLL
    model = card.cls()
    model.fit(X, CLASSES) if card.name == "ColoredMVU" else model.fit(X)
    model.save(tmp_path / "model.mfy")
    loaded = load(tmp_path / "model.mfy")
    call = "transform" if hasattr(model, "transform") else "predict"
    np.testing.assert_array_equal(getattr(loaded, call)(X[:5]), getattr(model, call)(X[:5]))


@pytest.mark.parametrize("card", list_methods(), ids=lambda card: card.name)
def test_a_method_has_two_components_which_may_be_given_by_position(card):
    first = next(iter(inspect.signature(card.cls).parameters.values()))
    assert (first.name, first.kind) == ("n_components", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    assert first.default == card.cls().n_components == (1 if card.name == "PrincipalCurve" else 2)  # a curve has one
    assert card.cls(1).n_components == 1
    with pytest.raises(TypeError, match=r"positional|got multiple values"):
        card.cls(2, 3)


@pytest.mark.parametrize("card", list_clusterings(), ids=lambda card: card.name)
def test_a_clustering_may_be_given_its_number_of_clusters_by_position(card):
    parameters = inspect.signature(card.cls).parameters
    by_position = [name for name, each in parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert by_position == (["n_clusters"] if "n_clusters" in parameters else [])
    if by_position:
        assert card.cls(5).n_clusters == card.cls(n_clusters=5).n_clusters == 5
    with pytest.raises(TypeError, match=f"{card.name} takes parameters by name"):
        card.cls(5, 6)
