"""The rules of the house: short lines of descent, one name for one thing, American spelling, walks that are true."""

import ast
import importlib
import re
from collections import defaultdict
from pathlib import Path

import pytest

import manifoldry
from manifoldry._core.registry import list_clusterings, list_methods

SOURCE = Path(manifoldry.__file__).parent
ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(SOURCE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}
CARDS = [*list_methods(), *list_clusterings()]

BRITISH = re.compile(
    r"neighbour|\bcentr(?:e|es|ed|ing)\b|_centre|colour|behaviour|favour|honour|\bgrey|labelled|modelling|analys(?:e|ed|er)\b"
    r"|(?:normal|symmetr|major|maxim|minim|optim|initial|regular|general|local|penal|vector|standard|factor|organ|recogn|summar)"
    r"is(?:e|es|ed|er|ers|ing|ation)\b",
    flags=re.IGNORECASE,
)
DIALECT = re.compile(
    r"\b(?:ties|springs|haste|pressure|stairs|landscapes?|profiles?|brakes?|movers?|flats|borrowed)\b",
    flags=re.IGNORECASE,
)
"""Words that once stood here for affinities, multipliers, inexactness, penalty, staircase, repulsion, layout kernels,
adaptive restarts, optimizers, affine subspaces and wrapped estimators."""


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_an_estimator_has_at_most_three_classes_of_ours(card):
    ours = [cls.__name__ for cls in card.cls.__mro__ if cls.__module__.startswith("manifoldry")]
    assert len(ours) <= 3, ours


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_what_is_no_parameter_does_not_look_like_one(card):
    parameters = set(card.cls().get_params())
    for cls in card.cls.__mro__:
        if not cls.__module__.startswith("manifoldry"):
            continue
        plain = [name for name, value in vars(cls).items() if not callable(value) and not name.startswith("_")]
        values = [name for name in plain if not isinstance(vars(cls)[name], (property, classmethod, staticmethod))]
        public = [name for name in values if not hasattr(vars(cls)[name], "__get__")]
        assert set(public) <= parameters, f"{cls.__name__} has attributes that are no parameters"


def test_one_name_is_one_class():
    places = defaultdict(list)
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_a_constant_has_one_value():
    values = defaultdict(dict)
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if re.fullmatch(r"[A-Z][A-Z0-9_]+", name):
                    values[name].setdefault(ast.unparse(node.value), []).append(str(path.relative_to(SOURCE)))
    assert {name: found for name, found in values.items() if len(found) > 1} == {}


def test_modules_do_not_import_each_other_in_circles():
    names = {".".join(("manifoldry", *path.relative_to(SOURCE).with_suffix("").parts)): path for path in MODULES}
    graph = {}
    for name, path in names.items():
        found = set()
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)} & set(names)
        graph[name] = found - {name, *_types_only(TREES[path], names)}
    done, path = set(), []

    def visit(name):
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name in done:
            return
        path.append(name)
        for other in sorted(graph[name]):
            visit(other)
        path.pop()
        done.add(name)

    for name in sorted(graph):
        visit(name)


def _types_only(tree, names):
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for inner in ast.walk(node):
                if isinstance(inner, ast.ImportFrom):
                    yield inner.module
                    yield from (f"{inner.module}.{alias.name}" for alias in inner.names)


TEXTS = [
    *MODULES,
    *(ROOT / "tests").rglob("*.py"),
    *(ROOT / "benchmarks").glob("*.py"),
    *(ROOT / "experiments").glob("*.py"),
    *(ROOT / "docs").rglob("*.py"),
    *(ROOT / "docs").rglob("*.md"),
    *ROOT.glob("*.md"),
]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_spelling_is_american(path):
    if path == Path(__file__) or path.name == "CHANGELOG.md":
        return
    assert path.stem == BRITISH.sub("", path.stem)
    text = re.sub(r"^- .*`\w+\d{4}\w?`$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)  # titles of papers
    text = re.sub(r"rng\(\"[^\"]*\"\)", "", text)  # the name of a random stream is its seed
    assert sorted({found[0] for found in BRITISH.finditer(text)}) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_names_are_those_of_the_field(path):
    names = {node.id for node in ast.walk(TREES[path]) if isinstance(node, ast.Name)}
    names |= {node.arg for node in ast.walk(TREES[path]) if isinstance(node, ast.arg)}
    kinds = (ast.FunctionDef, ast.ClassDef)
    names |= {node.name for node in ast.walk(TREES[path]) if isinstance(node, kinds)}
    words = {name: re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name) for name in names}
    assert sorted(name for name, text in words.items() if DIALECT.search(text)) == []


WALKS = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("\n## ")[1:]
STEP = re.compile(r"`([\w/]+\.py):([\w.]+)`")


@pytest.mark.parametrize("walk", [w for w in WALKS if STEP.search(w)], ids=lambda walk: walk.splitlines()[0])
def test_the_walks_through_the_code_are_true_and_short(walk):
    steps = STEP.findall(walk)
    for file, name in steps:
        value = importlib.import_module("manifoldry." + file.removesuffix(".py").replace("/", "."))
        for part in name.split("."):
            value = getattr(value, part)
        assert callable(value), f"{file}:{name}"
    numerics = ("graph/_kernels/", "_numerics/kernels/", "_numerics/eigen")
    before_numerics = {file for file, _ in steps if not file.startswith(numerics)}
    assert len(before_numerics) <= 8, sorted(before_numerics)


def test_the_walks_that_were_promised_are_there():
    headings = {walk.splitlines()[0].strip() for walk in WALKS if STEP.search(walk)}
    assert {"Isomap", "TSNE", "IPA", "MVU", "UMAP.transform", "LDLC"} <= headings
    assert len(headings) == sum(bool(STEP.search(walk)) for walk in WALKS)
