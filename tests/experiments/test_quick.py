"""The quick forms of the experiments: no claim fails that the committed summary does not show failing."""

import importlib
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

FOLDER = Path(__file__).resolve().parents[2] / "experiments"


def _quick():
    """Return the experiments with a quick form, and the claims of the committed summary."""
    sys.path.insert(0, str(FOLDER))
    try:
        text = (FOLDER / "summary.md").read_text(encoding="utf-8")
        return importlib.import_module("run").chosen([], quick=True), importlib.import_module("summary").claims_of(text)
    finally:
        sys.path.remove(str(FOLDER))


QUICK, KNOWN = _quick()


@pytest.mark.parametrize("one", QUICK, ids=lambda one: one.name)
def test_no_claim_fails_that_the_summary_does_not_show_failing(one, tmp_path):
    outcome = one.run(quick=True, folder=tmp_path)
    if outcome.left_out:
        pytest.skip(outcome.left_out)
    # Seconds depend on what else runs beside the tests: they are judged by the full run alone.
    judged = [claim for claim in outcome.claims if "seconds" not in claim.what]
    failed = {claim.what for claim in judged if claim.verdict.value == "fail"}
    shown = {what for (name, what), row in KNOWN.items() if name == one.name and row["verdict"] == "fail"}
    assert outcome.claims
    assert sorted(failed - shown) == []
