"""AlignedEmbedding: shared rows stay close, at any weight; relations and their errors; model files."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from manifoldry import TSNE, UMAP, AlignedEmbedding, EmbeddingWarning, Isomap, load, metrics
from manifoldry._numerics.procrustes import rigid_fit

METHODS = [UMAP(n_epochs=100), TSNE(max_iter=300)]
N, SPLIT = 240, 60


def sequence():
    """Four data sets of most of 240 rows in four clusters; the first cluster splits in two after the second one."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(4, 8)) * 6
    base = np.repeat(centers, N // 4, axis=0) + rng.normal(size=(N, 8))
    sets, rows = [], []
    for t in range(4):
        X = base + 0.3 * t * rng.normal(size=base.shape)
        X[: SPLIT // 2, 0] += 8.0 * max(0, t - 1)
        rows.append(np.sort(rng.choice(N, 200, replace=False)))
        sets.append(X[rows[-1]])
    relations = []
    for before, after in pairwise(rows):
        shared = np.intersect1d(before, after)
        relations.append(dict(zip(np.searchsorted(before, shared), np.searchsorted(after, shared), strict=True)))
    return sets, relations, rows


SETS, RELATIONS, ROWS = sequence()


def shift(layouts, relations=RELATIONS):
    """Root mean square distance of shared rows in consecutive layouts, in units of the root mean square radius."""
    pairs = [(layouts[t][[*each]], layouts[t + 1][[*each.values()]]) for t, each in enumerate(relations)]
    moves = np.concatenate([np.linalg.norm(before - after, axis=1) for before, after in pairs])
    return np.sqrt(
        np.square(moves).mean() / np.mean([np.square(Y - Y.mean(axis=0)).sum(axis=1).mean() for Y in layouts])
    )


def superimposed(layouts):
    """Each layout rotated and shifted onto the one before."""
    done = [layouts[0]]
    for t, each in enumerate(RELATIONS):
        done.append(rigid_fit(layouts[t + 1][[*each.values()]], done[-1][[*each]])(layouts[t + 1]))
    return done


@pytest.fixture(scope="module", params=METHODS, ids=lambda method: type(method).__name__)
def fits(request):
    """The estimator, and models with several weights."""
    weights = (0.0, 0.1, 1e6)
    models = {
        each: AlignedEmbedding(request.param, alignment_weight=each).fit(SETS, relations=RELATIONS) for each in weights
    }
    return request.param, models


def test_weight_zero_is_a_fit_of_each_data_set(fits):
    method, models = fits
    for X, Y in zip(SETS, models[0.0].embeddings_, strict=True):
        np.testing.assert_array_equal(clone(method).fit(X).embedding_, Y)
    assert not hasattr(models[0.0], "trace_")


def test_a_huge_weight_makes_shared_rows_coincide(fits):
    layouts = fits[1][1e6].embeddings_
    # A pull of weight times distance balances the descent's own forces, at most of order 10 for each row.
    assert shift(layouts) < 1e-4
    assert all(Y.std() > 0.1 for Y in layouts)


def test_shared_rows_stay_close_at_the_same_trustworthiness(fits):
    models = fits[1]
    aligned, separate = models[0.1].embeddings_, models[0.0].embeddings_
    assert shift(aligned) < 0.5 * shift(superimposed(separate))
    assert shift(aligned) < 0.2 * shift(separate)
    trust = [[metrics.trustworthiness(X, Y) for X, Y in zip(SETS, each, strict=True)] for each in (aligned, separate)]
    assert np.mean(trust[0]) > np.mean(trust[1]) - 0.01


def test_the_split_of_a_cluster_is_seen(fits):
    """Halves of the cluster: one cloud in the first layout, two in the last."""
    gaps = []
    for Y, rows in zip(fits[1][0.1].embeddings_, ROWS, strict=True):
        first, second = Y[rows < SPLIT // 2], Y[(rows >= SPLIT // 2) & (rows < SPLIT)]
        spread = np.sqrt(first.var(axis=0).sum() + second.var(axis=0).sum())
        gaps.append(np.linalg.norm(first.mean(axis=0) - second.mean(axis=0)) / spread)
    assert gaps[-1] > 2 * gaps[0]
    assert gaps[-1] > 1.5


def test_every_model_maps_updates_and_is_saved(fits, tmp_path):
    model = fits[1][0.1]
    model.save(tmp_path / "sequence.mfy")
    again = load(tmp_path / "sequence.mfy")
    assert [each.tolist() for each in again.identities_] == [each.tolist() for each in model.identities_]
    for t, (first, second) in enumerate(zip(model.models_, again.models_, strict=True)):
        np.testing.assert_array_equal(first.embedding_, second.embedding_)
        np.testing.assert_array_equal(first.transform(SETS[t][:3] + 0.1), second.transform(SETS[t][:3] + 0.1))
    again.models_[0].update(SETS[1][:5] + 0.01)
    assert again.embeddings_[0].shape == (205, 2)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_threads_names_arrays_and_sparse_input_do_not_change_the_result(method):
    pd = pytest.importorskip("pandas")
    sets, relations = [X[:120] for X in SETS[:2]], [{i: j for i, j in RELATIONS[0].items() if max(i, j) < 120}]
    one = AlignedEmbedding(clone(method).set_params(n_jobs=1), window=1)
    expected = one.fit_transform(sets, relations=relations)
    several = AlignedEmbedding(clone(method).set_params(n_jobs=3), window=1)
    array = np.full(120, -1)
    array[[*relations[0]]] = [*relations[0].values()]
    frames = [pd.DataFrame(X, index=[f"row {i}" for i in rows[:120]]) for X, rows in zip(sets, ROWS, strict=False)]
    shared = np.intersect1d(ROWS[0][:120], ROWS[1][:120])
    assert len(shared) == len(relations[0])
    for result in (several.fit_transform(sets, relations=[array]), several.fit_transform(frames)):
        for Y, other in zip(expected, result, strict=True):
            np.testing.assert_array_equal(Y, other)
    sparse = one.fit_transform([csr_array(X) for X in sets], relations=relations)
    assert [Y.shape for Y in sparse] == [(120, 2), (120, 2)]


def test_a_row_that_is_missing_in_between_is_aligned_by_its_name():
    pd = pytest.importorskip("pandas")
    names = [[f"a{i}" for i in range(30)], [f"a{i}" for i in range(20)], [f"a{i}" for i in range(30)]]
    rng = np.random.default_rng(0)
    frames = [pd.DataFrame(rng.normal(size=(len(each), 3)), index=each) for each in names]
    model = AlignedEmbedding(UMAP(n_epochs=20), alignment_weight=1e6, window=2).fit(frames)
    np.testing.assert_allclose(model.embeddings_[0][20:], model.embeddings_[2][20:], atol=1e-3)
    model = AlignedEmbedding(UMAP(n_epochs=20), alignment_weight=1e6, window=1).fit(frames)
    assert np.abs(model.embeddings_[0][20:] - model.embeddings_[2][20:]).max() > 0.1


ERRORS = [
    (dict(relations=None), "relations are needed for arrays"),
    (dict(relations=RELATIONS[:2]), "one entry less than the 4 data sets, 3; got a list of 2"),
    (dict(relations=[*RELATIONS[:2], {}]), "Data sets 2 and 3 share no rows"),
    (dict(relations=[*RELATIONS[:2], {0: 200}]), "relations.2. has 200 as a row of the next data set"),
    (dict(relations=[*RELATIONS[:2], {-1: 3}]), "relations.2. has -1 as a row, which is not between 0 and 199"),
    (dict(relations=[*RELATIONS[:2], {0: 7, 1: 7}]), "relations.2. assigns 2 rows to row 7 of the next data set"),
    (
        dict(relations=[*RELATIONS[:2], np.arange(7)]),
        "for each of the 200 rows of data set 2; got shape .7,.",
    ),
    (dict(relations=[*RELATIONS[:2], {0: 1.5}]), "must map row numbers, which are integers; got float64"),
    (dict(sets=SETS[0]), "list of two or more data sets, each one a table; got ndarray"),
    (dict(sets=SETS[:1]), "two or more data sets, each one a table; got 1 of them"),
    (dict(sets=[*SETS[:3], SETS[3][:, :5]]), "data set 0 has 8 and data set 3 has 5"),
    (dict(sets=[*SETS[:3], SETS[3] * np.nan]), "Data set 3: .*NaN"),
    (dict(sets=[*SETS[:3], csr_array(SETS[3])]), "Either all data sets are sparse matrices or none is"),
    (dict(estimator=Isomap()), "estimator must be a UMAP, TSNE, SymmetricSNE or SNE; got Isomap"),
    (dict(estimator=UMAP(metric="precomputed")), "needs rows of features; the estimator has metric='precomputed'"),
    (dict(estimator=UMAP(init="ipa")), "init of an aligned estimator must be one of"),
    (dict(estimator=UMAP(n_neighbors=0)), "n_neighbors must be"),
    (dict(estimator=UMAP(unique=True)), "unique=False"),
    (dict(alignment_weight=-1.0), "alignment_weight must be a number between 0 and 1e.* or 'auto'"),
    (dict(window=0), "window must be an integer of at least 1"),
]


@pytest.mark.parametrize(("change", "message"), ERRORS, ids=[message[:40] for _, message in ERRORS])
def test_bad_input_is_an_error_before_any_work_and_changes_nothing(change, message):
    model = AlignedEmbedding(UMAP(n_epochs=5)).fit([SETS[0][:40], SETS[0][:40]], relations=[np.arange(40)])
    before = model.embeddings_
    parameters = {name: value for name, value in change.items() if name not in ("relations", "sets")}
    model.set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(change.get("sets", SETS), relations=change.get("relations", RELATIONS))
    assert all(one is other for one, other in zip(before, model.embeddings_, strict=True))


def test_bad_tables_are_errors_too():
    pd = pytest.importorskip("pandas")
    frames = [pd.DataFrame(SETS[0][:40]) for _ in range(2)]
    model = AlignedEmbedding()
    with pytest.raises(ValueError, match="no row names, only the default index"):
        model.fit(frames)
    with pytest.raises(ValueError, match="index of data set 1 has duplicate or missing row names"):
        model.fit([frames[0].set_index(np.arange(5, 45)), frames[1].set_index(np.zeros(40))])
    with pytest.raises(ValueError, match="same columns in the same order"):
        model.fit([frames[0].rename(columns=str), frames[1].rename(columns="x{}".format)], relations=[np.arange(40)])
    with pytest.raises(AttributeError, match="before it is fitted"):
        _ = model.embeddings_


@pytest.mark.parametrize(("method", "weight"), [(METHODS[0], 0.1), (METHODS[1], 0.01)])
def test_the_automatic_weight(method, weight):
    pair, relation = [SETS[0][:60], SETS[0][10:70]], [{i: i - 10 for i in range(10, 60)}]
    automatic = AlignedEmbedding(method).fit_transform(pair, relations=relation)
    stated = AlignedEmbedding(method, alignment_weight=weight).fit_transform(pair, relations=relation)
    np.testing.assert_array_equal(automatic[1], stated[1])


def test_the_embedding_of_a_sequence_is_an_estimator():
    model = AlignedEmbedding(TSNE(perplexity=7), window=2)
    assert clone(model).get_params()["estimator__perplexity"] == 7
    assert AlignedEmbedding().get_params() == {"alignment_weight": "auto", "estimator": None, "window": 3}


@pytest.mark.parametrize("weight", [0.0, 0.1])
def test_findings_of_several_data_sets_are_one_warning(weight):
    X = np.random.default_rng(0).normal(size=(60, 6)) * [1, 1, 1, 1000, 1, 1]
    model = AlignedEmbedding(UMAP(n_epochs=5), alignment_weight=weight)
    with pytest.warns(EmbeddingWarning, match=r"column.*more in the diagnostics_ of models_") as issued:
        model.fit([X, X + 1], relations=[np.arange(60)])
    assert len(issued) == 1
    assert issued[0].filename == __file__
    assert all(each.diagnostics_["advice"] for each in model.models_)
