import dataclasses

import numpy as np
import pytest

from manifoldry.data.datasets import Dataset


def points(n=5):
    return np.arange(3.0 * n).reshape(n, 3)


def test_color_takes_truth_then_parameters_then_labels_then_order():
    truth, parameters, labels = points()[:, 1:], points()[:, 2:], np.array([2, 0, 1, 1, 0])
    full = Dataset(points(), "a", 2, truth, parameters, labels)
    np.testing.assert_array_equal(full.color, truth[:, 0])
    np.testing.assert_array_equal(dataclasses.replace(full, truth=None).color, parameters[:, 0])
    np.testing.assert_array_equal(Dataset(points(), "a", labels=labels).color, labels)
    np.testing.assert_array_equal(Dataset(points(), "a").color, np.arange(5))


def test_isometric_means_that_truth_exists():
    assert Dataset(points(), "a", truth=points()).isometric
    assert not Dataset(points(), "a", parameters=points()).isometric


@pytest.mark.parametrize(
    "wrong",
    [
        {"X": np.arange(5.0)},
        {"X": points().astype(np.float32)},
        {"truth": points(4)},
        {"parameters": np.arange(5.0)},
        {"labels": np.zeros((5, 1))},
    ],
)
def test_parts_that_do_not_fit_are_refused(wrong):
    with pytest.raises(ValueError, match="data set"):
        Dataset(**({"X": points(), "name": "a"} | wrong))


def test_it_is_frozen_and_prints_in_one_line():
    data = Dataset(points(), "a", 2, labels=np.zeros(5))
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.name = "b"
    assert repr(data) == "Dataset('a', n=5, D=3, intrinsic_dim=2, known: labels)"
