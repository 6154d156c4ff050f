"""Declared parameters: what an annotation admits, how it is said, and the words of other libraries."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest

import manifoldry
from manifoldry._core.parameters import (
    ArrayLike,
    Described,
    Fraction,
    NonNegative,
    Positive,
    PositiveInt,
    Range,
    Sizes,
    check_parameters,
    check_value,
    choices,
    declared,
    describe,
    from_text,
    parameter,
    plain_type,
)
from manifoldry._core.registry import list_clusterings, list_methods
from manifoldry.methods._base._estimator import estimator
from manifoldry.methods._base._synonyms import NOT_NEEDED, NOT_NEEDED_BY, SYNONYMS, unknown_parameter

EVERY = (*list_methods(), *list_clusterings())
OURS = [card for card in EVERY if not card.wrapped or hasattr(card.cls, "__dataclass_fields__")]

ADMITTED = [
    (PositiveInt, [1, 7, np.int64(3)], [0, -1, 1.0, True, "1", None, np.array([1])]),
    (Positive, [1e-300, 2, np.float32(0.5)], [0, -1.0, np.nan, np.inf, False, "auto", None]),
    (NonNegative, [0, 0.0, 3.5], [-1e-300, np.inf]),
    (Fraction, [0, 1, 0.5], [1.0000001, -0.1]),
    (Annotated[float, Range(0, np.inf, open_low=True)], [np.inf, 1], [0, np.nan, -np.inf]),
    (Annotated[float, Range(high=2)], [-5, 2], [2.5, -np.inf]),
    (Literal["a", "b"], ["a", "b"], ["c", None, 1, np.array(["a", "b"])]),
    (PositiveInt | Literal["auto"] | None, [1, "auto", None], [0, "all"]),
    (ArrayLike | Literal["pca"], [np.zeros(2), [1, 2], "pca"], ["pcb", 1.0, None, True]),
    (bool, [True, False, 0, 1], [2, "yes", None]),
    (Callable[..., Any] | None, [print, None], ["abc", 1]),
    (Mapping[str, Any] | None, [{}, None], [[], "p=2"]),
    (dict[str, Any], [{"p": 2}], [[("p", 2)], None]),
    (Any, [None, "x", 3], []),
]


@pytest.mark.parametrize(("annotation", "good", "bad"), ADMITTED, ids=[describe(row[0]) for row in ADMITTED])
def test_an_annotation_admits_what_it_says_and_nothing_else(annotation, good, bad):
    for value in good:
        check_value("p", value, annotation)
    for value in bad:
        with pytest.raises(ValueError, match="p must be "):
            check_value("p", value, annotation)


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (PositiveInt, "an integer of at least 1"),
        (PositiveInt | Literal["auto"] | None, "an integer of at least 1, 'auto' or None"),
        (Literal["a", "b"], "one of 'a', 'b'"),
        (Literal["a"], "'a'"),
        (Positive, "a number above 0"),
        (Fraction, "a number between 0 and 1"),
        (Annotated[float, Range(0, 1, open_low=True)], "a number above 0 and at most 1"),
        (Annotated[Any, Described("labels of shape (n,)")] | None, "labels of shape (n,) or None"),
        (bool, "True or False"),
        (int, "an integer"),
    ],
)
def test_an_annotation_is_put_into_words(annotation, words):
    assert describe(annotation) == words


def test_choices_are_read_from_a_union():
    assert choices(PositiveInt | Literal["auto", "all"] | None) == ("auto", "all")
    assert choices(int) == ()


def test_the_first_wrong_parameter_is_named_with_its_value():
    @dataclass
    class Model:
        k: PositiveInt = 3
        mode: Literal["a", "b"] = "a"

    check_parameters(Model())
    with pytest.raises(ValueError, match=r"^mode must be one of 'a', 'b'; got 'c'\.$"):
        check_parameters(Model(mode="c"))


@pytest.mark.parametrize("card", OURS, ids=lambda card: card.name)
def test_every_parameter_is_declared_and_its_default_admitted(card):
    check_parameters(card.cls())
    check_parameters(card.cls(**card.test_params))
    for name, annotation in declared(card.cls).items():
        assert describe(annotation), name


@pytest.mark.parametrize("card", OURS, ids=lambda card: card.name)
def test_a_misspelled_choice_is_refused_before_any_work(card):
    X = np.random.default_rng(0).normal(size=(20, 3))
    for name, annotation in declared(card.cls).items():
        if choices(annotation):
            model = card.cls(**{name: "misspelled"})
            with pytest.raises(ValueError, match=f"{name} must be .*{choices(annotation)[0]!r}"):
                model.fit(X)


def test_the_constructor_takes_names_and_knows_other_words():
    with pytest.raises(TypeError, match="KMeans takes parameters by name, and only n_clusters by position; got 2 pos"):
        manifoldry.KMeans(9, 2)
    with pytest.raises(TypeError, match="UMAP takes parameters by name, and only n_components by position; got 2 pos"):
        manifoldry.UMAP(2, 30)
    with pytest.raises(
        TypeError, match="AffinityPropagation takes parameters by name, and none by position; got 1 pos"
    ):
        manifoldry.AffinityPropagation(0.5)
    with pytest.raises(TypeError, match="'n_iter'; here it is 'max_iter'"):
        manifoldry.TSNE(n_iter=500)
    with pytest.raises(TypeError, match="did you mean 'n_neighbors'"):
        manifoldry.UMAP(n_neigbors=3)
    with pytest.raises(TypeError, match="chosen by the size"):
        manifoldry.Isomap(eigen_solver="arpack")


@pytest.mark.parametrize(
    ("method", "word", "answer"),
    [
        ("Isomap", "neighbors_algorithm", "here it is 'search'"),
        ("Isomap", "path_method", "shortest-path"),
        ("Isomap", "p", "metric_params={'p': p}"),
        ("LLE", "method", "LLE, ModifiedLLE, HessianEigenmaps, LTSA"),
        ("LLE", "modified_tol", "eigensolvers"),
        ("LaplacianEigenmaps", "affinity", "here it is 'metric'"),
        ("LaplacianEigenmaps", "gamma", r"here it is 'bandwidth', bandwidth = 1 / sqrt\(2 \* gamma\)"),
        ("MDS", "dissimilarity", "here it is 'metric'"),
        ("MDS", "eps", "here it is 'tol'"),
        ("MDS", "normalized_stress", "diagnostics_"),
        ("KernelPCA", "bandwidth", r"here it is 'gamma', gamma = 1 / \(2 \* bandwidth\*\*2\)"),
        ("KernelPCA", "alpha", "without a ridge"),
        ("KernelPCA", "fit_inverse_transform", "no preparation"),
    ],
)
def test_the_words_of_scikit_learn_get_ours(method, word, answer):
    with pytest.raises(TypeError, match=answer):
        getattr(manifoldry, method)(**{word: 1})


def test_a_word_like_no_other_gets_the_list():
    @estimator
    class Model:
        b: int = 1
        a: int = 2

    with pytest.raises(TypeError, match="it has a, b"):
        Model(completely_other=1)


def test_synonyms_lead_to_words_that_exist():
    words = {name for card in OURS for name in declared(card.cls)}
    assert set(SYNONYMS) <= words
    assert not set(NOT_NEEDED) & words
    for name, absent in NOT_NEEDED_BY.items():
        assert not set(absent) & set(declared(getattr(manifoldry, name)))
    assert unknown_parameter("M", "seed", ["random_state"]) == "M has no parameter 'seed'; here it is 'random_state'."


@pytest.mark.parametrize(
    ("method", "theirs", "ours"),
    [
        ("Autoencoder", "n_epochs", "max_iter"),
        ("Autoencoder", "alpha", "weight_decay"),
        ("Autoencoder", "learning_rate_init", "learning_rate"),
        ("ParametricUMAP", "n_training_epochs", "n_epochs"),
        ("ParametricUMAP", "max_iter", "n_epochs"),
        ("RobustPCA", "lam", "weight"),
    ],
)
def test_words_of_other_nets_and_decompositions_lead_to_ours(method, theirs, ours):
    with pytest.raises(TypeError, match=f"no parameter '{theirs}'; here it is '{ours}'"):
        getattr(manifoldry, method)(**{theirs: 1})


def test_sizes_are_tuples_of_positive_integers_and_have_texts():
    for value in ((8, 8), [64], (), np.array([3, 4])):
        check_value("shape", value, Sizes)
    for value in (8, "8", (8.5,), (0, 8), (True,), np.array(8), np.ones((2, 2), dtype=int), {8: 8}):
        with pytest.raises(ValueError, match="shape must be a tuple, each of it an integer of at least 1"):
            check_value("shape", value, Sizes)
    assert from_text("shape", "8,8", Sizes | None) == (8, 8)
    assert from_text("shape", "64", Sizes | None) == (64,)
    assert from_text("shape", "none", Sizes | None) is None
    with pytest.raises(ValueError, match=r"each of it .* or None; got 8\.5"):
        from_text("shape", "8.5", Sizes | None)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (PositiveInt | Literal["auto"] | None, 'int, "auto" or None'),
        (Literal["a", "b"], '{"a", "b"}'),
        (Literal["a", "b"] | Annotated[Any, Described("an array of shape (n,)")], '{"a", "b"} or array of shape (n,)'),
        (Sizes | None, "tuple of int or None"),
        (dict[str, Any] | None, "dict or None"),
        (str | Callable[..., Any], "str or callable"),
        (Literal[1, 2], "{1, 2}"),
    ],
)
def test_a_plain_type_has_no_limits(annotation, text):
    assert plain_type(annotation) == text


def test_a_docstring_is_composed_from_the_texts_of_parameters():
    @estimator
    class Base:
        """Base.

        Attributes
        ----------
        graph_ : NeighborGraph
            The neighbor graph.
        """

        k: PositiveInt = parameter("Number of neighbors.", default=10)
        mode: Literal["a", "b"] = parameter("The mode.", default="a")

    @estimator
    class Model(Base):
        """Do it.

        It is done.

        Attributes
        ----------
        own_ : int
            A number.
        graph_

        Examples
        --------
        >>> 1
        1
        """

        k: PositiveInt = 5

    assert Model.__doc__ == (
        "Do it.\n\nIt is done.\n\n"
        "Parameters\n----------\n"
        "k : int, default=5\n    Number of neighbors.\n"
        'mode : {"a", "b"}, default="a"\n    The mode.\n\n'
        "Attributes\n----------\n"
        "own_ : int\n    A number.\ngraph_ : NeighborGraph\n    The neighbor graph.\n\n"
        "Examples\n--------\n>>> 1\n1"
    )


def test_a_list_of_parameters_that_a_class_writes_itself_is_kept():
    @estimator
    class Model:
        """Do it.

        Parameters
        ----------
        k : int
            As many as you like.
        """

        k: PositiveInt = 5

    assert Model.__doc__.endswith("As many as you like.")
