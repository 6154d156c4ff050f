"""The commands of ``manifoldry``, one module each."""

from manifoldry.cli._main import main

__all__ = ["main"]
