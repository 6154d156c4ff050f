"""Columns that may have been meant otherwise, and inputs that are checked before outputs."""

import json

import numpy as np
import pytest

from manifoldry.cli._commands import main
from manifoldry.cli._flow.tables import class_labels, with_remarks
from manifoldry.data._tables import Table

N = 60
X = np.random.default_rng(0).normal(size=(N, 3))


def table(**settings):
    return Table(**{"X": X, "features": ("a", "b", "c"), "ids": np.arange(N), "source": "x.csv", **settings})


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.array([f"row {i}" for i in range(N)]), "has a different value in every row, so it does not define classes"),
        (np.array([f"r{max(i, 3)}" for i in range(N)]), "in nearly every row"),
        (np.arange(N, dtype=float), "use --id kind"),
        (np.arange(N) / 7, "use --color kind"),
    ],
)
def test_a_label_that_names_rows_is_told_of_and_not_used_as_classes(labels, said):
    found = table(columns={"kind": labels}, label="kind")
    (remark,) = with_remarks(found).remarks
    assert said in remark
    assert class_labels(found) is None


@pytest.mark.parametrize("labels", [np.arange(N) % 3.0, np.array(["u", "v"] * (N // 2))])
def test_classes_are_classes(labels):
    found = table(columns={"kind": labels}, label="kind")
    assert with_remarks(found).remarks == ()
    assert class_labels(found) is labels


def test_a_target_among_the_features_is_told_of():
    few = np.random.default_rng(1).integers(3, 10, N)
    named = table(X=np.column_stack([few, X[:, :2]]), features=("Quality", "b", "c"))
    (remark,) = with_remarks(named).remarks
    assert "Column 'Quality' has 7 distinct integers" in remark
    assert "use --label Quality, or --drop Quality." in remark
    (remark,) = with_remarks(table(X=np.column_stack([X[:, :2], few]), features=("b", "c", "v"))).remarks
    assert "Column 'v'" in remark


@pytest.mark.parametrize(
    "made",
    [
        table(),
        table(features=("quality", "b", "c")),  # fractions
        table(X=np.round(10 * X), features=("a", "b", "score_of_c")),  # whole numbers are nothing special here
        table(X=np.column_stack([X[:, 0], np.arange(N) % 3])[:, [1, 0]], features=("code", "b")),
        table(X=np.round(1000 * X), features=("a", "b", "score")),  # many numbers
        table(columns={"town": np.array(["New York", "Rome"] * (N // 2))}),
    ],
)
def test_nothing_is_said_of_usual_tables(made):
    assert with_remarks(made).remarks == ()


def test_text_is_told_of_with_how_to_embed_it():
    words = np.array([f"this is what customer {i} wrote" for i in range(N)])
    (remark,) = with_remarks(table(columns={"review": words})).remarks
    assert remark.startswith("Column 'review' holds text, which is not embedded.")
    assert "TF-IDF" in remark


@pytest.fixture
def flowers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["a,b,c,name,kind", *(",".join(map(repr, row)) + f",r{i},k{i % 3}" for i, row in enumerate(X.tolist()))]
    (tmp_path / "flowers.csv").write_text("\n".join(lines))
    return tmp_path


def test_a_label_that_names_rows_gives_no_share_of_neighbors(flowers, capsys):
    for command in (["embed", "--method", "pca", "--no-report"], ["compare", "--methods", "pca"], ["diagnose"]):
        assert main([command[0], "flowers.csv", "--label", "name", *command[1:]]) == 0
        out, err = capsys.readouterr()
        said = " ".join((out + err).split())
        assert "Label 'name' has a different value in every row" in said
        assert "share the label" not in said


@pytest.mark.parametrize("blocks", ["--chunked", "--no-chunked"])
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--label", "knd"], "There is no column 'knd'; did you mean 'kind'?"),
        (["--features", "a,bb"], "There is no column 'bb'"),
        (["--method", "umap", "--n-neighbors", "0"], "must be"),
    ],
)
def test_inputs_are_checked_before_outputs(flowers, capsys, asked, said, blocks):
    (flowers / "flowers_embedding.csv").write_text("mine")
    assert main(["embed", "flowers.csv", "--method", "pca", *asked, blocks]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["flowers.npy", "flowrs.csv"])
def test_other_inputs_are_checked_before_outputs_too(flowers, capsys, name):
    (flowers / "out.csv").write_text("mine")
    np.save("flowers.npy", np.array([["a", "b"]]))
    for command in (["embed", name, "--method", "pca"], ["compare", name]):
        assert main([*command, "-o", "out.csv"]) == 2
        assert "exists" not in capsys.readouterr().err


def test_an_output_says_one_number_for_one_score(flowers, monkeypatch, capsys):
    monkeypatch.setattr(
        "manifoldry.cli._flow.results.evaluation_rows", lambda placed, *_: placed[::2]
    )  # as of many rows
    assert main(["embed", "flowers.csv", "--method", "pca", "--no-report", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    (finding,) = [each for each in record["findings"] if each["topic"] == "quality"]
    figures = record["quality"]["figures"]
    assert finding["sentence"].startswith(f"{figures['knn_kept']['value']:.0%} of the nearest neighbors are preserved")
    assert finding["value"] == figures["trustworthiness"]["value"]
    assert "30 points" in finding["sentence"]
