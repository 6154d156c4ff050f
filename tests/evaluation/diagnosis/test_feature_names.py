"""Names of columns in the sentences of a diagnosis, of arrays that have none."""

import numpy as np
import pytest

from manifoldry import PCA, diagnose

X = np.random.default_rng(0).normal(size=(60, 3)) * np.array([1000.0, 1.0, 1.0])


def test_columns_of_arrays_are_called_by_the_names_given():
    names = ["sulfur", "acid", "sugar"]
    assert "'sulfur'" in diagnose(X, feature_names=names)["scales"].sentence
    assert "'sulfur'" in diagnose(PCA(n_components=2).fit(X), X, feature_names=names)["scales"].sentence


def test_as_many_names_as_columns_are_needed():
    with pytest.raises(ValueError, match="must name each of the 3 columns; got 2 names"):
        diagnose(X, feature_names=["a", "b"])
