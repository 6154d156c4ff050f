"""Measures of clusterings against values worked out by hand and slow twins."""

import numpy as np
import pytest

from manifoldry.evaluation.metrics import purity

EPS = np.finfo(float).eps


def random_partitions(seed, n=60):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 5, size=n), rng.integers(0, 3, size=n)


def test_purity_by_hand():
    labels = [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    classes = list("aaabbbcccc")
    assert purity(labels, classes) == pytest.approx((3 + 2 + 3) / 10, rel=EPS)


@pytest.mark.parametrize("seed", range(5))
def test_partitions_against_loops_over_pairs_of_sets(seed):
    labels, classes = random_partitions(seed)
    n = len(labels)
    clusters = [set(np.flatnonzero(labels == name)) for name in np.unique(labels)]
    groups = [set(np.flatnonzero(classes == name)) for name in np.unique(classes)]
    assert purity(labels, classes) == pytest.approx(sum(max(len(c & g) for g in groups) for c in clusters) / n)


def test_names_of_clusters_do_not_matter_and_the_same_partition_scores_one():
    labels, classes = random_partitions(7)
    renamed = np.array(["x", "q", "m", "b", "a"])[labels]
    assert purity(renamed, classes) == purity(labels, classes)
    assert purity(renamed, labels) == 1.0


def test_independent_partitions_have_the_share_of_the_largest_class():
    labels, classes = np.repeat([0, 1, 2], 4), np.tile([0, 1], 6)
    assert purity(labels, classes) == 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: purity([0, 1], [0, 1, 1]), "one entry for each of classes; got 2 for 3"),
        (lambda: purity([[0, 1]], [0, 1]), r"got shape \(1, 2\)"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()
