"""The command line: ``manifoldry COMMAND``, a module per command."""

from manifoldry.apps.cli.main import main

__all__ = ["main"]
