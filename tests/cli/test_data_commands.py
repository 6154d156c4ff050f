"""``diagnose``, ``dimension``, ``score`` and ``compare`` on real files."""

import io
import json
import sys

import numpy as np
import pytest

from manifoldry import datasets, diagnose, dimension, metrics
from manifoldry.cli import _commands as cli
from manifoldry.methods.geodesic._isomap import Isomap
from manifoldry.methods.linear._pca import PCA


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a small roll as a table of names, features, a text column and true coordinates."""
    place = tmp_path_factory.mktemp("data")
    roll = datasets.swiss_roll(300, random_state=1)
    lines = ["name,a,b,c,side,u,v"]
    for i, (row, truth) in enumerate(zip(roll.X, roll.truth, strict=True)):
        fields = [f"p{i}", *(f"{value:.17g}" for value in row), "left" if truth[0] < 40 else "right"]
        lines.append(",".join([*fields, *(f"{value:.17g}" for value in truth)]))
    (place / "roll.csv").write_text("\n".join(lines) + "\n")
    np.save(place / "roll.npy", roll.X)
    np.save(place / "pca.npy", PCA(n_components=2).fit_transform(roll.X))
    return place


FEATURES = ("--features", "a,b,c")


@pytest.fixture(name="X")
def points(folder):
    return np.load(folder / "roll.npy")


def answer(capsys, *arguments):
    """Return what a command prints as JSON."""
    assert cli.main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_dimension_is_that_of_the_library(folder, X, capsys):
    found = answer(capsys, "dimension", folder / "roll.csv", *FEATURES, "--by-scale", "--local")
    expected = dimension.consensus(X)
    assert (found["value"], found["low"], found["why"]) == (expected.value, expected.low, list(expected.why))
    assert found["estimates"]["two_nn"]["value"] == expected.estimates["two_nn"].value
    assert len(found["local"]["values"]) == 300
    assert found["by_scale"]["plateau"] is not None


def test_the_dimension_is_told_in_sentences_first(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "72")
    assert cli.main(["dimension", str(folder / "roll.npy"), "--by-scale", "--local"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("The data has about 2 dimensions (")
    assert {"By location", "By scale"} <= set(lines)
    assert any(line.endswith("used") for line in lines)
    assert any(line.endswith("plateau") for line in lines)
    assert max(map(len, lines)) <= 72


def test_the_findings_are_those_of_the_library(folder, X, capsys):
    found = answer(capsys, "diagnose", folder / "roll.npy")
    assert {each["topic"]: each["sentence"] for each in found["findings"]} == {
        each.topic: each.sentence for each in diagnose(X)
    }


def test_a_diagnosis_counts_missing_values_instead_of_refusing_them(tmp_path, capsys):
    rows = np.random.default_rng(0).normal(size=(60, 3))
    lines = [",".join(f"{value:.6f}" for value in row) for row in rows]
    lines[7] = "1.0,,2.0"
    (tmp_path / "holes.csv").write_text("\n".join(["a,b,c", *lines]))
    assert cli.main(["diagnose", str(tmp_path / "holes.csv")]) == 0
    out, err = capsys.readouterr()
    assert "1 of 60 rows" in " ".join(out.split())
    assert "impute" not in err
    assert cli.main(["diagnose", str(tmp_path / "holes.csv"), "--missing", "refuse"]) == 2


def test_findings_name_the_columns_of_the_file(tmp_path, capsys):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    lines = [f"{row[0]:.6f},{row[1]:.6f},7" for row in rows]
    (tmp_path / "constant.csv").write_text("\n".join(["width,height,site", *lines]))
    assert cli.main(["diagnose", str(tmp_path / "constant.csv")]) == 0
    assert "olumn 'site'" in capsys.readouterr().out


def test_scaling_is_done_before_a_diagnosis(folder, tmp_path, capsys):
    wide = np.load(folder / "roll.npy") * [1.0, 1000.0, 1.0]
    np.save(tmp_path / "wide.npy", wide)
    plain = answer(capsys, "diagnose", tmp_path / "wide.npy", "--scale", "none")
    scaled = answer(capsys, "diagnose", tmp_path / "wide.npy", "--scale", "standard")
    severity = [{each["topic"]: each["severity"] for each in found["findings"]}["scales"] for found in (plain, scaled)]
    assert severity == ["problem", "fine"]


def test_a_saved_model_is_diagnosed_with_its_data(folder, X, tmp_path, capsys):
    model = Isomap(n_neighbors=8).fit(X)
    model.save(tmp_path / "roll.mfy")
    found = answer(capsys, "diagnose", folder / "roll.npy", "--model", tmp_path / "roll.mfy")
    assert found["subject"] == "Isomap, 300 points in 2 dimensions"
    assert {each["topic"] for each in found["findings"]} == set(diagnose(model, X).topics)


def test_the_score_is_that_of_the_library_with_labels_and_truth(folder, X, capsys):
    arguments = ("--truth", "u,v", "--label", "side", "--id", "name", "--n-neighbors", "10")
    found = answer(capsys, "score", folder / "roll.csv", folder / "pca.npy", *arguments)
    roll = datasets.swiss_roll(300, random_state=1)
    sides = np.where(roll.truth[:, 0] < 40, "left", "right")
    expected = metrics.score(X, np.load(folder / "pca.npy"), sides, roll.truth, n_neighbors=10)
    assert {name: row["value"] for name, row in found["figures"].items()} == pytest.approx(dict(expected), abs=1e-9)


def test_coordinates_are_matched_by_name_and_rows_without_are_left_out(folder, tmp_path, capsys):
    Y = np.load(folder / "pca.npy")
    order = np.random.default_rng(3).permutation(300)[:280]
    lines = ["name,y0,y1", *(f"p{i},{Y[i, 0]:.17g},{Y[i, 1]:.17g}" for i in order)]
    (tmp_path / "some.csv").write_text("\n".join(lines))
    arguments = ("score", str(folder / "roll.csv"), str(tmp_path / "some.csv"), *FEATURES, "--id", "name")
    assert cli.main([*arguments]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Better than PCA in ")
    assert "20 rows of roll.csv have no coordinates and are not scored." in err
    found = answer(capsys, *arguments)["figures"]["trustworthiness"]
    assert found["value"] == pytest.approx(found["pca"], abs=0.01)  # both are principal components


def test_coordinates_that_cannot_be_matched_are_refused(folder, tmp_path, capsys):
    np.save(tmp_path / "few.npy", np.zeros((7, 2)))
    assert cli.main(["score", str(folder / "roll.csv"), str(tmp_path / "few.npy"), *FEATURES, "--id", "name"]) == 2
    assert "has 7 rows and roll.csv 300" in capsys.readouterr().err
    (tmp_path / "twice.csv").write_text("name,y0,y1\np1,1,2\np1,3,4\n")
    assert cli.main(["score", str(folder / "roll.csv"), str(tmp_path / "twice.csv"), *FEATURES, "--id", "name"]) == 2
    assert "1 rows of twice.csv have the same name as another" in capsys.readouterr().err


def test_numbers_that_name_rows_are_no_coordinates(folder, X, tmp_path, capsys):
    numbers = np.random.default_rng(0).permutation(300) + 1000
    Y = np.load(folder / "pca.npy")
    table = np.column_stack([numbers, X])
    (tmp_path / "x.csv").write_text("\n".join(["plate,a,b,c", *(",".join(map(repr, row)) for row in table.tolist())]))
    rows = [f"{number},{y[0]!r},{y[1]!r}" for number, y in zip(numbers, Y.tolist(), strict=True)]
    (tmp_path / "y.csv").write_text("\n".join(["plate,y0,y1", *sorted(rows)]))
    found = answer(capsys, "score", tmp_path / "x.csv", tmp_path / "y.csv", "--id", "plate")["figures"]
    assert found["trustworthiness"]["value"] == pytest.approx(found["trustworthiness"]["pca"], abs=1e-9)


def test_a_built_in_set_is_scored_against_its_own_truth(tmp_path, capsys):
    np.save(tmp_path / "y.npy", datasets.swiss_roll(random_state=0).truth)
    found = answer(capsys, "score", "swiss-roll", tmp_path / "y.npy")
    assert found["figures"]["procrustes_rigid"]["value"] == pytest.approx(0.0, abs=1e-12)


def test_a_comparison_ranks_writes_and_tells(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    out, page, model = (tmp_path / name for name in ("best.csv", "page.html", "best.mfy"))
    arguments = ["compare", str(folder / "roll.csv"), *FEATURES, "--id", "name", "--purpose", "keep-distances"]
    arguments += ["--methods", "isomap,LTSA", "--budget", "0", "--scale", "standard"]
    assert cli.main([*arguments, "-o", str(out), "--report", str(page), "--model", str(model)]) == 0
    lines = capsys.readouterr().out.splitlines()
    best = lines[0].removeprefix("Best to keep distances: ").rstrip(".")
    assert best in ("Isomap", "LTSA", "PCA")
    assert max(map(len, lines[:-3])) <= 90
    assert [line.split()[0] for line in lines[-3:]] == ["coordinates", "model", "report"]
    assert out.read_text().splitlines()[0] == "name,y0,y1"
    assert len(out.read_text().splitlines()) == 301
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert cli.main([*arguments, "-o", str(out)]) == 2
    assert "exists; it is not overwritten unless asked for" in capsys.readouterr().err
    found = answer(capsys, *arguments)
    assert found["best"] == best
    assert {each["method"] for each in found["ranking"]} == {"Isomap", "LTSA", "PCA"}
    assert found["outputs"] == {}


def test_labels_that_say_nothing_are_left_out_of_a_comparison(folder, tmp_path, capsys):
    lines = (folder / "roll.csv").read_text().splitlines()[:81]
    (tmp_path / "one_class.csv").write_text("\n".join(line.replace("right", "left") for line in lines))
    arguments = ("--label", "side", "--purpose", "see-clusters", "--methods", "pca", "--budget", "0")
    found = answer(capsys, "compare", tmp_path / "one_class.csv", *FEATURES, *arguments)
    assert found["best"] == "PCA"


def test_a_purpose_or_method_that_is_not_known_is_refused_before_the_file_is_read(capsys):
    assert cli.main(["compare", "none.csv", "--purpose", "fun"]) == 2
    assert "'fun' is not one of keep distances" in capsys.readouterr().err
    assert cli.main(["compare", "none.csv", "--methods", "isomap,umapp"]) == 2
    assert "did you mean UMAP?" in capsys.readouterr().err


def test_standard_input_is_read(folder, capsys, monkeypatch):
    data = (folder / "roll.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    found = answer(capsys, "dimension", "-", *FEATURES)
    assert found["value"] == 2
    assert cli.main(["score", "-", "-"]) == 2
    assert "Only one of" in capsys.readouterr().err
