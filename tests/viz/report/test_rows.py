"""What is known of rows: ids, columns, labels of every kind."""

import numpy as np
import pytest

from manifoldry import build_report
from manifoldry.viz._report.inputs import as_column, row_data

pandas = pytest.importorskip("pandas")


def table(n=40):
    return np.random.default_rng(0).normal(size=(n, 4))


def figures(report):
    return {row["name"] for row in report.quality}


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([1.5, np.inf, None], [1.5, np.nan, np.nan]),
        (["a", None, "c"], ["a", "", "c"]),
        (["a", float("nan"), "c"], ["a", "", "c"]),
        ([True, False, True], ["True", "False", "True"]),
        ([b"x", b"y", b""], ["x", "y", ""]),
        (pandas.array([1, None, 3], dtype="Int64"), [1.0, np.nan, 3.0]),
        (pandas.Categorical(["u", None, "v"]), ["u", "", "v"]),
        (pandas.Series(pandas.to_datetime(["2020-01-02", None, "2021-03-04"])), ["2020-01-02", "", "2021-03-04"]),
        (
            pandas.Series(pandas.to_datetime(["2020-01-02 10:30", None, "2021-03-04 00:00"])),
            ["2020-01-02T10:30:00", "", "2021-03-04T00:00:00"],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_columns_become_numbers_or_text(entries, expected):
    found = as_column("c", entries, 3)
    assert found.dtype.kind in "iufU"
    np.testing.assert_array_equal(found, expected)


def test_names_of_rows_come_from_the_index_of_a_frame():
    X = table()
    frame = pandas.DataFrame(X, index=[f"cell {i}" for i in range(40)])
    assert build_report(frame, {"a": X[:, :2]}).ids[3] == "cell 3"
    assert build_report(pandas.DataFrame(X), {"a": X[:, :2]}).ids.tolist() == list(range(40))
    given = build_report(frame, {"a": X[:, :2]}, ids=range(100, 140), id_name="plate")
    assert (given.ids[0], given.id_name) == (100, "plate")


def test_a_frame_of_columns_and_a_series_of_labels_are_taken():
    X = table()
    kind = pandas.Series(["x", "y"] * 20, name="kind")
    found = build_report(X, {"a": X[:, :2]}, columns=pandas.DataFrame({"size": range(40)}), label=kind)
    assert list(found.columns) == ["kind", "size"]
    assert found.label == "kind"
    assert "silhouette" in figures(found)


def test_a_frame_of_polars_is_taken():
    polars = pytest.importorskip("polars")
    X = table(30)
    frame = polars.DataFrame({"kind": ["x", None, "z"] * 10, "size": [1, None, 3] * 10})
    found = build_report(polars.DataFrame(X), {"a": polars.DataFrame(X[:, :2])}, columns=frame)
    assert found.columns["kind"][:3].tolist() == ["x", "", "z"]
    np.testing.assert_array_equal(found.columns["size"][:3], [1, np.nan, 3])


def test_few_whole_numbers_are_classes_and_others_amounts():
    X = table()
    classes = build_report(X, {"a": X[:, :2]}, label=np.arange(40) % 3 * 1.0)
    assert classes.columns["label"].dtype.kind == "i"
    assert "silhouette" in figures(classes)
    missing = row_data(5, None, "row", None, [1.0, np.nan, 2.0, 1.0, 2.0], None)
    assert missing.columns["label"].tolist() == ["1", "", "2", "1", "2"]
    for amounts in (np.linspace(0, 1, 40), np.arange(40)):
        found = build_report(X, {"a": X[:, :2]}, label=amounts)
        assert found.columns["label"].dtype.kind == "f"
        assert "silhouette" not in figures(found)


def test_labels_that_do_not_group_are_left_out_of_the_figures():
    X = table()
    for labels in ([f"id {i}" for i in range(40)], ["same"] * 40):
        found = build_report(X, {"a": X[:, :2]}, label=labels)
        assert "silhouette" not in figures(found)
        assert any("Scores of labels were left out" in note for note in found.notes)
        assert found.label == "label"


def test_rows_without_a_label_are_left_out_of_its_figures():
    X = table()
    half = np.where(X[:, 0] > 0, "up", "down")
    gaps = np.where(np.arange(40) < 10, None, half)
    found = build_report(X, {"a": X[:, :2]}, label=gaps)
    assert (found.columns["label"][:10] == "").all()
    assert "silhouette" in figures(found)
    told = next(line for line in found.panels[0].reading if "same label" in line)
    share = np.mean(half[10:] == "up")
    both = (30 * share * (30 * share - 1) + 30 * (1 - share) * (30 * (1 - share) - 1)) / (30 * 29)
    assert f"{both:.0%} by chance" in told
