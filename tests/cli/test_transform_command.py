"""`manifoldry transform`: new rows placed by a model in a file, their columns found by name."""

import csv
import json

import numpy as np
import pytest

from manifoldry import Isomap, KMeans, datasets, save
from manifoldry.cli._commands import main
from manifoldry.cli._flow.transform import with_model_options
from manifoldry.data._tables import ReadOptions

X = np.round(datasets.swiss_roll(80, random_state=1).X, 4)


def write(path, columns, ids=None):
    """Write columns by name, and ids before them."""
    head = [*(["name"] if ids else []), *columns]
    rows = zip(*([ids] if ids else []), *columns.values(), strict=True)
    path.write_text("\n".join([",".join(head), *(",".join(map(str, row)) for row in rows)]) + "\n")


def places(path):
    with open(path, newline="") as file:
        head, *rows = csv.reader(file)
    return head, [row[0] for row in rows], np.array([row[1:] for row in rows], dtype=float)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A model of 80 rows with names, scaled, and its file."""
    monkeypatch.chdir(tmp_path)
    kinds = [f"k{i % 2}" for i in range(80)]
    write(tmp_path / "old.csv", {"a": X[:, 0], "kind": kinds, "b": X[:, 1], "c": X[:, 2]}, [f"r{i}" for i in range(80)])
    options = ["--id", "name", "--label", "kind", "--scale", "standard", "--no-report", "-q"]
    assert main(["embed", "old.csv", "--method", "isomap", "--n-neighbors", "8", *options]) == 0
    return tmp_path


def test_the_fitted_rows_get_their_own_places(folder, capsys):
    assert main(["transform", "old_model.mfy", "old.csv", "--output", "again.csv"]) == 0
    (head, ids, Y), (_, _, fitted) = places("again.csv"), places("old_embedding.csv")
    assert head[0] == "name"
    assert ids == [f"r{i}" for i in range(80)]
    np.testing.assert_allclose(Y, fitted, atol=1e-8)
    assert capsys.readouterr().out.startswith("Isomap transformed 80 rows of old.csv")


def test_columns_are_found_by_name_and_labels_need_not_be_there(folder):
    write(folder / "new.csv", {"c": X[:5, 2], "extra": range(5), "a": X[:5, 0], "b": X[:5, 1]})
    assert main(["transform", "old_model.mfy", "new.csv", "-q"]) == 0
    head, ids, Y = places("new_embedding.csv")
    assert (head[0], ids) == ("row", [str(i) for i in range(5)])
    np.testing.assert_allclose(Y, places("old_embedding.csv")[2][:5], atol=1e-8)


def test_a_missing_column_and_an_existing_output_are_refused(folder, capsys):
    write(folder / "new.csv", {"a": X[:5, 0], "B": X[:5, 1]})
    assert main(["transform", "old_model.mfy", "new.csv"]) == 2
    assert "new.csv lacks 2 of the 3 features of the model: b, c" in capsys.readouterr().err
    (folder / "new.csv").write_text("u,v\n1,\n2,3\n4,5\n")
    assert main(["transform", "old_model.mfy", "new.csv"]) == 2
    assert "new.csv lacks 3 of the 3 features of the model" in capsys.readouterr().err
    assert main(["transform", "old_model.mfy", "old.csv"]) == 2
    assert "'old_embedding.csv' exists" in capsys.readouterr().err
    assert main(["transform", "old_model.mfy", "old.csv", "--scale", "robust", "--force"]) == 2
    assert "prepares new rows itself" in capsys.readouterr().err


def test_coordinates_go_to_standard_output_or_are_told_of_in_json(folder, capsysbinary):
    assert main(["transform", "old_model.mfy", "old.csv", "--output", "-"]) == 0
    out, err = capsysbinary.readouterr()
    assert len(out.splitlines()) == 81
    assert b"Isomap transformed" in err
    assert main(["transform", "old_model.mfy", "old.csv", "-o", "y.npy", "--json"]) == 0
    told = json.loads(capsysbinary.readouterr().out)
    assert told["outputs"]["coordinates"]["path"] == "y.npy"
    assert np.load("y.npy").shape == (80, 2)


def test_a_model_saved_in_python_takes_rows_by_position(folder):
    model = Isomap(n_neighbors=8).fit(X)
    save(model, "plain.mfy")
    assert main(["transform", "plain.mfy", "old.csv", "--drop", "kind", "-o", "y.npy", "-q"]) == 0
    np.testing.assert_allclose(np.load("y.npy"), model.embedding_, atol=1e-8)


def test_a_model_without_a_map_and_a_file_that_is_none_get_a_sentence(folder, capsys):
    save(KMeans(n_clusters=2).fit(X), "clusters.mfy")
    codes = [main(["transform", name, "old.csv", "-o", "y.csv"]) for name in ("clusters.mfy", "old.csv")]
    lines = capsys.readouterr().err.splitlines()
    assert (codes, len(lines)) == ([2, 2], 2)
    assert not (folder / "y.csv").exists()


def test_options_of_the_command_come_before_those_of_the_model():
    before = {"id": "name", "missing": "impute", "label": "kind", "delimiter": ";"}
    assert with_model_options(ReadOptions(), before) == ReadOptions(id="name", missing="impute")
    assert with_model_options(ReadOptions(id="key"), before) == ReadOptions(id="key", missing="impute")
