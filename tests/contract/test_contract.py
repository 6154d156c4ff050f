"""What every registered method must honor, enumerated from the cards.

Methods wrapped from scikit-learn have its words and its numerics; tests of ours leave them out.
"""

import functools
import inspect
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import manifoldry
from helpers import AUTO, among, bent_sheet, make
from manifoldry import metrics

CARDS = (*manifoldry.list_methods(), AUTO)
BY_NAME = {card.name: card for card in CARDS}
OWN = [card for card in CARDS if not card.wrapped]
MEASURED = [card for card in OWN if "metric" in inspect.signature(card.cls).parameters]
SPARSE = [card for card in OWN if card.cls().__sklearn_tags__().input_tags.sparse]


each, each_own = among(CARDS), among(OWN)

ROUNDING = 1e-8
MAJORIZATION = (manifoldry.MDS, manifoldry.NonmetricMDS, manifoldry.PHATE)
WITHOUT_TASKS = {
    "ClassicalMDS",
    "LaplacianEigenmaps",
    "CommuteTime",
    "LPP",
    "DPP",
    "ProjectionPursuit",
    "RobustPCA",
    "PolynomialPCA",
    "MultilinearPCA",
    "InfomaxICA",
    "ProbabilisticPCA",
    "L1PCA",
    "FastMVU",
    "SPE",
}
"""Methods that leave all their work on few points to LAPACK, scipy and scikit-learn."""


def suited(card, X):
    """The points, or what of them a method of non-negative data takes."""
    return np.abs(X) if card.cls().__sklearn_tags__().input_tags.positive_only else X


@functools.cache
def fitted(name, n=40):
    """The method fitted to a bent sheet, once for all tests: none changes it."""
    return make(BY_NAME[name]).fit(suited(BY_NAME[name], bent_sheet(n)))


def same_shape(A, B):
    """Relative difference of two layouts up to a rigid motion."""
    return np.sqrt(metrics.procrustes(A, B).error)


def agreement(model):
    """How closely layouts agree of the same points in another order, position or form.

    All methods, descents too, take the same steps on them but for rounding, which stays below 1e-8 of the layout.
    Where rounding decides when to stop, or where, layouts agree as follows.

    - Majorization: a step that lowers the stress by tol of it is shorter than the root of tol of the layout, for it
      lowers the stress by at least n |Y - Y'|^2 (deleeuw1977), and stress is less than n |Y|^2.
    - Semidefinite programs: solutions follow a path of barriers, which near its end moves in proportion to the gap;
      they stop anywhere below tol, so ten times that. A placement of patches has no barriers: ten times its gap.
      Rounds of programs, of which the tests take the first, are each solved to tol: the gap left over is that of
      constraints not yet added, the same for both.
    - Projection pursuit: near its maximum the index is quadratic in the angle, which is thus known to the root of
      rounding; ten times that for several directions.
    """
    if isinstance(model, MAJORIZATION):
        return np.sqrt(model.tol)
    if isinstance(model, manifoldry.SPE):
        return 10 * model.tol
    if hasattr(model, "certificate_"):
        placed = isinstance(model, manifoldry.IPA)
        return max(ROUNDING, 10 * (model.certificate_.gap if placed else max(model.tol, model.certificate_.gap)))
    if isinstance(model, manifoldry.ProjectionPursuit):
        return 10 * np.sqrt(np.finfo(float).eps)
    return ROUNDING


def with_checks(estimators):
    """Run a test once for each of scikit-learn's checks of these estimators.

    The check of sparse arrays is left out: it is that of sparse matrices over again. Tests of ours fit every method to
    a sparse array, and `test_sparse_input` has the formats.
    """
    pairs = [pair for estimator in estimators for pair in estimator_checks_generator(estimator)]
    pairs = [pair for pair in pairs if pair[1].func.__name__ != "check_estimator_sparse_array"]
    names = [f"{type(estimator).__name__}-{check.func.__name__}" for estimator, check in pairs]
    return pytest.mark.parametrize(("estimator", "check"), pairs, ids=names)


@with_checks(make(card) for card in CARDS)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", manifoldry.DisconnectedWarning)
        check(estimator)


@pytest.mark.heavy
@with_checks(card.cls() for card in OWN if card is not AUTO)
def test_scikit_learn_checks_with_default_parameters(estimator, check):
    test_scikit_learn_checks(estimator, check)


@each
def test_gives_what_its_card_says(card):
    model = fitted(card.name)
    assert model.embedding_.shape == (40, card.test_params["n_components"])
    assert np.isfinite(model.embedding_).all()
    for name in ("spectrum", "trace", "certificate", "graph"):
        assert hasattr(model, f"{name}_") == (name in card.gives), name
    assert hasattr(model, "transform") == ("transform" in card.gives)
    assert hasattr(model, "inverse_transform") == ("inverse" in card.gives)
    assert model.diagnostics_["seconds"]
    assert all(seconds >= 0 for seconds in model.diagnostics_["seconds"].values())


@each_own
def test_same_bits_for_any_number_of_threads(card, small_tasks):
    X = bent_sheet(150)
    one, two = (make(card, n_jobs=jobs).fit(X) for jobs in (1, 2))
    assert small_tasks.shared or card.name in WITHOUT_TASKS
    assert np.array_equal(one.embedding_, two.embedding_)
    Q = bent_sheet(41, seed=1)
    assert np.array_equal(one.transform(Q), two.transform(Q))
    if "inverse" in card.gives:
        Y = one.transform(Q)
        assert np.array_equal(one.inverse_transform(Y), two.inverse_transform(Y))


@each
def test_same_bits_twice(card):
    X = suited(card, bent_sheet())
    assert np.array_equal(make(card).fit_transform(X), fitted(card.name).embedding_)


@each_own
def test_permuted_rows_permute_the_result(card):
    X = bent_sheet(60)
    order = np.random.default_rng(1).permutation(60)
    settings = {}
    if card.name == "LandmarkIsomap":  # the same points must serve
        settings = {"landmarks": np.arange(0, 60, 3)}
    straight = make(card, **settings).fit(X) if settings else fitted(card.name, 60)
    if settings:
        settings = {"landmarks": np.flatnonzero(np.isin(order, settings["landmarks"]))}
    permuted = make(card, **settings).fit_transform(X[order])
    assert same_shape(permuted, straight.embedding_[order]) < agreement(straight)


@each_own
def test_rotation_and_shift_of_the_data_leave_the_result(card):
    X = bent_sheet(60)
    rotation, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((4, 4)))
    if getattr(card.cls, "_of_columns", False):  # by its mathematics: any order and signs of the columns, no rotation
        rotation = np.eye(4)[[2, 0, 3, 1]] * [1.0, -1.0, -1.0, 1.0]
    moved, model = make(card).fit_transform(X @ rotation + 5.0), fitted(card.name, 60)
    assert same_shape(moved, model.embedding_) < agreement(model)


@each
def test_input_is_left_as_it_was(card):
    X, Q = suited(card, bent_sheet()), suited(card, bent_sheet(7, seed=3))
    before = X.tobytes(), Q.tobytes()
    X.flags.writeable = Q.flags.writeable = False
    make(card).fit(X).transform(Q)
    assert (X.tobytes(), Q.tobytes()) == before


@each
def test_batch_equals_one_by_one(card):
    model, Q = fitted(card.name), suited(card, bent_sheet(9, seed=4))
    together = model.transform(Q)
    alone = np.concatenate([model.transform(q[None]) for q in Q])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-9 * np.abs(together).max())


def error_on_training_points(model):
    """How far, relative to the layout's size, a training point may be placed from where the fit left it."""
    if isinstance(model, MAJORIZATION):  # a point placed alone halves its way with every step: see `agreement`
        return 2 * np.sqrt(model.tol)
    if isinstance(model, manifoldry.TesseraMap):  # the kernel map's own error, all of it at one point
        spread = np.linalg.norm(model.embedding_ - model.embedding_.mean(axis=0))
        return model.map_error_ * spread / np.abs(model.embedding_).max()
    if isinstance(model, manifoldry.NMF):  # fit and transform stop by this tolerance, and at different points
        return model.tol
    return ROUNDING


@each
def test_training_points_return_to_their_places(card):
    X = suited(card, bent_sheet())
    # Majorization to its tolerance: the few steps of the tests do not always reach it.
    model = make(card, max_iter=300).fit(X) if issubclass(card.cls, MAJORIZATION) else fitted(card.name)
    atol = error_on_training_points(model) * np.abs(model.embedding_).max()
    np.testing.assert_allclose(model.transform(X), model.embedding_, rtol=0, atol=atol)


@pytest.fixture(scope="module")
def placed_elsewhere(tmp_path_factory):
    """Places of new points by every method, pickled and loaded in another process, and by the model itself."""
    folder = tmp_path_factory.mktemp("pickles")
    here = {}
    for card in CARDS:
        model, Q = fitted(card.name), suited(card, bent_sheet(5, seed=5))
        (folder / f"{card.name}.pickle").write_bytes(pickle.dumps((model, Q)))
        here[card.name] = model.transform(Q)
    code = (
        "import pickle, sys, pathlib, numpy as np\n"
        "for path in pathlib.Path(sys.argv[1]).glob('*.pickle'):\n"
        "    model, Q = pickle.loads(path.read_bytes())\n"
        "    np.save(path.with_suffix('.npy'), model.transform(Q))"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    return {name: (np.load(folder / f"{name}.npy"), places) for name, places in here.items()}


@each
def test_pickle_round_trip_in_another_process(card, placed_elsewhere):
    there, here = placed_elsewhere[card.name]
    # Pickling may change the memory order of a wrapped method's arrays, and so the order of BLAS's sums.
    np.testing.assert_allclose(there, here, rtol=1e-12 if card.wrapped else 0)


@each
def test_clone_keeps_parameters(card):
    model = make(card)
    assert clone(model).get_params() == model.get_params()


@each
def test_pipeline_and_data_frames(card):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(suited(card, bent_sheet()), columns=list("abcd"))
    model = make(card).set_output(transform="pandas")
    Y = make_pipeline(MinMaxScaler(clip=True), model).fit_transform(frame)
    assert list(Y.columns) == list(model.get_feature_names_out())
    fitted = make(card).fit(frame)
    assert list(fitted.feature_names_in_) == list("abcd")


@each_own
def test_float32_in_float32_out(card):
    X = bent_sheet()
    single = make(card).fit(X.astype(np.float32))
    assert single.embedding_.dtype == np.float32
    assert single.transform(X[:3].astype(np.float32)).dtype == np.float32
    if card.name == "ParametricUMAP":  # without a layout of UMAP's
        rows = X.astype(np.float32), X
        assert same_shape(*(make(card, fine_tuning=1.0).fit_transform(each) for each in rows)) < 1e-2
        return
    if card.name == "UMAP":  # chance magnifies any difference, tenfold in two epochs: the start and the ties agree
        single, double = (make(card, n_epochs=0).fit(rows) for rows in (X.astype(np.float32), X))
        np.testing.assert_allclose(single.affinity_matrix_.toarray(), double.affinity_matrix_.toarray(), atol=1e-4)
        assert same_shape(single.embedding_, double.embedding_) < 1e-2
        return
    # float32 rounds the data by 6e-8 of their size; eigengaps and stress minima magnify that.
    assert same_shape(single.embedding_, fitted(card.name).embedding_) < 1e-2


@each_own
def test_duplicates(card):
    X = np.concatenate([bent_sheet(30), bent_sheet(30)[:12], bent_sheet(30)[:12]])
    Y = make(card).fit_transform(X)
    assert np.isfinite(Y).all()
    np.testing.assert_allclose(Y[:12], Y[30:42], atol=0.05 * np.abs(Y).max())


@each_own
def test_constant_column_changes_nothing(card):
    X = bent_sheet()
    with_constant = np.column_stack([X, np.full(len(X), 3.0)])
    model = fitted(card.name)
    assert same_shape(make(card).fit_transform(with_constant), model.embedding_) < agreement(model)


@each_own
def test_fewest_points(card):
    """n = d + 2."""
    settings = {"n_neighbors": 3} if "n_neighbors" in card.test_params else {}
    if "n_landmarks" in card.test_params:
        settings["n_landmarks"] = 4
    d = card.test_params["n_components"]
    Y = make(card, **settings).fit_transform(bent_sheet(d + 2))
    assert Y.shape == (d + 2, d)
    assert np.isfinite(Y).all()


@among(SPARSE)
def test_sparse_rows_equal_dense_rows(card):
    X = bent_sheet(50)
    X[X < 0.2] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", manifoldry.DisconnectedWarning)
        sparse, dense = make(card).fit(csr_array(X)), make(card).fit(X)
    assert same_shape(sparse.embedding_, dense.embedding_) < agreement(dense)


@among(MEASURED)
def test_precomputed_distances_equal_points(card):
    X, Q = bent_sheet(), bent_sheet(6, seed=6)
    between = lambda A, B: np.sqrt(((A[:, None] - B) ** 2).sum(-1))  # noqa: E731
    given = make(card, metric="precomputed").fit(between(X, X))
    direct = fitted(card.name)
    assert same_shape(given.embedding_, direct.embedding_) < agreement(direct)
    assert same_shape(given.transform(between(Q, X)), direct.transform(Q)) < agreement(direct)


@each_own
def test_progress_is_reported_and_nothing_is_printed(card, capsys):
    seen = []
    make(card, callback=seen.append).fit(bent_sheet())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == ""
    make(card, verbose=True).fit(bent_sheet())
    assert "[manifoldry]" in capsys.readouterr().err


@each_own
def test_stopping_at_once_still_leaves_a_result(card):
    model = make(card, callback=lambda _: True).fit(bent_sheet())
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite(model.transform(bent_sheet(3, seed=7))).all()
    assert model.diagnostics_["stopped"] is True
