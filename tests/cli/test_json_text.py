import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from manifoldry import Isomap
from manifoldry.cli._text import json_text, plain


@dataclass
class Pair:
    """Two values."""

    left: object
    right: object


def test_all_values_become_json():
    value = {
        "numpy": [np.float32(0.5), np.int64(3), np.bool_(True), np.arange(3), np.array(["a", None], dtype=object)],
        "pair": Pair({"b", "a"}, Path("x") / "y"),
        1: (None, True, 2, "ü"),
        "model": Isomap(n_neighbors=3),
    }
    assert json.loads(json_text(value)) == {
        "numpy": [0.5, 3, True, [0, 1, 2], ["a", None]],
        "pair": {"left": ["a", "b"], "right": str(Path("x") / "y")},
        "1": [None, True, 2, "ü"],
        "model": "Isomap(n_neighbors=3)",
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float64("-inf"), np.array(np.nan)])
def test_numbers_that_are_not_finite_become_null(value):
    assert json_text({"x": [value]}) == json_text({"x": [None]})
    assert plain(value) is None
