"""``python -m manifoldry``: the command line."""

import sys

from manifoldry.apps.cli import main

if __name__ == "__main__":
    sys.exit(main())
