"""The command line: ``manifoldry COMMAND``, a module per command."""

from manifoldry.cli._main import main

__all__ = ["main"]
