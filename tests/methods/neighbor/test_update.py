"""`update` inserts rows into a fitted layout: old rows stay, new clusters form, the model is one of all rows."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import silhouette_samples

from manifoldry import TSNE, UMAP, Isomap, SymmetricSNE, chunked_data, load, neighborhood_graph

METHODS = [UMAP(n_epochs=200), TSNE(), SymmetricSNE()]
N_CLUSTERS, EACH = 4, 60


def data():
    """Old rows of four clusters; new rows of these, and of a fifth one between them."""
    rng = np.random.default_rng(0)
    centers = 12.0 * np.eye(5, 10)
    centers[4] = centers[:4].mean(axis=0)
    X = np.repeat(centers, 2 * EACH, axis=0) + rng.normal(size=(10 * EACH, 10))
    labels = np.repeat(np.arange(5), 2 * EACH)
    old = (np.arange(len(X)) % 2 == 0) & (labels < 4)
    return X[old], X[~old][::2], labels[old], labels[~old][::2]


OLD, NEW, OLD_LABELS, NEW_LABELS = data()


@pytest.fixture(scope="module", params=METHODS, ids=lambda method: type(method).__name__)
def updated(request):
    """The layout before, the coordinates by transform, and the updated model."""
    model = request.param.__class__(**request.param.get_params()).fit(OLD)
    before = model.embedding_.copy()
    mapped = model.transform(NEW)
    np.testing.assert_array_equal(model.embedding_, before)  # transform changes nothing
    return before, mapped, model.update(NEW)


def test_old_rows_stay(updated):
    before, _, model = updated
    assert model.embedding_.shape == (len(OLD) + len(NEW), 2)
    moves = np.linalg.norm(model.embedding_[: len(OLD)] - before, axis=1)
    assert 0 < moves.max() <= 0.02 * np.ptp(before, axis=0).max()


def test_a_new_cluster_forms_which_transform_does_not_show(updated):
    before, mapped, model = updated
    labels = np.concatenate([OLD_LABELS, NEW_LABELS])
    inserted = silhouette_samples(model.embedding_, labels)
    assert inserted[labels == 4].min() > 0.3
    assert all(inserted[labels == c].mean() > 0.4 for c in range(4))
    # Neighbors of inserted rows of the new cluster are of the cluster; those of mapped rows are often old rows.
    for Y, least, most in ((np.concatenate([before, mapped]), 0.0, 0.9), (model.embedding_, 0.95, 1.0)):
        distances = np.linalg.norm(Y[labels == 4][:, None] - Y, axis=2)
        neighbors = np.argsort(distances, axis=1)[:, 1:6]
        share = (labels[neighbors] == 4).mean()
        assert least <= share <= most


def test_the_updated_model_maps_and_is_saved(updated, tmp_path):
    model = updated[2]
    assert model.graph_.n_points == model.affinity_matrix_.shape[0] == len(OLD) + len(NEW)
    np.testing.assert_array_equal(model.transform(NEW[:5]), model.embedding_[len(OLD) : len(OLD) + 5])
    model.save(tmp_path / "model.mfy")
    again = load(tmp_path / "model.mfy")
    np.testing.assert_array_equal(again.transform(NEW + 0.01), model.transform(NEW + 0.01))
    assert model.inverse_transform(model.embedding_[:3]).shape == (3, 10)
    again.update(OLD[:3] + 0.02)
    assert len(again.embedding_) == len(model.embedding_) + 3


@pytest.mark.parametrize("method", METHODS[:2], ids=lambda method: type(method).__name__)
def test_threads_and_sparse_rows(method):
    fits = [method.__class__(**method.get_params()).set_params(n_jobs=jobs).fit(OLD[:100]) for jobs in (1, 3)]
    one, three = (each.update(NEW[:30], max_shift=0.0).embedding_ for each in fits)
    np.testing.assert_array_equal(one, three)
    fresh = method.__class__(**method.get_params()).fit(OLD[:100])
    np.testing.assert_array_equal(one[:100], fresh.embedding_)  # fixed
    sparse = method.__class__(**method.get_params()).fit(csr_array(OLD[:100])).update(csr_array(NEW[:30]))
    assert sparse.embedding_.shape == (130, 2)


def test_single_precision_and_columns_are_kept():
    model = UMAP(n_epochs=20).fit(OLD[:60].astype(np.float32)).update(NEW[:5])
    assert model.embedding_.dtype == np.float32
    assert model.n_features_in_ == 10


ERRORS = [
    (lambda: UMAP(n_epochs=5).fit(OLD), (NEW[:, :4],), "4 features.*expecting 10"),
    (lambda: UMAP(n_epochs=5).fit(OLD), (NEW * np.nan,), "NaN"),
    (lambda: UMAP(n_epochs=5).fit(OLD), (NEW, -0.1), "max_shift must be at least 0; got -0.1"),
    (lambda: UMAP(n_epochs=5).fit(OLD, OLD_LABELS), (NEW,), "update needs a model fitted without targets"),
    (lambda: UMAP(n_epochs=5, unique=True).fit(OLD), (NEW,), "unique=False"),
    (lambda: UMAP(n_epochs=5).fit(neighborhood_graph(OLD)), (NEW,), "fitted to distances or a graph"),
    (lambda: TSNE(max_iter=5).fit(OLD).set_params(n_components=1), (NEW,), "has 2 columns and n_components is 1"),
    (lambda: TSNE(max_iter=5, bandwidth=np.ones(len(OLD))).fit(OLD), (NEW,), "one for each of the 420 points"),
    (lambda: UMAP(n_epochs=5).fit(chunked_data(OLD)), (NEW,), "fitted to a sample of chunked data"),
]


@pytest.mark.parametrize(("fit", "arguments", "message"), ERRORS, ids=[message[:40] for *_, message in ERRORS])
def test_an_error_leaves_the_model_as_it_is(fit, arguments, message):
    model = fit()
    before = vars(model).copy()
    with pytest.raises(ValueError, match=message):
        model.update(arguments[0], **({"max_shift": arguments[1]} if len(arguments) > 1 else {}))
    assert all(vars(model)[name] is value for name, value in before.items())


def test_other_methods_have_no_update_and_unfitted_models_say_so():
    assert not hasattr(Isomap(), "update")
    with pytest.raises(ValueError, match="not fitted"):
        UMAP().update(NEW)
