"""Advice of the library in words of the command line, and what is told before a fit."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import numpy as np
import pytest

import manifoldry
from manifoldry.apps.advice import MIN_FOREWARNED_ROWS, OPTION_WORDS, as_options, forewarnings
from manifoldry.apps.cli.main import main
from manifoldry.apps.summary import summary_text


@pytest.mark.parametrize(
    ("python", "option"),
    [
        ("scale the columns (StandardScaler), unless", "scale the columns (--scale standard), unless"),
        ("drop them (numpy.unique(X, axis=0)); or not", "drop them; or not"),
        ("take n_components=3", "take --n-components 3"),
        ("set search='exact' if", "set --search exact if"),
        ("nothing = to change", "nothing = to change"),
    ],
)
def test_python_becomes_options(python, option):
    assert as_options(python) == option


def test_ruling_columns_are_told_before_a_long_fit_and_only_then():
    X = np.random.default_rng(0).normal(size=(MIN_FOREWARNED_ROWS, 5)) * [1, 1, 1, 1, 1000]
    names = ("a", "b", "c", "d", "salary")
    (told,) = forewarnings(X, names)
    assert told.startswith("Column 'salary' holds")
    assert "--scale standard" in told
    assert not list(forewarnings(X[:-1], names))
    assert not list(forewarnings(X, names, "cosine"))
    assert not list(forewarnings(X / X.std(axis=0), names))


def test_counts_are_told_of_too():
    X = np.random.default_rng(0).negative_binomial(0.3, 0.02, size=(MIN_FOREWARNED_ROWS, 8)).astype(float)
    (told,) = forewarnings(X, tuple("abcdefgh"))
    assert "counts" in told
    assert "--scale log1p" in told


def test_embed_tells_it_as_a_note_unless_quiet(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).normal(size=(MIN_FOREWARNED_ROWS, 4)) * [1, 1, 1, 1000])
    asked = ["embed", "x.npy", "--method", "pca", "--no-report", "--force", "--scale", "none"]
    assert main(asked) == 0
    out, err = capsys.readouterr()
    assert err.startswith("manifoldry: note: Column 'x3' holds 100.0% of the squared distances")
    assert "! Column 'x3'" in out
    assert "Settings: seed 0" in out
    assert main([*asked, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_the_summary_tells_settings_and_causes_first():
    record = {
        "method": "UMAP",
        "source": {"name": "a.csv", "rows": 9, "columns": 1},
        "coordinates": {"dimensions": 2},
        "seconds": {},
        "preparation": {"scale": "robust", "pca": 7},
        "parameters": {"n_neighbors": "auto", "min_dist": 0.5, "random_state": 3},
        "resolved": {"n_neighbors": 8},
        "seed": 3,
        "remarks": [],
        "warnings": [],
        "judged": [],
        "quality": {},
        "findings": [
            {"topic": "axes", "severity": "problem", "sentence": "A symptom.", "advice": ""},
            {"topic": "scales", "severity": "problem", "sentence": "A cause.", "advice": ""},
        ],
        "outputs": {},
    }
    said = " ".join(summary_text(record).split())  # as wide as the terminal
    assert "9 rows of 1 column in 2 dimensions" in said
    assert "Settings: --scale robust, --pca 7, n_neighbors 8, min_dist 0.5, seed 3; the rest as usual." in said
    assert said.index("A cause.") < said.index("A symptom.")


def test_one_column_gives_one_coordinate(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.csv").write_text("width\n" + "\n".join(str(i**1.5) for i in range(40)))
    assert main(["embed", "one.csv", "--no-report", "--method", "pca"]) == 0
    assert "40 rows of 1 column in 1 dimension" in capsys.readouterr().out
    assert (tmp_path / "one_embedding.csv").read_text().startswith("row,y0\n")
    assert main(["rerun", "one_run.json"]) == 0


def test_a_disk_that_is_full_is_told_with_what_is_there(tmp_path, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("manifoldry.apps.embedding.write_model", full)
    assert main(["embed", "iris", "--method", "pca", "--no-report"]) == 1
    told = "No space left on device. Written: iris_embedding.csv; not written: iris_model.mfy, iris_run.json."
    assert told in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_to_is_refused_before_any_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("os.access", lambda _, mode, **__: mode != os.W_OK)
    assert main(["embed", "iris", "--method", "pca", "--folder", str(tmp_path)]) == 1
    assert "cannot be written to, so 'iris_embedding.csv' needs another place" in capsys.readouterr().err


def test_a_wrong_call_is_a_defect_and_no_mistake_of_the_user(monkeypatch, capsys):
    monkeypatch.setattr("manifoldry.apps.embedding.run_embedding", lambda: None)
    assert main(["embed", "iris"]) == 1
    assert "This is a bug in manifoldry; please report it: TypeError" in capsys.readouterr().err


@pytest.mark.parametrize("python", OPTION_WORDS)
def test_what_is_said_in_options_is_what_the_library_says(python):
    package = Path(manifoldry.__file__).parent
    sources = [*package.glob("diagnosis/*.py"), *package.glob("embedders/*.py")]
    said = "".join(re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8")) for path in sources)
    assert python in said
