"""Public names of the package as the first import of a process: no import cycle shows only in some order."""

import os

import pytest

from helpers import in_new_process

STATEMENTS = [
    "from manifoldry import score",
    "from manifoldry.evaluation.metrics import agreement",
    "import manifoldry.evaluation.score._chunked",
    "import manifoldry.evaluation.reliability._points",
    "from manifoldry import compare, diagnose, dimension",
]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_name_can_be_the_first_import():
    """Each in a fork of a process that has loaded scikit-learn, which takes most of the time, and nothing of ours."""
    script = f"""
import os, sys
import sklearn.base, sklearn.neighbors, scipy.sparse.csgraph
assert not any(name.startswith("manifoldry") for name in sys.modules)
for statement in {STATEMENTS!r}:
    if os.fork() == 0:
        exec(statement)
        os._exit(0)
    assert os.wait()[1] == 0, statement
"""
    in_new_process(script)
