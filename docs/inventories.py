"""Write docs/_inventories: where other projects document the names that our docstrings use.

Sphinx would fetch whole inventories; these hold a few names each and are stored, so that the site is built without a
network. To link another name, add it here and run ``python docs/inventories.py``.
"""

from __future__ import annotations

import zlib
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "_inventories"
NAMES = {
    "python": {
        ("py:class", "library/functions.html"): "bool float int object",
        ("py:class", "library/stdtypes.html"): "dict list range str tuple",
        ("py:function", "library/functions.html"): "callable dir repr",
        ("py:data", "library/constants.html"): "None True False",
        ("std:term", "glossary.html"): "callable generator iterable iterator mapping sequence",
        ("std:label", "library/stdtypes.html"): "bltin-boolean-values",
    },
    "numpy": {
        ("py:class", "reference/generated/numpy.ndarray.html"): "numpy.ndarray",
        ("py:class", "reference/random/generator.html"): "numpy.random.Generator",
        ("py:class", "reference/random/legacy.html"): "numpy.random.RandomState",
        ("py:module", "reference/index.html"): "numpy",
        ("std:term", "glossary.html"): "array_like",
    },
    "scipy": {
        ("py:class", "reference/generated/scipy.sparse.csr_array.html"): "scipy.sparse.csr_array",
        ("py:class", "reference/generated/scipy.sparse.csr_matrix.html"): "scipy.sparse.csr_matrix",
    },
    "sklearn": {
        ("py:class", f"modules/generated/{name}.html"): name
        for name in (
            "sklearn.manifold.Isomap",
            "sklearn.manifold.TSNE",
            "sklearn.neighbors.KNeighborsTransformer",
            "sklearn.pipeline.Pipeline",
            "sklearn.preprocessing.RobustScaler",
            "sklearn.preprocessing.StandardScaler",
        )
    },
}
"""By project, the names of a kind on a page."""


def inventory(project: str) -> bytes:
    """Return the inventory of a project in the format of Sphinx, version 2."""
    lines = []
    for (kind, page), names in NAMES[project].items():
        prefix = {"std:term": "term-", "py:module": "module-"}.get(kind, "")
        lines += [f"{name} {kind} 1 {page}#{prefix}{name} -\n" for name in names.split()]
    head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
    return f"{head}# The remainder of this file is compressed using zlib.\n".encode() + zlib.compress(
        "".join(lines).encode()
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in NAMES:
        (FOLDER / f"{each}.inv").write_bytes(inventory(each))
