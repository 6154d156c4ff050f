"""Public names of the package as the first import of a process: no import cycle shows only in some order."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "statement",
    [
        "from manifoldry import score",
        "from manifoldry.evaluation.metrics import agreement",
        "import manifoldry.evaluation.score._chunked",
        "import manifoldry.evaluation.reliability._points",
        "from manifoldry import compare, diagnose, dimension",
    ],
)
def test_a_name_can_be_the_first_import(statement):
    subprocess.run([sys.executable, "-c", statement], check=True, timeout=120)
