"""The table of figures is made of the named measures, with their standard errors."""

import json
import pickle
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from manifoldry import metrics, score
from manifoldry._numerics.ranks import rank_measures
from manifoldry.evaluation.score._score import score_layouts
from manifoldry.evaluation.score._table import GROUPS, TABLE, ScoreOptions
from manifoldry.graph._pairwise import sample_rows

DOCS = Path(__file__).parents[3] / "docs"
RANKS = ("trustworthiness", "continuity", "knn_kept", "mrre_x", "mrre_y")


def curved(n=120, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, 2))
    X = np.column_stack([truth, truth[:, 0] ** 2])
    return X, truth + 0.1 * rng.normal(size=truth.shape), truth


def test_each_figure_is_the_named_measure():
    X, Y, truth = curved()
    labels = np.where(truth[:, 0] > 0, "right", "left")
    options = {"n_neighbors": 10, "sample": 50, "random_state": 3}
    figures = metrics.score(X, Y, labels, truth, **options)
    ranks = rank_measures(X, Y, **options)
    few = {"sample": 50, "random_state": 3}
    rows = sample_rows(120, 50, 3)
    pairs = [np.linalg.norm(Z[rows, None] - Z, axis=2)[rows[:, None] != np.arange(120)] for Z in (X, Y)]
    bent = metrics.local_distortion(X, Y, **options)
    expected = {name: getattr(ranks, name) for name in RANKS} | {
        "lcmc": metrics.lcmc(X, Y, **options),
        "r_nx_auc": metrics.r_nx_auc(X, Y, **few),
        "pearson": pearsonr(*pairs).statistic,
        "spearman": spearmanr(*pairs).statistic,
        "triplet_accuracy": metrics.triplet_accuracy(X, Y, **few),
        "scaled_stress": metrics.normalized_stress(X, Y, scaled=True, **few),
        "scaled_sammon_stress": metrics.sammon_stress(X, Y, scaled=True, **few),
        "density_preservation": metrics.density_preservation(X, Y, **options),
        "conformality": np.median(bent.conformality),
        "area_deviation": np.median(np.abs(bent.areas / np.median(bent.areas) - 1)),
        "local_residual": np.median(bent.residuals),
        "neighborhood_hit": metrics.neighborhood_hit(Y, labels, **options),
        "label_accuracy": metrics.neighborhood_hit(Y, labels, n_neighbors=1, **few),
        "silhouette": metrics.silhouette(Y, labels, **few),
        "procrustes_rigid": metrics.procrustes(Y, truth, kind="rigid").error,
        "procrustes_similarity": metrics.procrustes(Y, truth, kind="similarity").error,
        "procrustes_affine": metrics.procrustes(Y, truth, kind="affine").error,
    }
    distances = {
        "scale",
        "distance_deviation",
        "distance_error",
        "geodesic_correlation",
    }
    assert set(figures) == {*expected, *distances} == set(TABLE)
    for name, value in expected.items():
        assert figures[name] == pytest.approx(value, rel=1e-12, abs=1e-14), name
    assert metrics.score(X, Y, labels, truth, n_jobs=1, **options) == figures
    assert all(type(value) is float for value in [*figures.values(), *figures.pca.values(), *figures.errors.values()])


def test_paths_of_all_points_have_no_error():
    X, Y, _ = curved(150)
    assert score(X, Y, n_neighbors=6, figures=["geodesic_correlation"]).errors["geodesic_correlation"] == 0.0
    apart = score(np.r_[X, X + 100.0], np.r_[Y, Y + 9.0], n_neighbors=6)
    assert "Paths join 50% of the pairs" in apart.heading


def test_a_perfect_embedding_has_the_best_value_of_every_figure():
    _, _, truth = curved()
    figures = score(truth, 1.0 * truth, truth[:, 0] > 0, truth)
    assert set(figures) == set(TABLE)
    apart = {"neighborhood_hit", "label_accuracy", "silhouette"}  # those of the labels, not of the embedding
    for name in set(figures) - apart:
        best = 1 - 15 / 119 if name == "lcmc" else TABLE[name].best  # chance keeps 15 of 119
        # Paths along edges are longer than the distances: that correlation is not quite 1.
        off = 0.02 if name == "geodesic_correlation" else 1e-12
        assert figures[name] == pytest.approx(best, abs=off), name


def test_every_figure_lies_in_its_range_whatever_the_embedding():
    rng = np.random.default_rng(3)
    X, _, truth = curved()
    labels = rng.integers(3, size=len(X))
    layouts = {
        "random": rng.normal(size=(120, 2)),
        "line": np.column_stack([X[:, 0], np.zeros(120)]),
        "reversed": -1.0 / (0.1 + truth**2),
        "huge": 1e8 * rng.normal(size=(120, 3)),
    }
    for what, Y in layouts.items():
        found = score(X, Y, labels, truth)
        for name, value in [*found.items(), *found.pca.items()]:
            assert TABLE[name].low <= value <= TABLE[name].high, (what, name)


def test_what_is_missing_is_left_out_and_what_is_asked_for_is_computed():
    X, Y, truth = curved()
    names = set(TABLE)
    of_labels = {name for name, entry in TABLE.items() if entry.group == "labels"}
    of_truth = {name for name in TABLE if name.startswith("procrustes")}
    of_tangents = {"conformality", "area_deviation", "local_residual"}
    assert set(score(X, Y, metric="manhattan")) == set(score(X, Y, n_neighbors=2)) == set(score(X, Y)) - of_tangents
    assert set(score(X, Y)) == names - of_labels - of_truth
    assert set(score(X, Y, truth=truth)) == names - of_labels
    few = score(X, Y, truth=truth, figures=["continuity", "procrustes_affine"])
    assert dict(few) == {name: score(X, Y, truth=truth)[name] for name in ("continuity", "procrustes_affine")}
    assert set(few.pca) == set(few.errors) == set(few)
    with pytest.raises(ValueError, match="figures must be one of"):
        score(X, Y, figures=["trust"])
    with pytest.raises(ValueError, match="'procrustes_rigid' needs truth"):
        score(X, Y, figures=["procrustes_rigid"])
    with pytest.raises(ValueError, match="'conformality' needs metric='euclidean' or 'precomputed', and more neigh"):
        score(X, Y, figures=["conformality"], metric="manhattan")
    with pytest.raises(ValueError, match="'silhouette' needs labels"):
        score(X, Y, figures=["silhouette"])


def test_the_standard_error_is_that_of_samples():
    """Over 100 samples of 60 of 240 points: the spread of the figures, known to 1 / sqrt(200), is the mean error."""
    X, Y, truth = curved(240)
    labels = truth[:, 0] + 0.5 * truth[:, 1] > 0.3
    scores = [score(X, Y, labels, sample=60, random_state=seed) for seed in range(100)]
    whole = score(X, Y, labels)
    # Of all points, some triplets and some sources of paths are drawn.
    assert [name for name, error in whole.errors.items() if error] == ["geodesic_correlation", "triplet_accuracy"]
    for name in whole:
        values = np.array([found[name] for found in scores])
        errors = np.array([found.errors[name] for found in scores])
        # Errors of medians scatter themselves: their density at the median is read off some thousand pairs.
        off = np.log(np.sqrt(np.mean(errors**2)) / values.std(ddof=1))
        assert abs(off) < 4 / np.sqrt(200) + 0.1, (name, off)
        bias = (values.mean() - whole[name]) / values.std(ddof=1)
        assert abs(bias) < 1.0, (name, bias)  # what is not linear in the sample is biased by less than it spreads


def test_sample_auto_is_all_of_few_points_and_says_how_many_of_many():
    X, Y, _ = curved()
    assert score(X, Y) == score(X, Y, sample=None) == score(X, Y, sample=120)
    assert "120 points in 2 dimensions" in score(X, Y).heading
    assert "± error" not in str(score(X, Y, figures=["continuity", "spearman"]))
    X, Y, _ = curved(3200)
    many = score(X, Y, figures=["knn_kept"], n_neighbors=3)
    assert "3,200 points in 2 dimensions, 3 neighbors; 1,000 drawn" in str(many)
    assert many == score(X, Y, figures=["knn_kept"], n_neighbors=3, sample=1000)
    assert many.errors["knn_kept"] > 0
    with pytest.raises(ValueError, match="sample must be one of 'auto'"):
        score(X, Y, sample="all")
    with pytest.raises(ValueError, match="sample must be at least 1"):
        score(X, Y, sample=0)
    assert np.isnan(score(X, Y, sample=1, figures=["knn_kept"]).errors["knn_kept"])


def test_distances_in_place_of_rows_are_compared_with_classical_scaling():
    X, Y, truth = curved()
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    of_rows, of_distances = score(X, Y, truth=truth), score(D, Y, truth=truth, metric="precomputed")
    for name in of_distances:
        assert of_distances[name] == pytest.approx(of_rows[name], rel=1e-9), name
        assert of_distances.pca[name] == pytest.approx(of_rows.pca[name], rel=1e-6), name  # PCA is scaling
    city = score(X, Y, metric="manhattan", figures=["trustworthiness"])["trustworthiness"]
    assert city == pytest.approx(metrics.trustworthiness(X, Y, metric="manhattan"), rel=1e-13)


def test_duplicates_without_any_other_neighbor_leave_ratios_undefined():
    X = np.repeat(np.arange(6.0), 20)[:, None] * [1.0, 2.0]
    found = score(X, X[:, :1], n_neighbors=5, figures=["trustworthiness", "scale", "distance_error"])
    assert np.isnan(found["scale"])
    assert np.isnan(found["distance_error"])
    assert found["trustworthiness"] == 1.0
    assert "nan" in str(found)


def test_tables_as_frame_as_dict_and_as_pickle():
    X, Y, truth = curved()
    found = score(X, Y, truth[:, 0] > 0, truth, sample=40)
    frame, by_name = found.to_frame(), found.to_dict()
    assert list(frame.index) == list(found) == list(by_name)
    assert list(frame.columns) == ["value", "error", "pca", "low", "high", "best", "meaning", "group"]
    json.dumps(by_name, allow_nan=False)
    for name in found:
        row = frame.loc[name]
        assert (row["value"], row["error"], row["pca"]) == (found[name], found.errors[name], found.pca[name])
        assert (row["low"], row["high"], row["best"]) == (TABLE[name].low, TABLE[name].high, TABLE[name].best)
        assert by_name[name]["meaning"] == row["meaning"] == TABLE[name].meaning
        assert by_name[name]["high"] == (None if np.isinf(row["high"]) else row["high"])
    again = pickle.loads(pickle.dumps(found))
    assert (again, again.pca, again.errors, str(again)) == (found, found.pca, found.errors, str(found))


def test_the_table_declares_every_figure():
    for name, entry in TABLE.items():
        assert entry.name == name
        assert entry.group in GROUPS
        assert entry.low <= entry.best <= entry.high
        assert entry.in_units == (entry.group == "units")
        assert len(entry.meaning) <= 72
    assert [entry.group for entry in TABLE.values()] == sorted(
        (entry.group for entry in TABLE.values()), key=list(GROUPS).index
    )


def test_the_page_has_every_figure_with_its_range_and_best_value_and_every_function():
    page = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
    for name, entry in TABLE.items():
        assert f"\n| `{name}` | {entry.range} | {entry.best:g} |" in page
        assert f" {entry.range:8} {entry.meaning}\n" in page or entry.group == "labels"
    for name in metrics.__all__:
        module = getattr(metrics, name).__module__ if name.islower() else ""
        if ".metrics." in module and name not in ("nmi", "nonlocalized", "purity", "subspace_error"):
            assert f"`{name}" in page, name


def test_bad_input_is_refused_in_a_sentence():
    X = np.random.default_rng(2).normal(size=(30, 3))
    with pytest.raises(ValueError, match=r"below n / 2 = 15; got 15"):
        metrics.score(X, X, n_neighbors=15)
    with pytest.raises(ValueError, match=r"n_neighbors must be .*'auto'.*'all'"):
        metrics.score(X, X, n_neighbors="all")
    with pytest.raises(ValueError, match=r"n_neighbors must be an integer"):
        metrics.score(X, X, n_neighbors=[5])
    few = {"n_neighbors": 5}
    with pytest.raises(ValueError, match="All 30 points are identical"):
        score(np.ones((30, 3)), X, **few)
    with pytest.raises(ValueError, match="X must be finite"):
        score(np.full((30, 3), np.nan), X, **few)
    with pytest.raises(ValueError, match="X and Y must have one row per point; got 30 and 29 rows"):
        score(X, X[:-1], **few)
    with pytest.raises(ValueError, match="truth must have one row per point; got 29 rows for 30 points"):
        score(X, X, truth=X[:-1], **few)
    with pytest.raises(ValueError, match="All 30 points of the truth coincide"):
        score(X, X, truth=np.ones((30, 2)), **few)
    with pytest.raises(ValueError, match=r"metric must be one of .*got 'foo'"):
        score(X, X, metric="foo", **few)
    with pytest.raises(ValueError, match=r"X holds values up to .* powers of them overflow"):
        score(1e100 * X, X, **few)
    with pytest.raises(ValueError, match=r"Y holds values up to .* powers of them overflow"):
        score(X, 1e100 * X, **few)


@pytest.mark.parametrize(("n", "sample", "most"), [(12_000, 60, 150e6), (4000, None, 70e6)])
def test_memory_does_not_grow_with_the_square_of_the_points(n, sample, most):
    """12,000 x 12,000 distances are 1.2 GB, 60 x 12,000 of them 6 MB; 4,000 x 4,000 are 128 MB, in blocks of 1 MB."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 3))
    labels = X[:, 0] > 0
    score(X[:200], X[:200, :2], labels[:200])  # imports are not counted
    tracemalloc.start()
    score(X, X[:, :2], labels, sample=sample)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < most


def test_collapsed_and_equidistant_points_are_decided():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        at_one_place = score(X, np.ones((60, 2)))
        equal = score(np.ones((60, 60)) - np.eye(60), X[:, :2], metric="precomputed")
        pair = score(X, X[:, :2], sample=2)
    assert at_one_place["scaled_stress"] == at_one_place["distance_deviation"] == 1.0
    assert at_one_place["pearson"] == at_one_place["spearman"] == at_one_place["density_preservation"] == 0.0
    assert at_one_place["triplet_accuracy"] == 0.5
    assert at_one_place["conformality"] == 0.0
    for name in ("pearson", "spearman", "triplet_accuracy", "density_preservation"):
        assert np.isnan(equal[name]), name
    assert np.isfinite(list(pair.values())).all()


def test_only_the_figures_of_units_depend_on_the_scale():
    rng = np.random.default_rng(4)
    truth = rng.normal(size=(150, 2))
    X = np.column_stack([truth, np.sin(truth[:, 0])])
    one, other = (score(X, unit * truth, truth[:, 1] > 0, truth=truth) for unit in (1.0, 2.0**-20))
    for name, entry in TABLE.items():
        if entry.in_units:
            assert abs(one[name] - other[name]) > 0.1, name
        else:
            assert one[name] == pytest.approx(other[name], rel=1e-9, abs=1e-15), name
    assert one["scale"] == pytest.approx(2.0**20 * other["scale"], rel=1e-12)
    # Nor on that of the data: X in another unit changes what is in units alone.
    moved = score(1000.0 * X, truth, truth[:, 1] > 0, truth=truth)
    for name, entry in TABLE.items():
        if not entry.in_units:
            assert moved[name] == pytest.approx(one[name], rel=1e-9, abs=1e-15), name


def test_principal_components_stand_beside():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(100, 3)) * np.array([3.0, 2.0, 0.5])
    Y = rng.normal(size=(100, 2))
    figures = metrics.score(X, Y, truth=X[:, :2])
    _, _, axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    scores = (X - X.mean(axis=0)) @ axes[:2].T
    assert figures.pca == pytest.approx(dict(metrics.score(X, scores, truth=X[:, :2])), rel=1e-9)
    # More columns than the data have: zeros beside them.
    wide = metrics.score(X, np.column_stack([X, Y]))
    assert wide.pca["trustworthiness"] == 1.0


@pytest.mark.parametrize("sample", [None, 60])
def test_the_printed_table_has_a_line_per_figure_below_its_group(sample):
    X, Y, truth = curved()
    figures = score(X, Y, truth[:, 0] > 0, truth, sample=sample)
    heading, columns, *lines = str(figures).splitlines()
    assert heading == figures.heading
    assert columns.split() == ["this", *"± error".split(), "PCA", "best", "range"]
    titles = [line for line in lines if not line.startswith(" ")]
    assert titles == list(GROUPS.values())
    told = [line.replace(" ± ", " ").split() for line in lines if line.startswith(" ")]
    for words, (name, value) in zip(told, figures.items(), strict=True):
        assert words[0] == name
        stated = (
            [value, figures.errors[name], figures.pca[name]] if figures.errors[name] else [value, figures.pca[name]]
        )
        assert [float(word) for word in words[1 : 1 + len(stated)]] == pytest.approx(stated, abs=5e-5, rel=0.05)
        assert " ".join(words).endswith(TABLE[name].meaning)
    assert max(map(len, lines)) <= 150


def test_half_of_the_distances_deviate_by_less():
    """Points on a line: every second gap is stretched by a tenth, so that half of the ratios are 1 and half 1.1."""

    def deviation(X, Y):
        return score(X, Y, n_neighbors=1, figures=["distance_deviation"])["distance_deviation"]

    gaps = np.ones(200)
    X = np.concatenate([[0.0], np.cumsum(gaps * np.arange(1, 201) ** 1.5)])[:, None]  # the nearest is the one before
    stretched = np.where(np.arange(200) % 4 == 0, 1.1, 1.0) * np.diff(X[:, 0])
    Y = 7.0 * np.concatenate([[0.0], np.cumsum(stretched)])[:, None]
    assert deviation(X, Y) == pytest.approx(0.0, abs=1e-12)  # three quarters are kept
    thirds = np.where(np.arange(200) % 3 == 0, 1.0, np.where(np.arange(200) % 3 == 1, 1.1, 1.3)) * np.diff(X[:, 0])
    Y = np.concatenate([[0.0], np.cumsum(thirds)])[:, None]
    # The median ratio is 1.1; the deviations are 0.1/1.1, 0 and 0.2/1.1, a third each, whose median is the first.
    assert deviation(X, Y) == pytest.approx(0.1 / 1.1, rel=1e-9)
    assert deviation(X, np.zeros((201, 2))) == 1.0


@pytest.mark.parametrize(("n", "k"), [(12, 5), (30, 14), (31, 15), (200, 15)])
def test_few_points_are_compared_by_fewer_neighbors_unless_asked(n, k):
    X = np.random.default_rng(3).normal(size=(n, 3))
    assert score(X, X[:, :2]) == score(X, X[:, :2], n_neighbors=k)


def test_several_embeddings_are_scored_as_each_alone():
    X, Y, _ = curved()
    layouts = [Y, X, Y[:, :1]]
    for found, layout in zip(score_layouts(X, layouts, ScoreOptions(sample=50), random_state=3), layouts, strict=True):
        alone = metrics.score(X, layout, sample=50, random_state=3)
        assert found == pytest.approx(alone, rel=1e-9, abs=1e-12)
        assert found.pca == pytest.approx(alone.pca, rel=1e-9, abs=1e-12)
        assert found.errors == pytest.approx(alone.errors, rel=1e-9, abs=1e-12)
        assert found.heading == alone.heading
