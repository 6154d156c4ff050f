"""Nothing depends on the unit: X, 1e-9 X and 1e9 X give the same layout, scaled, and the same certificate.

Over all methods and clusterings, on a table of measurements and a small roll; then the ends of the range of numbers,
single precision, and rows far from the origin.
"""

import functools
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

import manifoldry
from helpers import among, distances_by_differences, make, rigid_error
from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry.graph._approximate import NNDescent

METHODS = {card.name: card for card in manifoldry.list_methods()}
OWN = [card for card in METHODS.values() if not card.wrapped]
CLUSTERINGS = {card.name: card for card in manifoldry.list_clusterings()}

POWERS_OF_TWO = (2.0**-30, 2.0**30)
POWERS_OF_TEN = (1e-9, 1e9)
FAR_UNITS = (1e-50, 1e50)

KEEPS_UNIT = {
    *("ClassicalMDS", "MDS", "Isomap", "LandmarkIsomap", "KernelIsomap", "ONPP", "DPP", "PrincipalCurve"),
    *("Autoencoder", "ColoredMVU", "EAT", "FastMVU", "GaussianRandomProjection", "IPA"),
    *("IncrementalPCA", "L1PCA", "LandmarkMVU", "MVE", "MVU", "MultilinearPCA"),
    *("PCA", "PrincipalSurface", "RobustPCA", "SparseRandomProjection", "TesseraMap"),
}
"""Methods whose coordinates are lengths; others normalize them. LTSA and HessianEigenmaps do either, and say which."""

UNITS_OF_SCIKIT_LEARN = {"SparsePCA", "FactorAnalysis", "NMF"}
"""Wrapped methods with absolute numbers inside scikit-learn, which must stay theirs: they advise to scale X."""

ROUNDING = 1e-8
MAJORIZATION = (manifoldry.MDS, manifoldry.NonmetricMDS)


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", manifoldry.DisconnectedWarning)
        warnings.simplefilter("ignore", manifoldry.EmbeddingWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@functools.cache
def rows_of(name):
    """Return points to fit and points to place."""
    if name == "wine":
        X = load_wine().data
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        return X[::2][:75], X[1::20]
    rng = np.random.default_rng(0)
    angle, height = 1.5 * np.pi * (1 + rng.uniform(size=80)), 15 * rng.uniform(size=80)
    roll = np.column_stack([angle * np.cos(angle), height, angle * np.sin(angle)])
    return roll[:75], roll[75:]


def suited(card, X):
    return np.abs(X) if card.cls().__sklearn_tags__().input_tags.positive_only else X


@functools.cache
def fitted(name, data, unit, dtype=np.float64):
    """Return the model of the data in a unit, where it places new points, and what its places are led back to."""
    card = METHODS[name]
    X, Q = (suited(card, rows).astype(dtype) * dtype(unit) for rows in rows_of(data))
    model = make(card).fit(X)
    back = None
    if hasattr(model, "inverse_transform"):
        # No midpoints, of which two fitted places are equally far, so that rounding would choose between them.
        back = model.inverse_transform(0.7 * model.embedding_[:6] + 0.3 * model.embedding_[6:12])
    return model, model.transform(Q), back


def unit_of_layout(model, unit):
    """The factor of the coordinates if X is multiplied by ``unit``."""
    lengths = type(model).__name__ in KEEPS_UNIT or model.diagnostics_.get("isometric", False)
    return unit if lengths else 1.0


def agreement(model):
    """How closely layouts agree whose data differ by rounding, relative to their size.

    A power of ten rounds every entry of X. Layouts follow as in `test_contract.agreement`: up to 1e-8, where close
    eigenvalues and ill-conditioned weights magnify rounding by up to 1e8; further where rounding decides when to stop.
    """
    if isinstance(model, MAJORIZATION):
        return np.sqrt(model.tol)
    if hasattr(model, "certificate_"):
        return np.clip(10 * model.certificate_.gap, ROUNDING, 1e-3)
    if isinstance(model, manifoldry.ProjectionPursuit):
        return 10 * np.sqrt(np.finfo(float).eps)
    if hasattr(model, "tol") and type(model).__name__ in METHODS and METHODS[type(model).__name__].wrapped:
        return max(ROUNDING, model.tol)
    return ROUNDING


def difference(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


def facts(model):
    """What a model says of itself without a unit: counts, words, yes and no, and the ends of bridges."""
    said = {}
    for name, value in model.diagnostics_.items():
        if isinstance(value, bool | int | str | tuple):
            said[name] = value
        if name == "bridges":
            said[name] = np.asarray(value)[:, :2].tolist()
    for name in ("n_iter_", "n_clusters_", "n_nonlocalized_"):
        said[name] = getattr(model, name, None)
    if hasattr(model, "suggest_n_components"):
        said["suggested"] = int(model.suggest_n_components())
    return said


def assert_same(name, data, unit, dtype=np.float64, tol=None):
    """Assert that a method gives the same in another unit; in a power of two, which rounds nothing, to the last bit."""
    (base, placed, back), (model, placed_here, back_here) = (fitted(name, data, u, dtype) for u in (1.0, unit))
    factor = unit_of_layout(base, unit)
    tol = agreement(base) if tol is None else tol
    assert difference(model.embedding_ / factor, base.embedding_) <= tol
    assert difference(placed_here / factor, placed) <= 10 * tol
    if back is not None:
        assert difference(back_here / unit, back) <= 100 * tol
    assert facts(model) == facts(base) or (tol > ROUNDING and not hasattr(base, "certificate_"))
    if hasattr(base, "certificate_"):
        here, there = model.certificate_, base.certificate_
        # The last centering ends at rounding, up to which multipliers, and so the bound, are known to a percent or so.
        assert here.gap == pytest.approx(there.gap, rel=0.05 if tol else 0.0, abs=0.0)
        assert here.optimal == there.optimal
        assert here.rank == there.rank


def each_with(cards):
    """Run a test once for each card."""
    return pytest.mark.parametrize("name", [card.name for card in cards])


@pytest.mark.parametrize("data", ["wine", "roll"])
@each_with([card for card in METHODS.values() if card.name not in UNITS_OF_SCIKIT_LEARN])
def test_a_power_of_two_changes_no_bit(name, data):
    for unit in POWERS_OF_TWO:
        assert_same(name, data, unit, tol=0.0)


@pytest.mark.parametrize("data", ["wine", "roll"])
@each_with([card for card in METHODS.values() if card.name not in UNITS_OF_SCIKIT_LEARN])
def test_a_power_of_ten_changes_rounding_alone(name, data):
    for unit in POWERS_OF_TEN:
        assert_same(name, data, unit)


@each_with(OWN)
def test_far_units(name):
    for unit in FAR_UNITS:
        assert_same(name, "roll", unit)


@each_with(OWN)
def test_single_precision(name):
    """Squares of 2^70, 1e21, overflow in single precision, those of 2^-70 vanish."""
    for unit in (2.0**-70, 2.0**70):
        assert_same(name, "roll", unit, dtype=np.float32, tol=0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_approximate_search(dtype):
    """It projects and compares in single precision, whatever the data."""
    rng = np.random.default_rng(0)
    X, Q = (rng.standard_normal((n, 24)).astype(dtype) for n in (1500, 20))
    found = []
    for unit in (1.0, 2.0**-70, 2.0**70):
        index = NNDescent(dtype(unit) * X, 10, Run(0, 1))
        pairs = index.nearest(dtype(unit) * X, 11, Run(0, 1), own=True), index.nearest(dtype(unit) * Q, 11, Run(0, 1))
        found.append([(distances / unit, indices) for distances, indices in pairs])
    for here in found[1:]:
        for pair, expected in zip(here, found[0], strict=True):
            np.testing.assert_array_equal(pair, expected)


@pytest.mark.parametrize("name", sorted(UNITS_OF_SCIKIT_LEARN))
def test_advice_where_scikit_learn_has_a_unit(name):
    X = np.abs(rows_of("wine")[0])
    assert not any("unit" in sentence for sentence in make(METHODS[name]).fit(X).diagnostics_["advice"])
    assert any("unit" in sentence for sentence in make(METHODS[name]).fit(1e-9 * X).diagnostics_["advice"])


@functools.cache
def clustered(name, data, unit):
    X, Q = (unit * rows for rows in rows_of(data))
    model = make(CLUSTERINGS[name]).fit(X)
    return model, model.predict(Q)


@pytest.mark.parametrize("data", ["wine", "roll"])
@pytest.mark.parametrize("name", CLUSTERINGS)
def test_clusterings(name, data):
    base, placed = clustered(name, data, 1.0)
    for unit in (*POWERS_OF_TWO, *POWERS_OF_TEN, *FAR_UNITS):
        model, placed_here = clustered(name, data, unit)
        assert np.array_equal(model.labels_, base.labels_)
        assert np.array_equal(placed_here, placed)
        assert facts(model) == facts(base)
        assert model.reconstruction_error_ / unit**2 == pytest.approx(base.reconstruction_error_, rel=ROUNDING)


# The ends of the range of numbers


@among([*METHODS.values(), *CLUSTERINGS.values()])
@pytest.mark.parametrize("unit", [1e-200, 1e-160, 1e160, 1e300])
def test_numbers_whose_squares_are_none_are_refused(card, unit):
    with pytest.raises(ValueError, match="choose another unit"):
        make(card).fit(unit * suited(card, rows_of("roll")[0]))


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_refused_as_distances_inner_products_kernels_and_graphs(unit):
    X = rows_of("roll")[0]
    D = distances_by_differences(X)
    with pytest.raises(ValueError, match="choose another unit"):
        manifoldry.Isomap(metric="precomputed").fit(unit * D)
    with pytest.raises(ValueError, match="choose another unit"):
        manifoldry.ClassicalMDS(metric="gram").fit(unit * (X @ X.T))
    with pytest.raises(ValueError, match="choose another unit"):
        manifoldry.EAT(kernel="precomputed").fit(unit * (X @ X.T))
    graph = manifoldry.Isomap().fit(X).graph_
    far = NeighborGraph(graph.indptr, graph.indices, unit * graph.lengths, graph.symmetric)
    with pytest.raises(ValueError, match="choose another unit"):
        manifoldry.MVU().fit(far)


def test_a_single_precision_table_for_scikit_learn():
    X = rows_of("roll")[0].astype(np.float32)
    with pytest.raises(ValueError, match="choose another unit"):
        manifoldry.PCA(n_components=2).fit(np.float32(1e18) * X)
    assert np.isfinite(manifoldry.Isomap().fit_transform(np.float32(1e18) * X)).all()


# Rows far from the origin


OFFSET = 2.0**40


@among([card for card in METHODS.values() if card.name not in {"PCA", *UNITS_OF_SCIKIT_LEARN}])
def test_rows_far_from_the_origin(card):
    """Rows in steps of 1/256 lose nothing when 2^40 is added; their mean is then rounded to 2^-12.

    scikit-learn's PCA takes products of the rows before it centers them, which leaves nothing of rows so far away.
    """
    X = np.round(256 * rows_of("roll")[0]) / 256
    far, near = make(card).fit(X + OFFSET), make(card).fit(X)
    rounded = np.finfo(float).eps * OFFSET
    assert rigid_error(far.embedding_, near.embedding_) < max(agreement(near), rounded)
    assert not any("rounded" in sentence for sentence in far.diagnostics_["advice"])


def test_rounded_rows_are_said():
    """Seconds since 1970 in single precision are two minutes apart."""
    rng = np.random.default_rng(0)
    day = np.column_stack([1.7e9 + rng.uniform(0, 86400, 60), rng.uniform(0, 86400, 60)])
    for dtype, said in ((np.float32, True), (np.float64, False)):
        for cls in (manifoldry.Isomap, manifoldry.GaussianRandomProjection, manifoldry.SparseRandomProjection):
            advice = cls(n_components=2).fit(day.astype(dtype)).diagnostics_["advice"]
            assert any("double precision" in sentence for sentence in advice) == said


SMALL_INTEGERS = np.random.default_rng(0).integers(0, 10_000, size=(60, 3)) + 30_000 * (np.arange(60) % 3)[:, None]


@among(CLUSTERINGS.values())
@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_rounded_integers_are_said_by_clusterings(card, dtype):
    """Numbers at 2**60 are 256 apart."""
    with pytest.warns(UserWarning, match="distances are rounded: subtract the offset"):
        make(card).fit((SMALL_INTEGERS + 2**60).astype(dtype))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "(?s).*distances are rounded")
        make(card).fit((SMALL_INTEGERS + 2**30).astype(dtype))


@among([*METHODS.values(), *CLUSTERINGS.values()])
def test_integers_that_become_one_number_are_not_called_identical(card):
    X = np.arange(180).reshape(60, 3) % 100
    for rows in (X + 2**60, (X.astype(object) + 2**66).tolist()):
        with pytest.raises(ValueError, match=r"integers of column 0 of X differ by at most 99 .* become one number"):
            make(card).fit(rows)


@pytest.mark.parametrize("kind", ["int64", "uint64", "Int64", "polars", "object"])
def test_nor_is_one_such_column_among_others_of_a_frame_left_out_silently(kind):
    library = pytest.importorskip("polars" if kind == "polars" else "pandas")
    columns = {"x": 1e12 * np.arange(60), "id": np.arange(60) + 2**60, "y": np.arange(60) % 7}
    frame = library.DataFrame(columns)
    frame = frame if kind == "polars" else frame.astype({"id": kind})
    said = "integers of column 'id' of X differ by at most 59 .* become one number"
    for ask in (
        manifoldry.PCA(2).fit,
        manifoldry.KMeans(2).fit,
        manifoldry.KNeighborsTransformer().fit,
        manifoldry.diagnose,
        manifoldry.suggest_neighbors,
        manifoldry.compare,
    ):
        with pytest.raises(ValueError, match=said):
            ask(frame)


def test_missing_entries_do_not_hide_integers_that_become_one_number():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": np.arange(60) + 2**60, "x": np.arange(60) % 7, "y": np.arange(60) % 5})
    frame = frame.astype("Int64")
    frame.loc[[3, 40], ["id", "x"]] = pandas.NA
    with pytest.raises(ValueError, match="integers of column 'id' of X differ by at most 59"):
        manifoldry.ProbabilisticPCA(n_components=1).fit(frame)


@among([card for card in METHODS.values() if card.wrapped])
def test_whole_numbers_have_no_rounding(card):
    X = np.random.default_rng(0).integers(0, 9, size=(40, 5))
    for rows in (X, X.astype(object)):
        advice = make(card).fit(rows).diagnostics_["advice"]
        assert not any("rounded" in sentence or "unit" in sentence for sentence in advice)
