"""Measure the structure of a source tree: its size, its vocabulary, and what a call really runs.

    python benchmarks/structure.py TREE              # print the measurements of one tree as JSON
    python benchmarks/structure.py BEFORE AFTER      # compare two trees and store the table

A tree is a clone or work tree of this repository (a folder with ``src/manifoldry``). Calls are profiled in a process
of their own, so that each tree imports itself. ``tests/test_call_paths.py`` limits the same numbers.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

N_POINTS = 400
METHODS = ("PCA", "Isomap", "UMAP", "IPA")
WORDS = (
    "found known kept made away apart told said own mine wanted asked near beside places placed pieces whole figures "
    "blocks judge judged refuse refused sentence sentences growth grown nets kin look crossings ruled bent "
    "structureless"
).split()
"""Words that plainer ones replace, counted as words of identifiers and of texts."""


def package(tree: Path) -> Path:
    """Return the folder of the package in a tree."""
    return tree.resolve() / "src" / "manifoldry"


def sources(root: Path) -> dict[str, Path]:
    """Return the files of a package by module name; a package itself ends in ``__init__``."""
    paths = sorted(root.rglob("*.py"))
    return {".".join(("manifoldry", *path.relative_to(root).with_suffix("").parts)): path for path in paths}


def importers(root: Path) -> dict[str, set[str]]:
    """Return the modules that import each module, lazily or at once; files ``__init__`` only list names."""
    files = sources(root)
    clients: dict[str, set[str]] = {name: set() for name in files}
    for name, path in files.items():
        if path.name == "__init__.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for imported in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    if imported in files:
                        clients[imported].add(name)
    return clients


def single_importer_modules(root: Path) -> dict[str, str]:
    """Return the modules that exactly one other module imports, with that module."""
    listed = importers(root).items()
    return {name: next(iter(users)) for name, users in listed if len(users) == 1 and not name.endswith("__init__")}


def counts(root: Path) -> dict[str, float]:
    """Return what can be counted without running anything."""
    texts = {name: path.read_text(encoding="utf-8") for name, path in sources(root).items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    n_lines = sum(text.count("\n") for text in texts.values())
    n_any = sum(isinstance(node, ast.Name) and node.id == "Any" for tree in trees.values() for node in ast.walk(tree))
    words = Counter(word.lower() for text in texts.values() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", text))
    entries = [path for path in root.iterdir() if path.suffix == ".py" or (path.is_dir() and path.name[:2] != "__")]
    return {
        "lines": n_lines,
        "files": len(texts),
        "top-level entries": len(entries),
        "files over 300 lines": sum(text.count("\n") > 300 for text in texts.values()),
        "single-importer modules": len(single_importer_modules(root)),
        "names that look public": sum(_visible_names(name, tree) for name, tree in trees.items()),
        "uses of Any": n_any,
        "comments per 100 lines": round(100 * sum(map(_comments, texts.values())) / n_lines, 2),
        "classes": sum(isinstance(node, ast.ClassDef) for tree in trees.values() for node in ast.walk(tree)),
        **{f'word "{word}"': words[word] for word in WORDS},
        "all of these words": sum(words[word] for word in WORDS),
    }


def _visible_names(name: str, tree: ast.Module) -> int:
    """Count functions, classes and constants without an underscore in their name or in the path of their module."""
    if any(part.startswith("_") for part in name.removesuffix(".__init__").split(".")):
        return 0
    defined = [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    assigned = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    constants = [target.id for target in assigned if isinstance(target, ast.Name)]
    return sum(not name.startswith("_") for name in defined + constants)


def _comments(text: str) -> int:
    """Count the lines with a comment that is not an instruction for a tool."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return sum(not re.match(r"#\s*(?:noqa|type:|fmt:)", comment) for comment in comments)


class CallPath:
    """The files, functions and stack depth of the package's own Python code while it is profiled."""

    def __init__(self, root: Path) -> None:
        self.root = f"{root}{os.sep}"
        self.files: set[str] = set()
        self.functions: set[tuple[str, int]] = set()
        self.depth = self.deepest = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Count one event; frames of other libraries do not count."""
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(self.root):
            return
        if event == "return":
            self.depth -= 1
            return
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        self.files.add(code.co_filename)
        self.functions.add((code.co_filename, code.co_firstlineno))


def profile(call: Callable[[], object], root: Path) -> CallPath:
    """Return the path of a second call; the first one loads and compiles what it needs."""
    call()
    path = CallPath(root)
    sys.setprofile(path)
    try:
        call()
    finally:
        sys.setprofile(None)
    return path


def call_paths(root: Path) -> dict[str, dict[str, Any]]:
    """Return the path of each fit, of ``score`` and of ``manifoldry embed`` for a small sheet, with one thread."""
    import numpy as np

    import manifoldry

    rng = np.random.default_rng(0)
    t, h = rng.uniform(0, 3, N_POINTS), rng.uniform(0, 1, N_POINTS)
    X = np.column_stack([np.cos(t), np.sin(t), h, t * h]) + 0.01 * rng.standard_normal((N_POINTS, 4))
    Y = X[:, :2]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = Path(folder) / "x.csv"
        np.savetxt(table, X, delimiter=",", header="a,b,c,d", comments="")
        calls: dict[str, Callable[[], object]] = {name: _fit(getattr(manifoldry, name), X) for name in METHODS}
        calls["score"] = lambda: manifoldry.score(X, Y, n_jobs=1)
        calls["manifoldry embed"] = lambda: _embed(table, Path(folder))
        paths = {name: profile(call, root) for name, call in calls.items()}
    return {
        name: {
            "files": len(path.files),
            "depth": path.deepest,
            "functions": len(path.functions),
            "paths": sorted(str(Path(file).relative_to(root)) for file in path.files),
        }
        for name, path in paths.items()
    }


def _fit(cls: Any, X: Any) -> Callable[[], object]:
    """Return a fit with one thread; PCA of some versions has no parameter for it."""
    settings = {"n_jobs": 1} if "n_jobs" in cls().get_params() else {}
    return lambda: cls(**settings).fit(X)


def _embed(table: Path, folder: Path) -> None:
    """Run ``manifoldry embed`` in this process."""
    from manifoldry.__main__ import run

    before = sys.argv
    sys.argv = [
        "manifoldry",
        "embed",
        str(table),
        "--method",
        "isomap",
        "--n-jobs",
        "1",
        "--folder",
        str(folder),
        "--force",
    ]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
            code = run()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = before
    if code:
        raise RuntimeError(errors.getvalue())


def in_tree(tree: Path, code: str) -> str:
    """Return what a program prints in a process that imports the package of this tree."""
    variables = {"PYTHONPATH": str(package(tree).parent), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def measure_calls(tree: Path) -> dict[str, dict[str, Any]]:
    """Return `call_paths` of a tree, measured in a process of its own."""
    here = Path(__file__).resolve().parent
    code = (
        f"import sys, json, pathlib; sys.path.insert(0, {str(here)!r}); import structure; "
        f"print(json.dumps(structure.call_paths(pathlib.Path({str(package(tree))!r}))))"
    )
    measured: dict[str, dict[str, Any]] = json.loads(in_tree(tree, code))
    return measured


def imported_by_pca(tree: Path) -> int:
    """Return how many modules of the package ``manifoldry.PCA`` imports."""
    code = "import sys, manifoldry; manifoldry.PCA; print(sum(name.startswith('manifoldry') for name in sys.modules))"
    return int(in_tree(tree, code))


def measure(tree: Path) -> dict[str, float]:
    """Return all measurements of a tree by name."""
    names = in_tree(tree, "import manifoldry; print(len(manifoldry.__all__))")
    paths = measure_calls(tree)
    found = {**counts(package(tree)), "names in manifoldry.__all__": int(names)}
    found["modules imported by manifoldry.PCA"] = imported_by_pca(tree)
    for name, path in paths.items():
        found |= {f"{name}: files": path["files"], f"{name}: stack depth": path["depth"]}
    return found


def rows(before: dict[str, float], after: dict[str, float]) -> Iterator[dict[str, Any]]:
    """Return the rows of the comparison."""
    for name in before:
        yield {"measure": name, "before": f"{before[name]:,}", "after": f"{after[name]:,}"}


def main() -> None:
    """Print one tree as JSON, or compare two."""
    trees = [Path(word) for word in sys.argv[1:]]
    if len(trees) not in (1, 2):
        sys.exit(__doc__)
    measured = [measure(tree) for tree in trees]
    if len(trees) == 1:
        print(json.dumps(measured[0], indent=1))
        return
    from tables import Table

    caption = f"The source tree before and after the restructuring; calls are second calls with {N_POINTS} points."
    table = Table("structure", caption, {"measure": "", "before": "", "after": ""})
    for row in rows(*measured):
        table.add(**row)


if __name__ == "__main__":
    main()
