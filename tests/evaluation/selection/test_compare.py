"""Comparisons: the first of the ranking where it is known, the budget, forms of input, what is said."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.manifold import Isomap as SklearnIsomap

import manifoldry
from helpers import bent_sheet, distances_by_differences
from manifoldry import compare, dimension
from manifoldry._core.run import Run
from manifoldry.data._chunked import chunked_data
from manifoldry.data.datasets import swiss_roll
from manifoldry.evaluation.selection import _compare as flow
from manifoldry.evaluation.selection._compare import ComparisonTask, run_comparison
from manifoldry.evaluation.selection._objectives import PILOT_ROWS, Clock, estimate, growth, purpose_of, skip_reason

CARDS = {card.name: card for card in manifoldry.list_methods()}
ISOMETRIC = {"IPA", "TesseraMap", "Isomap", "LTSA", "MVU", "FastMVU", "HessianEigenmaps"}


@pytest.fixture(scope="module")
def roll():
    return compare(swiss_roll(500).X, "keep distances", None, methods=["IPA", "LTSA", "Isomap", "MDS", "TSNE"])


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    rows = np.random.default_rng(0).permutation(len(data.data))[:500]
    settings = {"labels": data.target[rows], "methods": ["TSNE", "LaplacianEigenmaps", "Isomap"]}
    return compare(data.data[rows], "see clusters", None, **settings)


def test_an_isometric_method_is_first_on_a_roll(roll):
    assert roll.best.name in ISOMETRIC
    assert list(roll.embeddings)[-1] in ("PCA", "TSNE")
    assert roll["PCA"].score["worse_deviation"] > 0.2 > 10 * roll.best.score["near_deviation"]
    assert roll.verdicts[0].startswith(f"{roll.best.name} keeps half of the distances to neighbors to")
    assert manifoldry.metrics.procrustes(roll.best.embedding, swiss_roll(500).truth, kind="similarity").error < 0.01


def test_a_neighbor_embedding_is_first_on_digits(digits):
    assert digits.best.name == "TSNE"
    assert digits.best.score["neighborhood_hit"] > digits["PCA"].score["neighborhood_hit"] + 0.1
    said = " ".join(digits.verdicts)
    assert "dense groups" in said
    assert "In the picture by TSNE: Of" in said
    assert "no evidence of clusters" not in said


def test_the_ranking_follows_from_the_figures(roll):
    losses = [entry.score["worse_deviation"] for entry in roll.ranking]
    best = losses[0]
    assert min(losses) >= best - max(0.005, 0.1 * min(losses))
    assert [row["method"] for row in roll.table] == list(roll.embeddings)
    assert roll.best.reasons[0].endswith(".")
    assert CARDS[roll.best.name].loses in roll.best.reasons[1]


def test_of_equal_methods_the_simplest_without_warnings_is_first():
    rng = np.random.default_rng(3)
    plane = rng.random((200, 2)) @ np.linalg.qr(rng.normal(size=(12, 2)))[0].T + 0.01 * rng.normal(size=(200, 12))
    found = compare(plane, "keep distances", None, methods=["MDS", "Isomap"])
    assert list(found.embeddings) == ["PCA", "MDS", "Isomap"]
    # MDS is better by all criteria, but by less than counts.
    criteria = found.purpose.criteria
    losses = {name: [each.loss(found[name].score) for each in criteria] for name in ("PCA", "MDS")}
    assert losses["MDS"] < losses["PCA"]
    assert all(each.equal(*pair) for each, *pair in zip(criteria, losses["PCA"], losses["MDS"], strict=True))


def test_columns_that_dominate_the_distances_are_told_once_and_first():
    X = np.random.default_rng(4).normal(size=(100, 6)) * [1, 1, 900, 1, 1, 1]
    found = compare(X, "keep neighbors", None, methods=["Isomap"])
    assert found.verdicts[0].startswith("Column 2 holds 100.0% of the squared distances")
    assert "StandardScaler" in found.verdicts[0]
    assert str(found).count("of the squared distances") == 1
    scaled = compare(X / X.std(axis=0), "keep neighbors", None, methods=["Isomap"])
    assert "of the squared distances" not in str(scaled)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_they_are_told_by_their_names(library):
    frames = pytest.importorskip(library)
    X = np.random.default_rng(4).normal(size=(100, 6)) * [1, 1, 900, 1, 1, 1]
    frame = frames.DataFrame(dict(zip(["age", "sex", "income in $", "a", "b", "c"], X.T, strict=True)))
    said = "Column 'income in $' holds 100.0% of the squared distances"
    for rows in (frame, chunked_data(X, columns=list(frame.columns))):
        assert compare(rows, "keep neighbors", None, methods=["PCA"]).verdicts[0].startswith(said)
    model = manifoldry.AutoEmbedding(purpose="keep neighbors", methods=["PCA"], budget=None).fit(frame)
    assert model.comparison_.verdicts[0].startswith(said)


def test_a_gaussian_gives_no_evidence_of_clusters():
    found = compare(np.random.default_rng(5).normal(size=(300, 6)), "see clusters", None, methods=["TSNE"])
    assert "There is no evidence of clusters in the data." in " ".join(found.verdicts)


def test_the_report_has_all_parts(roll):
    text = str(roll)
    for part in ("Keep distances: 500 points, 2 dimensions", " 1 ", "Ranked by", "known to keep", "1. "):
        assert part in text
    assert all(name in text for name in roll.embeddings)
    assert max(map(len, text.splitlines())) <= 120
    assert repr(roll) == f"Comparison('keep distances': {', '.join(roll.embeddings)})"


def test_the_table_as_a_frame(roll):
    pytest.importorskip("pandas")
    frame = roll.to_frame()
    assert frame.loc["IPA", "worse_deviation"] == roll["IPA"].score["worse_deviation"]
    with pytest.raises(KeyError, match="not in the ranking"):
        _ = roll["MVU"]


def test_the_same_seed_gives_the_same_ranking_for_any_number_of_threads():
    X = swiss_roll(300).X
    settings = {"methods": ["UMAP", "Isomap"], "random_state": 3}
    one, two = (compare(X, "keep neighbors", None, n_jobs=jobs, **settings) for jobs in (1, 2))
    generous = compare(X, "keep neighbors", 600.0, **settings)
    for other in (two, generous):
        assert list(one.embeddings) == list(other.embeddings)
        assert [entry.score for entry in one.ranking] == [entry.score for entry in other.ranking]
        assert all(
            np.array_equal(a, b) for a, b in zip(one.embeddings.values(), other.embeddings.values(), strict=True)
        )


def test_the_unit_of_the_data_changes_nothing():
    X = swiss_roll(300).X
    plain, scaled = (compare(rows, "keep distances", None, methods=["Isomap"]) for rows in (X, 2.0**-20 * X))
    assert list(plain.embeddings) == list(scaled.embeddings)
    for name, score in ((entry.name, entry.score) for entry in plain.ranking):
        other = scaled[name].score
        assert all(score[key] == pytest.approx(other[key], rel=1e-9) for key in score if not key.startswith("scale"))


def test_structureless_data_are_said_to_be():
    square = np.random.default_rng(0).uniform(size=(400, 2)) @ np.eye(2, 5)
    found = compare(square, "see clusters", None, methods=["TSNE"])
    assert "no dense groups" in " ".join(found.verdicts)
    assert found.best.name == "PCA"  # it keeps all neighbors, and islands earn nothing
    assert found.verdicts[0].startswith("Nothing tried is better than PCA")


def test_an_order_along_a_path():
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 5, 200)
    curve = np.column_stack([t * np.cos(t), t * np.sin(t), 0.01 * rng.standard_normal(200)])
    found = compare(curve, "order along a path", None, labels=t, methods=["Isomap", "PrincipalCurve"])
    assert found.best.embedding.shape == (200, 1)
    assert found.best.score["label_order"] > 0.999 > found["PCA"].score["label_order"]
    wide = compare(bent_sheet(200), "order along a path", None, methods=["Isomap"])
    assert "wider than a path" in " ".join(wide.verdicts) or "do not follow one path" in " ".join(wide.verdicts)
    with pytest.raises(ValueError, match="n_components=1"):
        compare(curve, "order along a path", None, n_components=2)


def test_features_are_judged_by_new_points_and_beside_the_columns():
    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b", "c"], 50)
    X = rng.standard_normal((150, 6)) + 6.0 * np.eye(6)[np.repeat([0, 1, 2], 50)]
    found = compare(X, "features for a classifier", None, labels=labels, methods=["LPP"])
    assert {"accuracy", "accuracy_linear", "accuracy_neighbors"} <= set(found.best.score)
    assert "Without any embedding, the columns predict" in " ".join(found.verdicts)
    with pytest.raises(ValueError, match="pass labels"):
        compare(X, "features for a classifier", None)


def test_what_comes_back_of_a_roll():
    found = compare(swiss_roll(700).X, "reconstruct", None, methods=["Isomap", "FactorAnalysis"])
    assert found.best.name == "Isomap"
    assert found.best.score["reconstruction_error"] < 0.1 < found["PCA"].score["reconstruction_error"]
    assert [(each.name, each.reason) for each in found.skipped] == [("FactorAnalysis", "it has no inverse_transform")]


def test_a_surface_of_more_than_three_dimensions_is_skipped_in_a_sentence():
    X = np.random.default_rng(0).standard_normal((60, 6))
    found = compare(X, "reconstruct", None, methods=["PrincipalSurface"], n_components=4)
    assert list(found.embeddings) == ["PCA"]
    assert [skipped.name for skipped in found.skipped] == ["PrincipalSurface"]
    assert "n_components" in found.skipped[0].reason


def test_distances_sparse_rows_and_other_metrics():
    X = bent_sheet(120)
    X[X < 0.2] = 0.0
    methods = ["Isomap", "IPA", "NMF"]
    given = compare(distances_by_differences(X), "keep neighbors", None, metric="precomputed", methods=methods)
    assert set(given.embeddings) == {"ClassicalMDS", "Isomap"}
    assert "Euclidean distances only" in given.skipped[0].reason
    sparse, dense = (compare(form, "keep neighbors", None, methods=["Isomap"]) for form in (csr_array(X), X))
    assert list(sparse.embeddings) == list(dense.embeddings)
    assert sparse.best.score["knn_kept"] == pytest.approx(dense.best.score["knn_kept"], abs=0.02)
    other = compare(X, "keep neighbors", None, metric="manhattan", methods=["Isomap", "IPA"])
    assert set(other.embeddings) == {"PCA", "Isomap"}


def test_copies_and_pieces():
    X = np.concatenate([bent_sheet(60), bent_sheet(60) + 50.0, bent_sheet(60)[:20]])
    found = compare(X, "keep neighbors", None, methods=["Isomap"])
    assert all(np.isfinite(Y).all() for Y in found.embeddings.values())
    assert any("2 connected components" in sentence for sentence in found.verdicts)


def test_estimators_with_settings_of_their_own():
    model = manifoldry.Isomap(n_neighbors=7)
    found = compare(bent_sheet(80), "keep neighbors", None, methods=[model, "MDS"])
    assert found["Isomap"].estimator.n_neighbors == 7
    assert not hasattr(model, "embedding_")
    assert found["Isomap"].estimator.callback is None


def test_settings_of_one_method_side_by_side():
    models = [manifoldry.Isomap(n_neighbors=k) for k in (5, 9)]
    found = compare(bent_sheet(80), "keep neighbors", None, methods=models)
    assert set(found.embeddings) == {"PCA", "Isomap", "Isomap 2"}
    assert found["Isomap 2"].estimator.n_neighbors == 9
    assert found.best.name in found.verdicts[0]


def test_a_method_that_fails_is_listed():
    found = compare(bent_sheet(60), "keep neighbors", None, methods=["PrincipalCurve"])
    assert found.best.name == "PCA"
    assert found.skipped[0].reason.startswith("it failed: ")
    assert "PrincipalCurve was left out" in str(found)


def test_a_budget_that_is_used_up_leaves_the_baseline():
    found = compare(bent_sheet(60), "keep neighbors", 1e-9, methods=["Isomap", "LTSA"])
    assert list(found.embeddings) == ["PCA"]
    assert [each.name for each in found.skipped] == ["Isomap", "LTSA"]
    assert "was used up" in found.skipped[0].reason


class Impatient(Clock):
    """A clock that is over for fits that ask, and not for those about to begin."""

    def over(self, progress=None):
        return progress is not None


def test_a_running_fit_is_stopped_and_says_so():
    X = bent_sheet(80)
    task = ComparisonTask(X, purpose_of("keep neighbors", False), None, ["TSNE"], 2, "euclidean")
    found = run_comparison(task, Impatient(60.0), Run(0))
    assert found["TSNE"].estimator.diagnostics_["stopped"] is True
    assert "was stopped when the budget was used up" in found["TSNE"].warnings[0]


def test_seconds_are_extrapolated_by_the_order_of_growth(monkeypatch):
    pilots = []

    def seconds(model, X, rows):
        pilots.append(len(rows))
        return 0.5 + 1e-6 * len(rows) ** 2

    monkeypatch.setattr("manifoldry.evaluation.selection._objectives._seconds", seconds)
    # The growing part of the second fit must be a quarter of it or more, or a quarter is taken.
    expected = 0.5 + 1e-6 * 5000.0**2
    assert estimate(None, np.zeros((5000, 2)), 2.0) == pytest.approx(expected, rel=1e-9)
    card = CARDS["MDS"]
    told = skip_reason(card, None, np.zeros((5000, 2)), Clock(10.0), 1)
    assert "about 26 s for 5,000 points" in told
    assert skip_reason(card, None, np.zeros((5000, 2)), Clock(100.0), 1) == ""
    assert "about 102 s" in skip_reason(card, None, np.zeros((5000, 2)), Clock(100.0), 4)
    assert max(PILOT_ROWS) < 2000
    pilots.clear()
    assert skip_reason(card, None, np.zeros((5000, 2)), Clock(1000.0), 1) == ""
    assert pilots == [300]  # 0.59 s would be 164 s even if all of it grew


def test_without_a_clock_slow_methods_are_left_out_by_size():
    told = skip_reason(CARDS["MVU"], None, np.zeros((600, 2)), Clock(None), 1)
    assert told.startswith("too slow for 600 points without a budget")
    assert skip_reason(CARDS["TSNE"], None, np.zeros((60_000, 2)), Clock(None), 1) == ""
    assert {growth(card) for card in CARDS.values()} <= {1.2, 1.5, 2.0, 2.2, 2.5, 3.0}


def test_many_points_are_ranked_by_a_sample_and_the_best_is_fitted_to_all(monkeypatch):
    monkeypatch.setattr(flow, "MAX_RANKED_ROWS", 300)
    monkeypatch.setattr(flow, "N_RANKED_ROWS", 200)
    X = swiss_roll(400).X
    found = compare(X, "keep distances", None, methods=["Isomap"])
    assert len(found.rows) == 200
    assert found.best.embedding.shape == (200, 2)
    assert found.best.estimator.embedding_.shape == (400, 2)
    assert "is fitted to all of them" in found.verdicts[-1]
    assert "200 points (a sample of 400)" in str(found)
    monkeypatch.setattr(flow, "growth", lambda _: 60.0)
    short = compare(X, "keep distances", 100.0, methods=["Isomap"])
    assert short.best.estimator.embedding_.shape == (200, 2)
    assert "transform embeds the others" in short.verdicts[-1]


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"purpose": "look nice"}, "purpose must be one of"),
        ({"budget": 0.0}, "budget must be"),
        ({"budget": "long"}, "budget must be"),
        ({"methods": []}, "methods must be a list"),
        ({"methods": "PCA"}, "methods must be a list"),
        ({"methods": [SklearnIsomap()]}, "methods must name methods of this library; got Isomap"),
        ({"methods": ["AutoEmbedding"]}, "methods must name methods of this library"),
        ({"labels": [1, 2]}, "one entry for each"),
        ({"labels": np.zeros(60)}, "at least two classes"),
        ({"labels": np.r_[np.nan, np.zeros(59)]}, "known for every point"),
        ({"n_components": 60}, "n_components must be"),
        ({"metric": "precomputed"}, "square"),
    ],
)
def test_bad_settings(settings, match):
    with pytest.raises(ValueError, match=match):
        compare(bent_sheet(60), **settings)


def test_bad_data():
    with pytest.raises(ValueError, match="identical"):
        compare(np.ones((20, 2)))
    with pytest.raises(ValueError, match="NaN"):
        compare(np.full((20, 2), np.nan))
    with pytest.raises(ValueError, match="At least 3"):
        compare(np.eye(2))


def test_the_dimension_named_is_that_of_the_diagnosis():
    X = np.random.default_rng(2).normal(size=(300, 6))
    told = compare(X, "keep distances", None, methods=["PCA"])
    whole = dimension.consensus(X)
    named = f"(the data has about {whole.value} dimensions, {whole.low:.1f} to {whole.high:.1f})"
    assert any(named in sentence for sentence in told.verdicts)
    few = compare(X[:12], "keep distances", None, methods=["PCA"])  # of too few points for a consensus
    assert any("around its points the data has about" in sentence for sentence in few.verdicts)


def test_columns_in_different_units_are_said_once_and_first():
    X = np.random.default_rng(5).normal(size=(80, 5)) * [1, 1, 900, 1, 1]
    found = compare(X, purpose="keep distances", methods=("PCA", "Isomap"))
    assert found.verdicts[0].startswith("Column 2 holds 100.0% of the squared distances between rows")
    assert not any("squared distances" in told for entry in found.ranking for told in entry.warnings)
    scaled = compare(X / X.std(axis=0), purpose="keep distances", methods=("PCA", "Isomap"))
    assert not any("squared distances" in told for told in scaled.verdicts)
