"""The suggested number of dimensions, by purpose, with its reasons."""

import numpy as np
import pytest

from manifoldry import suggest_n_components
from manifoldry._numerics.elbow import REASON_WIDTH, Suggestion
from manifoldry.data.datasets import sphere, swiss_roll


def test_known_manifolds():
    found = suggest_n_components(swiss_roll(800).X)
    assert isinstance(found, Suggestion)
    assert int(found) == 2
    assert "As many principal components leave 27% of the variance" in found.why
    flat = np.random.default_rng(0).uniform(size=(800, 4)) @ np.eye(4, 9)
    assert int(suggest_n_components(flat)) == 4
    assert "PCA may be enough" in suggest_n_components(flat).why


def test_purposes_that_fix_the_number():
    flat = np.random.default_rng(0).uniform(size=(400, 4)) @ np.eye(4, 9)
    seen = suggest_n_components(flat, purpose="see clusters")
    assert int(seen) == 2
    assert "the data has more" in seen.why
    ordered = suggest_n_components(flat, purpose="order along a path")
    assert int(ordered) == 1
    assert "the data is not a path" in ordered.why
    t = np.random.default_rng(0).uniform(0, 3, 400)
    path = suggest_n_components(np.column_stack([np.cos(t), np.sin(t), t]), purpose="order along a path")
    assert "about a path" in path.why
    assert int(suggest_n_components(flat, purpose="reconstruct")) == 4


def test_forms_of_input():
    X = swiss_roll(300).X
    D = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    assert int(suggest_n_components(D, metric="precomputed")) == 2
    assert int(suggest_n_components(np.concatenate([X, X[:100], X[:100]]))) == 2
    assert int(suggest_n_components(np.random.default_rng(0).standard_normal((12, 3)))) >= 1
    with pytest.raises(ValueError, match="purpose must be one of"):
        suggest_n_components(X, purpose="look nice")
    with pytest.raises(ValueError, match="identical"):
        suggest_n_components(np.ones((20, 2)))


def test_what_components_leave_is_told_from_nothing_and_from_the_bound():
    rng = np.random.default_rng(0)
    line = rng.uniform(size=(300, 1)) @ np.ones((1, 4)) + 1e-4 * rng.normal(size=(300, 4))
    assert "leave less than 0.1% of the variance: the data is nearly flat" in suggest_n_components(line).why
    # A second direction with 5.2% of the variance, which is more than the bound of 5%.
    columns = rng.normal(size=(12, 2))
    columns -= columns.mean(axis=0)
    both = np.linalg.svd(columns, full_matrices=False)[0] * np.sqrt([0.948, 0.052])
    found = suggest_n_components(both)
    assert int(found) == 1
    assert "leave 5.2% of the variance, and 2 of them are needed to leave at most 5%" in found.why


def test_a_suggestion_is_printed_in_lines():
    found = suggest_n_components(swiss_roll(300).X)
    assert str(found).startswith("n_components=2. The consensus of the estimators is 2 (")
    assert max(map(len, str(found).splitlines())) <= REASON_WIDTH
    assert " ".join(str(found).split()) == f"n_components=2. {found.why}"


def test_a_closed_surface_is_told():
    found = suggest_n_components(sphere(400).X)
    assert int(found) == 2
    assert "The surface is closed" in found.why
    assert found.why.endswith("So no map of 2 dimensions is faithful: use n_components=3, or cut it open (IPA, TSNE).")
    assert "closed" not in suggest_n_components(swiss_roll(400).X).why
