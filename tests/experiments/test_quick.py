"""The quick forms of the experiments: few starts, and every claim holds."""

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "experiments"


def _quick():
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module("run").chosen([], quick=True)
    finally:
        sys.path.remove(str(FOLDER))


@pytest.mark.parametrize("one", _quick(), ids=lambda one: one.name)
def test_every_claim_of_a_quick_experiment_holds(one, tmp_path):
    outcome = one.run(quick=True, folder=tmp_path)
    if outcome.left_out:
        pytest.skip(outcome.left_out)
    assert outcome.claims
    assert [claim for claim in outcome.claims if claim.verdict.value != "pass"] == []
