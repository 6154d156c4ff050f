"""The rules of the house: budgets of size, one name for one thing, American spelling, a true map of the code."""

import ast
import importlib
import importlib.util
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import manifoldry
from manifoldry._core.registry import list_clusterings, list_methods

BUDGETS = {
    "_core": (3_550, 17),
    "_numerics": (21_310, 115),
    "graph": (3_950, 15),
    "data": (8_080, 36),
    "methods": (19_355, 79),
    "evaluation": (10_565, 42),
    "viz": (3_820, 16),
    "cli": (4_950, 34),
    ".": (200, 2),
}
"""Lines and files that a package may have; "." is the top level. Raising a budget is a decision of its own."""
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 50
"""Lines of a function without its signature and docstring."""
MAX_FOLDER_MODULES = 15
"""Modules of a folder besides ``__init__``."""
LARGER_FOLDERS = {"_core": 16, "_numerics/kernels": 21, "cli/_flow": 17}
MAX_SINGLE_IMPORTER_MODULES = 37
"""Modules that exactly one other module imports: most should be merged into it. Compiled loops do not count: a module
of them is compiled as a whole, when it is first imported."""
MAX_OWN_CLASSES = 4
"""Classes of this package among the base classes of an estimator, including itself, without mixins: for example Isomap,
GraphEmbedder, Embedder and Estimator."""

SOURCE = Path(manifoldry.__file__).parent
ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(SOURCE.rglob("*.py"))
CARDS = [*list_methods(), *list_clusterings()]

BRITISH = re.compile(
    r"neighbour|\bcentr(?:e|es|ed|ing)\b|_centre|colour|behaviour|favour|honour|\bgrey|labelled|modelling|analys(?:e|ed|er)\b"
    r"|(?:normal|symmetr|major|maxim|minim|optim|initial|regular|general|local|penal|vector|standard|factor|organ|recogn|summar)"
    r"is(?:e|es|ed|er|ers|ing|ation)\b",
    flags=re.IGNORECASE,
)
DIALECT = re.compile(
    r"\b(?:ties|springs|haste|pressure|stairs|landscapes?|brakes?|movers?|flats|borrowed)\b",
    flags=re.IGNORECASE,
)
"""Words that once stood here for affinities, multipliers, inexactness, penalty, staircase, repulsion, adaptive
restarts, optimizers, affine subspaces and wrapped estimators."""


@pytest.fixture(scope="module")
def trees():
    """The parsed modules: half a million objects, which no other process should hold."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}


def _relative(path):
    return path.relative_to(SOURCE).as_posix()


def _lines(path):
    return len(path.read_text(encoding="utf-8").splitlines())


def _load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_package_keeps_its_budget():
    lines, files = Counter(), Counter()
    for path in MODULES:
        parts = path.relative_to(SOURCE).parts
        name = parts[0] if len(parts) > 1 else "."
        lines[name] += _lines(path)
        files[name] += 1
    assert set(lines) == set(BUDGETS)
    assert {name: (lines[name], files[name]) for name in BUDGETS if lines[name] > BUDGETS[name][0]} == {}
    assert {name: (lines[name], files[name]) for name in BUDGETS if files[name] > BUDGETS[name][1]} == {}


def test_files_functions_and_folders_are_small(trees):
    assert {_relative(path): _lines(path) for path in MODULES if _lines(path) > MAX_FILE_LINES} == {}
    functions = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                steps = node.body[1:] if ast.get_docstring(node) is not None else node.body
                length = node.end_lineno - steps[0].lineno + 1 if steps else 0
                if length > MAX_FUNCTION_LINES:
                    functions[f"{_relative(path)}:{node.name}"] = length
    assert functions == {}
    folders = Counter(_relative(path.parent) for path in MODULES if path.name != "__init__.py")
    most = {name: LARGER_FOLDERS.get(name, MAX_FOLDER_MODULES) for name in folders}
    assert {name: count for name, count in folders.items() if count > most[name]} == {}


def test_few_modules_have_a_single_importer():
    single = _load(ROOT / "benchmarks" / "structure.py").single_importer_modules(SOURCE)
    own = ("kernels.", "gpu.", "_gpu")  # what a GPU runs is loaded where a stage runs on one
    listed = [f"{name} <- {client}" for name, client in sorted(single.items()) if not any(part in name for part in own)]
    assert len(listed) <= MAX_SINGLE_IMPORTER_MODULES, "\n".join(listed)


def _own_classes(cls):
    names = [base.__name__ for base in cls.__mro__ if base.__module__.startswith("manifoldry")]
    return [name for name in names if not name.endswith("Mixin")]


def test_an_estimator_has_few_classes_of_ours():
    own = {card.name: _own_classes(card.cls) for card in CARDS}
    assert {name: classes for name, classes in own.items() if len(classes) > MAX_OWN_CLASSES} == {}


def test_what_is_no_parameter_does_not_look_like_one():
    odd = {}
    for card in CARDS:
        parameters = set(card.cls().get_params())
        for cls in card.cls.__mro__:
            if not cls.__module__.startswith("manifoldry"):
                continue
            plain = [name for name, value in vars(cls).items() if not callable(value) and not name.startswith("_")]
            values = [name for name in plain if not isinstance(vars(cls)[name], (property, classmethod, staticmethod))]
            public = {name for name in values if not hasattr(vars(cls)[name], "__get__")}
            if public - parameters:
                odd[card.name, cls.__name__] = sorted(public - parameters)
    assert odd == {}


def test_one_name_is_one_class(trees):
    places = defaultdict(list)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(_relative(path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_a_constant_has_one_value(trees):
    values = defaultdict(dict)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if re.fullmatch(r"[A-Z][A-Z0-9_]+", name):
                    values[name].setdefault(ast.unparse(node.value), []).append(_relative(path))
    assert {name: texts for name, texts in values.items() if len(texts) > 1} == {}


def test_modules_do_not_import_each_other_in_circles(trees):
    names = {".".join(("manifoldry", *path.relative_to(SOURCE).with_suffix("").parts)): path for path in MODULES}
    graph = {}
    for name, path in names.items():
        imported = set()
        for node in ast.walk(trees[path]):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)} & set(names)
        # A stage loads its version for a GPU when it runs on one, and that shares values with the stage.
        on_gpu = set() if ".gpu" in name else {other for other in imported if ".gpu" in other}
        graph[name] = imported - {name, *on_gpu, *_types_only(trees[path])}
    _check_no_circle(graph)


def test_no_import_of_a_package_needs_what_is_only_half_loaded(trees):
    """A module loads the packages around each module that it imports first, so these are edges too."""
    names = {".".join(("manifoldry", *path.relative_to(SOURCE).with_suffix("").parts)): path for path in MODULES}
    names = {name.removesuffix(".__init__"): path for name, path in names.items()}
    graph = {}
    for name, path in names.items():
        loaded = set()
        for node in trees[path].body:  # what a function imports is loaded later
            if isinstance(node, ast.ImportFrom) and node.module:
                loaded |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)} & set(names)
        around = {".".join(other.split(".")[:i]) for other in loaded for i in range(1, other.count(".") + 1)}
        graph[name] = {other for other in loaded | around if other != name and not name.startswith(f"{other}.")}
    _check_no_circle(graph)


def _check_no_circle(graph):
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


def _types_only(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for inner in ast.walk(node):
                if isinstance(inner, ast.ImportFrom):
                    yield inner.module
                    yield from (f"{inner.module}.{alias.name}" for alias in inner.names)


def test_spelling_is_american():
    folders = ("src/manifoldry", "tests", "benchmarks", "experiments", "docs", "examples")
    texts = [path for folder in folders for kind in ("*.py", "*.md") for path in (ROOT / folder).rglob(kind)]
    british = {}
    for path in [*texts, *ROOT.glob("*.md")]:
        if path == Path(__file__) or path.name == "CHANGELOG.md":
            continue
        text = re.sub(r"^- .*`\w+\d{4}\w?`$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)  # papers
        text = re.sub(r"rng\(\"[^\"]*\"\)", "", text)  # the name of a random stream is its seed
        words = {match[0] for match in BRITISH.finditer(f"{path.stem} {text}")}
        if words:
            british[str(path.relative_to(ROOT))] = sorted(words)
    assert british == {}


def test_names_are_those_of_the_field(trees):
    odd = {}
    for path, tree in trees.items():
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        names |= {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        words = {name: re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name) for name in names}
        if any(DIALECT.search(text) for text in words.values()):
            odd[_relative(path)] = sorted(name for name, text in words.items() if DIALECT.search(text))
    assert odd == {}


def test_the_map_of_the_code_names_what_exists():
    page = (ROOT / "docs" / "development" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py):([\w.]+)`", page)
    assert len(named) > 20
    missing = []
    for file, name in named:
        value = importlib.import_module("manifoldry." + file.removesuffix(".py").replace("/", "."))
        for part in name.split("."):
            value = getattr(value, part, None)
        if value is None:
            missing.append(f"{file}:{name}")
    assert missing == []
    paths = re.findall(r"`((?:_?[a-z]+/)+[\w.]*)`", page)
    assert [path for path in paths if not (SOURCE / path).exists() and not (ROOT / path).exists()] == []
