"""Every fitted model comes back from its file as it was, to the last bit."""

import os
import sys
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix, issparse
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

import manifoldry
from helpers import AUTO, among, bent_sheet, distances_by_differences, in_new_process, make
from manifoldry import KNeighborsTransformer
from manifoldry._numerics import repulsion
from manifoldry._numerics.extension.linear import LinearInverse
from manifoldry.data._models import classes as names
from manifoldry.data._models import load_model, read_metadata, save_model
from manifoldry.data._models.codec import SpacingBudget, in_memory_order, laid_out
from manifoldry.data._models.shapes import SHAPES
from manifoldry.graph import _search as search
from model_files import assert_same, members_of, tripwire, write_sealed

CARDS = (*manifoldry.list_methods(), AUTO, *manifoldry.list_clusterings())
MEASURED = [
    card for card in CARDS if card.name in {"ClassicalMDS", "Isomap", "LLE", "LPP", "KernelLPP", "TSNE", "LDLC"}
]
PIECES = [card for card in CARDS if card.name in {"Isomap", "LandmarkIsomap", "LLE", "LaplacianEigenmaps", "IPA"}]
SLOW = {"TesseraMap", "EAT", "FastMVU", "SparsePCA"}
SPARSE = [card for card in CARDS if card.cls().__sklearn_tags__().input_tags.sparse and card.name not in SLOW]


def suited(card, X):
    return np.abs(X) if card.cls().__sklearn_tags__().input_tags.positive_only else X


def dense(values):
    return values.toarray() if issparse(values) else np.asarray(values)


def returned(model, path):
    """Save and load a model; check that nothing was lost and that a second file has the same bytes."""
    save_model(model, path)
    with tripwire() as heard:
        again = load_model(path)
    assert heard == []
    assert_same(model, again)
    second = path.with_name(f"again-{path.name}")
    save_model(again, second)
    assert second.read_bytes() == path.read_bytes()
    return again


def assert_same_maps(was, now, Q):
    """Compare what two models say of new points, together and of one alone."""
    for rows in (Q, Q[:1]):
        for name in ("transform", "predict"):
            if hasattr(was, name):
                assert_bits(getattr(was, name)(rows), getattr(now, name)(rows))
        if hasattr(was, "inverse_transform"):
            Y = was.transform(rows)
            assert_bits(was.inverse_transform(Y), now.inverse_transform(Y))


def assert_bits(A, B):
    assert dense(A).tobytes() == dense(B).tobytes()


@among(CARDS)
def test_every_method_comes_back_with_its_attributes_and_maps(card, tmp_path):
    X, Q = suited(card, bent_sheet()), suited(card, bent_sheet(7, seed=4))
    model = make(card, **({"callback": lambda _: False} if not card.wrapped else {})).fit(X)
    model.save(tmp_path / "model.mfy")
    again = manifoldry.load(tmp_path / "model.mfy")
    expected = {**model.get_params(), **({"callback": None} if "callback" in model.get_params() else {})}
    assert_same(expected, again.get_params())
    assert repr(again.set_params(**model.get_params())) == repr(model)
    assert_same_maps(model, returned(model, tmp_path / "a.mfy"), Q)


@among(CARDS)
def test_an_estimator_without_a_fit_comes_back(card, tmp_path):
    again = returned(make(card), tmp_path / "model.mfy")
    assert not hasattr(again, "diagnostics_")
    assert_same(make(card).get_params(), again.get_params())


@among(SPARSE)
def test_models_of_sparse_rows_come_back(card, tmp_path):
    X, Q = suited(card, bent_sheet(50)), suited(card, bent_sheet(6, seed=4))
    X[np.abs(X) < 0.2] = 0.0
    model = make(card).fit(csr_array(X))
    assert_same_maps(model, returned(model, tmp_path / "model.mfy"), csr_array(Q))


@among(MEASURED)
@pytest.mark.parametrize("metric", ["precomputed", "manhattan", "cosine", "mahalanobis", "seuclidean", "hellinger"])
def test_metrics_come_back(card, metric, tmp_path):
    X, Q = bent_sheet(), bent_sheet(5, seed=4)
    if metric == "hellinger":
        X, Q = np.abs(X), np.abs(Q)
    if metric == "precomputed":
        X, Q = distances_by_differences(X), np.sqrt(((Q[:, None] - X) ** 2).sum(axis=2))
    try:
        model = make(card, metric=metric).fit(X)
    except ValueError:  # a method of coordinates
        return
    assert_same_maps(model, returned(model, tmp_path / "model.mfy"), Q)


@among(PIECES)
@pytest.mark.parametrize("policy", ["apart", "bridge", "largest"])
def test_models_of_several_components_come_back(card, policy, tmp_path):
    X = np.vstack([bent_sheet(30), bent_sheet(30, seed=1) + 50, np.full((1, 4), 200.0)])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make(card, disconnected=policy).fit(X)
    except ValueError:  # not all have all policies
        return
    assert_same_maps(model, returned(model, tmp_path / "model.mfy"), X[::7] + 0.01)


@pytest.mark.parametrize(
    ("engine", "columns", "parameters"),
    [
        ("kd_tree", 3, {}),
        ("brute", 12, {}),
        ("brute", 12, {"metric": "minkowski", "metric_params": {"p": 3}}),
        ("nn_descent", 12, {"search": "approximate"}),
        ("nn_descent", 200, {"search": "approximate", "metric": "cosine"}),
    ],
)
def test_search_engines_come_back(engine, columns, parameters, tmp_path, monkeypatch):
    if engine == "nn_descent":
        monkeypatch.setattr(search, "MIN_DESCENT_ROWS", 100)
    rng = np.random.default_rng(0)
    X = rng.random((1200, 3)) @ rng.standard_normal((3, columns)) + 0.01 * rng.random((1200, columns))
    model = KNeighborsTransformer(n_neighbors=6, **parameters).fit(X)
    assert model.diagnostics_["search"] == engine
    assert_same_maps(model, returned(model, tmp_path / "model.mfy"), X[::100] + 0.001)


@pytest.mark.parametrize("n_components", [2, 3])
def test_layouts_by_approximate_repulsion_come_back(n_components, tmp_path, monkeypatch):
    monkeypatch.setattr(repulsion, "MAX_POINTS_EXACT", {2: 10, 3: 10})
    model = manifoldry.TSNE(n_components=n_components, max_iter=30).fit(bent_sheet(200))
    kind = "FFTPotential" if n_components == 2 else "BarnesHutPotential"
    assert type(model._extension.potential).__name__ == kind
    assert_same_maps(model, returned(model, tmp_path / "model.mfy"), bent_sheet(9, seed=2))


def test_another_process_loads_a_model_and_places_new_points_to_the_same_bits(tmp_path):
    model, Q = manifoldry.IPA().fit(bent_sheet(80)), bent_sheet(9, seed=4)
    model.save(tmp_path / "model.mfy")
    np.save(tmp_path / "Q.npy", Q)
    in_new_process(
        "import numpy as np, manifoldry\n"
        f"folder = {str(tmp_path)!r}\n"
        "np.save(folder + '/Y.npy', manifoldry.load(folder + '/model.mfy').transform(np.load(folder + '/Q.npy')))"
    )
    assert_bits(np.load(tmp_path / "Y.npy"), model.transform(Q))


def test_what_was_shared_is_shared_and_stored_once(tmp_path):
    model = make(AUTO).fit(bent_sheet(60))
    again = returned(model, tmp_path / "model.mfy")
    assert again.best_estimator_ is again.comparison_.best.estimator
    assert again._extension.model is again.best_estimator_
    graph = manifoldry.Isomap(n_neighbors=6).fit(bent_sheet(200, columns=3))
    assert np.shares_memory(graph.graph_.indices, graph._extension.graph.indices)
    loaded = returned(graph, tmp_path / "graph.mfy")
    assert loaded.graph_.indices is loaded._extension.graph.indices
    assert not np.shares_memory(loaded.embedding_, loaded._extension.scaling.coordinates)


PREPARATIONS = [
    [SimpleImputer(add_indicator=True), StandardScaler()],
    [RobustScaler(), PCA(3, whiten=True)],
    [MinMaxScaler(), FunctionTransformer(np.log1p, inverse_func=np.expm1), Normalizer()],
    [TruncatedSVD(3, random_state=np.random.RandomState(1))],
]


@pytest.mark.parametrize("steps", PREPARATIONS, ids=lambda steps: type(steps[0]).__name__)
def test_pipelines_come_back_with_their_frames(steps, tmp_path):
    pandas = pytest.importorskip("pandas")
    X = bent_sheet(60)
    if isinstance(steps[0], SimpleImputer):
        X[3, 1] = np.nan
    frame = pandas.DataFrame(X, columns=["width", "height", "ü", "a b"])
    pipeline = make_pipeline(*steps, manifoldry.Isomap(n_neighbors=8), memory=str(tmp_path / "cache"))
    pipeline.set_output(transform="pandas").fit(frame)
    save_model(pipeline, tmp_path / "model.mfy", metadata={"columns": list(frame.columns), "n": 3.5, "none": None})
    again = manifoldry.load(tmp_path / "model.mfy")
    was, now = pipeline.transform(frame), again.transform(frame)
    pandas.testing.assert_frame_equal(was, now, check_exact=True)
    assert again.memory is None
    assert list(again.feature_names_in_) == list(frame.columns)
    assert read_metadata(tmp_path / "model.mfy") == {"columns": ["width", "height", "ü", "a b"], "n": 3.5, "none": None}


@pytest.mark.parametrize(
    "seed", [np.random.default_rng(3), np.random.RandomState(3), np.random.Generator(np.random.Philox(3)), None, 7]
)
def test_random_states_go_on_where_they_were(seed, tmp_path):
    if hasattr(seed, "random"):
        seed.random(3)
    model = manifoldry.UMAP(random_state=seed, n_neighbors=5, n_epochs=3)
    again = returned(model, tmp_path / "model.mfy")
    if seed is not None:
        X = bent_sheet()
        assert_bits(again.fit_transform(X), model.fit_transform(X))


def test_single_precision_memory_order_and_a_map_of_the_file_come_back(tmp_path):
    np.save(tmp_path / "rows.npy", np.asfortranarray(bent_sheet().astype(np.float32)))
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    model = manifoldry.MDS(max_iter=5).fit(rows)
    save_model(model, tmp_path / "model.mfy")
    assert_same_maps(model, load_model(tmp_path / "model.mfy"), rows[:4] + np.float32(0.1))


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    cuts=st.lists(st.sampled_from([(0, None, 1), (1, None, 1), (None, None, -1), (0, 2, 1)]), min_size=3, max_size=3),
    axes=st.permutations(range(3)),
)
@settings(max_examples=150, deadline=None)
def test_any_view_is_laid_out_as_it_was(shape, cuts, axes):
    whole = np.arange(float(np.prod(shape) * 3)).reshape([*shape[:-1], 3 * shape[-1]])
    view = whole[tuple(slice(*cut) for cut in cuts[: whole.ndim])]
    view = view.transpose([axis for axis in axes if axis < whole.ndim])
    stored, layout = in_memory_order(view, SpacingBudget())
    again = laid_out(stored, layout, SpacingBudget())
    assert np.array_equal(again, view)
    assert [s for s, n in zip(again.strides, view.shape, strict=True) if n > 1] == [
        s for s, n in zip(view.strides, view.shape, strict=True) if n > 1
    ]


def test_arrays_are_plain_files_of_numpy(tmp_path):
    model = manifoldry.PCA().fit(bent_sheet())
    save_model(model, tmp_path / "model.mfy")
    arrays = [name for name in members_of(tmp_path / "model.mfy") if name.endswith(".npy")]
    with np.load(tmp_path / "model.mfy") as found:
        read = [found[name.removesuffix(".npy")] for name in arrays]
    assert any(np.array_equal(array, model.embedding_) for array in read)


def test_constant_arrays_are_stored_without_being_taken_for_a_bomb(tmp_path):
    model = manifoldry.PCA().fit(bent_sheet())
    model.zeros_ = np.zeros(2_000_000)
    save_model(model, tmp_path / "model.mfy")
    assert np.array_equal(load_model(tmp_path / "model.mfy").zeros_, model.zeros_)


def manhattan(a, b):
    return np.abs(a - b).sum()


class Foreign:
    """No class of ours."""


def holding(attribute):
    model = manifoldry.PCA()
    model.extra_ = attribute
    return model


cycle = [1]
cycle.append(cycle)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (manifoldry.Isomap(metric=manhattan, n_neighbors=6).fit(bent_sheet()), r"Isomap\.metric is a Python function"),
        (manifoldry.FastICA(fun=lambda x: (x, x)), r"FastICA\.fun is a Python function"),
        (
            make_pipeline(StandardScaler(), FunctionTransformer(manhattan), manifoldry.PCA()),
            r"FunctionTransformer\.func",
        ),
        (holding(Foreign()), r"PCA\.extra_ is of the class .*Foreign"),
        (holding({"a": [Foreign()]}), r"PCA\.extra_\['a'\] is of the class .*Foreign"),
        (holding({1.5: 2}), "a key of the type float"),
        (holding(np.array([1, "a", None], dtype=object)), "array of Python objects"),
        (holding(np.zeros(3, dtype=[("a", float)])), "array of the type"),
        (holding(np.longdouble(1)), "number of the type"),
        (holding(csr_matrix(np.eye(3)).tocoo()), "csr and csc only"),
        (holding(cycle), "contains itself"),
        (holding(np.datetime64("2020")), "number of the type"),
        (PCA(), "got a PCA"),
        (make_pipeline(manifoldry.PCA(), PCA()), "got a Pipeline ending in a PCA"),
        (np.eye(3), "got a ndarray"),
        (None, "got a NoneType"),
    ],
)
def test_what_a_file_cannot_hold_is_an_error(model, words, tmp_path):
    with pytest.raises(ValueError, match=words) as error:
        save_model(model, tmp_path / "model.mfy")
    assert str(error.value).endswith(".")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("metadata", [{1, 2}, float("nan"), np.eye(2), {"a": [Foreign()]}])
def test_metadata_must_be_json(metadata, tmp_path):
    with pytest.raises(ValueError, match="metadata must be what JSON can hold"):
        save_model(manifoldry.PCA(), tmp_path / "model.mfy", metadata=metadata)


def test_nothing_is_overwritten_unless_asked_for(tmp_path):
    path = tmp_path / "model.mfy"
    manifoldry.PCA(n_components=1).save(path)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        manifoldry.PCA().save(path)
    assert manifoldry.load(path).n_components == 1
    manifoldry.PCA(n_components=3).save(path, overwrite=True)
    assert manifoldry.load(path).n_components == 3
    with pytest.raises(FileNotFoundError):
        manifoldry.PCA().save(tmp_path / "missing" / "model.mfy")


def test_the_tables_name_classes_that_are_there():
    for name in names.CLASSES:
        assert names.tag_of(names.find_class(name)) == name


def test_files_with_the_former_names_of_classes_and_fields_load(tmp_path, monkeypatch):
    model = manifoldry.PCA(n_components=2).fit(bent_sheet())
    model.extra_ = LinearInverse(np.zeros(3), np.eye(3))
    save_model(model, tmp_path / "before.mfy")

    @dataclass(frozen=True, eq=False)
    class NewName:
        center: np.ndarray
        directions: np.ndarray

    module = LinearInverse.__module__
    NewName.__module__ = module
    monkeypatch.setattr(sys.modules[module], "NewName", NewName, raising=False)
    monkeypatch.setitem(names.CLASSES, "NewName", (module, "NewName"))
    monkeypatch.setitem(names.RENAMED_CLASSES, "LinearInverse", "NewName")
    monkeypatch.setitem(names.RENAMED_FIELDS, "NewName", {"mean": "center"})
    monkeypatch.setitem(SHAPES, "NewName", ("q, d", "center: f(d); directions: f(q, d)"))
    again = load_model(tmp_path / "before.mfy")
    assert isinstance(again.extra_, NewName)
    assert_bits(again.extra_.center, model.extra_.mean)
    save_model(again, tmp_path / "after.mfy")
    assert b'"object":"NewName"' in members_of(tmp_path / "after.mfy")["manifoldry.json"]
    assert isinstance(load_model(tmp_path / "after.mfy").extra_, NewName)


def test_files_with_an_index_of_faiss_are_searched_exactly(tmp_path):
    """Such an index stored the rows, the centers of its cells and how it searched them."""
    X = np.random.default_rng(6).normal(size=(300, 12))
    model = KNeighborsTransformer(n_neighbors=6).fit(X)
    model.save(tmp_path / "model.mfy")
    members = members_of(tmp_path / "model.mfy")
    document = members["manifoldry.json"]
    for today, former in [
        (b'"object":"Brute"', b'"object":"FaissIVF"'),
        (b',"metric":"euclidean","metric_params":null}', b',"unit":2.0,"recall":0.99,"effort":{"tuple":[8,1.0]}}'),
    ]:
        assert document.count(today) == 1
        document = document.replace(today, former)
    write_sealed(tmp_path / "former.mfy", {**members, "manifoldry.json": document})
    assert_same_maps(model, load_model(tmp_path / "former.mfy"), X[::50] + 0.001)


def test_former_names_lead_to_classes_of_today():
    assert set(names.RENAMED_CLASSES.values()) <= set(names.CLASSES)
    assert not set(names.RENAMED_CLASSES) & set(names.CLASSES)


@pytest.mark.parametrize("rule", [None, "detours", "tangents"])
@pytest.mark.parametrize("lengths", ["distance", "kl"])
def test_files_with_removed_parameters_load_if_they_had_no_effect(lengths, rule, tmp_path):
    model = manifoldry.Isomap(n_neighbors=6, remove_short_circuits=rule is not None).fit(bent_sheet())
    model.edge_lengths, model.remove_short_circuits, model._growth = lengths, rule, None
    save_model(model, tmp_path / "before.mfy")
    if lengths == "distance" and rule != "tangents":
        again = load_model(tmp_path / "before.mfy")
        assert again.remove_short_circuits is (rule is not None)
        assert not hasattr(again, "edge_lengths")
        assert not hasattr(again, "_growth")
        assert_bits(again.transform(bent_sheet(5)), model.transform(bent_sheet(5)))
    else:
        with pytest.raises(ValueError, match=r"fit it to neighborhood_graph\(X, edge_lengths=...\)"):
            load_model(tmp_path / "before.mfy")
