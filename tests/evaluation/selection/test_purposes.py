"""The table of purposes, the rule that ranks, and the sentences that go with it."""

import itertools

import numpy as np
import pytest

from manifoldry._core.registry import METHODS, list_methods
from manifoldry.evaluation.selection._comparison import PHRASES, DataFacts, reasons, verdicts
from manifoldry.evaluation.selection._objectives import (
    HIT,
    PURPOSES,
    SIMPLICITY,
    Criterion,
    purpose_of,
    ranked,
    simplest_first,
)

CARDS = {card.name: card for card in list_methods()}
UP = Criterion("a", True, 0.1, "a"), Criterion("b", False, 0.0, "b")


def test_the_table_names_methods_and_every_purpose_has_words():
    assert set(PHRASES) == set(PURPOSES)
    for purpose in PURPOSES.values():
        assert set(purpose.methods) <= set(METHODS) - {"PCA"}
        assert len(set(purpose.methods)) == len(purpose.methods)
        assert purpose.rule.startswith("Ranked by ")
        for gift in set(purpose.needs) - {"labels"}:
            assert all(gift in CARDS[name].gives for name in purpose.methods)


def test_the_first_criterion_decides_beyond_its_tolerance():
    assert ranked(UP, [{"a": 0.5, "b": 0.0}, {"a": 0.9, "b": 9.0}]) == [1, 0]


def test_the_next_criterion_decides_within_it():
    assert ranked(UP, [{"a": 0.85, "b": 1.0}, {"a": 0.9, "b": 2.0}, {"a": 0.75, "b": 0.0}]) == [0, 1, 2]


def test_a_relative_tolerance_grows_with_the_best_figure():
    low = Criterion("a", False, 0.005, "a", relative=0.1), Criterion("b", False, 0.0, "b")
    assert ranked(low, [{"a": 0.30, "b": 1.0}, {"a": 0.32, "b": 0.0}]) == [1, 0]
    assert ranked(low, [{"a": 0.030, "b": 1.0}, {"a": 0.036, "b": 0.0}]) == [0, 1]


def test_what_has_no_figures_is_last_and_ties_keep_their_order():
    assert ranked(UP, [{}, {"a": float("nan"), "b": 0.0}, {"a": 0.1, "b": 1.0}, {"a": 0.1, "b": 1.0}])[:2] == [2, 3]


def test_the_order_does_not_depend_on_the_order_of_the_candidates():
    rng = np.random.default_rng(0)
    figures = [{"a": float(a), "b": float(b)} for a, b in rng.uniform(size=(12, 2))]
    best = [figures[i] for i in ranked(UP, figures)]
    turned = figures[::-1]
    assert [turned[i] for i in ranked(UP, turned)] == best


def test_criteria_that_need_labels_are_left_out_without():
    assert HIT in purpose_of("see clusters", True).criteria
    assert HIT not in purpose_of("see clusters", False).criteria
    with pytest.raises(ValueError, match="pass labels"):
        purpose_of("features for a classifier", False)
    with pytest.raises(ValueError, match="purpose must be one of"):
        purpose_of("look nice", False)


def figures(near, far):
    return {"near_deviation": near, "far_deviation": far, "worse_deviation": max(near, far), "scale_error": 0.0}


def test_the_reason_has_the_figures_of_the_first_and_of_the_baseline():
    ranking = [(CARDS["IPA"], figures(0.001, 0.02)), (CARDS["PCA"], figures(0.33, 0.4))]
    said = verdicts(PURPOSES["keep distances"], ranking, DataFacts("PCA", 2.0))
    assert said == [
        "IPA keeps half of the distances to neighbors to 0.1% and half of those along the data to 2.0%; "
        "PCA keeps half of the distances to neighbors to 33% and half of those along the data to 40%."
    ]
    assert CARDS["IPA"].loses in reasons(PURPOSES["keep distances"], ranking, 0)[1]


def test_nothing_better_than_the_baseline_is_said():
    ranking = [(CARDS["MDS"], figures(0.28, 0.28)), (CARDS["PCA"], figures(0.29, 0.29))]
    said = verdicts(PURPOSES["keep distances"], ranking, DataFacts("PCA", 5.0))
    assert said[0].startswith("Nothing tried is clearly better than PCA")
    assert "about 5.0 dimensions" in said[1]
    said = verdicts(PURPOSES["keep distances"], ranking[::-1], DataFacts("PCA", 5.0))
    assert said[0].startswith("Nothing tried is better than PCA")


def test_a_baseline_without_figures_is_said():
    ranking = [(CARDS["MDS"], figures(0.1, 0.1)), (CARDS["PCA"], {})]
    assert verdicts(PURPOSES["keep distances"], ranking, DataFacts("PCA", 2.0))[0].endswith(
        "PCA could not be evaluated."
    )
    assert reasons(PURPOSES["keep distances"], ranking, 1) == (
        "It left points without coordinates, so it could not be evaluated.",
    )


def test_a_layout_that_is_that_of_another_says_so():
    ranking = [(CARDS["PCA"], figures(0.3, 0.3)), (CARDS["IPA"], figures(0.3, 0.3 * (1 + 1e-9)))]
    assert reasons(PURPOSES["keep distances"], ranking, 1)[1] == "Its layout is that of PCA here."


def test_what_is_better_by_all_criteria_is_never_behind():
    rng = np.random.default_rng(0)
    for purpose in PURPOSES.values():
        for _ in range(50):
            # Steps of a third of the tolerance: most are ties of all criteria but the last.
            figures = [{c.figure: 0.5 + c.tolerance / 3 * rng.integers(5) for c in purpose.criteria} for _ in range(6)]
            losses = [[c.loss(f) for c in purpose.criteria] for f in figures]
            for i, behind in itertools.combinations(ranked(purpose.criteria, figures), 2):
                pairs = list(zip(losses[behind], losses[i], strict=True))
                assert all(b == a for b, a in pairs) or any(b > a for b, a in pairs)


def test_every_family_has_its_simplicity():
    assert set(SIMPLICITY) == {card.family for card in list_methods()}


def test_effort_decides_only_between_embeddings_that_equal_the_best_by_all_criteria():
    criteria = Criterion("a", True, 0.1, "a"), Criterion("b", True, 0.1, "b")
    figures = [{"a": 1.0, "b": 1.0}, {"a": 0.95, "b": 0.95}, {"a": 0.95, "b": 0.8}, {"a": 0.8, "b": 1.0}]
    assert simplest_first(criteria, figures, [(0,), (1,), (0,), (0,)]) == [0, 1, 2, 3]
    assert simplest_first(criteria, figures, [(1, 0), (0, 9), (0, 0), (0, 0)]) == [1, 0, 2, 3]
