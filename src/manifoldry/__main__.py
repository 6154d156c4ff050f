"""``python -m manifoldry`` and the program ``manifoldry``: the command line."""

import sys

INTERRUPTED_EARLY = 130
"""What a shell reports of a program that Ctrl-C has ended, also while it is still being loaded: 128 + SIGINT."""


def run() -> int:
    """Load the command line, run it on the arguments of the process, and return its exit code."""
    try:
        from manifoldry.cli._commands import main

        return main()
    except KeyboardInterrupt:
        return INTERRUPTED_EARLY


if __name__ == "__main__":
    sys.exit(run())
