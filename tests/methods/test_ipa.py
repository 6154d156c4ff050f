"""Isometric patch alignment against what is known on paper."""

import numpy as np
import pytest
import scipy.sparse as sp

import manifoldry
from helpers import problems, rigid_error, tilted
from manifoldry import IPA, PCA, Isomap, datasets, metrics
from manifoldry._numerics.patches import charts as geodesic
from manifoldry._numerics.patches.layout import MIN_ISOMAP_GAIN
from surfaces import cut_cone, helicoid


def test_a_flat_sheet_comes_back_to_rounding():
    flat = np.random.default_rng(1).uniform(size=(400, 2)) * [3.0, 1.0]
    ipa = IPA(n_patches=12).fit(tilted(flat, 5))
    assert ipa.n_patches_ >= 12
    assert rigid_error(ipa.embedding_, flat) < 1e-10
    assert ipa.certificate_.optimal
    assert ipa.certificate_.rank == 2
    assert ipa.disagreement_.max() < 1e-10
    assert np.abs(ipa.distortion_).max() < 1e-9


def test_a_holed_roll_unfolds_at_its_true_scale():
    roll = datasets.swiss_roll(2000, hole=True)
    ipa = IPA().fit(roll.X)
    # Charts are isometric to fourth order: with 64 patches of radius 3 on a bend of radius 5 and more, (3/5)^4 / 24 in
    # the worst patch and a tenth of it on the whole.
    assert rigid_error(ipa.embedding_, roll.truth) < 1e-3
    assert ipa.certificate_.optimal
    # The dual's rounding, at most 1e-11 of its scale at each of 128 frame rows, is 1e-5 of this objective.
    assert ipa.certificate_.gap < 1e-5
    assert problems(ipa) == ()


def test_arcs_instead_of_chords():
    roll = datasets.swiss_roll(3000)
    errors = {
        chart: rigid_error(IPA(n_patches=64, chart=chart).fit_transform(roll.X), roll.truth)
        for chart in ("flat", "curved")
    }
    assert errors["curved"] < 0.1 * errors["flat"]


def test_a_star_needs_two_dimensions():
    """Four twisted strips: maximum variance would use three dimensions, stitched patches lie in two."""
    star = datasets.star(1000)
    spectrum = IPA().fit(star.X).spectrum_.values
    assert spectrum[2:].sum() < 1e-3 * spectrum.sum()


def test_a_ring_of_segments_closes_in_the_plane():
    angle = np.linspace(0, 2 * np.pi, 300, endpoint=False)
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    ipa = IPA(n_components=1, n_patches=12).fit(ring)
    assert ipa.certificate_.optimal
    assert ipa.certificate_.rank == 2
    # The curve has one dimension, as measured: what is larger is only the space in which it closes.
    assert any("curve is a closed loop" in sentence for sentence in ipa.diagnostics_["advice"])


def test_uneven_sampling_leaves_the_shape():
    """With a ninth of the points in one half the error of equal patches grows with the thinner charts, not ninefold."""
    errors = []
    for density in (1.0, 9.0):
        sets = [datasets.s_curve(1500, unevenness=density, random_state=seed) for seed in range(5)]
        found = [
            rigid_error(IPA(n_patches=16, random_state=seed).fit_transform(data.X), data.truth)
            for seed, data in enumerate(sets)
        ]
        errors.append(np.median(found))
    assert errors[1] < 2 * errors[0]


def test_round_trip_error_is_the_residual_of_the_charts():
    rng = np.random.default_rng(2)
    flat = rng.uniform(size=(3000, 2)) * [4.0, 2.0]
    sigma = 0.01
    X = np.column_stack([flat, sigma * rng.standard_normal(3000)])
    ipa = IPA(n_patches=20, chart="flat").fit(X)
    back = ipa.inverse_transform(ipa.embedding_)
    off = np.sqrt(np.mean(np.sum((back - X) ** 2, axis=1)))
    # What is left out is the noise across the sheet; charts fitted to 200 points tilt by sigma/(radius sqrt(200)), and
    # the blend of two charts errs by less than either.
    assert off == pytest.approx(sigma, rel=0.05)


def test_new_points_go_where_the_surface_says():
    roll = datasets.swiss_roll(4000, hole=True)
    ipa = IPA().fit(roll.X[:3000])
    placed = ipa.transform(roll.X[3000:])
    both = np.vstack([ipa.embedding_, placed])
    assert rigid_error(both, roll.truth) < 1.5 * rigid_error(ipa.embedding_, roll.truth[:3000]) + 1e-4


def test_two_sheets_far_apart_are_laid_side_by_side():
    rng = np.random.default_rng(3)
    left, right = rng.uniform(size=(200, 2)), rng.uniform(size=(150, 2))
    X = np.vstack([tilted(left, 3), tilted(right, 3, seed=4) + 100.0])
    ipa = IPA().fit(X)
    assert ipa.diagnostics_["components"] == 2
    assert rigid_error(ipa.embedding_[:200], left) < 1e-9
    assert rigid_error(ipa.embedding_[200:], right) < 1e-9
    assert ipa.embedding_[:200, 0].max() < ipa.embedding_[200:, 0].min() or (
        ipa.embedding_[200:, 0].max() < ipa.embedding_[:200, 0].min()
    )
    with pytest.raises(ValueError, match="has 2 connected components"):
        IPA(disconnected="raise").fit(X)


def test_given_labels_and_given_members():
    flat = np.random.default_rng(5).uniform(size=(300, 2)) * [3.0, 1.0]
    X = tilted(flat, 3)
    labels = np.floor(flat[:, 0] * 2).astype(int)
    assert rigid_error(IPA(patches=labels).fit_transform(X), flat) < 1e-9
    members = [np.flatnonzero(np.abs(flat[:, 0] - middle) < 0.4) for middle in (0.3, 0.9, 1.5, 2.1, 2.7)]
    assert rigid_error(IPA(patches=members).fit_transform(X), flat) < 1e-9
    with pytest.raises(ValueError, match="at least once"):
        IPA(patches=members[:-1]).fit(X)


def test_any_clustering_serves():
    roll = datasets.swiss_roll(1500, random_state=1)
    clustering = manifoldry.LDLC(n_clusters=60, n_components=2, n_neighbors=8, rho=0.1, n_init=2)
    ipa = IPA(clustering=clustering).fit(roll.X)
    # LDLC's clusters grow by rings of neighbors, wider than cells do, so the charts bend more.
    assert rigid_error(ipa.embedding_, roll.truth) < 0.01


def test_patches_may_choose_their_dimension():
    """A line that ends in a square: patches of one and of two dimensions."""
    rng = np.random.default_rng(6)
    line = np.column_stack([np.linspace(-3, 0, 200), np.zeros(200)])
    square = rng.uniform(size=(400, 2)) * [1.0, 1.0] - [0.0, 0.5]
    flat = np.vstack([line, square])
    ipa = IPA(n_patches=20, patch_components="auto").fit(tilted(flat, 3))
    assert set(ipa.patches_.charts.sizes) == {1, 2}
    assert np.abs(ipa.distortion_[np.isfinite(ipa.distortion_)]).max() < 1e-6


def test_the_mean_of_the_patches_is_the_papers_rule():
    roll = datasets.swiss_roll(1000, random_state=2)
    ipa = IPA(n_patches=40, blend="mean").fit(roll.X)
    members = ipa.patches_.members
    assert (members.weights == 1).all()
    assert rigid_error(ipa.embedding_, roll.truth) < 0.01


def test_advice_on_patches_that_are_not_flat():
    digits = datasets.load("digits")
    ipa = IPA(n_patches=10).fit(digits.X[:600])
    # More patches would not make them flat: digits have more dimensions.
    assert ipa.diagnostics_["advice"][0].startswith("The data is about ")
    assert not any("more patches" in sentence for sentence in ipa.diagnostics_["advice"])


def test_one_patch_of_all_points_is_isomap_where_that_keeps_neighbors_better():
    X = datasets.load("digits").X[:700]
    ipa, isomap = IPA().fit(X), Isomap().fit(X)
    # The same geodesic distances, scaled in another order of sums.
    assert rigid_error(ipa.embedding_, isomap.embedding_) < 1e-10
    kept, linear = (metrics.trustworthiness(X, Y) for Y in (ipa.embedding_, PCA().fit_transform(X)))
    assert kept >= linear + MIN_ISOMAP_GAIN
    assert (ipa.n_patches_, ipa.diagnostics_["layout"]) == (1, "Isomap")
    assert problems(ipa)[0].startswith("The data is about ")
    assert any("so the layout is that of Isomap" in found for found in problems(ipa))
    assert not hasattr(ipa, "certificate_")
    assert not any("roven" in sentence for sentence in ipa.diagnostics_["advice"])
    # Points that were laid out go exactly to their coordinates and back.
    np.testing.assert_array_equal(ipa.transform(X[:50]), ipa.embedding_[:50])
    assert np.allclose(ipa.inverse_transform(ipa.embedding_[:50]), X[:50], rtol=0, atol=1e-9)


def test_isomap_of_some_points_places_the_others_and_new_ones_alike(monkeypatch, tmp_path):
    monkeypatch.setattr(geodesic, "MAX_WHOLE_POINTS", 350)
    monkeypatch.setattr(geodesic, "MAX_MAPPED_ENTRIES", 100)
    X = datasets.load("digits").X[:900]
    one, two = (IPA(n_jobs=n).fit(X[:700]) for n in (1, 2))
    assert one.diagnostics_["layout"] == "Isomap"
    assert len(one.patches_.charts.inward[0].target) == 350
    np.testing.assert_array_equal(one.embedding_, two.embedding_)
    np.testing.assert_array_equal(one.transform(X), two.transform(X))
    # The chart is turned to the principal axes of all points: two products of two terms per coordinate.
    error = 8 * np.finfo(float).eps * np.abs(one.embedding_).max()
    np.testing.assert_allclose(one.transform(X[:700]), one.embedding_, rtol=0, atol=error)
    assert metrics.trustworthiness(X, one.transform(X)) > metrics.trustworthiness(X, PCA().fit_transform(X))
    one.save(tmp_path / "model.mfy")
    again = manifoldry.load(tmp_path / "model.mfy")
    np.testing.assert_array_equal(again.transform(X), one.transform(X))
    np.testing.assert_array_equal(again.inverse_transform(one.embedding_), one.inverse_transform(one.embedding_))


def test_no_method_of_all_points_replaces_patches_that_are_asked_for():
    X, y = datasets.load("digits").X[:500], datasets.load("digits").labels[:500]
    for ipa in (IPA(n_patches=8).fit(X), IPA(patch_components=2).fit(X), IPA(target_weight=0.5).fit(X, y)):
        assert ipa.diagnostics_["layout"] == "patches"
        assert not any("so the layout is that of" in found for found in problems(ipa))


def test_patches_have_the_dimension_of_the_data_where_that_keeps_neighbors_better():
    """A roll of three dimensions in five, the third of them short: three flat charts unroll it, two cannot hold it."""
    rng = np.random.default_rng(0)
    roll = datasets.swiss_roll(1500, random_state=1)
    X = np.column_stack([roll.X, rng.uniform(-4, 4, 1500)])
    ipa = IPA().fit(X)
    assert ipa.diagnostics_["patch_components"] == 3
    assert int(ipa.suggest_n_components()) == 3
    assert metrics.trustworthiness(X, ipa.embedding_) > 0.94


@pytest.mark.parametrize("scale", [1e-12, 1e-9, 1e6, 1e9])
def test_the_unit_of_the_data_is_that_of_the_layout(scale):
    X = datasets.swiss_roll(1000, hole=True).X
    one, other = IPA().fit(X), IPA().fit(scale * X)
    assert rigid_error(other.embedding_ / scale, one.embedding_) < 1e-9
    assert other.certificate_.optimal
    # The descent ends where its objective does not fall any more, so a gap is that of the root of the rounding.
    assert np.isclose(other.certificate_.gap, one.certificate_.gap, rtol=0, atol=10 * np.sqrt(np.finfo(float).eps))
    assert problems(other) == problems(one)


def test_sparse_rows_are_placed_like_dense_ones():
    X = datasets.swiss_roll(400).X
    dense, thin = IPA().fit(X), IPA().fit(sp.csr_array(X))
    assert np.allclose(thin.transform(sp.csr_array(X[:30])), dense.transform(X[:30]), atol=1e-9)
    assert np.allclose(dense.transform(sp.csr_array(X[:30])), dense.transform(X[:30]), rtol=0, atol=0)


def test_suggestions_do_not_depend_on_what_was_asked():
    X = datasets.load("digits").X[:800]
    found = [int(IPA(n_components=r, n_patches=8).fit(X).suggest_n_components()) for r in (2, 4, 8)]
    assert len(set(found)) == 1


def test_the_dimension_of_the_surface_is_suggested():
    roll = datasets.swiss_roll(2000)
    assert int(IPA(n_components=3).fit(roll.X).suggest_n_components()) == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_patches": 0}, "n_patches must be"),
        ({"n_patches": 30}, "n_patches must be"),
        ({"n_patches": "many"}, "n_patches must be"),
        ({"chart": "round"}, "chart must be one of"),
        ({"blend": "hard"}, "blend must be one of"),
        ({"overlap": 0.0}, "overlap must be"),
        ({"clustering": 3}, "clustering must be"),
        ({"patch_components": 0}, "patch_components must be"),
        ({"patches": [[0, 1], [2, 3]]}, "patches must"),
    ],
)
def test_bad_words_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        IPA(**settings).fit(np.random.default_rng(7).standard_normal((60, 3)))


FEW_ROLLS = (0, 10, 17, 21)
SMALL_ROLLS = [
    pytest.param(n, seed, marks=() if n == 300 and seed in FEW_ROLLS else pytest.mark.heavy)
    for n in (300, 600)
    for seed in range(24)
]


@pytest.mark.parametrize(("n", "seed"), SMALL_ROLLS)
def test_rolls_of_few_points_unfold(n, seed):
    """Neighbors are joined across layers; a fit as the graph stands folds two of three rolls of 300 points.

    A fold puts a tenth of the variance at the wrong place; unfolded rolls are at 1e-3 and below.
    """
    roll = datasets.swiss_roll(n, random_state=seed)
    assert rigid_error(IPA().fit_transform(roll.X), roll.truth) ** 2 < 0.05


def test_a_proven_placement_of_a_folded_surface_is_called_that():
    roll = datasets.swiss_roll(300, random_state=4)
    ipa = IPA(n_init=1, random_state=0).fit(roll.X)
    assert ipa.certificate_.optimal
    assert rigid_error(ipa.embedding_, roll.truth) > 0.5
    assert any("placement of these patches is proven" in found and "not unfolded" in found for found in problems(ipa))
    assert ipa.graph_.n_edges > IPA(random_state=0).fit(roll.X).graph_.n_edges  # what is cut is a short circuit
    assert not any("not unfolded" in found for found in problems(IPA(random_state=0).fit(roll.X)))


def test_points_that_are_each_others_neighbors_stay_in_their_place():
    """Eight points of a sheet have no neighbors but themselves: they were laid beside it, as a piece of their own."""
    rng = np.random.default_rng(0)
    sheet = rng.uniform(size=(2000, 2))
    away = np.linalg.norm(sheet - 0.5, axis=1)
    flat = np.concatenate([sheet[away > 0.05], 0.5 + 0.004 * rng.uniform(-1, 1, size=(8, 2))])
    ipa = IPA(n_patches=60).fit(tilted(flat, 3))
    assert ipa.diagnostics_["components"] == 1
    assert rigid_error(ipa.embedding_, flat) < 1e-9


def test_patches_given_hardly_any_overlap_are_widened_until_they_hold():
    flat = np.random.default_rng(2).uniform(size=(900, 2)) * [2.0, 1.0]
    ipa = IPA(n_patches=90, overlap=0.02).fit(tilted(flat, 3))
    assert ipa.diagnostics_["components"] == 1
    assert rigid_error(ipa.embedding_, flat) < 1e-9


@pytest.mark.parametrize("seed", [1, 3])
def test_patches_that_disagree_are_sought_again_or_said(seed):
    """Neighbors are joined across the cut of a cone: the first patches of both are bent, and hardly contradicted."""
    X, flat = cut_cone(600, seed)
    ipa = IPA().fit(X)
    assert len(ipa.diagnostics_["contradictions"]) > 1
    wrong = rigid_error(ipa.embedding_, flat) > 0.1
    assert any("do not agree with each other" in found for found in problems(ipa)) == wrong


def test_a_surface_that_is_curved_in_every_direction_is_said():
    assert any("do not agree" in found or "not unfolded" in found for found in problems(IPA().fit(helicoid(600, 0))))


def test_one_patch_is_said_to_be_pca_and_proves_nothing():
    """The only cloud whose neighbors no division keeps better, nor any paths: as wide in every direction."""
    X = np.random.default_rng(0).normal(size=(300, 10))
    ipa = IPA().fit(X)
    assert ipa.diagnostics_["layout"] == "PCA"
    assert ipa.n_patches_ == 1
    scores = PCA(n_components=2).fit_transform(X)
    # Distances are those of the scores, but for rounding of sums of 300 products.
    assert rigid_error(ipa.embedding_, scores) < 300 * np.finfo(float).eps
    assert any("so the layout is that of PCA" in found for found in problems(ipa))
    assert not hasattr(ipa, "certificate_")
    assert not any("roven" in sentence for sentence in ipa.diagnostics_["advice"])
