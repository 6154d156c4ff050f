"""The public API: what is stable, that it is listed, and that everything else looks private."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import manifoldry
from helpers import bent_sheet, knn_graph, knn_lists
from manifoldry import graph

SOURCE = Path(manifoldry.__file__).parent
ROOT = Path(__file__).resolve().parent.parent
PUBLIC = {"manifoldry": manifoldry} | {path: getattr(manifoldry, name) for name, path in manifoldry._MODULES.items()}


def _types_only(path):
    """Return the names that a module imports for type checkers, and those that it imports at once."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    blocks = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    imports = [n for block in [tree, *blocks] for n in block.body if isinstance(n, ast.ImportFrom)]
    return {alias.asname or alias.name for n in imports for alias in n.names}


@pytest.mark.parametrize("path", PUBLIC)
def test_every_public_name_exists_and_is_listed_once(path):
    module = PUBLIC[path]
    assert len(set(module.__all__)) == len(module.__all__)
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert not name.startswith("_")


@pytest.mark.parametrize("path", ["manifoldry", "manifoldry.graph"])
def test_type_checkers_see_every_name_that_is_imported_lazily(path):
    file = SOURCE.parent / path.replace(".", "/") / "__init__.py"
    assert set(PUBLIC[path]._LOCATIONS) <= _types_only(file)
    if path == "manifoldry":
        assert set(manifoldry.__all__) <= _types_only(file)


def test_a_wrong_name_raises_an_attribute_error():
    for module in (manifoldry, graph):
        with pytest.raises(AttributeError, match="no attribute 'Isomapp'"):
            _ = module.Isomapp
    assert isinstance(manifoldry.__version__, str)


def test_every_method_is_public():
    cards = [*manifoldry.list_methods(), *manifoldry.list_clusterings()]
    assert {card.name for card in cards} <= set(manifoldry.__all__)


def test_every_other_module_looks_private():
    visible = []
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if ".".join(parts) in PUBLIC or any(part.startswith("_") for part in parts):
            continue
        body = ast.parse(path.read_text(encoding="utf-8")).body
        defined = {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        exported = {name for name in defined if not name.startswith("_")} <= set(manifoldry.__all__)
        if path.name != "__init__.py" or not exported:  # a package may define what `manifoldry` exports
            visible.append(".".join(parts))
    assert visible == []


def test_the_api_reference_lists_exactly_the_public_names():
    sections = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8").split("\n## ")[1:]
    listed = {
        section.split("`")[1]: re.findall(r"^(?:   |- `|- \[`)(\w+)(?:$|`)", section, re.MULTILINE)
        for section in sections
    }
    shown = {f"manifoldry.{name}": PUBLIC[path].__all__ for name, path in manifoldry._MODULES.items()}
    assert {path: sorted(names) for path, names in listed.items()} == {
        path: sorted(names) for path, names in {"manifoldry": manifoldry.__all__, **shown}.items()
    }


def test_public_graph_functions_agree_with_the_internal_ones():
    X = np.concatenate([bent_sheet(40), 100 + bent_sheet(30, seed=1)])
    lists = knn_lists(X, 6)
    assert [part.tolist() for part in graph.connected_components(lists)] == [[*range(40)], [*range(40, 70)]]
    lengths = graph.geodesic_distances(lists, [3, 50])
    assert lengths.shape == (2, 70)
    assert np.array_equal(lengths, graph.geodesic_distances(knn_graph(X, 6))[[3, 50]])
    assert np.isinf(lengths[0, 40:]).all()
    assert len(graph.find_short_circuits(lists)) == len(graph.find_short_circuits(knn_graph(X, 6)))


@pytest.mark.parametrize("sources", [[70], [-1], [0.5], 3, [[1]]])
def test_sources_outside_of_the_graph_are_an_error(sources):
    with pytest.raises(ValueError, match="sources must be a sequence of integers from 0 to 69"):
        graph.geodesic_distances(knn_lists(bent_sheet(70), 6), sources)
