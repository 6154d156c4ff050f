"""The program ``manifoldry``: runs a command, and turns errors into one message and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches

try:
    import click
except ImportError:  # pragma: no cover
    sys.exit('manifoldry: The command line needs click, which is not installed: run pip install "manifoldry[cli]".')

from click.shell_completion import CompletionItem, shell_complete

from manifoldry import __version__
from manifoldry.cli._text import USER_ERRORS, as_options, bug_text, error_text, is_bug, json_text, warnings_as_notes

COMMANDS = {
    "embed": "Embed a file: write coordinates, a model for new rows, an HTML report and a record of the run.",
    "transform": "Embed new rows with a saved model.",
    "compare": "Fit several methods and rank them for a purpose, with reasons.",
    "diagnose": "Check data before a fit, or a fitted model, and give advice.",
    "dimension": "Estimate the intrinsic dimension of data, with reasons.",
    "score": "Score coordinates computed by any program.",
    "methods": "List or search the methods, or describe one.",
    "cite": "Print the papers to cite for methods, as BibTeX.",
    "rerun": "Repeat a run from its record, and check that the result is bit-identical.",
    "explore": "Explore a file in the browser: change method and parameters, select rows and save them.",
    "demo": "Unfold a Swiss roll with every method: print scores, save pictures and a report.",
    "completion": "Print a shell completion script.",
}
"""The commands in the order of the help."""

BROKEN_PIPE = 141  # exit code after a broken pipe: 128 + SIGPIPE

INTERRUPTED = 130  # exit code after Ctrl-C: 128 + SIGINT

TRACEBACK_VARIABLE = "MANIFOLDRY_TRACEBACK"
"""If this environment variable is set, errors are printed with their traceback."""

COMPLETION_VARIABLE = "_MANIFOLDRY_COMPLETE"
"""Set by the completion scripts; the program then prints completions and does nothing else."""

HELP_WIDTH = 100  # maximum width of the help


class LazyGroup(click.Group):
    """Commands, each in a module of its name that is imported on use; the help imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return a command by its name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"manifoldry.cli._commands.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command, or raise an error that suggests the closest one."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            close = get_close_matches(name.lower(), COMMANDS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"choose from {', '.join(COMMANDS)}."
            hint = f"did you mean manifoldry embed {name}?" if os.path.exists(name) else hint
            raise click.UsageError(f"There is no command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands and options without importing a command."""
        commands = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": HELP_WIDTH},
    epilog="To get started: manifoldry embed wine",
)
@click.option("--version", is_flag=True, help="Print the version and exit.")
@click.option("--json", "as_json", is_flag=True, help="With --version: print what a bug report needs, as JSON.")
@click.pass_context
def program(ctx: click.Context, version: bool, as_json: bool) -> None:
    """Manifold learning: from a file to coordinates, a model for new rows, and an HTML report."""
    if as_json and not version:
        raise click.UsageError("--json goes after the command, or with --version.", ctx)
    if version:
        click.echo(_environment() if as_json else f"manifoldry {__version__}")
        ctx.exit()
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _environment() -> str:
    from manifoldry.cli._environment import environment

    return json_text(environment())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 for success; 1 for errors of the environment (a missing library, too little memory, a full disk) and for bugs; 2
    for user errors: an unknown option, an unreadable file, data that a method does not accept. Ctrl-C gives 130 and a
    closed pipe (``manifoldry methods | head``) 141, without a message.
    """
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # pipes on Windows are rarely UTF-8
    try:
        if COMPLETION_VARIABLE in os.environ and arguments is None:
            with suppress(Exception):  # an error would appear within the typed line
                return shell_complete(program, {}, "manifoldry", COMPLETION_VARIABLE, os.environ[COMPLETION_VARIABLE])
            return 1
        with warnings_as_notes():
            code = _run(list(sys.argv[1:] if arguments is None else arguments))
        _flush()
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except OSError as error:  # the disk is full
        _drop_output()
        return _print_error(error_text(error), 1)
    return code


def _run(arguments: list[str]) -> int:
    """Run one command; errors become exit codes, except those of writing to standard output."""
    color = False if os.environ.get("NO_COLOR") else None
    try:
        with program.make_context("manifoldry", arguments, color=color) as context:
            program.invoke(context)  # click's main would exit with code 1 on a broken pipe
        _flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt) as interrupted:
        return _print_error(str(interrupted), INTERRUPTED)
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            traceback.print_exc()
        return _print_error(*_exit_message(error))
    return 0


def _exit_message(error: Exception) -> tuple[str, int]:
    """Return the message and the exit code for an error."""
    if isinstance(error, click.UsageError):
        return f"{as_options(_usage(error))} See {_help_command(error.ctx)}.", 2
    if isinstance(error, click.ClickException):
        return error.format_message(), 2
    if is_bug(error):
        return f"{bug_text(error)} (traceback: {TRACEBACK_VARIABLE}=1).", 1
    return as_options(error_text(error)), 2 if isinstance(error, USER_ERRORS) else 1


def _help_command(context: click.Context | None) -> str:
    """Return the command line that prints the help of a command, and of its method if one is named."""
    path, facts = ("manifoldry", {}) if context is None else (context.command_path, context.meta)
    named = f" --method {facts['manifoldry.method'].lower()}" if facts.get("manifoldry.named") else ""
    return f"{path}{named} --help"


def _usage(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):
        close = get_close_matches(error.option_name, error.possibilities or [], n=1, cutoff=0.7)
        return f"There is no option {error.option_name}{f'; did you mean {close[0]}?' if close else '.'}"
    message = error.format_message()
    return message if message.endswith((".", "?", "!")) else f"{message}."


def _print_error(message: str, code: int) -> int:
    if message:
        click.echo(f"manifoldry: {message}", err=True)
    return code


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None after 2>&-
            stream.flush()


def _drop_output() -> None:
    """Discard the remaining output, which Python would flush again at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
