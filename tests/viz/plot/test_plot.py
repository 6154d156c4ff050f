"""What the plots show: colors, legends, ticks, curves; and what they refuse."""

import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgb
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers import in_new_process
from manifoldry import IPA, PCA, TSNE, Isomap, KMeans, datasets, metrics, plot
from manifoldry._core.markup import PALETTE, UNKNOWN
from manifoldry._core.values import Spectrum

mpl.use("Agg")
import matplotlib.pyplot as plt

ROLL = datasets.swiss_roll(300, random_state=1)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def pca():
    return PCA(n_components=3).fit(ROLL.X)


@pytest.fixture(scope="module")
def ipa():
    return IPA(n_patches=12).fit(ROLL.X)


def entries(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def drawn(ax):
    """Return the places and colors of all points, sorted by place."""
    places = np.concatenate([np.asarray(found.get_offsets()) for found in ax.collections])
    colors = np.concatenate([np.broadcast_to(c.get_facecolors(), (len(c.get_offsets()), 4)) for c in ax.collections])
    order = np.lexsort(places.T)
    return places[order], colors[order]


def test_every_point_is_drawn_once_in_the_color_of_its_class():
    Y = np.arange(60.0).reshape(30, 2)
    labels = np.repeat(["b", "a", "c"], 10)
    places, colors = drawn(plot.scatter(Y, labels))
    np.testing.assert_array_equal(places, Y)
    assert [to_hex(color) for color in colors] == [PALETTE["abc".index(label)] for label in labels]


def test_points_are_drawn_in_mixed_order_so_that_no_class_covers_the_others():
    labels = np.repeat([0, 1], 200)
    ax = plot.scatter(np.random.default_rng(0).normal(size=(400, 2)), labels)
    first = [to_hex(color) for color in ax.collections[0].get_facecolors()[:200]]
    assert 60 < first.count(PALETTE[0]) < 140


def test_classes_keep_the_order_of_a_categorical_type_and_numbers_in_names_count():
    Y = np.random.default_rng(0).normal(size=(4, 2))
    sizes = pd.Series(pd.Categorical(["low", "high", "low", "mid"], ["low", "mid", "high"]), name="dose")
    ax = plot.scatter(Y, sizes)
    assert entries(ax) == ["low", "mid", "high"]
    assert ax.get_legend().get_title().get_text() == "dose"
    assert entries(plot.scatter(Y, ["day 10", "day 2", "day 1", "day 2"])) == ["day 1", "day 2", "day 10"]


def test_names_and_palettes_go_by_order_or_by_label():
    Y, labels = np.random.default_rng(0).normal(size=(4, 2)), [3, 7, 3, 7]
    assert entries(plot.scatter(Y, labels, names=["three", "seven"])) == ["three", "seven"]
    ax = plot.scatter(Y, labels, names={7: "seven"}, palette={3: "black", 7: "red"})
    assert entries(ax) == ["3", "seven"]
    order = np.lexsort(Y.T)
    assert [to_hex(c) for c in drawn(ax)[1]] == [to_hex("red" if labels[i] == 7 else "black") for i in order]


def test_points_without_a_class_are_gray_and_said_to_be():
    ax = plot.scatter(np.arange(8.0).reshape(4, 2), ["a", None, "b", float("nan")])
    assert entries(ax) == ["a", "b", "missing"]
    assert [to_hex(color) for color in drawn(ax)[1]][1::2] == [UNKNOWN] * 2


def test_of_more_than_twenty_classes_the_smaller_ones_are_gray_together():
    counts = np.arange(1, 26)
    labels = np.repeat(np.arange(25), counts)
    ax = plot.scatter(np.random.default_rng(0).normal(size=(len(labels), 2)), labels)
    assert entries(ax) == [*(str(label) for label in range(6, 25)), "6 smaller classes"]
    gray = [to_hex(color) for color in drawn(ax)[1]].count(UNKNOWN)
    assert gray == counts[:6].sum()


def test_twenty_classes_are_told_apart_by_color_and_shape():
    labels = np.arange(20)
    ax = plot.scatter(np.random.default_rng(0).normal(size=(20, 2)), labels)
    handles = ax.get_legend().legend_handles
    assert len({(to_hex(h.get_color()), h.get_marker()) for h in handles}) == 20


def test_points_of_two_shapes_lie_in_layers_so_that_none_covers_the_other():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 20, 2000)
    ax = plot.scatter(rng.normal(size=(2000, 2)), labels)
    sizes = [len(found.get_offsets()) for found in ax.collections]
    assert sum(sizes) == 2000
    assert max(sizes) < 200


def test_numbers_get_a_bar_and_missing_ones_gray():
    color = pd.Series([0.0, 1.0, np.nan, 3.0], name="age")
    ax = plot.scatter(np.arange(8.0).reshape(4, 2), color=color)
    bar = ax.figure.axes[-1]
    assert (bar.get_ylabel(), bar.get_ylim()) == ("age", (0.0, 3.0))
    ax.figure.canvas.draw()
    assert to_hex(drawn(ax)[1][2]) == UNKNOWN
    assert ax.get_legend() is None


def test_axes_of_tsne_have_no_ticks_and_those_of_pca_have_names(pca):
    assert plot.scatter(pca, components=(2, 0)).get_xlabel() == "PCA 3"
    ax = plot.scatter(TSNE(max_iter=20, early_exaggeration_iter=10).fit(ROLL.X[:60]))
    assert (len(ax.get_xticks()), ax.get_xlabel(), ax.get_title()) == (0, "", "TSNE")


def test_frames_pipelines_data_sets_and_arrays_are_taken(pca):
    frame = pd.DataFrame(pca.embedding_[:, :2], columns=["width", "depth"])
    assert plot.scatter(frame).get_ylabel() == "depth"
    pipeline = make_pipeline(StandardScaler(), PCA(n_components=2)).fit(ROLL.X)
    np.testing.assert_array_equal(
        drawn(plot.scatter(pipeline))[0], pipeline[-1].embedding_[np.lexsort(pipeline[-1].embedding_.T)]
    )
    ax = plot.scatter3d(ROLL)
    assert ax.name == "3d"
    assert ax.figure.axes[-1].get_ylim() == (ROLL.color.min(), ROLL.color.max())


def test_given_axes_are_used_and_else_a_new_figure(pca):
    figure, axes = plt.subplots(1, 2)
    assert plot.scatter(pca, ax=axes[1]) is axes[1]
    assert not axes[0].collections
    assert plot.scatter(pca).figure is not figure


def test_one_unit_along_both_axes(pca):
    ax = plot.scatter(pca)
    ax.figure.canvas.draw()
    origin, across, up = ax.transData.transform([(0, 0), (1, 0), (0, 1)])
    assert across[0] - origin[0] == pytest.approx(up[1] - origin[1], rel=1e-6)


def test_many_points_are_small_and_become_pixels_in_vector_files(tmp_path):
    Y = np.random.default_rng(0).normal(size=(6000, 2))
    few, many = plot.scatter(Y[:100]).collections[0], plot.scatter(Y).collections[0]
    assert many.get_sizes()[0] < few.get_sizes()[0]
    assert many.get_alpha() < few.get_alpha()
    assert many.get_rasterized()
    assert not few.get_rasterized()


def test_points_without_a_place_are_left_out_and_counted():
    Y = np.arange(8.0).reshape(4, 2)
    Y[1] = np.nan
    ax = plot.scatter(Y, ["a", "b", "a", "a"])
    assert len(drawn(ax)[0]) == 3
    assert [text.get_text() for text in ax.texts] == ["1 point without coordinates"]


def test_eigenvalues_are_drawn_with_the_suggested_dimension(pca):
    ax = plot.eigenvalues(pca)
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), pca.spectrum_.values)
    suggested = int(pca.suggest_n_components())
    assert ax.get_lines()[1].get_xdata()[0] == suggested + 0.5
    assert ax.texts[0].get_text().strip() == f"suggested: {suggested}"


@pytest.mark.parametrize(("values", "order"), [([9.0, 8.0, 0.1, 0.1], "largest"), ([0.01, 0.02, 4.0, 5.0], "smallest")])
def test_the_widest_gap_of_bare_eigenvalues_is_marked(values, order):
    spectrum = Spectrum(np.array(values), np.eye(4), np.zeros(4), order)
    assert plot.eigenvalues(spectrum).get_lines()[1].get_xdata()[0] == 2.5


def test_residual_variance_is_the_models_own_and_its_elbow_ringed(pca):
    model = Isomap(n_neighbors=8).fit(datasets.s_curve(400).X)
    ax = plot.residual_variance({"geodesic": model, "linear": pca}, 5)
    lines = ax.get_lines()
    np.testing.assert_allclose(lines[0].get_ydata(), model.residual_variances(5))
    np.testing.assert_allclose(lines[2].get_ydata(), pca.diagnostics_["left_over"][:5])
    assert lines[1].get_xdata()[0] == 2
    assert entries(ax) == ["geodesic", "linear"]


def test_shepard_draws_every_pair_and_the_regression():
    X = np.random.default_rng(0).normal(size=(40, 3))
    ax = plot.shepard(X, X[:, :2])
    assert ax.collections[0].get_array().sum() == 40 * 39 / 2
    found = metrics.shepard_diagram(X, X[:, :2], n_pairs=20_000)
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), found.fitted)
    assert f"{found.spearman:.3f}" in entries(ax)[0]


def test_rnx_draws_the_curve_of_each_embedding_and_its_area(pca):
    ax = plot.rnx(ROLL, {"PCA": pca, "random": np.random.default_rng(0).normal(size=(300, 2))})
    chance, first, _ = ax.get_lines()
    assert set(chance.get_ydata()) == {0}
    np.testing.assert_allclose(first.get_ydata(), metrics.r_nx(ROLL.X, pca.embedding_))
    assert entries(ax)[0] == f"PCA, {metrics.r_nx_auc(ROLL.X, pca.embedding_):.3f}"
    sampled = plot.rnx(ROLL, pca, sample=50)
    assert [text.get_text() for text in sampled.texts] == ["neighborhoods of 50 of 300 points"]


def test_distortion_shows_what_is_enlarged_and_what_is_shrunk():
    flat = np.random.default_rng(0).uniform(size=(400, 2))
    Y = np.where(flat[:, :1] < 0.7, flat, [0.7, 0] + (flat - [0.7, 0]) * [3.0, 1.0])
    folds = np.ma.getdata(plot.distortion(flat, Y).collections[0].get_array())
    assert (np.abs(folds) < 0.01).mean() == pytest.approx(0.65, abs=0.1)
    assert np.quantile(folds, 0.9) == pytest.approx(np.log2(3), abs=0.01)
    residuals = plot.distortion(metrics.local_distortion(flat, Y), Y, by="residuals").collections[0].get_array()
    assert np.median(residuals) < 0.01


def test_reliability_shows_the_verdicts():
    X = np.random.default_rng(0).uniform(size=(400, 2))
    Y = X.copy()
    Y[:20] = 1 - Y[:20]
    found = metrics.reliability(X, Y)
    _, colors = drawn(plot.reliability(found, Y))
    assert [to_hex(color) for color in colors].count(PALETTE[2]) == found.counts["dubious"]


def test_overlapping_patches_have_different_colors(ipa):
    from manifoldry.viz.plot._maps import _patch_colors

    colors, overlaps = _patch_colors(ipa.patches_), ipa.patches_.overlaps
    assert len(overlaps.first)
    assert (colors[overlaps.first] != colors[overlaps.second]).all()
    assert len(drawn(plot.patches(ipa))[0]) == len(ROLL.X)
    assert plot.patches(ipa, ROLL).name == "3d"


def test_charts_show_the_local_coordinates_of_the_largest_patches(ipa):
    axes = plot.charts(ipa, 5)
    sizes = [len(ax.collections[0].get_offsets()) for ax in axes]
    counts = np.sort(np.bincount(ipa.patches_.members.patches))[::-1]
    assert sizes == counts[:5].tolist()
    figure, grid = plt.subplots(1, 2)
    assert plot.charts(ipa, 2, axes=grid)[1].figure is figure


def test_the_graph_has_each_edge_once(ipa):
    model = Isomap(n_neighbors=6).fit(ROLL.X)
    segments = plot.graph(model).collections[-1].get_segments()
    assert len(segments) == model.graph_.n_edges / 2
    lengths = {tuple(np.round(np.sort(np.ravel(ends)), 9)) for ends in segments}
    assert len(lengths) == len(segments)


def test_embeddings_side_by_side_are_turned_onto_the_first_and_keep_their_shape():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(100, 2)) * [3, 1]
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    axes = plot.compare({"one": Y, "turned": 5 * Y @ turn + 7}, np.arange(100) % 3)
    one, turned = (drawn(ax)[0] for ax in axes)
    np.testing.assert_allclose((turned - turned.mean(axis=0)) / 5, one - one.mean(axis=0), atol=1e-9)
    assert [ax.get_title() for ax in axes] == ["one", "turned"]
    assert entries(axes[1]) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: plot.scatter(Isomap()), "not fitted"),
        (lambda: plot.scatter(KMeans(n_clusters=2).fit(ROLL.X)), "labels=model.labels_"),
        (lambda: plot.scatter(ROLL.X[:, :1]), "needs 2 different columns"),
        (lambda: plot.scatter("file.csv"), "must be coordinates"),
        (lambda: plot.scatter(ROLL.X, [1, 2]), "one entry for each of the 300 points"),
        (lambda: plot.scatter(ROLL.X, ROLL.X[:, 0]), "pass them as color="),
        (lambda: plot.scatter(ROLL.X, color=["a"] * 300), "pass classes or text as labels="),
        (lambda: plot.scatter(ROLL.X, [0] * 300, color=[0] * 300), "both be given"),
        (lambda: plot.scatter(ROLL.X, [0] * 300, names=["a", "b"]), "one per class"),
        (lambda: plot.scatter({"a": ROLL.X}), "plot.compare"),
        (lambda: plot.scatter3d(ROLL, ax=plt.subplots()[1]), "projection='3d'"),
        (lambda: plot.scatter(ROLL.X, ax="here"), "must be matplotlib axes"),
        (lambda: plot.eigenvalues(TSNE()), "no eigenvalues"),
        (lambda: plot.residual_variance(TSNE()), "neither Isomap nor PCA"),
        (lambda: plot.rnx(ROLL, {}), "embeddings is empty"),
        (lambda: plot.distortion(ROLL, ROLL.X[:, :2], by="size"), "by must be one of"),
        (lambda: plot.patches(PCA()), "pass a fitted IPA"),
        (lambda: plot.graph(PCA(n_components=2).fit(ROLL.X)), "no neighbor graph"),
        (lambda: plot.compare([ROLL.X]), "mapping of names"),
        (lambda: plot.compare({"a": ROLL.X, "b": ROLL.X[:9]}), "same points"),
    ],
)
def test_what_cannot_be_drawn_gets_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_without_matplotlib_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'run pip install "manifoldry\[plot\]"'):
        plot.scatter(ROLL.X)


def test_the_module_loads_without_matplotlib():
    script = "import sys, manifoldry; manifoldry.plot.scatter; print('matplotlib' in sys.modules)"
    assert in_new_process(script) == "False"


# Machado, Oliveira and Fernandes's matrices of complete protanopia, deuteranopia and tritanopia, for linear RGB.
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def cielab(rgb):
    xyz = rgb @ np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]).T
    f = np.cbrt(np.maximum(xyz / [0.9505, 1.0, 1.089], 0.008856))
    return np.column_stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])])


@pytest.mark.parametrize("blindness", BLINDNESS)
def test_colors_of_classes_are_told_apart_by_everyone(blindness):
    rgb = np.array([to_rgb(color) for color in PALETTE])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = cielab(np.clip(linear @ np.array(BLINDNESS[blindness]).T, 0, 1))
    apart = np.linalg.norm(seen[:, None] - seen, axis=2)[np.triu_indices(len(PALETTE), 1)]
    assert apart.min() > 10  # 2.3 is the least difference that is seen


def test_long_names_are_wrapped_beside_the_axes_and_stay_text():
    ax = plot.scatter(ROLL.X[:, :2], np.where(np.arange(300) % 2, "from $5 to $10", "a long name of a class " * 9))
    ax.figure.canvas.draw()
    long, money = entries(ax)
    assert max(map(len, long.split("\n"))) <= 32
    assert long.endswith("…")
    assert money == r"from \$5 to \$10"
    assert ax.get_legend().get_window_extent().x0 > ax.get_window_extent().x1
