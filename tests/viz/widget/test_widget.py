"""The widget in Python: what is sent to the browser and back, and what is checked first."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from helpers import bent_sheet, in_new_process
from manifoldry import PCA, TSNE, AutoEmbedding, FastICA, Isomap, metrics
from manifoldry.viz._report.page import COORDINATE_GRID

N = 60
X = bent_sheet(N)
KINDS = np.array(["a", "b", "c"])[np.arange(N) % 3]


@pytest.fixture
def widget():
    return PCA().fit(X).explore(X, labels=KINDS)


def panels_of(widget):
    """Return the coordinates of each panel as the browser reads them."""
    state = widget.get_state("_panels")["_panels"]
    found = {}
    for panel in state["panels"]:
        points = np.frombuffer(state["data"][panel["data"]["block"]], dtype="<f4").reshape(-1, panel["dimension"])
        found[panel["name"]] = points * panel["scale"] + panel["center"]
    return found


def colors_of(widget):
    """Return the entries of each column of the color as the browser reads them."""
    state = widget.get_state("_coloring")["_coloring"]
    found = []
    for column in state["columns"]:
        values = np.frombuffer(state["data"][column["data"]["block"]], dtype=column["data"]["dtype"])
        names = ["", *column.get("categories", [])]
        found.append([names[code] for code in values] if column["kind"] == "category" else values.tolist())
    return found


def test_panels_hold_the_coordinates(widget):
    widget.method = ["PCA", Isomap().fit(X)]
    assert widget.method == ["PCA", "Isomap"]
    for name, model in [("PCA", PCA()), ("Isomap", Isomap())]:
        Y = model.fit(X).embedding_
        extent = np.ptp(Y, axis=0).max() / 2
        # Rounded to the grid, and to the 24 bits of a float of at most 1.
        assert np.abs(panels_of(widget)[name] - Y).max() <= extent * (COORDINATE_GRID / 2 + 2.0**-24) * (1 + 1e-9)


def test_a_selection_goes_to_the_browser_and_back(widget):
    seen = []
    widget.observe(lambda change: seen.append(change.new.tolist()), "selection")
    widget.selection = [17, 3, 3, 59]
    assert widget.selection.tolist() == [3, 17, 59]
    assert widget.selection.dtype == np.int64
    data = widget.get_state("selection")["selection"]
    assert len(data) == 8  # one bit per row
    assert [i for i in range(N) if data[i // 8] >> (i % 8) & 1] == [3, 17, 59]
    widget.selection = KINDS == "b"
    assert widget.selection.tolist() == list(range(1, N, 3))
    widget.set_state({"selection": memoryview(data)})
    assert widget.selection.tolist() == [3, 17, 59]
    widget.set_state({"selection": memoryview(b"")})
    assert widget.selection.tolist() == []
    assert widget.get_state("selection")["selection"] == b""
    assert seen == [[3, 17, 59], list(range(1, N, 3)), [3, 17, 59], []]


def test_a_selection_cannot_be_changed_in_place(widget):
    widget.selection = [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        widget.selection[0] = 5


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([3, N], "row numbers from 0 to 59; got 60"),
        ([-1], "row numbers from 0 to 59; got -1"),
        ([0.5], "row numbers or a boolean mask of 60 rows; got float64 of shape"),
        ([True, False], "row numbers or a boolean mask of 60 rows; got bool of shape"),
        ([[1]], "row numbers or a boolean mask of 60 rows; got int64 of shape"),
        (7, "row numbers or a boolean mask of 60 rows"),
    ],
)
def test_a_wrong_selection_raises_and_changes_nothing(widget, value, message):
    widget.selection = [2]
    with pytest.raises(ValueError, match=message):
        widget.selection = value
    assert widget.selection.tolist() == [2]


def test_colors(widget):
    assert widget.color == "labels"
    assert colors_of(widget) == [KINDS.tolist()]
    widget.color = None
    assert colors_of(widget) == []
    amounts = np.linspace(0.0, 1.0, N, dtype=np.float32)
    widget.color = amounts
    assert widget.color == "color"
    assert colors_of(widget) == [amounts.tolist()]
    widget.color = "labels"
    widget.color = "color"  # an array that was given once keeps its name
    assert colors_of(widget) == [amounts.tolist()]
    widget.method = ["PCA", "Isomap"]
    widget.color = "reliability"
    models = [PCA().fit(X), Isomap().fit(X)]
    assert colors_of(widget) == [metrics.reliability(X, model.embedding_).verdict.tolist() for model in models]
    widget.method = "Isomap"  # reliability belongs to a panel, and follows it
    assert colors_of(widget) == [metrics.reliability(X, models[1].embedding_).verdict.tolist()]


def test_columns_of_a_data_frame_are_colors():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=list("pqrs"))
    widget = PCA().fit(table).explore(table, color="q")
    assert colors_of(widget) == [X[:, 1].tolist()]
    assert widget.get_state("_colors")["_colors"] == ["p", "q", "r", "s", "reliability"]
    widget.color = pd.Series(KINDS, name="kind")
    assert widget.color == "kind"
    assert colors_of(widget) == [KINDS.tolist()]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("kind", "color must be one of 'labels', 'reliability' or an array with an entry for each of the 60 rows"),
        ([1, 2], "one entry for each of the 60 rows; got shape"),
        ([f"row {i}" for i in range(N)], "60 distinct texts, too many for colors"),
    ],
)
def test_a_wrong_color_raises_and_changes_nothing(widget, value, message):
    with pytest.raises(ValueError, match=message):
        widget.color = value
    assert widget.color == "labels"
    assert colors_of(widget) == [KINDS.tolist()]


def test_a_name_switches_to_a_panel_or_fits_the_method(widget):
    other = PCA().fit(X[:, ::-1])
    widget.method = other
    assert widget.method == "PCA 2"
    widget.method = "PCA"
    assert np.allclose(panels_of(widget)["PCA"], PCA().fit(X).embedding_, atol=1e-4)
    widget.method = "TSNE"
    Y = TSNE().fit(X).embedding_
    assert np.allclose(panels_of(widget)["TSNE"], Y, atol=1e-5 * np.ptp(Y))
    fitted = widget._models["TSNE"]
    widget.method = ["PCA 2", "TSNE", other]
    assert widget.method == ["PCA 2", "TSNE"]
    assert widget._models["TSNE"] is fitted


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("TSNEE", "'TSNEE': did you mean 'TSNE'"),
        ("123", r"'123': see manifoldry.list_methods\(\)"),
        ([], "at least one panel"),
        (5, "a fitted estimator or a list of them; got 5"),
        (Isomap(), "a fitted estimator or a list of them; got Isomap"),
    ],
)
def test_a_wrong_method_raises_and_changes_nothing(widget, value, message):
    with pytest.raises(ValueError, match=message):
        widget.method = value
    assert widget.method == "PCA"
    assert list(panels_of(widget)) == ["PCA"]


def test_without_the_data_what_needs_it_says_so():
    widget = PCA().fit(X).explore()
    for name, value in [("method", "TSNE"), ("color", "reliability"), ("method", PCA().fit(X[:50]))]:
        with pytest.raises(ValueError, match=r"create the widget with model.explore\(X\)"):
            setattr(widget, name, value)
    widget.method = ["PCA", Isomap().fit(X)]
    assert list(panels_of(widget)) == ["PCA", "Isomap"]


def test_a_fitted_method_uses_the_metric_of_the_first():
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    widget = Isomap(metric="precomputed").fit(D).explore(D)
    widget.method = "TSNE"
    assert widget._models["TSNE"].metric == "precomputed"
    with pytest.raises(ValueError, match="PCA needs rows of features; X holds pairwise values"):
        widget.method = "PCA"
    widget.color = "reliability"
    expected = metrics.reliability(D, TSNE(metric="precomputed").fit(D).embedding_, metric="precomputed")
    assert colors_of(widget) == [expected.verdict.tolist()]


@pytest.mark.parametrize("model", [PCA(n_components=3), FastICA(n_components=2), AutoEmbedding(methods=["PCA"])])
def test_every_kind_of_estimator_has_it(model):
    widget = model.fit(X).explore(X)
    (points,) = panels_of(widget).values()
    assert np.allclose(points, model.embedding_, atol=1e-4)
    new = X[:20] + 0.01  # other rows are embedded
    (points,) = panels_of(model.explore(new)).values()
    assert np.allclose(points, model.transform(new), atol=1e-4)


def test_more_than_three_components_are_announced():
    rows = np.random.default_rng(0).normal(size=(N, 5))
    (panel,) = PCA(n_components=4).fit(rows).explore().get_state("_panels")["_panels"]["panels"]
    assert panel["dimension"] == 2
    assert panel["caption"] == "The first 2 of 4 components are shown."


def test_a_closed_widget_keeps_its_state(widget):
    widget.selection = [1]
    widget.close()
    widget.selection = [2, 3]
    widget.color = None
    widget.method = "Isomap"
    assert (widget.selection.tolist(), widget.color, widget.method) == ([2, 3], None, "Isomap")
    with pytest.raises(ValueError, match="got 60"):
        widget.selection = [N]


def test_an_estimator_that_is_not_fitted_says_so():
    with pytest.raises(NotFittedError, match="PCA"):
        PCA().explore(X)


def test_without_anywidget_the_error_names_the_extra():
    script = """
import sys
sys.modules["anywidget"] = None
import numpy as np
from manifoldry import PCA
try:
    PCA().fit(np.eye(5)).explore()
except ImportError as error:
    print(error)
"""
    expected = 'The notebook widget needs anywidget, which is not installed: run pip install "manifoldry[notebook]".'
    assert in_new_process(script) == expected
