"""What a call really runs: own files and the deepest own frame of fits, of ``score`` and of ``manifoldry embed``."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

LIMITS = {
    "PCA": (13, 12),
    "Isomap": (25, 14),
    "UMAP": (45, 20),
    "IPA": (43, 19),
    "score": (19, 15),
    "manifoldry embed": (93, 26),
}
"""Files and stack depth of a second call for 400 points; ``python benchmarks/structure.py .`` prints the numbers."""
MAX_IMPORTED_BY_PCA = 24


def _structure():
    spec = importlib.util.spec_from_file_location("structure", ROOT / "benchmarks" / "structure.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STRUCTURE = _structure()


@pytest.fixture(scope="module")
def measured():
    return STRUCTURE.measure_calls(ROOT)


@pytest.mark.parametrize("call", LIMITS)
def test_a_call_opens_few_files_and_is_not_deep(measured, call):
    path, (files, depth) = measured[call], LIMITS[call]
    assert path["files"] <= files, "\n".join(path["paths"])
    assert path["depth"] <= depth


def test_the_first_method_imports_few_modules():
    assert STRUCTURE.imported_by_pca(ROOT) <= MAX_IMPORTED_BY_PCA


def test_frames_of_other_libraries_do_not_count(tmp_path):
    (tmp_path / "own.py").write_text("def f(g):\n    return g(lambda: h())\ndef h():\n    return 1\n")
    spec = importlib.util.spec_from_file_location("own", tmp_path / "own.py")
    own = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(own)
    path = STRUCTURE.profile(lambda: own.f(lambda inner: inner()), tmp_path)
    assert path.deepest == 3
    assert len(path.files) == 1
    assert len(path.functions) == 3
    assert path.depth == 0
