"""Who may import whom, and what an import may cost."""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import manifoldry
from helpers import in_new_process
from manifoldry._core.registry import CLUSTERINGS, METHODS

ROOT = Path(manifoldry.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

LAYERS = ("_core", "graph", "_numerics", "data", "methods", "evaluation", "viz", "cli")
"""The intended layering: a package may import itself and those before it."""

FACADES = ("manifoldry.graph",)
"""Public modules that list names of higher layers, imported when they are first used."""

HEAVY = ("numba", "matplotlib", "torch", "dask")
PACKAGES = {".".join(("manifoldry", *path.parent.relative_to(ROOT).parts)) for path in ROOT.rglob("__init__.py")}


@dataclass(frozen=True)
class Import:
    """One imported module, whether only for types, and whether it is loaded with the module."""

    name: str
    for_types: bool
    at_top: bool


@cache
def imports(path):
    """Return every import of a file, also those inside functions."""
    found = []

    def visit(node, for_types, at_top):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.extend(Import(alias.name, for_types, at_top) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path} has a relative import"
                whole = [f"{child.module}.{alias.name}" for alias in child.names]
                names = whole if child.module in PACKAGES else [child.module]
                found.extend(Import(name, for_types, at_top) for name in names)
            elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                visit(child, True, False)
            else:
                inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
                visit(child, for_types, at_top and not inside)

    visit(ast.parse(path.read_text(encoding="utf-8")), False, True)
    return found


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("manifoldry", *(part for part in parts if part != "__init__")))


def layer(name):
    """Return the layer of a module of the package, or None for others and for the package itself."""
    parts = name.split(".")
    return parts[1] if parts[0] == "manifoldry" and len(parts) > 1 else None


def test_the_reader_of_imports_sees_all_of_them(tmp_path):
    path = tmp_path / "sample.py"
    path.write_text(
        "import a\nfrom manifoldry._core import check\nif TYPE_CHECKING:\n    from manifoldry._core.run import Run\n"
        "def f():\n    if True:\n        from manifoldry._numerics.eigen import largest\n    import b.c as d\n"
        "class C:\n    import e\n",
        encoding="utf-8",
    )
    assert imports(path) == [
        Import("a", False, True),
        Import("manifoldry._core.check", False, True),
        Import("manifoldry._core.run", True, False),
        Import("manifoldry._numerics.eigen.largest", False, False),
        Import("b.c", False, False),
        Import("e", False, True),
    ]


def test_imports_point_downwards():
    assert {path.name for path in ROOT.iterdir() if path.is_dir()} - {"__pycache__"} == set(LAYERS)
    upward = []
    for path in MODULES:
        mine = layer(module_name(path))
        if mine not in LAYERS:
            continue
        for imported in imports(path):
            theirs = layer(imported.name)
            if theirs is None or imported.name.startswith("manifoldry.__"):
                continue
            if imported.for_types and module_name(path) in FACADES:
                continue
            if theirs not in LAYERS or LAYERS.index(theirs) > LAYERS.index(mine):
                upward.append(f"{module_name(path)} imports {imported.name}")
    assert upward == []


COMPILED_CORE = ("manifoldry._core.kernel", "manifoldry._core.team")


def is_kernel(name):
    """Tell whether a module holds compiled loops."""
    return name in COMPILED_CORE or {"kernels", "_kernels"} & set(name.split(".")[:-1]) != set()


def test_kernels_know_only_numpy_and_numba_and_others_load_nothing_heavy():
    for path in MODULES:
        name = module_name(path)
        found = imports(path)
        if is_kernel(name):
            ours = {module.name for module in found if module.name.startswith("manifoldry")}
            assert all(is_kernel(other) or other.startswith("manifoldry._core.") for other in ours), name
            outside = {module.name.split(".")[0] for module in found} - {"manifoldry"}
            standard = {"__future__", "collections", "functools", "heapq", "math", "sys", "typing"}
            assert outside <= {*standard, "numpy", "numba"}, name
            continue
        at_once = {module.name for module in found if module.at_top}
        assert {other.split(".")[0] for other in at_once}.isdisjoint(HEAVY), name
        on_gpu = ".gpu" in name or name.endswith("._gpu")  # loaded when a stage runs on a GPU
        assert on_gpu or not any(is_kernel(other) for other in at_once), name


def test_graph_algorithms_of_scipy_come_through_one_module():
    for path in MODULES:
        if module_name(path) != "manifoldry._core.csgraph":
            assert "scipy.sparse.csgraph" not in {found.name for found in imports(path)}, path
            assert "from scipy.sparse import csgraph" not in path.read_text(encoding="utf-8"), path


def test_no_method_imports_another():
    methods = {*METHODS.values(), *CLUSTERINGS.values()}
    for path in MODULES:
        if module_name(path) in methods:
            assert not {found.name for found in imports(path)} & (methods - {module_name(path)}), path


def test_modules_have_names_and_fit_on_a_few_screens():
    for path in MODULES:
        assert path.stem.strip("_") not in {"util", "utils", "helper", "helpers", "misc", "common"}
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 500, path


def test_the_package_itself_loads_almost_nothing():
    script = f"""
import sys
import manifoldry
print(sorted(set(sys.modules) & {{*{HEAVY}, "scipy", "sklearn", "pandas"}}))
print(sorted(name for name in sys.modules if name.startswith("manifoldry")))
"""
    assert in_new_process(script) == "[]\n['manifoldry', 'manifoldry._core', 'manifoldry._core.registry']"


def test_the_first_embedding_waits_for_no_compiler():
    script = f"""
import sys
import manifoldry
from sklearn.datasets import load_iris
assert manifoldry.Isomap().fit_transform(load_iris().data).shape == (150, 2)
print(sorted(set(sys.modules) & {set(HEAVY)!r}))
"""
    assert in_new_process(f"import warnings; warnings.simplefilter('ignore')\n{script}") == "[]"
