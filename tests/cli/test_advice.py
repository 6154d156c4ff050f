"""Advice of the library in words of the command line, and what is told before a fit."""

from __future__ import annotations

import ast
import errno
import os
import re
from pathlib import Path

import numpy as np
import pytest

import manifoldry
from manifoldry._core.registry import list_methods
from manifoldry.cli._answers import summary_text
from manifoldry.cli._flow.fitting import MIN_ROWS_FOR_EARLY_NOTES, early_notes
from manifoldry.cli._main import main
from manifoldry.cli._methods import method_parameters
from manifoldry.cli._text import OPTION_WORDS, PARAMETER_NAMES, as_options


@pytest.mark.parametrize(
    ("python", "option"),
    [
        ("scale the columns (StandardScaler), unless", "scale the columns (--scale standard), unless"),
        ("drop them (numpy.unique(X, axis=0)); or not", "drop them; or not"),
        ("take n_components=3", "take --n-components 3"),
        ("set search='exact' if", "set --search exact if"),
        ("nothing = to change", "nothing = to change"),
        ("raise n_neighbors or radius", "raise --n-neighbors or radius"),
        ("n_neighbors must be an integer; got 0.", "--n-neighbors must be an integer; got 0."),
        ("perplexity must be above 0.", "--perplexity must be above 0."),
        ("pca must be at most 5", "--pca must be at most 5"),
        ("drop='my column', or key=... names one", "--drop 'my column', or --key names one"),
        ("it exists (overwrite=True)", "it exists (--force)"),
        ("isometric=True or isometric=False", "--isometric or --no-isometric"),
        ("random_state=3 and labels=...", "--seed 3 and --label"),
        ("'year=2020/n_neighbors.csv' and year=2020/a.csv", "'year=2020/n_neighbors.csv' and year=2020/a.csv"),
        ("There is no column 'n_neighbors'", "There is no column 'n_neighbors'"),
        ("Written: max_iter.csv", "Written: max_iter.csv"),
    ],
)
def test_python_becomes_options(python, option):
    assert as_options(python) == option


def test_ruling_columns_are_told_before_a_long_fit_and_only_then():
    X = np.random.default_rng(0).normal(size=(MIN_ROWS_FOR_EARLY_NOTES, 5)) * [1, 1, 1, 1, 1000]
    names = ("a", "b", "c", "d", "salary")
    (told,) = early_notes(X, names)
    assert told.startswith("Column 'salary' holds")
    assert "--scale standard" in told
    assert not list(early_notes(X[:-1], names))
    assert not list(early_notes(X, names, "cosine"))
    assert not list(early_notes(X / X.std(axis=0), names))


def test_counts_are_told_of_too():
    X = np.random.default_rng(0).negative_binomial(0.3, 0.02, size=(MIN_ROWS_FOR_EARLY_NOTES, 8)).astype(float)
    (told,) = early_notes(X, tuple("abcdefgh"))
    assert "counts" in told
    assert "--scale log1p" in told


def test_embed_tells_it_as_a_note_unless_quiet(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).normal(size=(MIN_ROWS_FOR_EARLY_NOTES, 4)) * [1, 1, 1, 1000])
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
        "evaluation_remarks": [],
        "quality": {},
        "findings": [
            {"topic": "axes", "severity": "problem", "sentence": "A symptom.", "advice": ""},
            {"topic": "scales", "severity": "problem", "sentence": "A cause.", "advice": ""},
        ],
        "outputs": {},
    }
    said = " ".join(summary_text(record).split())  # as wide as the terminal
    assert "(9 rows, 1 column) in 2 dimensions" in said
    assert (
        "Settings: --scale robust, --pca 7, n_neighbors 8, min_dist 0.5, seed 3; all others at their defaults." in said
    )
    assert said.index("A cause.") < said.index("A symptom.")


def test_one_column_gives_one_coordinate(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.csv").write_text("width\n" + "\n".join(str(i**1.5) for i in range(40)))
    assert main(["embed", "one.csv", "--no-report", "--method", "pca"]) == 0
    assert "(40 rows, 1 column) in 1 dimension" in capsys.readouterr().out
    assert (tmp_path / "one_embedding.csv").read_text().startswith("row,y0\n")
    assert main(["rerun", "one_run.json"]) == 0


def test_a_disk_that_is_full_is_told_with_what_is_there(tmp_path, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("manifoldry.cli._flow.results.write_model", full)
    assert main(["embed", "iris", "--method", "pca", "--no-report"]) == 1
    told = "No space left on device. Written: iris_embedding.csv; not written: iris_model.mfy, iris_run.json."
    assert told in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_to_is_refused_before_any_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("os.access", lambda _, mode, **__: mode != os.W_OK)
    assert main(["embed", "iris", "--method", "pca", "--folder", str(tmp_path)]) == 1
    assert "is not writable; choose another folder for 'iris_embedding.csv'" in capsys.readouterr().err


def test_a_wrong_call_is_a_defect_and_no_mistake_of_the_user(monkeypatch, capsys):
    monkeypatch.setattr("manifoldry.cli._flow.embed.embed_table", lambda: None)
    assert main(["embed", "iris"]) == 1
    assert "This is a bug in manifoldry; please report it: TypeError" in capsys.readouterr().err


PACKAGE = Path(manifoldry.__file__).parent
LIBRARY = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "cli" not in path.parents]


@pytest.mark.parametrize("python", OPTION_WORDS)
def test_what_is_said_in_options_is_what_the_library_says(python):
    said = (re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8")) for path in LIBRARY)
    assert any(python in text for text in said)


def test_the_names_of_parameters_are_those_of_the_methods():
    known = {name for card in list_methods() for name in method_parameters(card.cls)}
    one_letter_or_capital = {"C", "a", "b", "t", "alpha_H", "alpha_W"}
    assert set(PARAMETER_NAMES) - {"pca", "scale", "random_state"} == known - one_letter_or_capital


def texts(path):
    """Yield the line and value of every text of a module that is not a docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.lineno, node.value


def test_the_library_says_nothing_of_the_command_line():
    option = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
    found = [(path.name, line, text) for path in LIBRARY for line, text in texts(path) if option.search(text)]
    assert sum(1 for path in LIBRARY for _ in texts(path)) > 1000
    assert found == []


def test_the_command_line_says_nothing_of_python(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(40, 3))
    rows[3, 1] = np.nan
    np.savetxt("gaps.csv", rows, delimiter=",", header="a,b,c", comments="")
    np.savetxt("x.csv", rows[4:], delimiter=",", header="a,b,c", comments="")
    np.savez("two.npz", u=rows, v=rows)
    for asked, said in (
        (["embed", "gaps.csv"], "--missing drop leaves those rows out, --missing impute fills in medians"),
        (["embed", "two.npz"], "--key names one of"),
        (["embed", "x.csv", "--pca", "9"], "--pca must be at most 3"),
        (["embed", "x.csv", "--scale", "log1p"], "--scale log1p needs values above -1"),
        (["embed", "x.csv", "--method", "tsne", "--perplexity", "-1"], "--perplexity must be"),
        (["embed", "x.csv", "--method", "isomap", "--n-neighbors", "99"], "--n-neighbors"),
        (["embed", "x.csv", "--method", "mvu", "--chunked"], "Or leave --chunked out."),
        (["embed", "x.csv", "--format", "images"], "and --format images reads a folder"),
        (["embed", "x.csv", "--method", "pca", "-o", "gaps.csv"], "unless asked for (--force)."),
    ):
        assert main(asked) == 2
        err = capsys.readouterr().err
        assert said in err
        assert not re.search(r"\b[a-z_]+=['.\d]|[a-z]\(|n_neighbors|overwrite", err)
