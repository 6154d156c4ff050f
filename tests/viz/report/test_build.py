"""What a report says equals what the functions of the library say, whatever comes in."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import pairwise_distances
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manifoldry import (
    MDS,
    PCA,
    UMAP,
    AutoEmbedding,
    Isomap,
    PrincipalCurve,
    build_report,
    compare,
    datasets,
    diagnose,
    metrics,
)
from manifoldry._core.registry import list_methods
from manifoldry._core.run import Run
from manifoldry.evaluation.reliability._picture_clusters import picture_clusters
from manifoldry.viz._report import build
from manifoldry.viz._report import inputs as report_rows
from manifoldry.viz._report.page import render

ROLL = datasets.swiss_roll(300, random_state=1)
LABELS = np.where(ROLL.truth[:, 0] < np.median(ROLL.truth[:, 0]), "inner", "outer")


@pytest.fixture(scope="module")
def models():
    return {"Isomap": Isomap(n_neighbors=8).fit(ROLL.X), "UMAP": UMAP(n_neighbors=8).fit(ROLL.X)}


@pytest.fixture(scope="module")
def report(models):
    return build_report(ROLL.X, models, label=LABELS, title="roll", record={"seed": 0})


def panel(report, name):
    return next(panel for panel in report.panels if panel.name == name)


def values(report, figure, name):
    row = next(row for row in report.quality if row["name"] == figure)
    return row["values"][name], row["errors"][name]


def table(n, columns=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, columns))


def gathered(report):
    """Return everything in a report as nested lists that compare equal or not."""
    return [
        [
            [p.name, p.coordinates.tolist(), p.caption, p.reading, p.sentences, *map(repr, p.colors.items())]
            for p in report.panels
        ],
        report.ids.tolist(),
        report.quality,
        report.findings,
        [(c.title, {k: (x.tolist(), y.tolist()) for k, (x, y) in c.series.items()}) for c in report.charts],
        report.notes,
        report.summary,
    ]


def test_panels_are_the_embeddings_in_their_order_and_pca_behind(report, models):
    assert [p.name for p in report.panels] == ["Isomap", "UMAP", "PCA"]
    for name, model in models.items():
        assert np.array_equal(panel(report, name).coordinates, model.embedding_)
    ours, theirs = panel(report, "PCA").coordinates, PCA(n_components=2).fit(ROLL.X).embedding_
    assert np.allclose(ours * np.sign(ours[0]), theirs * np.sign(theirs[0]))
    assert (report.title, report.record, report.label) == ("roll", {"seed": 0}, "label")


def test_figures_are_those_of_the_score(report, models):
    for name, model in models.items():
        score = metrics.score(ROLL.X, model.embedding_, labels=LABELS)
        for row in report.quality:
            assert row["values"][name] == pytest.approx(score[row["name"]], rel=1e-9)
            assert row["errors"][name] == pytest.approx(score.errors[row["name"]], rel=1e-9, abs=1e-12)
            assert row["values"]["PCA"] == pytest.approx(score.pca[row["name"]], rel=1e-6, abs=1e-9)
    entries = {row["name"]: row for row in report.quality}
    assert {"trustworthiness", "r_nx_auc", "spearman", "silhouette"} <= set(entries)
    assert not any(metrics.TABLE[name].in_units for name in entries)
    assert entries["trustworthiness"]["meaning"] == metrics.TABLE["trustworthiness"].meaning


def test_colors_are_the_values_of_their_functions(report, models):
    Y = models["UMAP"].embedding_
    colors = panel(report, "UMAP").colors
    evaluated = metrics.reliability(ROLL.X, Y)
    assert np.array_equal(colors["reliability"], evaluated.verdict)
    assert np.array_equal(colors["neighbors kept"], evaluated.score)
    bent = metrics.local_distortion(ROLL.X, Y)
    assert np.allclose(colors["angles kept"], bent.conformality)
    assert np.allclose(colors["torn or folded"], bent.residuals)
    length = np.log2(bent.areas) / 2
    assert np.allclose(colors["stretch"], length - np.median(length))
    seen = picture_clusters(Y, assign=False)
    assert np.array_equal(colors["cluster"] == "", seen < 0)
    assert len(set(zip(colors["cluster"], seen, strict=True))) == len(set(seen))
    sizes = [np.sum(colors["cluster"] == str(k)) for k in range(1, seen.max() + 2)]
    assert sizes == sorted(sizes, reverse=True)


def test_densities_compare_distances_to_neighbors(report):
    away = np.sort(pairwise_distances(ROLL.X), axis=1)[:, 1:16]
    radius = np.sqrt(np.mean(away**2, axis=1))
    found = panel(report, "Isomap").colors["density of the data"]
    assert np.allclose(found, np.log2(np.median(radius) / radius))
    assert panel(report, "UMAP").colors["density of the data"] is found


def test_every_color_has_a_scale_with_a_meaning(report):
    names = {name for p in report.panels for name in p.colors}
    assert names == set(report.scales)
    assert all(scale.meaning for scale in report.scales.values())


def test_charts_are_what_the_functions_draw(report, models):
    charts = {chart.title: chart for chart in report.charts}
    Y = models["Isomap"].embedding_
    sizes, curve = charts["Preserved neighborhoods (R_NX)"].series["Isomap"]
    assert np.allclose(curve, metrics.r_nx(ROLL.X, Y, n_neighbors=sizes.astype(int)))
    assert charts["Preserved neighborhoods (R_NX)"].log_x
    area = metrics.r_nx_auc(ROLL.X, Y)
    assert charts["Preserved neighborhoods (R_NX)"].legend["Isomap"] == f"area {area:.2f}"
    drawn = metrics.shepard_diagram(ROLL.X, Y, n_pairs=1000)
    before, after = charts["Shepard diagram"].series["Isomap"]
    scale = (before @ drawn.after) / (drawn.after @ drawn.after)
    assert np.array_equal(before, drawn.before)
    assert np.allclose(after, scale * drawn.after)
    variances = PCA(n_components=3).fit(ROLL.X).explained_variance_
    assert np.allclose(charts["Spectrum"].series["PCA"][1], variances / variances[0])
    left = models["Isomap"].residual_variances(8, sample=500)
    assert np.allclose(charts["Residual variance"].series["Isomap"][1], left)
    assert all(chart.meaning for chart in report.charts)


def test_the_spectrum_of_a_method_is_drawn_relative_to_its_largest_value():
    model = Isomap(n_components=4, n_neighbors=8).fit(ROLL.X)
    charts = {chart.title: chart for chart in build_report(ROLL.X, {"four": model}).charts}
    assert np.allclose(charts["Spectrum"].series["four"][1], model.spectrum_.values / model.spectrum_.values[0])


def test_findings_are_those_of_diagnose_or_those_passed(report, models):
    expected = diagnose(ROLL.X, labels=LABELS)
    assert [f["sentence"] for f in report.findings] == [f.sentence for f in expected]
    passed = diagnose(table(30))
    again = build_report(ROLL.X, {"UMAP": models["UMAP"]}, diagnosis=passed)
    assert [f["topic"] for f in again.findings] == list(passed.topics)


def test_parameters_are_resolved_and_plain(report, models):
    shown = panel(report, "UMAP").parameters
    assert shown["n_epochs"] == models["UMAP"].diagnostics_["n_epochs"]
    assert shown["n_neighbors"] == 8
    assert "callback" not in shown
    assert all(isinstance(value, (bool, int, float, str)) for value in shown.values())


def test_what_a_fit_said_is_in_its_sentences():
    X = table(200, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Isomap(n_neighbors=8).fit(X)
    said = panel(build_report(X, {"Isomap": model}), "Isomap").sentences
    assert set(model.diagnostics_["advice"]) <= set(said)
    assert any("dimensions, the layout 2" in sentence for sentence in said)
    assert len(set(said)) == len(said)


def test_words_follow_the_figures():
    flat = np.random.default_rng(0).uniform(size=(300, 2))
    shuffled = np.random.default_rng(1).permutation(flat)
    found = build_report(flat, {"good": flat, "random": shuffled})
    assert found.summary[0].startswith("PCA preserves 100%")
    good = "Neighbors in the plot are neighbors in the data: the positions of all of the 300"
    assert panel(found, "good").reading[0].startswith(good)
    told = " ".join(panel(found, "random").reading)
    assert "Read groups, not individual points" in told
    assert "Do not read which groups" in told
    assert "PCA preserves more neighbors (100% instead of" in told
    assert "chance: 5%" in panel(found, "random").caption


def test_a_picture_in_space_is_compared_with_as_many_components():
    X = table(200)
    shown = build_report(X, {"flat": X[:, :2], "space": X[:, :3]})
    kept = metrics.score(X, X[:, :3]).pca["knn_kept"]
    assert shown.summary[0].endswith(f"(PCA: {kept:.0%}).")
    assert f"(PCA: {kept:.0%}, " in panel(shown, "space").caption
    assert f"(PCA: {kept:.0%}, " not in panel(shown, "flat").caption


def test_the_summary_tells_which_distances_are_kept(report):
    kept = next(sentence for sentence in report.summary if "preserves distances best" in sentence)
    name = kept.split(" preserves")[0]
    found = metrics.score(ROLL.X, panel(report, name).coordinates, figures=["spearman", "geodesic_correlation"])
    assert ("geodesic distances" in kept) == (found["geodesic_correlation"] >= found["spearman"] + 0.02)
    assert f"{max(found.values()):.2f}" in kept


@pytest.mark.parametrize(("share", "said"), [(0.0, "none"), (0.005, "under 1%"), (0.995, "over 99%"), (1.0, "all")])
def test_nearly_all_is_not_called_all(share, said):
    assert build._share(share) == said


def test_the_same_seed_gives_the_same_report():
    X = table(80)
    first, second = (build_report(X, {"a": X[:, :2]}, random_state=3) for _ in range(2))
    assert gathered(first) == gathered(second)


def test_inputs_are_not_changed(models):
    X, Y = ROLL.X.copy(), models["UMAP"].embedding_.copy()
    build_report(X, {"a": Y}, columns={"t": ROLL.truth[:, 0]})
    assert np.array_equal(X, ROLL.X)
    assert np.array_equal(Y, models["UMAP"].embedding_)


@pytest.mark.parametrize("card", [c for c in list_methods() if c.name != "EAT"], ids=lambda card: card.name)
def test_every_method_gives_a_panel(card):
    X = np.abs(datasets.swiss_roll(60, random_state=0).X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = card.cls(**card.test_params).fit(X)
        found = build_report(X, {card.name: model})
    first = found.panels[0]
    assert first.name == card.name
    assert first.coordinates.shape == (60, max(2, min(3, model.embedding_.shape[1])))
    assert first.reading
    assert first.parameters


def test_one_dimension_gets_a_second_that_only_makes_room():
    X = datasets.s_curve(200, random_state=0).X
    model = PrincipalCurve().fit(X)
    found = build_report(X, {"curve": model})
    places = found.panels[0].coordinates
    assert np.array_equal(places[:, 0], model.embedding_[:, 0])
    assert np.ptp(places[:, 1]) < np.ptp(places[:, 0])
    assert "One dimension" in found.panels[0].caption
    score = metrics.score(X, model.embedding_)  # without the second
    assert values(found, "knn_kept", "curve")[0] == pytest.approx(score["knn_kept"])
    assert values(found, "knn_kept", "PCA")[0] == pytest.approx(score.pca["knn_kept"])
    again = build_report(X, {"curve": model}).panels[0].coordinates
    assert np.array_equal(places, again)


def test_three_dimensions_are_shown_and_of_more_the_first_two_are_judged():
    X = table(60)
    found = build_report(X, {"three": X[:, :3], "five": X})
    assert [p.coordinates.shape[1] for p in found.panels] == [3, 2, 3]
    assert "first 2 of 5" in panel(found, "five").caption
    assert values(found, "knn_kept", "five")[0] == pytest.approx(metrics.score(X, X[:, :2])["knn_kept"])
    assert any("different dimensions" in note for note in found.notes)


def test_a_pipeline_is_compared_with_the_data_it_prepared():
    X = table(80) * [1, 10, 100, 1000, 1]
    model = make_pipeline(StandardScaler(), Isomap(n_neighbors=8)).fit(X)
    found = build_report(X, {"Isomap": model})
    score = metrics.score(StandardScaler().fit_transform(X), model[-1].embedding_)
    assert values(found, "spearman", "Isomap")[0] == pytest.approx(score["spearman"])
    assert any("StandardScaler" in note for note in found.notes)
    assert panel(found, "Isomap").parameters["n_neighbors"] == 8


def test_distances_are_compared_with_classical_scaling():
    D = pairwise_distances(table(60))
    found = build_report(D, {"MDS": MDS(metric="precomputed").fit(D)})
    assert [p.name for p in found.panels] == ["MDS", "ClassicalMDS"]
    score = metrics.score(D, found.panels[0].coordinates, metric="precomputed")
    assert values(found, "trustworthiness", "MDS")[0] == pytest.approx(score["trustworthiness"])


def test_sparse_rows_and_other_metrics_are_taken():
    X = table(60)
    X[np.abs(X) < 1] = 0
    dense, sparse = (build_report(data, {"a": X[:, :2]}) for data in (X, csr_array(X)))
    assert values(dense, "knn_kept", "a") == pytest.approx(values(sparse, "knn_kept", "a"))
    model = UMAP(metric="cosine", n_neighbors=8).fit(X + 1)
    found = build_report(X + 1, {"UMAP": model})
    score = metrics.score(X + 1, model.embedding_, metric="cosine")
    assert values(found, "knn_kept", "UMAP")[0] == pytest.approx(score["knn_kept"])
    other = build_report(X + 1, {"UMAP": model}, metric="euclidean")
    assert any("UMAP (cosine)" in note for note in other.notes)


def test_a_comparison_shows_its_methods_the_best_first():
    X = table(120)
    found = compare(X, budget=None, methods=["Isomap", "LTSA"])
    page = build_report(X, found)
    assert [p.name for p in page.panels] == [entry.name for entry in found.ranking]
    for entry in found.ranking:
        assert set(entry.reasons) <= set(panel(page, entry.name).sentences)
    assert page.summary[: len(found.verdicts)] == found.verdicts
    model = AutoEmbedding(methods=["Isomap", "LTSA"]).fit(X)
    assert [p.name for p in build_report(X, model).panels] == list(model.comparison_.embeddings)


def test_rows_without_a_place_are_shown_as_such_and_not_judged():
    X = table(60)
    Y = X[:, :2].copy()
    Y[:7, 0] = np.nan
    found = build_report(X, {"a": Y})
    assert np.isnan(found.panels[0].coordinates[:7]).all()
    assert (panel(found, "PCA").colors["reliability"][:7] == "").all()
    assert np.isnan(panel(found, "PCA").colors["density of the data"][:7]).all()
    assert values(found, "knn_kept", "a")[0] == pytest.approx(metrics.score(X[7:], Y[7:])["knn_kept"])
    assert any("7 of 60 rows" in note for note in found.notes)


@pytest.mark.parametrize("n", [3, 5, 12, 25])
def test_few_rows_get_what_they_allow(n):
    found = build_report(table(n), {"a": table(n)[:, :2]})
    assert len(found.panels) == 2
    assert found.quality
    assert ("reliability" in found.panels[0].colors) == (n >= 20)
    assert render(found)


def test_duplicates_are_not_judged_point_by_point():
    X = np.repeat(table(6), 10, axis=0)
    found = build_report(X, {"a": X[:, :2]})
    assert "reliability" not in found.panels[0].colors
    assert any("are duplicates" in note for note in found.notes)
    same = build_report(table(30), {"a": np.zeros((30, 2))})  # and all points on one place
    assert render(same)


def test_many_rows_are_judged_by_a_uniform_sample(monkeypatch):
    monkeypatch.setattr(report_rows, "MAX_EVALUATED_ROWS", 150)
    monkeypatch.setattr(report_rows, "N_EVALUATED_ROWS", 100)
    X = table(400)
    found, other = (build_report(X, {"a": X[:, :2]}, random_state=seed) for seed in (0, 1))
    known, elsewhere = (np.flatnonzero(one.panels[0].colors["reliability"] != "") for one in (found, other))
    assert len(known) == len(elsewhere) == 100
    assert not np.array_equal(known, elsewhere)
    assert values(found, "knn_kept", "a")[0] == pytest.approx(metrics.score(X[known], X[known, :2])["knn_kept"])
    assert np.isnan(np.delete(found.panels[0].colors["stretch"], known)).all()
    assert any("100 of 400 rows" in note and "about 60 neighbors among all rows" in note for note in found.notes)


def test_wide_rows_and_many_panels_are_judged_by_fewer():
    rows, run = np.arange(9000), Run(0)
    assert len(report_rows.evaluation_rows(rows, 2, 50, run)) == 9000
    assert len(report_rows.evaluation_rows(rows, 5, 50, run)) == 5000
    assert len(report_rows.evaluation_rows(rows, 2, 2000, run)) == 2500
    assert len(report_rows.evaluation_rows(rows, 2, 100_000, run)) == 1000
    assert len(report_rows.evaluation_rows(rows[:800], 2, 100_000, run)) == 800


def test_too_many_rows_for_a_page_are_drawn_with_equal_chances(monkeypatch):
    monkeypatch.setattr(report_rows, "MAX_SHOWN_ROWS", 300)
    monkeypatch.setattr(report_rows, "N_EVALUATED_ROWS", 30)
    X = table(1200)
    label = np.repeat(["a", "b"], 600)
    pictures = np.arange(1200, dtype=np.uint8)[:, None, None]
    found = build_report(X, {"a": X[:, :2]}, label=label, thumbnails=pictures, diagnosis=NOTHING)
    assert len(found.ids) == len(found.panels[0].coordinates) == len(found.columns["label"]) == 300
    assert np.array_equal(found.panels[0].coordinates, X[found.ids, :2])
    assert np.array_equal(found.columns["label"], label[found.ids])
    assert np.array_equal(found.thumbnails, pictures[found.ids])
    assert any("sample of 300 of 1,200 rows is shown" in note for note in found.notes)
    counts = np.zeros(1200)
    for seed in range(100):
        counts[report_rows.shown_rows(1200, 20.0, Run(seed))] += 1
    # 100 draws of a quarter: each row expects 25 with a standard deviation of 4.3, each half 15,000 with about 130.
    assert abs(counts[:600].sum() - 15_000) < 600
    assert counts.min() > 3
    assert counts.max() < 50


def test_wide_tables_show_fewer_rows(monkeypatch):
    monkeypatch.setattr(report_rows, "MAX_PAGE_BYTES", 20_000)
    monkeypatch.setattr(report_rows, "MAX_SAMPLED_BYTES", 10_000)
    monkeypatch.setattr(report_rows, "N_EVALUATED_ROWS", 30)
    X = table(400)
    assert len(build_report(X, {"a": X[:, :2]}, diagnosis=NOTHING).ids) == 400
    columns = {f"c{i}": X[:, 0] for i in range(20)}
    assert len(build_report(X, {"a": X[:, :2]}, columns=columns, diagnosis=NOTHING).ids) < 120


NOTHING = diagnose(table(30))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"embeddings": {}}, "at least one embedding"),
        ({"embeddings": None}, "no coordinates"),
        ({"embeddings": {"a": np.zeros((5, 2))}}, "a has no coordinates for these 40 rows"),
        ({"embeddings": {"a": [["x", "y"]] * 40}}, "array of coordinates"),
        ({"embeddings": {"a": np.full((40, 2), np.nan)}}, "no finite coordinates"),
        ({"embeddings": {"a": UMAP()}}, "not fitted"),
        ({"X": np.full((40, 5), np.nan)}, "NaN or infinity"),
        ({"X": np.ones((40, 5))}, "identical"),
        ({"X": [["a", "b"]] * 40}, "must be numeric"),
        ({"X": np.zeros(40)}, "table of shape"),
        ({"X": table(2), "embeddings": {"a": table(2)}}, "At least 3"),
        ({"label": "z"}, "not one of the columns"),
        ({"columns": {"c": [1, 2]}}, "'c' needs one entry"),
        ({"columns": [1, 2]}, "must map names"),
        ({"ids": [1, 2]}, "'row' needs one entry"),
        ({"thumbnails": np.zeros((40, 3, 3))}, "uint8"),
        ({"thumbnails": np.zeros((40, 3, 3, 2), np.uint8)}, "uint8"),
        ({"metric": "furlong"}, "metric must be"),
        ({"metric": "precomputed"}, "square"),
        ({"metric": "gram"}, "needs distances"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(arguments, words):
    X = arguments.pop("X", table(40))
    embeddings = arguments.pop("embeddings", {"a": table(40)[:, :2]})
    with pytest.raises(ValueError, match=words):
        build_report(X, embeddings, **arguments)
