"""What is released agrees: version, dependencies, extras, citation, and the links of the README."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import manifoldry

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SITE = PROJECT["urls"]["Documentation"]
FILES = "https://github.com/manifoldry/manifoldry/blob/main/"
PICTURES = "https://raw.githubusercontent.com/manifoldry/manifoldry/main/"
ON_CONDA = {"matplotlib": "matplotlib-base", "dask[array,dataframe]": "dask-core"}
"""Packages with another name on conda-forge."""


def _read(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def _requirements(entries):
    """Return names and bounds as conda writes them."""
    pairs = (re.fullmatch(r"([^>]+)>=([\d.]+)", entry) for entry in entries if not entry.startswith("manifoldry"))
    return {f"{ON_CONDA.get(pair[1], pair[1])} >={pair[2]}" for pair in pairs}


def test_the_links_of_the_readme_are_absolute_and_lead_to_files_of_the_repository():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 20
    missing = []
    for link in links:
        if link.startswith(SITE):
            path = f"docs/{link.removeprefix(SITE).partition('#')[0].removesuffix('.html')}.md"
            path = "docs" if path == "docs/.md" else path
        elif link.startswith((FILES, PICTURES)):
            path = link.removeprefix(FILES).removeprefix(PICTURES)
        else:
            path = "" if link.startswith("https://") else "a relative link is broken on PyPI"
        missing += [link] if not (ROOT / path).exists() else []
    assert missing == []


def test_version_and_day_are_written_once_and_agree_with_changelog_and_citation():
    assert "version" in PROJECT["dynamic"]
    heading = re.search(r"^## \[([\d.]+)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)
    assert heading.groups() == (manifoldry.__version__, manifoldry.__released__)
    cited = _read("CITATION.cff")
    assert (cited["version"], cited["date-released"]) == heading.groups()
    assert cited["license"] == PROJECT["license"]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone")
def test_the_sdist_names_every_file_and_folder_of_the_repository():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tracked = {path.partition("/")[0] for path in listed.splitlines()}
    named = {word for word in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").split() if "*" not in word}
    of_themselves = {"LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "src"}
    assert tracked - named == of_themselves


def test_the_conda_recipe_has_the_version_and_the_dependencies_of_the_package():
    recipe = _read("conda/recipe.yaml")
    assert recipe["context"] == {"version": manifoldry.__version__, "python_min": PROJECT["requires-python"][2:]}
    extras = PROJECT["optional-dependencies"]
    run = {*recipe["requirements"]["run"]} - {"python >=${{ python_min }}"}
    assert run == _requirements([*PROJECT["dependencies"], *extras["plot"], *extras["cli"]])
    optional = _requirements([*extras["anndata"], *extras["notebook"], *extras["dask"]])
    assert set(recipe["requirements"]["run_constraints"]) == optional
    program = recipe["build"]["python"]["entry_points"]
    assert program == [f"{name} = {function}" for name, function in PROJECT["scripts"].items()]


def test_extras_that_texts_name_exist():
    texts = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    named = {extra for path in texts for extra in re.findall(r"manifoldry\[(\w+)\]", path.read_text(encoding="utf-8"))}
    assert {"cli", "plot", "anndata", "dask", "gpu"} <= named
    assert named <= set(PROJECT["optional-dependencies"])


def test_issue_forms_ask_for_the_environment():
    folder = ROOT / ".github" / "ISSUE_TEMPLATE"
    forms = sorted(set(folder.glob("*.yml")) - {folder / "config.yml"})
    assert len(forms) == 3
    for path in forms:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= set(form)
        ids = [entry["id"] for entry in form["body"]]
        assert len(set(ids)) == len(ids)
        assert "manifoldry --version --json" in json.dumps(form)


def test_the_workflows_test_every_system_and_the_lowest_and_newest_python():
    jobs = _read(".github/workflows/ci.yml")["jobs"]
    matrix = jobs["test"]["strategy"]["matrix"]
    assert {system.partition("-")[0] for system in matrix["os"]} == {"ubuntu", "macos", "windows"}
    supported = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", text)]
    assert matrix["python"] == [supported[0], supported[-1]]
    assert supported[0] == PROJECT["requires-python"][2:]
    release = _read(".github/workflows/release.yml")["jobs"]
    assert release["publish"]["permissions"] == {"id-token": "write"}
