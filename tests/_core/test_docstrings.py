"""What docstrings are composed from: citations, and values in one line."""

from __future__ import annotations

import numpy as np

from manifoldry._core.docstrings import short_citation
from manifoldry._core.values import Stop, Trace


def test_a_citation_has_authors_year_and_title():
    title = "On lines and planes of closest fit to systems of points in space."
    assert short_citation("pearson1901") == f"Pearson (1901). {title}"
    assert short_citation("nobody1900") == "nobody1900"


def test_a_value_is_shown_in_one_line():
    assert repr(Trace(np.array([3.0, 2.0]), Stop.CONVERGED)) == "Trace(objective=<float64 2>, stop=Stop.CONVERGED)"
