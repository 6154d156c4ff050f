"""The program: finds the command, runs it, and turns what goes wrong into one sentence and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches

try:
    import click
except ImportError:  # pragma: no cover
    sys.exit("manifoldry: The command line needs click, which is not installed: run pip install 'manifoldry[app]'.")

from click.shell_completion import CompletionItem, shell_complete

from manifoldry import __version__
from manifoldry.cli._advice import as_options
from manifoldry.cli._errors import ASKED_WRONGLY, bug_text, error_text, is_bug, warnings_as_notes

COMMANDS = {
    "embed": "Embed a file: coordinates, a model for new rows, a page to look at, and a record of the run.",
    "transform": "Place new rows by a model that embed has written.",
    "compare": "Fit several methods, rank them for a purpose, and say why.",
    "diagnose": "Say what there is to know about data before a fit, or about a fitted model.",
    "dimension": "Estimate how many dimensions the data have, and say why.",
    "score": "Judge coordinates that any program has made of a file.",
    "methods": "List the methods, find some, or tell all about one.",
    "cite": "Print what to cite for methods, as BibTeX.",
    "rerun": "Repeat a run from its record, and tell whether it gives the same bits.",
    "explore": "Look at a file in the browser, live: change method and parameters, select rows and save them.",
    "demo": "Unfold a Swiss roll by every method: figures on the screen, pictures in a folder.",
    "completion": "Print the script by which a shell completes commands and options.",
}
"""The commands, in the order of the help, and what they do. Each is the object of its name in the module of its name,
so that a command is imported only when it is used."""

BROKEN_PIPE = 141
"""What a shell reports of a program that a broken pipe has ended: 128 + SIGPIPE."""

INTERRUPTED = 130
"""What a shell reports of a program that Ctrl-C has ended: 128 + SIGINT."""

TRACEBACK_VARIABLE = "MANIFOLDRY_TRACEBACK"
"""Set to anything, it has errors shown with their traceback."""

COMPLETION_VARIABLE = "_MANIFOLDRY_COMPLETE"
"""Set by the scripts of `completion`, it has the program answer what could come next, and do nothing else."""

HELP_WIDTH = 100
"""The widest help; a narrower terminal narrows it."""


class LazyGroup(click.Group):
    """Commands that are imported when they are asked for; the help needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return a command by its name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"manifoldry.cli._commands.{cmd_name}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is asked for, or refuse it with the nearest one."""
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(unknown_command(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that begin so; no command is imported for it."""
        commands = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def unknown_command(name: str) -> str:
    """Return the sentence that refuses a command: what was meant, or all there are."""
    if "embed" in COMMANDS and os.path.exists(name):
        return f"There is no command {name!r}; did you mean manifoldry embed {name}?"
    close = get_close_matches(name.lower(), COMMANDS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(COMMANDS)}."
    return f"There is no command {name!r}; {hint}"


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": HELP_WIDTH},
    epilog="Begin with: manifoldry demo",
)
@click.version_option(__version__, prog_name="manifoldry", message="%(prog)s %(version)s")
@click.pass_context
def program(ctx: click.Context) -> None:
    """Unfold high-dimensional data: from a file to coordinates, a model for new rows, and a page to look at."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 for success; 1 for what the machine lacks (a library, memory, a place to write) and for defects; 2 for what was
    asked wrongly: an unknown option, a file that cannot be read, data that a method cannot take. Ctrl-C gives 130 and
    a reader that has closed the pipe (``manifoldry methods | head``) 141, in silence.
    """
    try:
        if COMPLETION_VARIABLE in os.environ and arguments is None:
            return _complete(os.environ[COMPLETION_VARIABLE])
        with warnings_as_notes():
            code = _run(list(sys.argv[1:] if arguments is None else arguments))
        _flush()
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except OSError as error:  # a disk that is full
        _drop_output()
        return _complain(error_text(error), 1)
    return code


def _run(arguments: list[str]) -> int:
    """Run one command; everything that goes wrong, beside output that cannot be written, becomes an exit code."""
    color = False if os.environ.get("NO_COLOR") else None
    try:
        with program.make_context("manifoldry", arguments, color=color) as context:
            program.invoke(context)  # click's own main ends broken pipes with code 1
        _flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            traceback.print_exc()
        return _complain(*_verdict(error))
    return 0


def _verdict(error: Exception) -> tuple[str, int]:
    """Return what to say of an error, and the exit code."""
    if isinstance(error, click.UsageError):
        return f"{as_options(_usage(error))} See {_help_of(error.ctx)}.", 2
    if isinstance(error, click.ClickException):
        return error.format_message(), 2
    if is_bug(error):
        return f"{bug_text(error)} ({TRACEBACK_VARIABLE}=1 shows where).", 1
    return as_options(error_text(error)), 2 if isinstance(error, ASKED_WRONGLY) else 1


def _help_of(context: click.Context | None) -> str:
    """Return what to type for the help of a command, and of its method if one is named."""
    path, facts = ("manifoldry", {}) if context is None else (context.command_path, context.meta)
    named = f" --method {facts['manifoldry.method'].lower()}" if facts.get("manifoldry.named") else ""
    return f"{path}{named} --help"


def _usage(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):
        close = get_close_matches(error.option_name, error.possibilities or [], n=1, cutoff=0.7)
        return f"There is no option {error.option_name}{f'; did you mean {close[0]}?' if close else '.'}"
    told = error.format_message()
    return told if told.endswith((".", "?", "!")) else f"{told}."


def _complain(message: str, code: int) -> int:
    click.echo(f"manifoldry: {message}", err=True)
    return code


def _complete(instruction: str) -> int:
    """Answer a shell; what goes wrong says nothing, as it would appear amid a line that is being typed."""
    try:
        return shell_complete(program, {}, "manifoldry", COMPLETION_VARIABLE, instruction)
    except Exception:
        return 1


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # as after 2>&-
            stream.flush()


def _drop_output() -> None:
    """Lead what is left of the output to nowhere: Python flushes once more when it exits."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
