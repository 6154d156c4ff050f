"""Data before a fit: what is wrong is found, and what is not wrong is not."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

import manifoldry
from helpers import distances_by_differences
from manifoldry import datasets, diagnose, dimension
from manifoldry.evaluation import diagnosis as checks
from manifoldry.methods._base._chunks import ChunkSupport
from surfaces import moebius, tube


def topics(found):
    return {finding.topic for finding in found}


def sheet(n=400, columns=5, seed=0):
    """Return a flat sheet in more columns: nothing is wrong with it."""
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(n, 2)) @ rng.normal(size=(2, columns))


# Short circuits, judged by the known coordinates: an edge between sheets is much shorter than the way along them.


@pytest.mark.parametrize(("n", "k", "noise"), [(400, 10, 0.0), (800, 25, 0.0), (1500, 30, 0.3)])
def test_short_circuits_are_those_that_the_known_coordinates_show(n, k, noise):
    roll = datasets.swiss_roll(n, noise=noise, random_state=1)
    found = diagnose(roll.X, n_neighbors=k)["short circuits"]
    assert found.severity == "problem"
    graph = manifoldry.Isomap(n_neighbors=k).fit(roll.X).graph_
    # Sheets are 2 pi apart, and a turn is 30 long or more.
    apart = np.linalg.norm(roll.truth[graph.rows()] - roll.truth[graph.indices], axis=1) > 20
    assert found.value == apart.sum() / 2
    # The advice is followed, and the finding is gone.
    fewer = int(found.advice.split("n_neighbors to ")[1])
    assert fewer < k
    assert diagnose(roll.X, n_neighbors=fewer)["short circuits"].severity == "fine"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_roll_of_enough_points_has_no_problem(seed, noise):
    assert diagnose(datasets.swiss_roll(1500, noise=noise, random_state=seed).X).problems == ()


@pytest.mark.parametrize("n", [300, 800, 2000])
def test_edges_that_close_a_ring_are_no_short_circuits(n):
    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, n)
    found = diagnose(np.column_stack([np.cos(angles), np.sin(angles)]))
    assert found["short circuits"].severity == "fine"
    assert "ring" in found["shape"].sentence


# Shape.


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("make", [datasets.sphere, datasets.torus])
@pytest.mark.parametrize("n", [400, 1500])
def test_closed_surfaces_are_called_closed(make, n, seed):
    found = diagnose(make(n, random_state=seed).X)
    assert topics(found.problems) == {"shape"}
    assert "closed" in found["shape"].sentence


@pytest.mark.parametrize("radius", [3.0, 5.0])
def test_a_thin_torus_is_closed_though_it_goes_around_one_long_loop(radius):
    rng = np.random.default_rng(7)
    around, over = 2 * np.pi * rng.random((2, 3000))
    kept = np.flatnonzero(rng.random(3000) * (radius + 1) < radius + np.cos(over))[:1000]  # evenly
    around, over = around[kept], over[kept]
    far = radius + np.cos(over)
    found = diagnose(np.stack([far * np.cos(around), far * np.sin(around), np.sin(over)], axis=1))
    assert topics(found.problems) == {"shape"}
    assert "closed, like a torus" in found["shape"].sentence


def test_a_torus_of_enough_points_is_told_from_a_sphere():
    assert "like a torus:" in diagnose(datasets.torus(1500, random_state=3).X)["shape"].sentence
    assert "sphere" in diagnose(datasets.sphere(1500, random_state=3).X)["shape"].sentence


@pytest.mark.parametrize("n", [400, 1500])
@pytest.mark.parametrize("make", [datasets.s_curve, datasets.half_globe, datasets.fishbowl, datasets.twin_peaks])
def test_open_surfaces_are_not_called_closed(make, n):
    found = diagnose(make(n, random_state=0).X)
    assert found["shape"].severity == "fine"
    assert found.problems == ()


@pytest.mark.parametrize("n", [700, 1500])
def test_tubes_and_holes_have_a_loop_and_are_not_closed(n):
    for X in (tube(n, 3.0, 0), datasets.swiss_roll(n, hole=True, random_state=1).X):
        found = diagnose(X)["shape"]
        assert found.severity == "note"
        assert "closed" not in found.sentence
        assert "loop" in found.sentence


@pytest.mark.parametrize("seed", range(2))
def test_a_moebius_strip_has_one_side(seed):
    found = diagnose(moebius(900, seed))["shape"]
    assert found.severity == "problem"
    assert "one side" in found.sentence


def test_pieces_that_are_rings_are_counted():
    angles = 2 * np.pi * np.arange(60) / 60
    ring = np.column_stack([np.cos(angles), np.sin(angles)])
    found = diagnose(np.vstack([ring, ring + 10, sheet(200, 2) + 30]), n_neighbors=6)
    assert found["shape"].value == 2
    assert found["components"].value == 3


# Dimension.


@pytest.mark.parametrize("d", [2, 5, 10])
def test_the_dimension_of_a_sheet_is_found(d):
    rng = np.random.default_rng(0)
    flat = rng.uniform(size=(1000, d)) @ np.linalg.qr(rng.normal(size=(30, 30)))[0][:d]
    found = diagnose(flat)["dimension"]
    assert abs(found.value - d) <= 1
    assert f"n_components={round(found.value)}" in found.advice


def test_parts_of_different_dimensions_are_told():
    rng = np.random.default_rng(0)
    line = np.column_stack([rng.uniform(-1, 0, 300), np.zeros((300, 2))])
    found = diagnose(np.vstack([line, rng.uniform(size=(600, 3))]))
    assert found["dimension by place"].severity == "note"
    assert diagnose(sheet())["dimension by place"].severity == "fine"


# The graph.


def test_two_components_and_the_number_of_neighbors_that_connects_them():
    rng = np.random.default_rng(0)
    near = np.vstack([rng.normal(size=(60, 2)), rng.normal([8, 0], size=(60, 2))])
    found = diagnose(near, n_neighbors=8)["components"]
    assert (found.severity, found.value) == ("problem", 2)
    enough = int(found.advice.split("n_neighbors to ")[1].split(",")[0])
    assert diagnose(near, n_neighbors=enough)["components"].value == 1
    assert diagnose(near, n_neighbors=enough - 1)["components"].value == 2


def test_far_clusters_are_to_be_treated_apart():
    rng = np.random.default_rng(0)
    far = np.vstack([rng.normal(size=(60, 2)), rng.normal([100, 0], size=(60, 2))])
    assert "apart" in diagnose(far)["components"].advice


def test_hubs_and_contrast_of_many_dimensions():
    found = diagnose(np.random.default_rng(0).normal(size=(600, 200)))
    assert found["hubs"].severity == "note"
    assert topics(found.problems) == {"contrast"}
    few = diagnose(np.random.default_rng(0).normal(size=(600, 3)))
    assert few["hubs"].severity == few["contrast"].severity == "fine"


def test_the_skewness_of_occurrences_is_that_of_its_definition():
    X = np.random.default_rng(0).normal(size=(120, 30))
    D = distances_by_differences(X)
    np.fill_diagonal(D, np.inf)
    counts = np.bincount(np.argsort(D, axis=1)[:, :10].ravel(), minlength=120)
    skewness = np.mean((counts - counts.mean()) ** 3) / counts.std() ** 3
    assert diagnose(X)["hubs"].value == pytest.approx(skewness)


def test_the_contrast_is_the_mean_distance_over_that_of_the_nearest():
    X = np.random.default_rng(0).normal(size=(120, 30))
    D = distances_by_differences(X)
    nearest = np.sort(D, axis=1)[:, 1]
    assert diagnose(X)["contrast"].value == pytest.approx(D.sum() / (120 * 119) / nearest.mean())


def test_uneven_density_is_told():
    rng = np.random.default_rng(0)
    both = np.vstack([rng.uniform(size=(300, 2)), rng.uniform(size=(300, 2)) * 20 + [1, 0]])
    assert diagnose(both)["density"].severity == "note"


def test_noise_of_the_size_of_neighbor_distances_is_told():
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, np.pi, 400)
    arc = np.column_stack([np.cos(angles), np.sin(angles)])
    assert diagnose(arc)["noise"].severity == "fine"
    assert diagnose(arc + rng.normal(scale=0.03, size=arc.shape))["noise"].severity == "note"


# Columns.


def test_wine_has_a_column_that_rules_and_scaled_wine_has_none():
    wine = load_wine(as_frame=True).data
    found = diagnose(wine)
    assert topics(found.problems) == {"scales"}
    assert "'proline'" in found["scales"].sentence
    variances = wine.var()
    assert found["scales"].value == pytest.approx(variances["proline"] / variances.sum())
    assert diagnose(StandardScaler().fit_transform(wine)).problems == ()


def test_an_id_a_counter_and_a_shuffled_id():
    X, rng = sheet(), np.random.default_rng(1)
    for column in (np.arange(400), rng.permutation(400) + 1000):
        found = diagnose(np.column_stack([X, column]))
        assert found["row numbers"].severity == "problem"
        assert "Column 5" in found["row numbers"].sentence
    stamps = np.cumsum(rng.uniform(1, 2, 400))
    assert diagnose(np.column_stack([X, stamps]))["row numbers"].severity == "note"
    assert diagnose(X)["row numbers"].severity == "fine"


def test_a_batch_that_shifts_all_columns_and_one_that_only_its_own_column_shows():
    X, batch = sheet(), np.tile([0.0, 1.0], 200)
    shifted = np.column_stack([X + 3 * batch[:, None], batch])
    assert diagnose(shifted)["batches"].severity == "note"
    alone = diagnose(np.column_stack([X, 100 * batch]))["batches"]
    assert alone.severity == "problem"
    assert diagnose(np.column_stack([100 * X, batch]))["batches"].severity == "fine"


def test_codes_of_categories_beside_measurements():
    codes = np.random.default_rng(1).integers(1, 6, 400)
    assert diagnose(np.column_stack([sheet(), codes]))["category codes"].severity == "note"
    assert diagnose(datasets.load("digits").X)["category codes"].severity == "fine"  # all columns are whole numbers


def test_placeholders_of_missing_values():
    X = sheet()
    X[[3, 70, 200], 2] = -999
    found = diagnose(X)["placeholders"]
    assert (found.severity, found.value) == ("problem", 3)
    many = np.arange(-999.0, 1.0, 2.5)[:400, None] + sheet()[:, :1]
    many[:2] = -999
    assert diagnose(np.hstack([many, sheet()]))["placeholders"].severity == "fine"  # a value among others


def test_counts_want_logarithms_and_pixels_do_not():
    rng = np.random.default_rng(0)
    table = rng.poisson(rng.lognormal(-1, 2, size=60) * rng.lognormal(0, 0.5, size=(300, 1))).astype(float)
    found = diagnose(table)
    assert found["counts"].severity == "problem"
    assert "scales" not in found
    assert diagnose(sp.csr_array(table))["counts"] == found["counts"]
    assert "counts" not in diagnose(datasets.load("digits").X)


def test_constant_columns():
    X = np.column_stack([sheet(), np.full(400, 7.0)])
    assert diagnose(X)["constant columns"].sentence == "Column 5 is constant."


# Points.


def test_duplicates_few_and_more_than_neighbors():
    X = sheet()
    found = diagnose(np.vstack([X, X[:40]]))["duplicates"]
    assert (found.severity, found.value) == ("note", 40 / 440)
    assert diagnose(np.vstack([X, np.repeat(X[:1], 30, axis=0)]))["duplicates"].severity == "problem"
    near = np.vstack([X, X[:40] * (1 + 1e-9)])
    assert diagnose(near)["duplicates"].severity == "note"
    assert diagnose(X)["duplicates"].severity == "fine"


def test_outliers_are_named_and_rule_if_they_hold_the_variance():
    X = np.random.default_rng(0).normal(size=(400, 3))
    X[[5, 300]] = [[0, 0, 40], [0, 60, 0]]
    found = diagnose(X)["outliers"]
    assert (found.severity, found.value) == ("problem", 2)
    assert "rows 300, 5" in found.sentence
    assert diagnose(np.random.default_rng(0).normal(size=(400, 3)))["outliers"].severity == "fine"


def test_rows_in_order_of_time_in_blocks_and_at_random():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=(500, 6)), axis=0)
    assert "sequence" in diagnose(walk)["order of rows"].sentence
    assert diagnose(walk[rng.permutation(500)])["order of rows"].severity == "fine"
    blocks = rng.normal(size=(500, 6)) + 4 * np.repeat(rng.normal(size=(10, 6)), 50, axis=0)
    found = diagnose(blocks)["order of rows"]
    assert found.severity == "note"
    assert "sequence" not in found.sentence


def test_labels_that_neighbors_share_or_not():
    X = np.random.default_rng(0).normal(size=(300, 3))
    assert diagnose(X, labels=X[:, 0] > 0)["labels"].severity == "fine"
    assert diagnose(X, labels=np.random.default_rng(1).integers(0, 3, 300))["labels"].severity == "note"


def test_labels_of_small_classes_are_not_asked_for_more_neighbors_than_they_have():
    centers = np.random.default_rng(0).normal(size=(40, 6)) * 20
    X = np.repeat(centers, 8, axis=0) + np.random.default_rng(1).normal(size=(320, 6)) * 0.1
    found = diagnose(X, labels=np.repeat(np.arange(40), 8), n_neighbors=60)["labels"]
    assert found.severity == "fine"
    assert found.sentence.startswith("100% of the 4 nearest neighbors share the label")


def test_more_columns_than_rows_and_few_rows():
    assert diagnose(np.random.default_rng(0).normal(size=(60, 100)))["rows"].severity == "note"
    few = diagnose(np.random.default_rng(0).normal(size=(8, 3)), n_neighbors=3)
    assert few["rows"].severity == "note"
    assert "dimension" not in few


# Clean data: every problem that is reported would be a false alarm.


@pytest.mark.parametrize(
    "X",
    [
        datasets.swiss_roll(1500, random_state=4).X,
        datasets.s_curve(1500, random_state=4).X,
        datasets.load("digits").X,
        np.random.default_rng(4).normal(size=(1500, 10)),
        np.random.default_rng(4).normal(size=(500, 2)),
        np.random.default_rng(4).uniform(size=(500, 4)),
        StandardScaler().fit_transform(datasets.load("breast_cancer").X),
    ],
    ids=["roll", "s curve", "digits", "blob", "flat blob", "cube", "scaled cancer"],
)
def test_clean_data_has_no_problem(X):
    assert diagnose(X).problems == ()


# Inputs.


def test_units_change_nothing():
    X = datasets.swiss_roll(500, random_state=1).X
    one, other = diagnose(X), diagnose(1e-6 * X + 1e-3)
    assert [(f.topic, f.severity, f.sentence) for f in one] == [(f.topic, f.severity, f.sentence) for f in other]


def test_threads_change_nothing_and_the_seed_is_enough():
    X = datasets.load("digits").X[:600]
    assert diagnose(X, n_jobs=1) == diagnose(X, n_jobs=2)


def test_distances_give_what_rows_give():
    X = sheet(300)
    rows, given = diagnose(X), diagnose(distances_by_differences(X), metric="precomputed")
    for topic in ("components", "hubs", "density", "contrast", "duplicates", "short circuits"):
        assert given[topic].value == pytest.approx(rows[topic].value)
    assert "scales" not in given
    assert given.subject == "300 points by their distances"


def test_sparse_rows_and_other_metrics_are_taken():
    X = np.random.default_rng(0).poisson(1.0, size=(300, 30)).astype(float)
    sparse, dense = diagnose(sp.csr_array(X)), diagnose(X)
    assert sparse["hubs"].value == pytest.approx(dense["hubs"].value)
    for metric in ("cosine", "manhattan"):
        assert diagnose(X, metric=metric)["components"].value == 1


def test_rows_with_missing_entries_are_left_out_and_told():
    X = sheet()
    X[[1, 2], 0] = np.nan
    found = diagnose(X)
    assert (found["missing entries"].severity, found["missing entries"].value) == ("problem", 2)
    assert found["rows"].value == 398


def test_a_large_table_is_sampled_and_the_findings_say_so(monkeypatch):
    from manifoldry.evaluation.diagnosis import _profile as profiles

    monkeypatch.setattr(profiles, "MAX_DIAGNOSED_POINTS", 300)
    far = np.vstack([sheet(500), sheet(500) + 100])
    assert "in a sample of 300 of 1,000 rows" in diagnose(far)["components"].sentence


@pytest.mark.parametrize(
    ("X", "settings", "words"),
    [
        (np.zeros((50, 3)), {}, "identical"),
        (np.ones(50), {}, "two-dimensional"),
        (np.full((50, 2), np.nan), {}, "At least 2 rows"),
        ([["a", "b"]] * 30, {}, "numbers"),
        (np.eye(20), {"n_neighbors": 20}, "n_neighbors must be between 1 and 19"),
        (np.eye(20), {"n_neighbors": 0}, "n_neighbors must be between 1 and 19"),
        (np.eye(20), {"metric": "none"}, "metric must be one of"),
        (np.eye(20), {"labels": [1, 2]}, "labels need one entry per row"),
        (np.ones((20, 3)), {"metric": "precomputed"}, "square matrix"),
        (sp.eye_array(20).tocsr(), {"metric": "precomputed"}, "all pairwise distances"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(X, settings, words):
    with pytest.raises((ValueError, TypeError), match=words):
        diagnose(X, **settings)


def test_two_tables_are_refused():
    with pytest.raises(ValueError, match="a fitted estimator and its data"):
        diagnose(sheet(), sheet())


def test_the_list_of_checks_is_complete():
    from manifoldry.evaluation.diagnosis import _columns, _points, _shape

    listed = {check.__name__ for check in checks.CHECKS + checks.NEIGHBOR_CHECKS}
    for module in (_columns, _points, _shape):
        for name, value in vars(module).items():
            returns = getattr(value, "__annotations__", {}).get("return")
            if callable(value) and returns == "Finding | None" and not name.startswith("_"):
                assert name in listed, f"{module.__name__}.{name} is not in the list"


def test_the_advice_on_dimensions_is_no_other_than_that_on_the_shape():
    closed = diagnose(datasets.sphere(400).X)
    assert "no map of 2 dimensions is faithful" in closed["shape"].advice
    assert closed["dimension"].advice.endswith("no map of 2 dimensions keeps the shape of the whole")
    assert diagnose(sheet())["dimension"].advice == "a faithful map needs n_components=2 at least"


def test_a_picture_of_a_nearly_flat_cloud_is_not_called_impossible():
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(400, 4)) * [3, 2, 0.5, 0.5]  # the plane holds 13 / 13.5 of the variance
    found = diagnose(cloud)["dimension"]
    assert found.value > 2.5
    assert found.advice.startswith("2 principal components keep 96% of the variance")
    round_cloud = diagnose(rng.normal(size=(400, 4)))["dimension"]
    assert round_cloud.advice.startswith("a picture of 2 dimensions cannot keep distances")


def test_the_dimension_is_that_of_the_consensus():
    X = np.random.default_rng(1).normal(size=(600, 40)) ** 2
    whole = dimension.consensus(X)
    assert diagnose(X)["dimension"].sentence.startswith(
        f"The data has about {whole.value} dimensions ({whole.low:.1f} to {whole.high:.1f})"
    )


def test_one_of_a_kind_is_told_in_the_singular():
    X = sheet()
    X = np.column_stack([np.vstack([X, X[:1]]), np.ones(401)])
    found = diagnose(X)
    assert found["duplicates"].sentence == "1 of 401 rows repeats another exactly."
    assert found["constant columns"].advice.startswith("leave it out")


def test_repeated_points_of_a_matrix_of_distances_are_dropped_by_row_and_column():
    X = sheet()
    X = np.vstack([X, X[:1]])
    found = diagnose(distances_by_differences(X), metric="precomputed")["duplicates"]
    assert "the row and the column" in found.advice
    assert "numpy.unique" in diagnose(X)["duplicates"].advice


def test_columns_are_called_by_the_names_that_are_given():
    X = np.column_stack([np.random.default_rng(0).normal(size=(60, 2)), np.full(60, 7.0)])
    assert "olumn 'site'" in diagnose(X, feature_names=["width", "height", "site"])["constant columns"].sentence
    assert "olumn 2" in diagnose(X)["constant columns"].sentence
    with pytest.raises(ValueError, match="must name each of the 3 columns; got 2 names"):
        diagnose(X, feature_names=["width", "height"])


def with_far_rows(n=1000):
    """Return points of a square, of which few, whose numbers are returned, lie far away in all directions."""
    rng = np.random.default_rng(0)
    X, far = rng.random((n, 2)), np.arange(60, n, 110)
    angles = np.linspace(0, 2 * np.pi, len(far), endpoint=False)
    X[far] = 30 * np.column_stack([np.cos(angles), np.sin(angles)])
    return X, set(far.tolist())


def named_rows(found):
    """Return the numbers of rows that the sentence on outliers names."""
    return set(map(int, re.findall(r"\d+", re.search(r"\(rows ([^)]*)\)", found["outliers"].sentence)[1])))


def test_rows_are_called_by_their_numbers_among_all_that_came(monkeypatch):
    X, far = with_far_rows()
    incomplete = X.copy()
    incomplete[[3, 500]] = np.nan
    assert named_rows(diagnose(incomplete)) <= far
    monkeypatch.setattr("manifoldry.evaluation.diagnosis._profile.MAX_DIAGNOSED_POINTS", 400)
    assert named_rows(diagnose(manifoldry.chunked_data(X))) <= far


def test_rows_of_a_fit_to_a_sample_are_called_by_their_numbers_in_the_file(monkeypatch):
    X, far = with_far_rows()
    monkeypatch.setattr(manifoldry.LaplacianEigenmaps, "_chunk_support", ChunkSupport(n_rows=400))
    model = manifoldry.LaplacianEigenmaps(n_neighbors=8, disconnected="bridge").fit(manifoldry.chunked_data(X))
    assert len(model.sampled_rows_) == 400
    assert named_rows(diagnose(model, X[model.sampled_rows_])) <= far
