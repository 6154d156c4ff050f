"""Where people already are: scanpy, BERTopic, scikit-learn's pipelines, frames of pandas and polars, tensors."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix, issparse
from sklearn.base import clone
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neighbors import KNeighborsTransformer as SklearnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers import bent_sheet
from manifoldry import (
    IPA,
    LDLC,
    PCA,
    UMAP,
    Isomap,
    KNeighborsTransformer,
    compare,
    diagnose,
    embed_anndata,
    metrics,
    score,
    transform_anndata,
)

mpl.use("Agg")

X, LABELS = make_blobs(150, 6, centers=3, random_state=0)
NAMES = [f"cell{i}" for i in range(len(X))]
SMALL_UMAP = UMAP(n_neighbors=10, n_epochs=30)


def make_cells(pca=False):
    anndata = pytest.importorskip("anndata")
    cells = anndata.AnnData(X.copy(), obs=pd.DataFrame({"kind": LABELS.astype(str)}, index=NAMES))
    cells.layers["scaled"] = csr_matrix(X * 2)
    if pca:
        cells.obsm["X_pca"] = PCA(n_components=4).fit_transform(X)
    return cells


# AnnData and scanpy


def test_coordinates_graph_and_diagnostics_of_cells_survive_an_h5ad_file(tmp_path):
    cells, model = make_cells(pca=True), clone(SMALL_UMAP)
    assert embed_anndata(cells, model) is None
    np.testing.assert_array_equal(cells.obsm["X_umap"], model.embedding_)
    np.testing.assert_array_equal(model.embedding_, clone(SMALL_UMAP).fit_transform(cells.obsm["X_pca"]))
    cells.write_h5ad(tmp_path / "cells.h5ad")
    read = pytest.importorskip("anndata").read_h5ad(tmp_path / "cells.h5ad")
    np.testing.assert_array_equal(read.obsm["X_umap"], model.embedding_)
    known = read.uns["umap"]
    assert (known["params"]["embedded"], known["params"]["n_neighbors"]) == ("obsm/X_pca", 10)
    assert known["figures"]["trustworthiness"] == model.diagnostics_["figures"]["trustworthiness"]
    assert known["advice"].tolist() == list(model.diagnostics_["advice"])
    np.testing.assert_array_equal(read.obsp["umap_distances"].toarray(), model.graph_.to_sparse().toarray())
    np.testing.assert_array_equal(read.obsp["umap_connectivities"].toarray(), model.affinity_matrix_.toarray())


def test_advice_reaches_the_file(tmp_path):
    cells = make_cells()
    model = Isomap(n_neighbors=4)
    embed_anndata(cells, model)
    assert model.diagnostics_["advice"]
    cells.write_h5ad(tmp_path / "cells.h5ad")
    read = pytest.importorskip("anndata").read_h5ad(tmp_path / "cells.h5ad")
    assert read.uns["isomap"]["advice"].tolist() == list(model.diagnostics_["advice"])


@pytest.mark.parametrize(
    ("options", "rows"),
    [({"use_rep": "X"}, X), ({"layer": "scaled"}, 2 * X), ({}, None)],
    ids=["X", "layer", "X_pca"],
)
def test_what_is_embedded_can_be_chosen(options, rows):
    cells = make_cells(pca=True)
    embed_anndata(cells, PCA(n_components=2), key_added="X_flat", **options)
    rows = cells.obsm["X_pca"] if rows is None else rows
    np.testing.assert_allclose(cells.obsm["X_flat"], PCA(n_components=2).fit_transform(rows), atol=1e-9)


def test_a_copy_leaves_the_cells_as_they_are_and_pipelines_are_taken():
    cells = make_cells()
    pipeline = make_pipeline(StandardScaler(), Isomap(n_neighbors=10, disconnected="bridge"))
    other = embed_anndata(cells, pipeline, copy=True)
    assert not cells.obsm
    np.testing.assert_array_equal(other.obsm["X_isomap"], pipeline[-1].embedding_)


def test_a_column_of_obs_supervises():
    cells = make_cells(pca=True)
    rows, kinds = cells.obsm["X_pca"], cells.obs["kind"].where(np.arange(len(X)) % 3 == 0)
    cells.obs["known"] = pd.Categorical(kinds)
    for targets in ("known", kinds.to_numpy()):
        embed_anndata(cells, clone(SMALL_UMAP), y=targets)
        expected = clone(SMALL_UMAP).fit(rows, np.where(kinds.isna(), -1, LABELS)).embedding_
        np.testing.assert_array_equal(cells.obsm["X_umap"], expected)
        assert cells.uns["umap"]["params"]["targets"] == ("obs/known" if isinstance(targets, str) else "given")
    assert not np.array_equal(expected, clone(SMALL_UMAP).fit(rows).embedding_)


def test_cells_of_another_object_are_placed_in_the_same_map():
    cells, model = make_cells(), Isomap(n_neighbors=10)
    first, rest = cells[:100].copy(), cells[100:].copy()
    embed_anndata(first, model)
    transform_anndata(rest, model, first)
    np.testing.assert_array_equal(rest.obsm["X_isomap"], model.transform(X[100:]))
    with pytest.raises(ValueError, match="another order"):
        transform_anndata(rest[:, ::-1], model, first)
    with pytest.raises(ValueError, match="no embedding 'X_isomap'"):
        transform_anndata(rest, model, cells)


@pytest.mark.parametrize(
    ("slot", "key", "value"),
    [
        ("obsm", "X_isomap", np.ones((len(X), 2))),
        ("uns", "isomap", {"params": {"a": 1.0}}),
        ("uns", "isomap", "a note"),
        ("uns", "isomap_neighbors", {}),
        ("obsp", "isomap_distances", np.eye(len(X))),
        ("obsp", "isomap_connectivities", np.eye(len(X))),
    ],
)
def test_results_of_other_programs_are_not_overwritten_unless_asked(slot, key, value):
    model, cells, reference = Isomap(n_neighbors=10), make_cells(), make_cells()
    getattr(cells, slot)[key] = value
    with pytest.raises(ValueError, match=rf"another program in {slot}\['{key}'\], .*key_added='X_isomap_manifoldry'"):
        embed_anndata(cells, model)
    assert not hasattr(model, "embedding_")  # before any work
    embed_anndata(reference, model)
    with pytest.raises(ValueError, match=rf"another program in {slot}\['{key}'\]"):
        transform_anndata(cells, model, reference)
    embed_anndata(cells, model, key_added="X_other")
    np.testing.assert_equal(getattr(cells, slot)[key], value)
    embed_anndata(cells, model, overwrite=True)
    np.testing.assert_array_equal(cells.obsm["X_isomap"], model.embedding_)
    embed_anndata(cells, model)  # its own result


def test_cells_can_be_placed_again():
    model, cells, reference = Isomap(n_neighbors=10), make_cells(), make_cells()
    embed_anndata(reference, model)
    transform_anndata(cells, model, reference)
    transform_anndata(cells, model, reference)
    np.testing.assert_array_equal(cells.obsm["X_isomap"], model.transform(X))
    assert cells.uns["isomap"]["params"]["method"] == "Isomap"
    assert cells.uns["isomap"]["params"] is not reference.uns["isomap"]["params"]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda cells: embed_anndata(cells.X, PCA()), "for a table call fit_transform"),
        (lambda cells: embed_anndata(cells, PCA), "such as UMAP()"),
        (lambda cells: embed_anndata(cells, "umap"), "such as UMAP()"),
        (lambda cells: embed_anndata(cells, LDLC()), "A clustering goes into obs"),
        (lambda cells: embed_anndata(cells, PCA(), use_rep="X_scvi"), "obsm has no 'X_scvi'; it has 'X_pca'"),
        (lambda cells: embed_anndata(cells, PCA(), layer="counts"), "layers has no 'counts'"),
        (lambda cells: embed_anndata(cells, UMAP(), y="leiden"), "obs has no column 'leiden'; it has 'kind'"),
        (lambda cells: embed_anndata(cells, PCA(), layer="scaled", use_rep="X_pca"), "cannot both"),
        (lambda cells: embed_anndata(cells, PCA()), "would overwrite what is embedded"),
        (lambda cells: embed_anndata(cells, Isomap(metric="precomputed")), "needs pairs"),
    ],
)
def test_wrong_calls_get_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(make_cells(pca=True))


def test_plots_and_tools_of_scanpy_work_on_top():
    sc = pytest.importorskip("scanpy")
    cells = make_cells()
    embed_anndata(cells, clone(SMALL_UMAP))
    embed_anndata(cells, Isomap(n_neighbors=10))
    for figure in (
        sc.pl.umap(cells, color="kind", show=False, return_fig=True),
        sc.pl.embedding(cells, basis="isomap", color="kind", show=False, return_fig=True),
    ):
        assert len(figure.axes[0].collections[0].get_offsets()) == len(X)
    for key in ("umap_neighbors", "isomap_neighbors"):
        sc.tl.diffmap(cells, n_comps=5, neighbors_key=key)
        assert np.isfinite(cells.obsm["X_diffmap"]).all()


def test_clusters_of_scanpy_are_found_on_the_graph():
    sc = pytest.importorskip("scanpy")
    pytest.importorskip("igraph")
    cells = make_cells()
    embed_anndata(cells, clone(SMALL_UMAP))
    sc.tl.leiden(cells, neighbors_key="umap_neighbors", flavor="igraph", n_iterations=2, resolution=0.1)
    assert metrics.purity(cells.obs["leiden"].cat.codes.to_numpy(), LABELS) > 0.95


def test_the_transformer_gives_scanpy_the_graph_of_scikit_learns():
    sc = pytest.importorskip("scanpy")
    own, ours = make_cells(), make_cells()
    searches = SklearnTransformer(n_neighbors=12), KNeighborsTransformer(n_neighbors=12, search="exact")
    for cells, search in zip((own, ours), searches, strict=True):
        sc.pp.neighbors(cells, use_rep="X", transformer=search, method="gauss")  # "umap" compiles umap-learn for 20 s
    difference = own.obsp["connectivities"] - ours.obsp["connectivities"]
    assert abs(difference).max() < 1e-4
    kept = own.obsp["distances"].tocoo()
    np.testing.assert_allclose(np.asarray(ours.obsp["distances"][kept.row, kept.col])[0], kept.data, rtol=1e-5)


# scikit-learn


def test_the_transformer_feeds_methods_and_classifiers_of_pipelines():
    graph = KNeighborsTransformer(n_neighbors=10, search="exact")
    sheet = bent_sheet(120)
    direct = Isomap(n_neighbors=10).fit(sheet)
    through = make_pipeline(graph, Isomap(n_neighbors=10, metric="precomputed")).fit(sheet)
    np.testing.assert_allclose(np.abs(through[-1].spectrum_.values), np.abs(direct.spectrum_.values), rtol=1e-9)
    classifier = make_pipeline(clone(graph), KNeighborsClassifier(metric="precomputed"))
    search = GridSearchCV(classifier, {"kneighborsclassifier__n_neighbors": [1, 5]}, cv=2).fit(X, LABELS)
    assert search.best_score_ > 0.95


# BERTopic


WORDS = [["orbit", "rocket", "moon"], ["goal", "puck", "ice"], ["cipher", "key", "secret"]]


@pytest.mark.parametrize(
    "model", [UMAP(n_components=3, n_neighbors=10, n_epochs=50), Isomap(n_components=2), PCA(n_components=2)], ids=repr
)
def test_topics_are_found_with_a_method_in_place_of_umap(model):
    bertopic = pytest.importorskip("bertopic", reason="BERTopic is installed by make, without its torch")
    rng = np.random.default_rng(0)
    documents = [" ".join(rng.choice(WORDS[label], 8)) for label in LABELS]
    topics = bertopic.BERTopic(umap_model=model, hdbscan_model=SklearnKMeans(3, n_init=3, random_state=0))
    found, _ = topics.fit_transform(documents, X)
    assert metrics.purity(np.asarray(found), LABELS) == 1.0
    again, _ = topics.transform(documents[:20], X[:20])
    np.testing.assert_array_equal(again, found[:20])
    supervised, _ = topics.fit_transform(documents, X, y=LABELS)
    assert metrics.purity(np.asarray(supervised), LABELS) == 1.0


# Frames

COLUMNS = [f"gene {i}" for i in range(6)]


@pytest.mark.parametrize("model", [Isomap(n_neighbors=10), PCA(n_components=2), IPA(n_patches=4)], ids=repr)
def test_frames_keep_their_index_and_names(model):
    frame = pd.DataFrame(X, columns=COLUMNS, index=NAMES)
    plain = clone(model).fit_transform(X)
    assert isinstance(clone(model).fit_transform(frame), np.ndarray)
    framed = clone(model).set_output(transform="pandas")
    Y = framed.fit_transform(frame)
    np.testing.assert_array_equal(Y.to_numpy(), plain)
    assert list(Y.index) == NAMES
    assert list(Y.columns) == list(framed.get_feature_names_out())
    assert list(framed.transform(frame[:5]).index) == NAMES[:5]
    assert list(framed.feature_names_in_) == COLUMNS


@pytest.mark.parametrize("model", [Isomap(n_neighbors=10), PCA(n_components=2), LDLC(n_clusters=3)], ids=repr)
def test_frames_of_polars_have_names_and_become_frames_of_polars(model):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(X, schema=COLUMNS)
    fitted = clone(model).fit(frame)
    assert list(fitted.feature_names_in_) == COLUMNS
    result = "labels_" if isinstance(model, LDLC) else "embedding_"
    by_columns = np.asfortranarray(X)  # as polars stores them
    np.testing.assert_array_equal(getattr(fitted, result), getattr(clone(model).fit(by_columns), result))
    if isinstance(model, LDLC):
        return
    Y = clone(model).set_output(transform="polars").fit_transform(frame)
    assert isinstance(Y, polars.DataFrame)
    assert Y.columns == list(fitted.get_feature_names_out())
    with pytest.raises(ValueError, match="same order"):
        fitted.transform(frame.select(COLUMNS[::-1]))


def test_columns_of_polars_that_are_no_numbers_are_named():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(X, schema=COLUMNS)
    with pytest.raises(ValueError, match="got text in column 'city'"):
        Isomap().fit(frame.with_columns(city=polars.lit("Oslo")))
    with pytest.raises(ValueError, match="got dates or times in column 'day'"):
        Isomap().fit(frame.with_columns(day=polars.date(2020, 1, 1)))
    with pytest.raises(ValueError, match="NaN or infinity in 150"):
        Isomap().fit(frame.with_columns(empty=polars.lit(None, dtype=polars.Float64)))
    with pytest.raises(ValueError, match=r"got a LazyFrame: pass X.collect\(\)"):
        Isomap().fit(frame.lazy())


@pytest.mark.parametrize("dtype", ["Float64", "Float32", "Int64", "double[pyarrow]", "int32[pyarrow]"])
def test_nullable_and_arrow_columns_of_pandas_are_numbers(dtype):
    whole = np.round(10 * X)
    frame = pd.DataFrame(whole, columns=COLUMNS, index=NAMES).astype(dtype)
    Y = PCA(n_components=2).set_output(transform="pandas").fit_transform(frame)
    np.testing.assert_allclose(Y, PCA(n_components=2).fit_transform(whole), atol=1e-3)
    frame.iloc[3, 0] = None
    with pytest.raises(ValueError, match="NaN or infinity in 1"):
        PCA(n_components=2).fit(frame)


# Tensors


class TensorOnCard:
    """As PyTorch's tensors on a graphics card that record gradients: no array until detached and copied."""

    def __init__(self, values, on_card=True, records=True, bfloat16=False):
        self.values, self.on_card, self.records, self.bfloat16 = values, on_card, records, bfloat16
        self.shape, self.ndim, self.dtype = values.shape, values.ndim, "torch.float32"

    def detach(self):
        return TensorOnCard(self.values, self.on_card, False, self.bfloat16)

    def cpu(self):
        return TensorOnCard(self.values, False, self.records, self.bfloat16)

    def float(self):
        return TensorOnCard(self.values.astype(np.float32), self.on_card, self.records)

    def numpy(self):
        if self.on_card or self.records or self.bfloat16:
            raise TypeError("can't convert")
        return self.values

    def __array__(self, dtype=None, copy=None):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")


class ArrayOfCuPy:
    """As CuPy's arrays: copied by ``get`` and in no other way."""

    __cuda_array_interface__ = {"version": 3}  # noqa: RUF012

    def __init__(self, values):
        self.values, self.shape, self.ndim, self.dtype = values, values.shape, values.ndim, values.dtype

    def get(self):
        return self.values.copy()

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")


class DLPackOnly:
    """An array that speaks nothing but DLPack."""

    def __init__(self, values):
        self.values, self.shape, self.ndim, self.dtype = values, values.shape, values.ndim, values.dtype

    def __dlpack__(self, **keywords):
        return self.values.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


KINDS = {
    "card": TensorOnCard,
    "bfloat16": lambda values: TensorOnCard(values, bfloat16=True),
    "cupy": ArrayOfCuPy,
    "dlpack": DLPackOnly,
}


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_other_libraries_are_copied_to_the_host(kind):
    single = X.astype(np.float32)
    given = KINDS[kind](single)
    for model in (Isomap(n_neighbors=10), PCA(n_components=2)):
        found = clone(model).fit(given)
        np.testing.assert_array_equal(found.embedding_, clone(model).fit(single).embedding_)
        np.testing.assert_array_equal(found.transform(given), found.transform(single))
    labels = LDLC(n_clusters=3).fit(given).labels_
    np.testing.assert_array_equal(labels, LDLC(n_clusters=3).fit(single).labels_)
    assert KNeighborsTransformer(n_neighbors=3).fit_transform(given).shape == (150, 150)
    assert metrics.trustworthiness(given, given) == 1.0


@pytest.mark.parametrize("kind", ["card", "cupy"])
def test_half_precision_becomes_single(kind):
    half = X.astype(np.float16)
    assert PCA(n_components=2).fit(KINDS[kind](half)).embedding_.dtype == np.float32


def test_tensors_of_torch_are_taken():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(X, dtype=torch.float32)
    single = tensor.numpy().copy()
    plain = Isomap(n_neighbors=10).fit(single).embedding_
    for given in (tensor, tensor.clone().requires_grad_(True), tensor.t().contiguous().t()):
        np.testing.assert_array_equal(Isomap(n_neighbors=10).fit(given).embedding_, plain)
    for lower in (tensor.half(), tensor.bfloat16()):
        assert PCA(n_components=2).fit(lower).embedding_.dtype == np.float32
    for sparse in (tensor.to_sparse(), tensor.to_sparse_csr()):
        np.testing.assert_allclose(Isomap(n_neighbors=10).fit(sparse).embedding_, plain, atol=1e-3)
    model = IPA(n_patches=4).fit(tensor)
    before = model.transform(single[:5])
    tensor.mul_(3)  # the model has its own copy
    np.testing.assert_array_equal(model.transform(single[:5]), before)


def test_judgments_take_frames_and_tensors_too():
    polars = pytest.importorskip("polars")
    sheet = bent_sheet(120)
    frame = polars.DataFrame(sheet, schema=list("abcd"))
    card = TensorOnCard(sheet)
    Y = sheet[:, :2]
    wanted = score(sheet, Y, figures=["pearson"])
    assert [score(given, Y, figures=["pearson"]) for given in (frame, card)] == [wanted, wanted]
    assert diagnose(frame).topics == diagnose(card).topics == diagnose(sheet).topics
    assert [compare(given, methods=["Isomap"]).best.name for given in (frame, card)] == ["Isomap", "Isomap"]


def test_the_transformer_lists_sparse_rows():
    assert issparse(KNeighborsTransformer(n_neighbors=3).fit_transform(csr_matrix(X)))
