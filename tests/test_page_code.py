"""The Python of every page runs and prints what the page shows, and the commands of every page are understood."""

import ast
import contextlib
import importlib.util
import io
import re
import shlex
import warnings
from pathlib import Path

import click
import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from manifoldry.cli._main import COMMANDS, program

mpl.use("Agg")

ROOT = Path(__file__).resolve().parent.parent
GENERATED = {ROOT / "docs" / "reference" / folder for folder in ("methods", "clusterings")}
"""Their examples are those of docstrings, which tests/test_docs.py runs."""
PAGES = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if path.parent not in GENERATED]
OPTIONAL = {"bertopic", "dask_ml", "igraph", "polars", "scanpy"}
"""Libraries that the extras do not bring."""


def _load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUN_PAGES = _load(ROOT / "docs" / "run_pages.py")


def _name(path):
    return str(path.relative_to(ROOT))


def _with_code():
    for path in PAGES:
        if any(block.reason is None for block in RUN_PAGES.code_blocks(path.read_text(encoding="utf-8"))):
            yield path


def _masked(text):
    """Return a text without its numbers, which differ between machines, and without its line breaks."""
    return " ".join(re.sub(r"\d[\d,.]*(?:e[-+]?\d+)?\b", "#", text).split())


def _run(path, folder):
    """Run a page in a folder and return what it prints, warnings included."""
    output = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(output), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            RUN_PAGES.run_page(path)
        except ModuleNotFoundError as error:
            if error.name not in OPTIONAL:
                raise
            pytest.skip(f"{error.name} is not installed")
        finally:
            plt.close("all")
    return output.getvalue() + "".join(f"\n{found.category.__name__}: {found.message}" for found in caught)


@pytest.mark.parametrize("path", list(_with_code()), ids=_name)
def test_the_code_of_a_page_runs_and_prints_what_it_shows(path, tmp_path):
    printed = _masked(_run(path, tmp_path))
    text = path.read_text(encoding="utf-8")
    shown = re.findall(r"^```python\n(?:[^`]|`(?!``))*^```\n+```text\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    parts = [_masked(part) for output in shown for part in re.split(r"^\.\.\.$", output, flags=re.MULTILINE)]
    assert [part for part in parts if part not in printed] == []
    pictures = {picture.name for picture in tmp_path.glob("*.png")}
    if path.parent.name == "learn":
        assert pictures == set(re.findall(r"figures/learn_(\w+\.png)", text))
        figures = [ROOT / "docs" / "figures" / f"learn_{name}" for name in pictures]
        assert [figure.name for figure in figures if figure.stat().st_size > 150_000] == []


def test_every_block_of_python_is_run_or_gives_a_reason():
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        blocks = RUN_PAGES.code_blocks(text)
        assert len(blocks) == text.count("```python\n") + text.count("<!-- test: before"), _name(path)
        assert text.count("<!-- test: ") == sum(block.reason is not None for block in blocks) + text.count(
            "<!-- test: before the first block\n"
        ), _name(path)


def _commands(text):
    """Return the command lines of a page."""
    for line in re.findall(r"^(?: {4}|\$ )(manifoldry [a-z].*)$", text, flags=re.MULTILINE):
        words = shlex.split(line, comments=True)
        yield words[1 : next((i for i, word in enumerate(words) if word in ("|", ">", "&&", "...")), None)]


@pytest.fixture
def check_command(monkeypatch):
    """Return a function that raises click's error for a command line that is not understood; files need not exist."""
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: value)  # noqa: ARG005

    def check(words):
        if words[0] not in COMMANDS:
            raise click.UsageError(f"There is no command {words[0]!r}.")
        command = program.get_command(click.Context(program), words[0])
        with contextlib.suppress(click.exceptions.Exit):  # of --help
            command.make_context(words[0], list(words[1:]))

    return check


def _all_commands():
    return {(_name(path), tuple(words)) for path in PAGES for words in _commands(path.read_text(encoding="utf-8"))}


@pytest.mark.parametrize(("page", "words"), sorted(_all_commands()))
def test_the_commands_of_the_pages_are_understood(page, words, check_command):
    if page != "docs/reference/command_line.md" or "[OPTIONS]" not in words:
        check_command(words)


@pytest.mark.parametrize("options", ["--lable b", "--n-components two", "--method tnse", "b.csv"])
def test_a_wrong_command_is_an_error(options, check_command):
    with pytest.raises(click.UsageError):
        check_command(next(_commands(f"    manifoldry embed a.csv {options}")))


@pytest.mark.parametrize(
    ("page", "heading", "module", "name"),
    [
        ("umap_learn", "Parameters", "umap/umap_.py", "UMAP"),
        ("opentsne", "Parameters", "openTSNE/tsne.py", "TSNE"),
        ("scikit_learn", "`sklearn.manifold.TSNE`", "sklearn/manifold/_t_sne.py", "TSNE"),
        ("scikit_learn", "`sklearn.manifold.Isomap`", "sklearn/manifold/_isomap.py", "Isomap"),
        (
            "scikit_learn",
            "`sklearn.manifold.LocallyLinearEmbedding`",
            "sklearn/manifold/_locally_linear.py",
            "LocallyLinearEmbedding",
        ),
        (
            "scikit_learn",
            "`sklearn.manifold.SpectralEmbedding`",
            "sklearn/manifold/_spectral_embedding.py",
            "SpectralEmbedding",
        ),
        ("scikit_learn", "`sklearn.manifold.MDS`", "sklearn/manifold/_mds.py", "MDS"),
        ("scikit_learn", "`sklearn.decomposition.KernelPCA`", "sklearn/decomposition/_kernel_pca.py", "KernelPCA"),
    ],
)
def test_tables_of_parameters_miss_none_of_the_installed_library(page, heading, module, name):
    """Their sources are read, because importing them takes seconds."""
    library, _, file = module.partition("/")
    spec = importlib.util.find_spec(library)
    if spec is None:
        pytest.skip(f"{library} is not installed")
    tree = ast.parse((Path(spec.origin).parent / file).read_text(encoding="utf-8"))
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name).body
    constructor = next(node for node in body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    theirs = {argument.arg for argument in (*constructor.args.args[1:], *constructor.args.kwonlyargs)}
    text = (ROOT / "docs" / "coming_from" / f"{page}.md").read_text(encoding="utf-8").partition(f"# {heading}")[2]
    assert theirs <= set(re.search(r"<!-- parameters: \w+: ([\w ]+) -->", text)[1].split())
