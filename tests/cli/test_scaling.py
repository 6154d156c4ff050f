"""``--scale auto``: which tables are standardized, who says so, and that every command does the same."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from manifoldry import datasets, load
from manifoldry.cli._commands import main
from manifoldry.cli._explore.session import Session
from manifoldry.cli._flow.tables import Reading, mixed_units
from manifoldry.data._tables import read_table

TURN_OFF = "Use --scale none to keep them unchanged."


def named(X):
    return tuple(f"x{j}" for j in range(X.shape[1]))


def principal_components():
    return PCA().fit_transform(load_wine().data)


def counts():
    rng = np.random.default_rng(0)
    return rng.negative_binomial(0.3, 0.3 / (0.3 + rng.gamma(0.3, 30, size=40)), size=(300, 40)).astype(float)


@pytest.mark.parametrize("load_set", [load_wine, load_breast_cancer])
@pytest.mark.parametrize("some", [slice(None), slice(None, None, 4)])
def test_columns_of_mixed_units_are_standardized(load_set, some):
    X = load_set().data[some]
    reading = Reading(scale="auto").scaled(X, named(X))
    assert reading.scale == "standard"
    assert reading.units.share > 0.95
    assert reading.units.message.endswith(TURN_OFF)


@pytest.mark.parametrize(
    "make",
    [
        lambda: load_iris().data,
        lambda: load_digits().data,
        principal_components,
        lambda: principal_components()[np.random.default_rng(1).permutation(178)[:100]],
        counts,
        lambda: csr_array(load_wine().data),
        lambda: load_wine().data[:1],
        lambda: datasets.swiss_roll(300).X,
        lambda: datasets.helix(300).X,
        lambda: datasets.wave(300).X,
    ],
)
def test_one_unit_pixels_counts_components_surfaces_and_sparse_rows_are_left_alone(make):
    X = make()
    assert Reading(scale="auto").scaled(X, named(X)) == Reading(scale="none")


@pytest.mark.parametrize("metric", ["precomputed", "cosine", "hamming", "gram", np.hypot])
def test_metrics_without_units_ask_for_no_scaling(metric):
    X = load_wine().data
    assert mixed_units(X, named(X), metric) is None


def test_what_is_asked_for_is_done_and_negative_numbers_are_avoided_where_they_are_refused():
    X = load_wine().data
    for scale in ("none", "robust"):
        assert Reading(scale=scale).scaled(X, named(X)) == Reading(scale=scale)
    assert Reading(scale="auto").scaled(X, named(X), nonnegative=True) == Reading(scale="none")


def test_missing_values_do_not_hide_the_units():
    X = load_wine().data.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    before = X.copy()
    assert "'x12'" in mixed_units(X, named(X)).sentence
    np.testing.assert_array_equal(X, before)


@pytest.fixture
def wine(tmp_path, monkeypatch):
    """The wines as a newcomer has them: a file with a column of cultivars."""
    monkeypatch.chdir(tmp_path)
    data = load_wine()
    lines = [",".join([*data.feature_names, "cultivar"])]
    lines += [",".join([*(f"{x:.17g}" for x in row), f"c{y}"]) for row, y in zip(data.data, data.target, strict=True)]
    (tmp_path / "wine.csv").write_text("\n".join(lines) + "\n")
    return data


def test_the_first_lines_of_embed_say_it_and_the_record_the_model_and_the_page_know_it(wine, tmp_path, capsys):
    assert main(["embed", "wine.csv", "--label", "cultivar", "--method", "isomap"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("Column 'proline' holds 99.8% of the squared distances")
    assert said.index(TURN_OFF) < said.index("Isomap embedded wine.csv")
    record = json.loads((tmp_path / "wine_run.json").read_text())
    assert record["preparation"]["scale"] == "standard"
    assert record["preparation"]["mixed_units"]["share"] == pytest.approx(0.998, abs=1e-3)
    model = load(tmp_path / "wine_model.mfy")
    np.testing.assert_allclose(model[0].mean_, wine.data.mean(axis=0))
    assert "so all of them were standardized" in (tmp_path / "wine_report.html").read_text(encoding="utf-8")
    assert main(["transform", "wine_model.mfy", "wine.csv", "-o", "again.csv", "-q"]) == 0
    np.testing.assert_allclose(coordinates("again.csv"), coordinates("wine_embedding.csv"), atol=1e-9)
    assert main(["rerun", "wine_run.json", "-q"]) == 0
    assert main(["transform", "wine_model.mfy", "wine.csv", "-o", "b.csv", "--scale", "none"]) == 2


def test_the_picture_of_the_first_run_shows_the_cultivars(wine):
    assert main(["embed", "wine.csv", "--label", "cultivar", "--method", "umap", "--no-report", "-q"]) == 0
    Y = coordinates("wine_embedding.csv")
    nearest = NearestNeighbors(n_neighbors=1).fit(Y).kneighbors(return_distance=False)[:, 0]
    assert (wine.target[nearest] == wine.target).mean() > 0.9  # 0.66 by the unscaled columns


def test_it_can_be_turned_off(wine, tmp_path, capsys):
    assert main(["embed", "wine.csv", "--label", "cultivar", "--method", "pca", "--scale", "none", "--no-report"]) == 0
    assert "! Column 'proline'" in capsys.readouterr().out
    assert json.loads((tmp_path / "wine_run.json").read_text())["preparation"] == {"scale": "none", "pca": None}
    Y, centered = coordinates("wine_embedding.csv"), wine.data - wine.data.mean(axis=0)
    np.testing.assert_allclose(np.abs(np.corrcoef(Y[:, 0], centered[:, 12])[0, 1]), 1.0, atol=1e-4)


def test_rows_in_blocks_are_scaled_alike_and_can_be_repeated(wine, tmp_path, capsys):
    asked = ["embed", "wine.csv", "--label", "cultivar", "--method", "pca", "--no-report"]
    assert main([*asked, "-q", "-o", "whole.csv", "--no-model", "--no-record"]) == 0
    assert main([*asked, "--chunked"]) == 0
    assert capsys.readouterr().out.startswith("Column 'proline' holds")
    np.testing.assert_allclose(coordinates("wine_embedding.csv"), coordinates("whole.csv"), atol=1e-9)
    assert json.loads((tmp_path / "wine_run.json").read_text())["preparation"]["scale"] == "standard"
    assert main(["rerun", "wine_run.json", "-q"]) == 0


def test_compare_says_it_first_and_then_what_a_diagnosis_marks(wine, capsys):
    asked = ["compare", "wine.csv", "--label", "cultivar", "--methods", "pca", "--budget", "0"]
    assert main(asked) == 0
    out = capsys.readouterr().out
    assert out.startswith("Column 'proline' holds")
    assert "\nBest to keep neighbors: PCA." in out
    assert "! " not in out
    assert main([*asked, "--scale", "none"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "! scales: Column 'proline' holds 99.8%" in out
    assert "--scale standard" in out
    assert main([*asked[:5], "nmf,pca", "--budget", "0", "--json"]) == 0  # needs numbers of at least 0
    found = json.loads(capsys.readouterr().out)
    assert found["preparation"]["scale"] == "none"
    assert [each["topic"] for each in found["findings"] if each["severity"] == "problem"] == ["scales"]


def test_diagnose_score_and_dimension_say_it_and_look_at_scaled_columns(wine, capsys):
    assert main(["diagnose", "wine.csv", "--label", "cultivar"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "! scales: Column 'proline' holds 99.8%" in out
    assert "about 7 dimensions" in out
    np.save("pca.npy", PCA(n_components=2).fit_transform(StandardScaler().fit_transform(wine.data)))
    assert main(["score", "wine.csv", "pca.npy", "--label", "cultivar", "--json"]) == 0
    out, err = capsys.readouterr()
    assert TURN_OFF in err
    found = json.loads(out)["figures"]["trustworthiness"]
    assert found["value"] == pytest.approx(found["pca"], abs=1e-9)
    assert main(["dimension", "wine.csv", "--label", "cultivar"]) == 0
    assert TURN_OFF in capsys.readouterr().err


@pytest.mark.usefixtures("wine")
def test_the_live_page_shows_it():
    table = read_table("wine.csv", label="cultivar")
    units = mixed_units(table.X, table.features)
    session = Session(table, StandardScaler().fit_transform(table.X), units=units)
    assert session.diagnosis["scales"].severity == "note"
    assert "so all of them were standardized" in session.page()


def coordinates(path):
    return np.loadtxt(path, delimiter=",", skiprows=1)[:, 1:]
