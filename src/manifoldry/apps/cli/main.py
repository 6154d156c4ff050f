"""The program: finds the command, runs it, and turns what goes wrong into one sentence and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

try:
    import click
except ImportError:  # pragma: no cover
    sys.exit("manifoldry: The command line needs click, which is not installed; install manifoldry[app].")

from manifoldry import __version__

COMMANDS = {
    "embed": "Embed a file: coordinates, a model for new rows, a page to look at, and a record of the run.",
    "transform": "Place new rows by a model that embed has written.",
    "rerun": "Repeat a run from its record, and tell whether it gives the same bits.",
    "explore": "Look at a file in the browser, live: change method and parameters, select rows and save them.",
    "demo": "Unfold a Swiss roll by every method: figures on the screen, pictures in a folder.",
    "methods": "List the methods, or tell all about one.",
}
"""The commands, in the order of the help, and what they do. Each is the object of its name in the module of its name,
so that a command is imported only when it is used."""

BROKEN_PIPE = 141
"""What a shell reports of a program that a broken pipe has ended: 128 + SIGPIPE."""

INTERRUPTED = 130
"""What a shell reports of a program that Ctrl-C has ended: 128 + SIGINT."""


class LazyGroup(click.Group):
    """Commands that are imported when they are asked for; the help needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return a command by its name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"manifoldry.apps.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog="Begin with: manifoldry demo"
)
@click.version_option(__version__, prog_name="manifoldry", message="%(prog)s %(version)s")
def program() -> None:
    """Unfold high-dimensional data: from a file to coordinates, a model for new rows, and a page to look at."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 for success; 1 for what the machine lacks (a library, memory, a place to write); 2 for what was asked wrongly: an
    unknown option, a file that cannot be read, data that a method cannot take. Ctrl-C gives 130 and a reader that
    has closed the pipe (``manifoldry methods | head``) 141, in silence.
    """
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it exits
        return BROKEN_PIPE


def _run(arguments: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with program.make_context("manifoldry", given) as context:  # click's own main ends broken pipes with code 1
            program.invoke(context)
    except click.ClickException as error:
        return _complain(error.format_message(), 2)
    except (click.exceptions.Exit, click.exceptions.Abort, KeyboardInterrupt) as ended:
        return ended.exit_code if isinstance(ended, click.exceptions.Exit) else INTERRUPTED
    except (FileExistsError, FileNotFoundError, IsADirectoryError, ValueError, TypeError) as error:
        return _complain(str(error), 2)
    except BrokenPipeError:
        raise
    except (ImportError, OSError, MemoryError) as error:
        return _complain(str(error), 1)
    return 0


def _complain(message: str, code: int) -> int:
    print(f"manifoldry: {message}", file=sys.stderr)
    return code
