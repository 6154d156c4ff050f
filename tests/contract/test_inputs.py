"""Every pair of a method and an input gives a right answer or one sentence in the user's words.

The inputs stand in tables by name, each with its rule: a pattern that the refusal must match, or `ANSWER`, or `EITHER`.
An answer has one finite place (or label) per row and as many columns as asked for; no warning of numpy's reaches the
user in either case.
"""

import inspect
import re
import warnings
from decimal import Decimal
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array, dok_array

import manifoldry
from helpers import AUTO, among, bent_sheet, make
from manifoldry import datasets

METHODS, CLUSTERINGS = (*manifoldry.list_methods(), AUTO), manifoldry.list_clusterings()
BORROWED = [card for card in METHODS if card.wrapped]
MEASURED = [card for card in (*METHODS, *CLUSTERINGS) if "metric" in inspect.signature(card.cls).parameters]
DISTANCES = [card for card in METHODS if card in MEASURED and card is not AUTO]  # which has no settings of a metric
SEEDED = [card for card in BORROWED if "random_state" in inspect.signature(card.cls).parameters]

ANSWER, EITHER = "", "may be refused or answered"
N = 30

INSIDE = (
    r"index outside|product with|LinAlg|broadcast|NoneType|eigsh|\bLU\b|singular|operand|aligned|subscript|\baxis\b|"
    r"ufunc|dtype\(|inhomogeneous|setting an array|infs|did not converge|out of bounds|unhashable|object is not|"
    r"has no attribute|division by zero|zero-size|float\(\)|at least one array|known vectors|positive definite"
)
"""Words of the inside that no user has said."""


def sheet(n=N, seed=0):
    """Return a bent sheet of positive numbers, which every method takes."""
    return bent_sheet(n, seed=seed) + 2.0


def decimals(X):
    return [[Decimal(entry) for entry in row] for row in X.tolist()]


def with_entry(entry, dtype=object):
    X = sheet().astype(dtype)
    X[3, 1] = entry
    return X


def masked(*rows):
    mask = np.zeros((N, 4), dtype=bool)
    mask[list(rows), 1] = True
    return np.ma.array(sheet(), mask=mask)


def frame(**columns):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(sheet(), columns=list("abcd")).assign(
        **{name: make_column(pandas) for name, make_column in columns.items()}
    )


def repeated(k):
    """Return k distinct points many times."""
    return sheet(k)[np.arange(N) % k]


def far_row(value):
    X = sheet()
    X[-1] = value
    return X


KINDS = {
    "dates": (lambda: frame(t=lambda pandas: pandas.date_range("2020", periods=N)), "dates or times in column 't'"),
    "durations": (lambda: frame(t=lambda pandas: pandas.timedelta_range("1h", periods=N)), "dates or times in column"),
    "date array": (lambda: (1e9 * sheet()).astype("M8[ns]"), "numbers; got dates or times"),
    "words": (lambda: frame(t=lambda _: ["red"] * N), "must hold numbers; got.*'?red'?|text in column 't'"),
    "categories": (lambda: frame(t=lambda pandas: pandas.Categorical(["red", "blue"] * (N // 2))), "must hold numbers"),
    "missing integers": (lambda: frame(t=lambda pandas: pandas.array([1, None] * (N // 2), "Int64")), "in 15 of its"),
    "missing truth": (lambda: frame(t=lambda pandas: pandas.array([True, None] * (N // 2), "boolean")), "in 15 of its"),
    "None": (lambda: with_entry(None), "NaN or infinity in 1 of its entries"),
    "NA": (lambda: with_entry(pytest.importorskip("pandas").NA), "missing entry .* in row 3, column 1"),
    "NaT": (lambda: with_entry(pytest.importorskip("pandas").NaT), "missing entry .* in row 3, column 1"),
    "word": (lambda: with_entry("red"), "must hold numbers; got 'red' .* in row 3, column 1"),
    "list": (lambda: with_entry([1, 2]), "must hold numbers; .* in row 3, column 1"),
    "dictionary": (lambda: with_entry({}), "must hold numbers; .* dict in row 3, column 1"),
    "complex entry": (lambda: with_entry(1j), "must hold numbers; .* complex in row 3, column 1"),
    "huge integer": (lambda: with_entry(10**400), "must hold numbers; .* in row 3, column 1"),
    "same names": (lambda: frame().set_axis(list("aabc"), axis=1), "several columns of the same name: 'a'"),
    "complex": (lambda: sheet() + 0j, "omplex"),
    "sparse complex": (lambda: csr_array(sheet() + 0j), "omplex"),
    "ragged": (lambda: [[1.0, 2.0], [3.0]] * 9, "different lengths, from 1 to 2"),
    "nested": (lambda: [[[1.0], 2.0], [3.0, 4.0]] * 9, "one number per row and column"),
    "sparse rows": (lambda: [csr_array(row[None]) for row in sheet()], "vstack"),
    "records": (lambda: frame().to_records(index=False), "records of 'index'|records of 'a'"),
    "dictionaries": (lambda: [{"a": 1.0}] * N, "list of dictionaries"),
    "nothing": (lambda: None, "one row per point; got None"),
    "a number": (lambda: 3.0, "one row per point; got a float"),
    "a path": (lambda: "data.csv", "one row per point; got a str"),
    "columns": (lambda: {"a": [1.0, 2.0]}, "got a dict: pass pandas.DataFrame"),
    "a generator": (
        lambda: (row for row in sheet()),
        r"one row per point; got shape \(4,\) from row 0 on: .*pass list",
    ),
    "a dataset": (lambda: datasets.s_curve(N), "got a Dataset: pass its .X"),
    "a function": (lambda: np.mean, "one row per point; got a"),
    "no rows": (list, "two-dimensional"),
    "masked": (lambda: masked(3, 7), "2 of its 120 entries masked.*fill"),
    "masked rows": (lambda: list(masked(3)), "1 of its 120 entries masked"),
    "masked, sparse mask": (lambda: np.ma.masked_all((N, 4)), "120 of its 120 entries masked"),
    "too large": (lambda: 1e200 * sheet(), "another unit|1e\\+200"),
    "too close": (lambda: 1e-200 * sheet(), "another unit"),
    "one column too large": (lambda: sheet() * [1e160, 1, 1, 1], "another unit"),
    "one row too large": (lambda: far_row(1e200), "another unit"),
    "one row": (lambda: sheet(1), "1 sample"),
    "constant": (lambda: np.ones((N, 4)), "All 30 points are identical"),
}
"""Inputs that are no table of numbers, or none that a method can use."""

SAME = {
    "lists": lambda: sheet().tolist(),
    "objects": lambda: sheet().astype(object),
    "decimals": lambda: decimals(sheet()),
    "other byte order": lambda: sheet().astype(sheet().dtype.newbyteorder()),
    "nothing masked": masked,
}
"""Other forms of the same numbers, of which every method gives the same answer."""

SHAPES = {
    "two points many times": (lambda: repeated(2), EITHER),
    "three points many times": (lambda: repeated(3), EITHER),
    "five points many times": (lambda: repeated(5), EITHER),
    "one differs": (lambda: np.vstack([np.ones((N - 1, 4)), 2 * np.ones(4)]), EITHER),
    "half the same": (lambda: np.vstack([np.ones((N // 2, 4)), sheet(N // 2)]), ANSWER),
    "constant columns": (lambda: np.column_stack([sheet(), np.ones((N, 2))]), ANSWER),
    "one varying column": (lambda: np.column_stack([sheet()[:, :1], np.ones((N, 2))]), EITHER),
    "one column": (lambda: sheet()[:, :1], EITHER),
    "two rows": (lambda: sheet(2), EITHER),
    "all equally far": (lambda: np.eye(N), ANSWER),
    "grid": (lambda: np.stack(np.meshgrid(np.arange(6.0), np.arange(5.0)), axis=-1).reshape(-1, 2), ANSWER),
    "an outlier": (lambda: far_row(1e6), EITHER),
    "far from the origin": (lambda: sheet() + 1e14, EITHER),
    "truth values": (lambda: sheet() > np.median(sheet(), axis=0), EITHER),
    "small integers": (lambda: (60 * sheet()).clip(0, 255).astype(np.uint8), ANSWER),
    "large in single precision": (lambda: (1e30 * sheet()).astype(np.float32), EITHER),
}
"""Tables of numbers that are geometry at its limits."""

NEW = {
    "no rows": (lambda Q: Q[:0], "0 sample"),
    "missing": (lambda Q: np.where(np.eye(*Q.shape) > 0, np.nan, Q), "NaN or infinity in"),
    "fewer columns": (lambda Q: Q[:, :-1] if Q.shape[1] > 1 else np.hstack([Q, Q]), "columns|features"),
    "more columns": (lambda Q: np.hstack([Q, Q]), "columns|features"),
    "one place without its row": (lambda Q: Q[0], "two-dimensional"),
    "nothing": (lambda _: None, "got None"),
    "ragged": (lambda _: [[1.0], [1.0, 2.0]], "different lengths"),
    "masked": (lambda Q: np.ma.array(Q, mask=np.eye(*Q.shape)), "entries masked"),
    "complex": (lambda Q: Q + 1j, "omplex"),
    "far away": (lambda Q: 1e6 * Q, ANSWER),
    "very far away": (lambda Q: 1e50 * Q, ANSWER),
    "too far away": (lambda Q: 1e200 * Q, "another unit|1e\\+200"),
    "too near": (lambda Q: 1e-200 * Q, ANSWER),
    "single precision": (lambda Q: Q.astype(np.float32), ANSWER),
    "lists": (lambda Q: Q.tolist(), ANSWER),
    "decimals": (lambda Q: decimals(Q), ANSWER),
}
"""New points, or places to be led back."""


def verdict(compute, rule, shape=None):
    """Return None if a call keeps the rule, else what it did instead."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            answer = np.asarray(compute())
        except Exception as error:
            found = _refusal(error, rule)
        else:
            found = _answer(answer, rule, shape)
    raw = {
        str(warning.message)
        for warning in seen
        if "encountered" in str(warning.message) or "slice" in str(warning.message)
    }
    return found or (f"raw warnings {raw}" if raw else None)


def _refusal(error, rule):
    text = f"{type(error).__name__}: {error}"
    sentence = isinstance(error, (ValueError, TypeError)) and re.fullmatch(r"[^\n]{20,400}[.)]", str(error))
    if rule == ANSWER or not sentence or re.search(INSIDE, text):
        return text
    return None if rule == EITHER or re.search(rule, str(error)) else text


def _answer(answer, rule, shape):
    if rule not in (ANSWER, EITHER):
        return "was accepted"
    if answer.shape != shape or not np.isfinite(answer).all():
        return f"shape {answer.shape} for {shape}, {np.count_nonzero(~np.isfinite(answer))} entries not finite"
    return None


def fitted_places(card, X, **settings):
    model = make(card, **settings).fit(X)
    return model.labels_ if card in CLUSTERINGS else model.embedding_


def shape_of(card, n, **settings):
    return (n,) if card in CLUSTERINGS else (n, {**card.test_params, **settings}["n_components"])


MISSING = {"missing integers", "missing truth", "None", "missing"}
"""Tables with gaps, which methods answer that say so by the tag ``allow_nan``."""


def rules_of(card, table):
    """Return the table with the rules of a card: gaps are answered where they are part of the model."""
    if not card.cls().__sklearn_tags__().input_tags.allow_nan:
        return table
    return {name: (build, ANSWER if name in MISSING else rule) for name, (build, rule) in table.items()}


def broken(table, compute, shape=None):
    """Return the entries of a table whose rule is not kept."""
    found = {}
    for name, (build, rule) in table.items():
        X = build()
        found[name] = verdict(partial(compute, X), rule, shape and shape(X))
    return {name: text for name, text in found.items() if text}


@among((*METHODS, *CLUSTERINGS))
def test_kinds(card):
    assert not broken(rules_of(card, KINDS), lambda X: fitted_places(card, X), lambda _: shape_of(card, N))


@among((*METHODS, *CLUSTERINGS))
def test_shapes(card):
    assert not broken(SHAPES, lambda X: fitted_places(card, X), lambda X: shape_of(card, len(X)))


@among((*METHODS, *CLUSTERINGS))
def test_other_forms_of_the_same_numbers(card):
    plain = fitted_places(card, sheet())
    for name, build in SAME.items():
        assert np.array_equal(fitted_places(card, build()), plain), name


@among((*METHODS, *CLUSTERINGS))
def test_new_points(card):
    model, Q = make(card).fit(sheet()), sheet(5, seed=3)
    place = model.predict if card in CLUSTERINGS else model.transform
    table = {name: (lambda change=change: change(Q), rule) for name, (change, rule) in NEW.items()}
    assert not broken(rules_of(card, table), place, lambda _: shape_of(card, 5))


@among([card for card in METHODS if "inverse" in card.gives])
def test_places_led_back(card):
    model = make(card).fit(sheet())
    Y = model.embedding_[:5] + 0.01 * np.ptp(model.embedding_)
    table = {name: (lambda change=change: change(Y), rule) for name, (change, rule) in NEW.items()}
    assert not broken(table, model.inverse_transform, lambda _: (5, 4))


@among([card for card in METHODS if card not in BORROWED] + list(CLUSTERINGS))
@pytest.mark.parametrize("callback", ["abc", 3])
def test_callbacks(card, callback):
    found = verdict(lambda: fitted_places(card, sheet(), callback=callback), "callback must be a function or None")
    assert found is None


ANSWERS = {"NaN": np.nan, "text": "far", "nothing": None, "negative": -1.0, "infinity": np.inf, "complex": 1j}


@among(MEASURED)
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_metric_functions_that_give_no_distance(card, answer):
    at_fit = verdict(
        lambda: fitted_places(card, sheet(), metric=lambda *_: answer), "metric must return a finite number"
    )
    assert at_fit is None


@among([card for card in DISTANCES if card.family != "linear"])
def test_metric_functions_at_new_points_and_their_own_errors(card):
    def metric(a, b):
        if min(a[0], b[0]) < 0:
            raise KeyError("mine")
        return np.nan if max(a[0], b[0]) > 100 else np.abs(a - b).sum()

    # Linear maps measure nothing at new points, and are left out.
    model = make(card, metric=metric).fit(sheet())
    assert verdict(lambda: model.transform(sheet(3) + 100), "metric must return a finite number") is None
    with pytest.raises(KeyError, match="mine"):
        model.transform(sheet(3) - 50)


@among(DISTANCES)
def test_settings_that_a_metric_does_not_have(card):
    settings = {"metric": "minkowski", "metric_params": {"q": 3}}
    assert verdict(lambda: fitted_places(card, sheet(), **settings), "may hold 'p', 'w'; got 'q'") is None


@among(BORROWED)
@pytest.mark.parametrize("value", [0, -1, 31])
def test_components_of_wrapped_methods(card, value):
    free = value == 31 and "RandomProjection" in card.name  # directions that do not come from the rows
    rule = EITHER if free else "n_components must be (at least 1|between 1 and 4)"
    assert verdict(lambda: fitted_places(card, sheet(), n_components=value), rule, (N, value)) is None


@among(SEEDED)
def test_wrapped_methods_are_seeded_and_take_generators(card):
    assert card.cls().random_state == 0
    assert card.cls(random_state=None).random_state is None
    settings = {"n_components": 2}
    first, second = (card.cls(**settings).fit_transform(sheet()) for _ in range(2))
    assert np.array_equal(first, second)
    seed = int(np.random.default_rng(5).integers(2**32))
    model = card.cls(**settings, random_state=np.random.default_rng(5)).fit(sheet())
    assert isinstance(model.random_state, np.random.Generator)
    assert np.array_equal(model.embedding_, card.cls(**settings, random_state=seed).fit_transform(sheet()))
    assert np.isfinite(model.transform(sheet(3, seed=1))).all()


@among(BORROWED)
def test_wrapped_methods_leave_advice(card):
    assert isinstance(make(card).fit(sheet(60)).diagnostics_["advice"], tuple)


@pytest.mark.parametrize("entries", [dok_array(sheet()), csr_array(sheet()).tocoo()], ids=["dok", "coo"])
def test_sparse_formats(entries):
    dense = manifoldry.Isomap(n_neighbors=6).fit_transform(sheet())
    assert np.allclose(manifoldry.Isomap(n_neighbors=6).fit_transform(entries), dense)


@pytest.mark.parametrize("value", [True, 0, 2.5, "two"])
def test_counts_of_datasets(value):
    with pytest.raises(ValueError, match="periods must be"):
        datasets.wave(50, periods=value)
    with pytest.raises(ValueError, match="n_clusters must be"):
        datasets.gaussian_clusters(50, n_clusters=value)


def test_measures_of_quality_refuse_masked_layouts():
    with pytest.raises(ValueError, match="Y is a masked array with 2 of its 120 entries masked"):
        manifoldry.metrics.trustworthiness(sheet(), masked(3, 7), n_neighbors=5)
