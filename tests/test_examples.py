"""Every example of the gallery runs, and ends with a picture and a sentence on what it shows."""

import re
import runpy
import warnings
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("plot_*.py"))


@pytest.fixture(autouse=True)
def closed():
    plt.close("all")
    yield
    plt.close("all")


def test_there_are_examples():
    assert len(EXAMPLES) >= 12


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_draws(path, monkeypatch):
    monkeypatch.chdir(path.parent)  # as sphinx-gallery does
    before = sorted(path.parent.iterdir())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*non-interactive")
        warnings.filterwarnings("error", category=DeprecationWarning, module="manifoldry.*")
        runpy.run_path(str(path))
    assert plt.get_fignums(), "no picture was drawn"
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    assert sorted(path.parent.iterdir()) == before, "an example leaves files behind"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_the_format_of_the_gallery(path):
    text = path.read_text(encoding="utf-8")
    title, line, *_ = text.removeprefix('"""\n').splitlines()
    assert title
    assert line == "=" * len(title)
    assert text.count("\n# %%\n") >= 2
    last = text.split("\n# %%\n")[-1]
    assert re.match(r"# [A-Z][^.]*\.", last), "the last text says what the picture shows"
    for heading, under in re.findall(r"\n# (.+)\n# (-+)\n", text):
        assert len(under) == len(heading), heading
    assert not re.search(r"https?://(?!manifoldry)|shared/", text), "examples need no network and no other files"
