"""The parameters of methods as options: typed, described, and refused by the sentences of the library."""

import click
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from manifoldry._core.parameters import admits, declared, describe
from manifoldry._core.registry import METHODS, list_methods
from manifoldry.cli._main import _exit_message
from manifoldry.cli._methods import (
    NOT_OPTIONS,
    all_parameters,
    method_class,
    method_name,
    method_parameters,
    parameter_entries,
)
from manifoldry.cli._options import (
    MethodCommand,
    method_option,
    reading_of,
    reading_options,
    seed_option,
    source_argument,
)

PARAMETERS = [parameter for card in list_methods() for parameter in method_parameters(card.cls).values()]


@click.command(cls=MethodCommand)
@source_argument
@method_option("ipa")
@reading_options
@seed_option
def place(**values):
    """Place rows."""
    return values


def parsed(*arguments):
    """Return what the command gets."""
    with place.make_context("place", list(arguments)) as context:
        return place.invoke(context)


def refused(*arguments):
    """Return what is said of wrong arguments."""
    with pytest.raises((click.UsageError, ValueError)) as caught:
        parsed(*arguments)
    sentence, code = _exit_message(caught.value)
    assert code == 2
    return sentence


def test_only_the_parameters_that_were_given_arrive_and_typed():
    got = parsed("x.csv", "--method", "isomap", "--n-neighbors", "12", "--radius", "1.5", "--disconnected", "apart")
    assert (got["source"], got["method"]) == ("x.csv", "Isomap")
    assert got["parameters"] == {"n_neighbors": 12, "radius": 1.5, "disconnected": "apart"}
    assert type(got["parameters"]["n_neighbors"]) is int
    assert parsed("x.csv")["parameters"] == {}


@pytest.mark.parametrize(
    ("method", "arguments", "expected"),
    [
        ("isomap", ["--n-neighbors", "none"], {"n_neighbors": None}),
        ("isomap", ["--n-neighbors=auto"], {"n_neighbors": "auto"}),
        (
            "isomap",
            ["--metric", "minkowski", "--metric-params", '{"p": 3}'],
            {"metric": "minkowski", "metric_params": {"p": 3}},
        ),
        ("t-sne", ["--perplexity", "30,100"], {"perplexity": [30.0, 100.0]}),
        ("tsne", ["--metric", "cosine"], {"metric": "cosine"}),
        ("LTSA", ["--no-isometric"], {"isometric": False}),
        ("pca", ["--whiten", "--n-components", "0.9"], {"whiten": True, "n_components": 0.9}),
        ("pca", ["--power-iteration-normalizer", "none"], {"power_iteration_normalizer": "none"}),
        ("sparse-pca", ["--sparsepca-method", "cd"], {"method": "cd"}),
        ("nmf", ["--alpha-w", "0.5"], {"alpha_W": 0.5}),
        ("fast-ica", ["--whiten", "false"], {"whiten": False}),
        ("auto", ["--purpose", "see clusters", "--budget", "9"], {"purpose": "see clusters", "budget": 9}),
    ],
)
def test_texts_become_values(method, arguments, expected):
    got = parsed("x.csv", "--method", method, *arguments)["parameters"]
    assert got == expected
    method_class(method)(**got)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--n-neighbors", "0"], "--n-neighbors must be an integer of at least 1, 'auto' or None; got 0."),
        (["--n-neighbors", "many"], "--n-neighbors must be an integer of at least 1, 'auto' or None; got 'many'."),
        (["--radius", "nan"], "--radius must be a number above 0 or None; got nan."),
        (
            ["--perplexity", "3"],
            "--perplexity is a parameter of SNE, SymmetricSNE, TSNE and ParametricTSNE, not of Isomap.",
        ),
        (["--nneighbors", "3"], "There is no option --nneighbors; did you mean --n-neighbors?"),
        (["--scal", "unit"], "There is no option --scal; did you mean --scale?"),
        (["--bridge"], "There is no option --bridge; did you mean --disconnected bridge?"),
        (["--k", "3"], "Isomap has no parameter --k; here it is --n-neighbors."),
        (["--random-state", "3"], "There is no option --random-state: the seed is --seed."),
        (["--eigen-solver", "x"], "Isomap has no parameter --eigen-solver: eigensolvers are chosen by the size"),
    ],
    ids=" ".join,
)
def test_what_a_method_does_not_take_is_refused_by_a_sentence(arguments, told):
    assert refused("x.csv", "--method", "isomap", *arguments).startswith(told)


def test_what_no_text_stands_for_and_what_scikit_learn_refuses():
    assert "weights of MDS can only be set in Python: it is an array or None" in refused(
        "x", "--method", "mds", "--weights", "3"
    )
    assert "'svd_solver' parameter of PCA" in refused("x", "--method", "pca", "--svd-solver", "fool")
    assert "can only be set in Python" in refused("x", "--method", "sparse-pca", "--U-init", "3")
    assert refused("x", "--method", "isomp").startswith("There is no method 'isomp'; did you mean Isomap?")
    assert refused("x", "--seed", "-1").startswith("Invalid value for '--seed'")


@pytest.mark.parametrize("name", METHODS)
def test_the_help_of_every_method_has_all_its_parameters_with_text_and_default(name):
    cls = method_class(name)
    with place.make_context("place", ["x", "--method", name]) as context:
        text = " ".join(place.get_help(context).split())
    assert f"Parameters of {name}:" in text
    for parameter in method_parameters(cls).values():
        assert f"{parameter.option_name} " in text
        assert parameter.text, f"{name} says nothing of {parameter.name}"
        default = parameter.default
        shown = str(default).lower() if default is None or isinstance(default, bool) else default
        assert f"default: {shown}]" in text


@pytest.mark.parametrize("card", list_methods(), ids=lambda card: card.name)
def test_defaults_written_as_text_come_back_as_they_are(card):
    for parameter in method_parameters(card.cls).values():
        if parameter.is_flag:
            continue
        value = parameter.from_text(str(parameter.default))
        assert value == parameter.default, parameter.name
        assert type(value) is type(parameter.default) or value == parameter.default == 1


def test_all_parameters_are_options_or_say_why_not():
    for card in list_methods():
        missing = set(all_parameters(card.cls)) - set(method_parameters(card.cls))
        for name in missing - set(NOT_OPTIONS) if not card.wrapped else ():
            assert not admits(declared(card.cls)[name], 1), f"{card.name} {name}: {describe(declared(card.cls)[name])}"


@given(
    st.sampled_from(PARAMETERS), st.text(max_size=12) | st.sampled_from(["none", "true", "1,2", "{}", "[[", "1e999"])
)
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_value_or_is_refused_by_one_sentence(parameter, text):
    if parameter.is_flag:
        return
    try:
        value, said = parameter.from_text(text), ""
    except ValueError as error:
        value, said = None, str(error)
    if said:
        assert parameter.name in said
    else:
        assert parameter.annotation is None or admits(parameter.annotation, value)


def test_entries_are_texts_without_markup_and_default():
    isomap, lpp = (parameter_entries(method_class(name)) for name in ("isomap", "lpp"))
    assert lpp["search"] == isomap["search"]
    assert isomap["metric"][0] == "str or callable"
    assert "`" not in "".join(text for _, text in isomap.values())
    assert parameter_entries(method_class("pca"))["tol"][1].startswith("Tolerance for the singular values")


def test_names_are_found_in_any_spelling():
    assert [method_name(name) for name in ("t-SNE", "laplacian-eigenmaps", "auto", "AutoEmbedding")] == [
        "TSNE",
        "LaplacianEigenmaps",
        "AutoEmbedding",
        "AutoEmbedding",
    ]
    with pytest.raises(ValueError, match="There is no method 'auto'"):
        method_name("auto", auto=False)


def test_reading_options_become_one_value():
    given = parsed(
        "x.csv",
        "--features",
        'a,"b, c"',
        "--features",
        "d",
        "--color",
        "e,f",
        "--no-header",
        "--delimiter",
        "tab",
        "--missing",
        "drop",
        "--id",
        "name",
        "--label",
        "kind",
        "--scale",
        "robust",
        "--pca",
        "5",
    )
    got = reading_of(given)
    options = got.options
    assert (options.features, options.color, options.drop) == (("a", "b, c", "d"), ("e", "f"), ())
    assert (options.header, options.delimiter, options.missing) == (False, "tab", "drop")
    assert (options.id, options.label, got.scale, got.pca) == ("name", "kind", "robust", 5)
    plain = reading_of(parsed("x.csv"))
    assert (plain.options.features, plain.options.header, plain.options.delimiter, plain.changes) == (
        None,
        None,
        None,
        False,
    )
