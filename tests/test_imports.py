"""Who may import whom, and what an import may cost."""

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

import manifoldry
from helpers import in_new_process

ROOT = Path(manifoldry.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

FLOOR = {
    "values",
    "run",
    "check",
    "parameters",
    "warnings",
    "blas",
    "memory",
    "frames",
    "arrays",
    "atomic",
    "palette",
    "markup",
}
STEPS = {"compiled", "neighbors", "geometry", "solve"}
MAY_IMPORT = {
    "registry": set(),
    "parameters": set(),
    "warnings": set(),
    "blas": set(),
    "memory": set(),
    "frames": set(),
    "arrays": {"values", "check"},
    "atomic": set(),
    "storage": FLOOR | {"registry"},
    "palette": set(),
    "markup": {"palette", "values"},
    "annotated": FLOOR | STEPS,
    "blocks": FLOOR | {"tables"},
    "tables": FLOOR | {"datasets", "storage"},
    "compiled": set(),
    "values": {"run"},  # for a type only, see below
    "run": {"values", "blas", "memory", "warnings"},
    "check": {"values"},
    "datasets": FLOOR,
    "neighbors": FLOOR | {"blocks", "compiled", "storage"},
    "geometry": FLOOR | {"compiled", "neighbors"},
    "solve": FLOOR | {"compiled", "neighbors", "geometry"},
    "extend": FLOOR | STEPS,
    "quality": FLOOR | STEPS | {"blocks"},
    "base": FLOOR | STEPS | {"blocks", "extend", "quality", "storage"},
    "patches": FLOOR | STEPS | {"blocks", "extend", "quality"},
    "embedders": FLOOR | STEPS | {"base", "blocks", "extend", "patches", "quality", "registry"},
    "clusters": FLOOR | STEPS | {"base", "blocks", "extend", "quality", "registry", "storage"},
    "dimension": FLOOR | STEPS | {"blocks", "patches", "quality"},
    "diagnosis": FLOOR | STEPS | {"base", "blocks", "dimension", "extend", "patches", "quality"},
    "choosing": FLOOR
    | STEPS
    | {"base", "blocks", "diagnosis", "dimension", "extend", "patches", "quality", "registry"},
    "plot": FLOOR | STEPS | {"datasets", "extend", "patches", "quality"},
    "report": FLOOR | STEPS | {"choosing", "diagnosis", "dimension", "patches", "plot", "quality", "registry"},
}
"""A layer may import itself and these; `apps` may import anything, and the package is tested by what it loads."""

HEAVY = ("numba", "matplotlib", "torch", "dask")


@dataclass(frozen=True)
class Import:
    """One imported module, whether only for types, and whether it is loaded with the module."""

    name: str
    for_types: bool
    at_top: bool


def imports(path):
    """Return every import of a file, also those inside functions."""
    found = []

    def visit(node, for_types, at_top):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.extend(Import(alias.name, for_types, at_top) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path} has a relative import"
                whole = [f"manifoldry.{alias.name}" for alias in child.names]
                names = whole if child.module == "manifoldry" else [child.module]
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
        "import a\nfrom manifoldry import check\nif TYPE_CHECKING:\n    from manifoldry.run import Run\n"
        "def f():\n    if True:\n        from manifoldry.solve.eigen import largest\n    import b.c as d\n"
        "class C:\n    import e\n",
        encoding="utf-8",
    )
    assert imports(path) == [
        Import("a", False, True),
        Import("manifoldry.check", False, True),
        Import("manifoldry.run", True, False),
        Import("manifoldry.solve.eigen", False, False),
        Import("b.c", False, False),
        Import("e", False, True),
    ]


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_imports_point_downwards(path):
    mine = layer(module_name(path))
    if mine in (None, "__main__", "apps"):
        return
    assert mine in MAY_IMPORT, f"the layer {mine} has no row in the table"
    for imported in imports(path):
        theirs = layer(imported.name)
        if imported.name == "manifoldry":
            pytest.fail(f"{mine} imports the package itself")
        if theirs not in (None, mine):
            assert theirs in MAY_IMPORT[mine], f"{mine} imports {imported.name}"
        if mine == "values" and theirs == "run":
            assert imported.for_types


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_kernels_know_only_numpy_and_numba_and_others_load_nothing_heavy(path):
    outside = [found for found in imports(path) if layer(found.name) != "compiled"]
    if layer(module_name(path)) == "compiled":
        assert {found.name.split(".")[0] for found in outside} <= {"__future__", "numpy", "numba"}
        return
    at_once = {found.name.split(".")[0] for found in outside if found.at_top}
    assert at_once.isdisjoint(HEAVY)
    assert not any(layer(found.name) == "compiled" and found.at_top for found in imports(path))


def test_no_method_imports_another():
    methods = {module_name(path) for path in (ROOT / "embedders").glob("*.py")} - {"manifoldry.embedders"}
    assert methods
    for path in (ROOT / "embedders").glob("*.py"):
        assert not {found.name for found in imports(path)} & (methods - {module_name(path)}), path


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_modules_have_names_and_fit_on_a_few_screens(path):
    assert path.stem not in {"util", "utils", "helper", "helpers", "misc", "common"}
    assert len(path.read_text(encoding="utf-8").splitlines()) < 400


def test_the_package_itself_loads_almost_nothing():
    script = f"""
import sys
import manifoldry
print(sorted(set(sys.modules) & {{*{HEAVY}, "scipy", "sklearn", "faiss", "pandas"}}))
print(sorted(name for name in sys.modules if name.startswith("manifoldry")))
"""
    assert in_new_process(script) == "[]\n['manifoldry', 'manifoldry.registry']"


def test_the_first_embedding_waits_for_no_compiler():
    script = f"""
import sys
import manifoldry
from sklearn.datasets import load_iris
assert manifoldry.Isomap().fit_transform(load_iris().data).shape == (150, 2)
print(sorted(set(sys.modules) & {set(HEAVY)!r}))
"""
    assert in_new_process(f"import warnings; warnings.simplefilter('ignore')\n{script}") == "[]"


def test_every_public_name_is_there_and_listed():
    for name in manifoldry.__all__:
        assert getattr(manifoldry, name) is not None
    assert set(manifoldry.__all__) <= set(dir(manifoldry))
    assert len(set(manifoldry.__all__)) == len(manifoldry.__all__)
    assert isinstance(manifoldry.__version__, str)
    with pytest.raises(AttributeError, match="no attribute 'Isomapp'"):
        _ = manifoldry.Isomapp


def test_every_method_of_the_table_is_public():
    assert {card.name for card in manifoldry.methods()} <= set(manifoldry.__all__)
