"""The script that makes a report live."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any


def live_script(choices: Sequence[Mapping[str, Any]], version: int) -> str:
    """Return the JavaScript of the live controls, for methods with their parameters and the version that is shown."""
    known = json.dumps(choices, separators=(",", ":")).replace("<", "\\u003c")
    source = files("manifoldry.apps.explore").joinpath("live.js").read_text(encoding="utf-8")
    return f"const LIVE_CHOICES = {known}, LIVE_VERSION = {version:d};\n{source}"
