import inspect

import numpy as np
import pytest
from scipy.spatial import KDTree
from scipy.spatial.distance import pdist

from manifoldry import datasets
from manifoldry.data.datasets import GENERATORS

EPS = np.finfo(float).eps
CURVED = {"twin_peaks", "torus", "sphere", "half_globe", "fishbowl", "gaussian_clusters"}


def archimedean_curvature(t):
    return (2 + t**2) / (1 + t**2) ** 1.5


def roll_length():
    s = [0.5 * (t * np.hypot(1, t) + np.arcsinh(t)) for t in (1.5 * np.pi, 4.5 * np.pi)]
    return s[1] - s[0]


HELIX_RISE = 1 / (2 * np.pi)
STAR_RADIUS = 4 * np.sqrt(0.5) / (1.5 * np.pi)

# The middle of the first coordinate, halving the area.
MIDDLE = {
    "swiss_roll": roll_length() / 2,
    "s_curve": 1.5 * np.pi,
    "spiral": (4 * np.pi * np.hypot(1, 4 * np.pi) + np.arcsinh(4 * np.pi)) / 4,
    "helix": 4 * np.pi * np.hypot(1, HELIX_RISE),
    "torus": np.pi,
    "cylinder": 0.75 * np.pi,
    "gaussian_clusters": 2.5,
} | dict.fromkeys(["v_shape", "dual_spiral", "twin_peaks", "star", "sphere", "half_globe", "fishbowl", "open_box"], 0.0)

# The greatest curvature of a geodesic in space, and the angle of the fold, of each flat generator.
CURVATURE = {
    "swiss_roll": archimedean_curvature(1.5 * np.pi),
    "s_curve": 1.0,
    "dual_spiral": archimedean_curvature(np.pi) / 0.1,
    "star": 1 / STAR_RADIUS,
    "wave": 2.0,
    "spiral": 2.0,
    "helix": 1 / (1 + HELIX_RISE**2),
    "cylinder": 1.0,
}
FOLD = {"v_shape": np.pi / 4, "open_box": np.pi / 2}


def near_pairs(data):
    """Chords and true distances of each point and its eight nearest in the truth, and their ends."""
    distance, neighbor = KDTree(data.truth).query(data.truth, k=9)
    chord = np.linalg.norm(data.X[:, None] - data.X[neighbor], axis=2)
    return chord[:, 1:], distance[:, 1:], neighbor[:, 1:]


def rounding(data):
    # A coordinate carries a few roundings of its size; turning arc length into a point, a few more.
    return 64 * EPS * max(np.abs(data.X).max(), np.abs(data.truth).max())


def test_the_table_holds_every_public_generator():
    assert set(GENERATORS) == set(datasets.__all__) - {"GENERATORS", "Dataset", "available", "load"}
    assert all(getattr(datasets, name) is generator for name, generator in GENERATORS.items())
    assert set(CURVATURE) | set(FOLD) | CURVED == set(GENERATORS)


@pytest.mark.parametrize("name", GENERATORS)
def test_common_words_have_common_defaults(name):
    parameters = inspect.signature(GENERATORS[name]).parameters
    for word, default in {"n": 1000, "noise": 0.0, "unevenness": 1.0, "random_state": 0}.items():
        assert parameters[word].default == default


@pytest.mark.parametrize("n", [1, 2, 777])
@pytest.mark.parametrize("name", GENERATORS)
def test_exactly_n_finite_rows(name, n):
    data = GENERATORS[name](n, noise=0.1, unevenness=2.0, random_state=1)
    assert len(data.X) == n
    assert data.name == name
    for part in (data.X, data.truth, data.parameters):
        assert part is None or (part.dtype == np.float64 and np.isfinite(part).all())
    if data.truth is not None:
        assert data.truth.shape == (n, data.intrinsic_dim)
    assert len(data.color) == n


@pytest.mark.parametrize("name", GENERATORS)
def test_a_seed_fixes_every_bit_and_another_changes_them(name):
    first, again, other = (GENERATORS[name](50, noise=0.1, random_state=seed) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.color, again.color)
    assert (first.X != other.X).all()


def test_a_generator_as_random_state_moves_on():
    rng = np.random.default_rng(9)
    assert (datasets.sphere(20, random_state=rng).X != datasets.sphere(20, random_state=rng).X).all()


@pytest.mark.parametrize("name", GENERATORS)
def test_noise_has_the_asked_deviation_and_leaves_the_truth(name):
    clean, noisy = (GENERATORS[name](4000, noise=noise, random_state=2) for noise in (0.0, 0.3))
    np.testing.assert_array_equal(clean.color, noisy.color)
    error = noisy.X - clean.X
    # Five standard errors of a mean and of a standard deviation.
    assert (np.abs(error.mean(axis=0)) < 5 * 0.3 / np.sqrt(4000)).all()
    assert (np.abs(error.std(axis=0) - 0.3) < 5 * 0.3 / np.sqrt(2 * 4000)).all()


@pytest.mark.parametrize("ratio", [1.0, 9.0])
@pytest.mark.parametrize("name", GENERATORS)
def test_halves_are_sampled_in_the_asked_ratio(name, ratio):
    n = 20_000
    data = GENERATORS[name](n, unevenness=ratio, random_state=3)
    # The middle of three periods of the wave is known by its abscissa.
    lower = data.parameters[:, 0] < 3 * np.pi if name == "wave" else data.color < MIDDLE[name]
    dense = ratio / (1 + ratio)
    # Five standard deviations of the binomial law.
    assert abs(lower.sum() - n * dense) < 5 * np.sqrt(n * dense * (1 - dense))


@pytest.mark.parametrize("name", GENERATORS)
def test_truth_is_given_for_flat_manifolds_only(name):
    data = GENERATORS[name](10)
    assert data.isometric == (name not in CURVED)
    assert (data.parameters is None) == (name == "gaussian_clusters")


@pytest.mark.parametrize("name", CURVATURE)
def test_truth_is_isometric_up_to_the_curvature(name):
    data = GENERATORS[name](4000, random_state=4)
    chord, distance, _ = near_pairs(data)
    bend = (CURVATURE[name] * distance) ** 2 / 24
    assert np.median(bend) < 0.01
    # Schur's comparison: an arc of length d and curvature at most k spans a chord of at least
    # (2/k) sin(k d / 2), which is at least d (1 - (k d)^2 / 24); no chord is longer than its arc.
    assert (chord <= distance + rounding(data)).all()
    assert (chord >= distance * (1 - bend) - rounding(data)).all()


@pytest.mark.parametrize("name", FOLD)
def test_truth_is_isometric_on_faces_and_bounded_across_folds(name):
    data = GENERATORS[name](4000, random_state=5)
    chord, distance, neighbor = near_pairs(data)
    x = data.truth[:, 0]
    face = np.sign(x) if name == "v_shape" else np.clip(np.round(x), -1, 1)
    same = face[:, None] == face[neighbor]
    assert same.any()
    assert not same.all()
    np.testing.assert_allclose(chord[same], distance[same], rtol=0, atol=rounding(data))
    # Two sides a, b of a triangle with the angle f between them: the third is at least (a + b) sin(f / 2).
    assert (chord >= distance * np.sin(FOLD[name] / 2) - rounding(data)).all()
    assert (chord <= distance + rounding(data)).all()


@pytest.mark.parametrize("name", sorted({*CURVATURE, *FOLD} - {"star"}))
def test_no_chord_is_longer_than_the_geodesic(name):
    # Each of these domains, its hole filled, is convex, so the truth measures geodesics of all pairs.
    data = GENERATORS[name](400, random_state=6)
    assert (pdist(data.X) <= pdist(data.truth) + rounding(data)).all()


@pytest.mark.parametrize("word", ["n", "noise", "unevenness", "random_state"])
@pytest.mark.parametrize("name", GENERATORS)
def test_bad_options_are_refused_by_name(name, word):
    bad = {
        "n": (0, -3, 2.5, True, None),
        "noise": (-0.1, np.nan, np.inf),
        "unevenness": (0.5, np.nan, np.inf),
        "random_state": (-1, "seed"),
    }
    for value in bad[word]:
        with pytest.raises(ValueError, match=rf"^{word} must"):
            GENERATORS[name](**{word: value})


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("swiss_roll", {"height": 0.0}),
        ("swiss_roll", {"grid": True, "unevenness": 2.0}),
        ("half_globe", {"grid": True, "unevenness": 2.0}),
        ("v_shape", {"angle": 0.0}),
        ("v_shape", {"angle": 3.2}),
        ("star", {"length": 1.0}),
        ("star", {"width": -1.0}),
        ("star", {"twist": np.nan}),
        ("wave", {"amplitude": 0.0}),
        ("wave", {"periods": 0}),
        ("wave", {"periods": 1.5}),
        ("spiral", {"turns": 0.0}),
        ("helix", {"pitch": np.inf}),
        ("helix", {"turns": -1.0}),
        ("torus", {"tube": 2.0}),
        ("torus", {"radius": np.nan}),
        ("fishbowl", {"radius": 0.0}),
        ("open_box", {"walls": 3}),
        ("open_box", {"height": 0.0}),
        ("cylinder", {"angle": 6.3}),
        ("cylinder", {"height": 0.0}),
        ("gaussian_clusters", {"n_clusters": 0}),
        ("gaussian_clusters", {"n_features": 2.0}),
        ("gaussian_clusters", {"separation": 0.0}),
    ],
)
def test_impossible_shapes_are_refused_with_advice(name, options):
    with pytest.raises(ValueError, match=rf"{next(iter(options))}.* got "):
        GENERATORS[name](**options)
