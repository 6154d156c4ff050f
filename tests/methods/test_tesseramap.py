"""TesseraMap against what is known on paper."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.cluster import KMeans

from helpers import problems, rigid_error, tilted
from manifoldry import Isomap, TesseraMap, datasets
from manifoldry._core.values import Certificate
from manifoldry._core.warnings import EmbeddingWarning
from manifoldry._numerics.patches.advice import LAID_FLAT
from manifoldry.evaluation.metrics import procrustes, trustworthiness


def test_a_flat_sheet_comes_back():
    flat = np.random.default_rng(1).uniform(size=(400, 2)) * [3.0, 1.0]
    model = TesseraMap(n_patches=12, slack=1e-3).fit(tilted(flat, 5))
    # Only distances across borders can give way, by slack / 2 of their length.
    assert rigid_error(model.embedding_, flat) < 5e-4
    assert model.error_ < 1e-6
    assert model.certificate_.rank <= 3


def test_tesserae_are_rigid():
    flat = np.random.default_rng(2).uniform(size=(300, 2)) * [2.0, 1.0]
    X = tilted(flat, 5)
    model = TesseraMap(n_patches=10, max_rank=2).fit(X)
    assert model.n_patches_ >= 10
    for label in range(model.n_patches_):
        mine = model.labels_ == label
        np.testing.assert_allclose(pdist(model.embedding_[mine]), pdist(X[mine]), rtol=1e-9)


def test_a_holed_roll_unfolds_at_its_true_scale():
    roll = datasets.swiss_roll(700, hole=True)
    model = TesseraMap().fit(roll.X)
    # A slack of 1e-2 moves border distances by half a percent, and borders are a fraction of the way across.
    assert rigid_error(model.embedding_, roll.truth) < 5e-3
    assert rigid_error(Isomap(n_neighbors=10).fit_transform(roll.X), roll.truth) > 1e-2
    assert model.certificate_.optimal
    assert model.error_certificate_.optimal
    assert model.stretch_ == -model.certificate_.objective
    # No unfolding is longer: the true one is a stretch within the bands, up to what charts of arcs miss.
    truth = {"stretch": model.stretch_, "bound": -model.certificate_.bound}
    rows, columns = np.triu_indices(700, 1)
    beside = np.zeros((700, 700), dtype=bool)
    beside[model.graph_.rows(), model.graph_.indices] = True
    pairs = (model.labels_[rows] != model.labels_[columns]) & ~beside[rows, columns]
    ratios = (pdist(roll.truth) / pdist(roll.X))[pairs] ** 2
    assert truth["stretch"] == pytest.approx(ratios.mean(), rel=3e-2)
    assert truth["bound"] <= truth["stretch"] * (1 + 1e-3)
    assert int(model.suggest_n_components()) == 2


@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_the_gap_asked_for_is_reached(tol):
    model = TesseraMap(n_patches=12, tol=tol).fit(datasets.swiss_roll(400, hole=True, random_state=5).X)
    assert model.certificate_.tol == model.error_certificate_.tol == tol
    assert model.certificate_.violation <= Certificate.MAX_VIOLATION
    assert 0 <= model.certificate_.bound / model.certificate_.objective - 1 <= tol
    assert model.certificate_.optimal


def failures(n_points, hole, seeds):
    """Return the seeds of rolls that are not unfolded: a fold or a tear moves a tenth of the points or more."""
    found = []
    for seed in seeds:
        roll = datasets.swiss_roll(n_points, hole=hole, random_state=seed)
        error = procrustes(TesseraMap().fit_transform(roll.X), roll.truth).error
        if error > 0.05:
            found.append((seed, float(error)))
    return found


@pytest.mark.parametrize("hole", [False, True])
def test_small_rolls_unfold(hole):
    assert not failures(300, hole, range(500, 503))
    assert not failures(600, hole, range(500, 501))


@pytest.mark.heavy
@pytest.mark.parametrize("hole", [False, True])
@pytest.mark.parametrize("n_points", [300, 600])
def test_two_dozen_small_rolls_unfold(n_points, hole):
    assert not failures(n_points, hole, range(100, 124))


def test_edges_between_sheets_are_cut():
    """Of these 300 points 52 pairs of neighbors lie on two sheets: fitted once, with them, the roll stays rolled up."""
    roll = datasets.swiss_roll(300, random_state=100)
    once, often = TesseraMap(n_init=1).fit(roll.X), TesseraMap().fit(roll.X)
    assert procrustes(once.embedding_, roll.truth).error > 0.5
    assert procrustes(often.embedding_, roll.truth).error < 1e-2
    assert often.diagnostics_["cut_edges"] >= 52
    assert once.diagnostics_["cut_edges"] == 0
    assert len(once.diagnostics_["contradictions"]) == 1
    assert often.graph_.n_edges == once.graph_.n_edges - 2 * often.diagnostics_["cut_edges"]


def cone_sector(n_points, seed):
    """Return a sector of 288 degrees between the radii 1 and 6, bent to 320 degrees around a cone, and flat."""
    rng = np.random.default_rng(seed)
    radius, angle = np.sqrt(rng.uniform(1, 36, n_points)), np.deg2rad(288) * rng.uniform(size=n_points)
    flat = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    around = 0.9 * radius[:, None] * np.column_stack([np.cos(angle / 0.9), np.sin(angle / 0.9)])
    return np.column_stack([around, np.sqrt(1 - 0.9**2) * radius]), flat


def test_the_sector_of_a_cone_is_not_opened():
    """With r squared distances between tesserae and a slack of 1e-2 rigid errors are 0.035 and 0.091."""
    for seed in (11, 12):
        X, flat = cone_sector(600, seed)
        assert rigid_error(TesseraMap().fit_transform(X), flat) < 0.02


def test_a_noisy_roll_is_laid_flat_at_its_true_scale():
    """In all dimensions tesserae crumple: the layout projected from there is a tenth too short."""
    roll = datasets.swiss_roll(500, noise=0.4, random_state=1000)
    model = TesseraMap().fit(roll.X)
    assert model.diagnostics_["flattened"]
    assert model.spectrum_.values[2:].sum() == pytest.approx(0, abs=1e-9 * model.spectrum_.values.sum())
    assert rigid_error(model.embedding_, roll.truth) < 0.04
    # The certificate is of the stretch in all dimensions.
    assert model.certificate_.rank > 2
    assert model.certificate_.optimal
    assert "not the layout" in model.certificate_.claim
    assert "not of the layout" in model.error_certificate_.claim
    # The user reads first that the layout is not proven, then what is.
    advice = list(model.diagnostics_["advice"])
    proven = [advice.index(each.sentence) for each in (model.certificate_, model.error_certificate_)]
    assert advice.index(LAID_FLAT) < min(proven)
    clean = TesseraMap(n_init=1).fit(datasets.swiss_roll(500, random_state=1000).X)
    assert LAID_FLAT not in clean.diagnostics_["advice"]


def test_a_surface_that_is_not_developable_is_reported():
    rng = np.random.default_rng(1)
    u, v = rng.uniform(0.3, 2, 300), rng.uniform(0, 4, 300)
    with pytest.warns(EmbeddingWarning, match="not unfolded"):
        TesseraMap(n_init=2).fit(np.column_stack([u * np.cos(v), u * np.sin(v), v]))


def test_one_tessera_is_called_pca_and_nothing_is_proven():
    X = np.random.default_rng(0).normal(size=(60, 3)) * [3.0, 2.0, 0.5]
    model = TesseraMap(n_patches=1).fit(X)
    assert model.n_patches_ == 1
    assert any("PCA" in word for word in model.diagnostics_["advice"])
    assert not any("roven" in word for word in model.diagnostics_["advice"])
    assert not hasattr(model, "certificate_")
    assert np.isnan(model.stretch_)


def test_one_tessera_is_isomap_where_that_keeps_neighbors_better():
    X = datasets.load("digits").X[:500]
    X = X + np.random.default_rng(0).normal(0, 0.01, X.shape)  # no two distances are equal
    model = TesseraMap().fit(X)
    assert (model.n_patches_, model.diagnostics_["layout"]) == (1, "Isomap")
    # The same geodesic distances, scaled in another order of sums and in another unit.
    assert rigid_error(model.embedding_, Isomap().fit_transform(X)) < 1e-10
    assert any("so the layout is that of Isomap" in word for word in problems(model))
    assert not any("flat enough" in word for word in model.diagnostics_["advice"])
    assert not any("roven" in word for word in model.diagnostics_["advice"])
    assert not hasattr(model, "certificate_")


def test_new_points_of_a_roll_go_to_their_places():
    roll, new = datasets.swiss_roll(800), datasets.swiss_roll(300, random_state=1)
    model = TesseraMap(n_patches=20).fit(roll.X)
    fit = procrustes(model.embedding_, roll.truth)
    both = np.concatenate([model.embedding_, model.transform(new.X)])
    truth = np.concatenate([roll.truth, new.truth])
    assert float(fit.error) < 2.5e-5
    assert rigid_error(both, truth) < 1e-2


def test_single_points_keep_the_edges_of_the_graph():
    line = (np.arange(40) + np.random.default_rng(3).uniform(0, 0.2, 40)) / 40
    X = np.column_stack([np.cos(3 * line), np.sin(3 * line)])
    model = TesseraMap(n_components=1, clustering="none", n_neighbors=2, max_rank=2).fit(X)
    assert model.n_patches_ == 40
    rows, columns = model.graph_.rows(), model.graph_.indices
    kept = np.abs(model.embedding_[rows, 0] - model.embedding_[columns, 0]) / model.graph_.lengths
    # Chords over one and over two steps contradict each other on a line by the square of the angle.
    assert np.abs(kept - 1).max() < 0.02
    assert abs(np.corrcoef(model.embedding_[:, 0], line)[0, 1]) > 0.9999


def test_the_embedding_does_not_depend_on_the_kernel():
    X = datasets.s_curve(100).X
    models = {kernel: TesseraMap(n_patches=3, kernel=kernel, n_init=1).fit(X) for kernel in ("rbf", "linear", "poly")}
    for model in models.values():
        assert np.array_equal(model.embedding_, models["rbf"].embedding_)
    # A narrow enough Gaussian matrix has full rank, the others span few functions, the cubic ones all linear ones.
    narrow = TesseraMap(n_patches=3, gamma=11.0, reg=0.0, n_init=1).fit(X)
    assert narrow.map_error_ < 1e-8
    np.testing.assert_allclose(narrow.transform(X), narrow.embedding_, atol=1e-7)
    assert models["linear"].map_error_ > models["poly"].map_error_ > 1e-3


def test_an_automatic_regularization_maps_new_points_of_a_noisy_surface_better():
    old, new = (datasets.s_curve(300, noise=0.05, random_state=seed) for seed in (21, 22))
    auto, fixed = (TesseraMap(n_init=1, reg=reg).fit(old.X) for reg in ("auto", 1e-10))
    np.testing.assert_array_equal(auto.embedding_, fixed.embedding_)
    assert auto.diagnostics_["reg"] > 1e-8
    assert fixed.diagnostics_["reg"] == 1e-10
    errors = [procrustes(model.transform(new.X), new.truth).error for model in (auto, fixed)]
    assert errors[0] < 0.8 * errors[1]


def test_a_function_serves_as_kernel():
    X = datasets.s_curve(60).X
    middle = X.mean(axis=0)
    cubic = TesseraMap(n_patches=2, kernel=lambda A, B: ((A - middle) @ (B - middle).T + 1) ** 3).fit(X)
    named = TesseraMap(n_patches=2, kernel="poly", degree=3).fit(X)
    # The regularization of 1e-10 leaves weights of 1e5 at most, times rounding.
    np.testing.assert_allclose(cubic.transform(X[:9]), named.transform(X[:9]), atol=1e-9)


def test_a_map_by_polynomials_does_not_mind_where_the_origin_is():
    X = datasets.s_curve(60).X
    here, there = (TesseraMap(n_patches=2, kernel="poly").fit(X + shift) for shift in (0.0, 1000.0))
    # A shift of 1000 rounds points by 1e-13; the solver and the weights of the map magnify that.
    assert rigid_error(there.transform(X + 1000.0), here.transform(X)) < 1e-4


def test_given_patches_are_taken_as_they_are():
    sheet = np.random.default_rng(4).uniform(size=(400, 2)) * [4.0, 1.0]
    names = np.array(["a", "b", "c", "d"])[sheet[:, 0].astype(int)]
    model = TesseraMap(patches=names).fit(tilted(sheet, 5))
    assert model.labels_.tolist() == sheet[:, 0].astype(int).tolist()
    fitted = TesseraMap(clustering=KMeans(n_clusters=6, n_init=1, random_state=0)).fit(tilted(sheet, 5))
    assert fitted.n_patches_ >= 6
    assert rigid_error(fitted.embedding_, sheet) < 5e-3


def test_more_border_pairs_never_stretch_further():
    X = datasets.swiss_roll(150).X
    loose, tight = (TesseraMap(n_patches=6, n_border_pairs=count).fit(X) for count in (1, 8))
    assert loose.stretch_ > tight.stretch_


def test_tesserae_may_have_more_dimensions_than_the_embedding():
    """Solid tesserae of a cloud stay rigid in three dimensions: the spectrum has them, the embedding the first two."""
    X = np.random.default_rng(7).uniform(size=(300, 3)) * [3.0, 2.0, 1.0]
    model = TesseraMap(n_components=2, patch_components=3, n_patches=6).fit(X)
    wide = model.spectrum_.scaled(0.5)
    for label in range(model.n_patches_):
        mine = model.labels_ == label
        np.testing.assert_allclose(pdist(wide[mine]), pdist(X[mine]), rtol=1e-9)


def test_components_apart_have_each_a_map():
    sheet = np.random.default_rng(5).uniform(size=(100, 2))
    X = np.concatenate([tilted(sheet, 3), tilted(sheet, 3) + 100.0])
    model = TesseraMap(disconnected="apart").fit(X)
    # Both halves are the same points; their sides do not overlap.
    assert model.embedding_[:100, 0].max() < model.embedding_[100:, 0].min()
    assert rigid_error(model.embedding_[:100], sheet) < 5e-3
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-3)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"n_patches": 0}, "n_patches must be an integer of at least 1 or 'auto'"),
        ({"n_patches": 31}, "n_patches must be between 1 and 30"),
        ({"n_patches": "many"}, "n_patches must be"),
        ({"clustering": 3}, "clustering must be"),
        ({"clustering": "spectral"}, "clustering must be 'kmeans', 'none' or an estimator with fit_predict"),
        ({"clustering": object()}, "an estimator with fit_predict"),
        ({"patches": [0, 1]}, "patches must be 30 labels"),
        ({"patches": np.zeros(30), "disconnected": "apart"}, "one connected graph"),
        ({"patch_components": 0}, "patch_components must be"),
        ({"chart": "round"}, "chart must be one of"),
        ({"n_border_pairs": 0}, "n_border_pairs must be"),
        ({"n_pairs": 0}, "n_pairs must be"),
        ({"n_init": 0}, "n_init must be"),
        ({"slack": 0.0}, "slack must be"),
        ({"tol": 0.0}, "tol must be"),
        ({"max_rank": 1}, "max_rank must be at least 2"),
        ({"max_rank": 2, "patch_components": 3}, "max_rank must be at least 3"),
        ({"kernel": "cosinus"}, "kernel must be 'rbf', 'linear', 'poly' or a function"),
        ({"gamma": -1.0}, "gamma must be a number above 0, 'auto' or None"),
        ({"degree": 0}, "degree must be"),
        ({"n_landmarks": 2}, "n_landmarks must be"),
        ({"reg": -1.0}, "reg must be"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(settings, match):
    with pytest.raises(ValueError, match=match):
        TesseraMap(**settings).fit(np.random.default_rng(6).uniform(size=(30, 3)))


@pytest.mark.parametrize("far", [1e9, 1e12])
def test_a_row_out_of_reach_of_double_precision_is_refused_in_a_sentence(far):
    X = np.random.default_rng(0).normal(size=(40, 5))
    X[3, 2] = far
    with pytest.raises(ValueError, match=r"times their median: .* Check X for wrong entries"):
        TesseraMap().fit(X)


@pytest.mark.parametrize(
    ("old", "new"),
    [("n_clusters", "n_patches"), ("tesserae", "patches"), ("ridge", "reg"), ("sigma", "gamma"), ("gap", "tol")],
)
def test_former_words_are_answered_with_the_present_ones(old, new):
    with pytest.raises(TypeError, match=f"no parameter '{old}'; here it is '{new}'"):
        TesseraMap(**{old: 1})


@pytest.fixture(scope="module")
def roll_in_tesserae():
    return TesseraMap(n_patches=12).fit(datasets.swiss_roll(400).X)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e9])
def test_the_unit_of_the_data_is_that_of_the_layout(scale, roll_in_tesserae):
    one, other = roll_in_tesserae, TesseraMap(n_patches=12).fit(scale * datasets.swiss_roll(400).X)
    # Squared distances across borders are kept to the slack, 1e-2, and rounding decides where in it they end.
    assert rigid_error(other.embedding_ / scale, one.embedding_) < 5e-3
    assert np.isclose(other.stretch_, one.stretch_, rtol=1e-2)
    assert other.certificate_.optimal == one.certificate_.optimal
    # How far below the tolerance the gap is depends on rounding too.
    said = [[word for word in model.diagnostics_["advice"] if "roven" not in word] for model in (one, other)]
    assert said[0] == said[1]


def test_tesserae_have_the_dimension_of_the_data_or_are_one():
    X = np.random.default_rng(0).normal(size=(300, 5)) * [3.0, 2.0, 1.0, 1.0, 1.0]
    model = TesseraMap().fit(X)
    assert int(model.suggest_n_components()) == model.diagnostics_["patch_components"]
    principal = X - X.mean(axis=0)
    principal = principal @ np.linalg.svd(principal, full_matrices=False)[2][:2].T
    kept = trustworthiness(X, model.embedding_)
    assert kept > trustworthiness(X, principal) - 1e-9
    assert int(TesseraMap(n_components=3).fit(X).suggest_n_components()) == int(model.suggest_n_components())
