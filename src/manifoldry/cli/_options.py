"""Options that several commands share: reading and preparing data, chunked data, seed, JSON, method parameters."""

from __future__ import annotations

import csv
import glob
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from manifoldry._core.parameters import choices
from manifoldry._core.registry import METHODS
from manifoldry.cli._methods import (
    AUTO_METHOD,
    NOT_OPTIONS,
    MethodParameter,
    all_parameters,
    method_class,
    method_name,
    method_parameters,
)
from manifoldry.cli._outputs import F, options

if TYPE_CHECKING:
    from manifoldry.cli._flow.tables import Reading

FORMAT_CHOICES = ("csv", "tsv", "parquet", "arrow", "npy", "npz", "mtx", "h5ad", "images", "dataset")
"""Formats that can be read, repeated here so that the help does not import the readers."""
DATASET_NAMES = tuple(
    "cylinder dual_spiral fishbowl gaussian_clusters half_globe helix open_box s_curve sphere "
    "spiral star swiss_roll torus twin_peaks v_shape wave".split()
)
"""Generated data sets, repeated here so that a completion does not import them."""
SCALE_CHOICES = ("auto", "none", "standard", "robust", "unit", "log1p")
"""Scalings of the columns, or of the rows for "unit"."""
PURPOSE_NAMES = (
    "keep distances",
    "keep neighbors",
    "see clusters",
    "order along a path",
    "features for a classifier",
    "reconstruct",
)
"""Purposes of a comparison, repeated here so that the help does not import them."""
METHOD_HELP = "A method (see manifoldry methods), or auto for the best of several."
MAX_SEED = 2**32 - 1  # the largest seed that numpy and scikit-learn accept


def split_columns(value: str) -> tuple[str, ...]:
    """Return names that are separated by commas; a name with a comma is put in double quotes."""
    return tuple(name for row in csv.reader([value], skipinitialspace=True) for name in row if name)


def class_name(value: str) -> str:
    """Return the class name of a method, or of "auto"."""
    try:
        return method_name(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def checked_seed(value: Any) -> int:
    """Return a seed that numpy and scikit-learn accept."""
    if not str(value).isdecimal() or int(value) > MAX_SEED:
        raise click.BadParameter(f"The seed must be an integer from 0 to {MAX_SEED}; got {value!r}.")
    return int(value)


def complete_sources(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Complete file names, or names of built-in data sets if no file matches."""
    word = incomplete.replace("-", "_").lower()
    names = [name.replace("_", "-") for name in DATASET_NAMES if word and name.startswith(word)]
    if names and not glob.glob(glob.escape(incomplete) + "*"):
        return [CompletionItem(name) for name in names]
    return [CompletionItem(incomplete, type="file")]


def complete_methods(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Complete names of methods, and "auto" for an option ``--method``."""
    names = [AUTO_METHOD, *METHODS] if param.name == "method" else METHODS
    return [CompletionItem(name.lower()) for name in names if name.lower().startswith(incomplete.lower())]


def complete_purposes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Complete purposes with hyphens, which need no quotes."""
    names = (name.replace(" ", "-") for name in PURPOSE_NAMES)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def purpose_name(value: str) -> str:
    """Return a purpose, given with spaces or hyphens."""
    words = " ".join(value.lower().replace("-", " ").split())
    if words not in PURPOSE_NAMES:
        raise click.BadParameter(f"{value!r} is not one of {', '.join(PURPOSE_NAMES)}.")
    return words


reading_options = options(
    click.option("--id", metavar="COLUMN", help="Column with the names of the rows; not embedded."),
    click.option("--label", metavar="COLUMN", help="Column with the classes, for scores and colors; not embedded."),
    click.option(
        "--color", type=split_columns, multiple=True, metavar="COLUMNS", help="Columns to color by; not embedded."
    ),
    click.option(
        "--features",
        type=split_columns,
        multiple=True,
        metavar="COLUMNS",
        help="Columns to embed, separated by commas.  [default: all numeric columns without another role]",
    ),
    click.option("--drop", type=split_columns, multiple=True, metavar="COLUMNS", help="Columns to ignore."),
    click.option(
        "--header/--no-header", default=None, help="Whether the first line holds column names.  [default: detected]"
    ),
    click.option(
        "--delimiter",
        metavar="TEXT",
        help="Field separator of a text file: a character, or tab, comma, semicolon, space, pipe.  [default: detected]",
    ),
    click.option(
        "--missing",
        type=click.Choice(("refuse", "drop", "impute", "keep")),
        default="refuse",
        show_default=True,
        help="Missing values: refuse them (an error that counts them), drop their rows, impute the median of the "
        "column, or keep them for a method that accepts them (ProbabilisticPCA).",
    ),
    click.option(
        "--key", metavar="NAME", help="Array in an .npz file, or X, obsm/X_pca, layers/counts in an .h5ad file."
    ),
    click.option(
        "--format",
        type=click.Choice(FORMAT_CHOICES),
        help="File format.  [default: from the name and the first bytes]",
    ),
    click.option(
        "--scale",
        type=click.Choice(SCALE_CHOICES),
        default="auto",
        show_default=True,
        help="Scale columns to mean 0 and variance 1 (standard) or by median and quartiles (robust), rows to length 1 "
        "(unit), or take logarithms of counts (log1p). auto: standard if a few columns dominate all distances "
        "because of their units, otherwise none.",
    ),
    click.option("--pca", type=click.IntRange(1), metavar="N", help="Reduce to N principal components after scaling."),
)
"""Options for reading and preparing data; see `reading_of`."""


def reading_of(values: Mapping[str, Any]) -> Reading:
    """Return how a source is read and prepared, from the values of a command."""
    from manifoldry.cli._flow.tables import Reading, ReadOptions

    given = {field.name: values[field.name] for field in fields(ReadOptions)}
    joined = {name: tuple(column for part in given[name] for column in part) for name in ("color", "drop", "features")}
    read_options = ReadOptions(**{**given, **joined, "features": joined["features"] or None})
    return Reading(read_options, values["scale"], values["pca"])


source_argument = click.argument("source", metavar="FILE", shell_complete=complete_sources)
"""The data; the command gets it as ``source``."""

seed_option = click.option(
    "--seed",
    type=checked_seed,
    metavar="INTEGER",
    default=0,
    show_default=True,
    help="Random seed; the same seed gives the same result.",
)

chunk_options = options(
    click.option(
        "--chunked/--no-chunked",
        default=None,
        help="Read the file in chunks instead of into memory.  [default: if it would take more than 2 GB of memory]",
    ),
    click.option("--resume", is_flag=True, help="Continue an interrupted run on a file read in chunks."),
)
"""Options for large files; the command gets them as ``chunked`` and ``resume``."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and nothing else.")
"""The command gets it as ``as_json``; `json_text` formats the result."""


def method_option(default: str | None, text: str = METHOD_HELP) -> Callable[[F], F]:
    """Return the option that names the method; the command gets its class name as ``method``."""
    return click.option(
        "--method",
        type=class_name,
        metavar="METHOD",
        shell_complete=complete_methods,
        default=default,
        show_default=True,
        help=text,
    )


def purpose_option(text: str, default: str | None = None) -> Callable[[F], F]:
    """Return the option that names the purpose of the coordinates."""
    return click.option(
        "--purpose",
        type=purpose_name,
        metavar="PURPOSE",
        shell_complete=complete_purposes,
        default=default,
        show_default=True,
        help=text.format(", ".join(PURPOSE_NAMES)),
    )


PREFIX = "parameter_"
"""Prefix of the click names of method parameters, which separates them from the options of the command."""


class ParameterValue(click.ParamType):
    """The value of a method's parameter; the library itself reports invalid values."""

    name = "value"

    def __init__(self, parameter: MethodParameter) -> None:
        self.parameter = parameter

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002
        """Parse the value of the parameter."""
        return self.parameter.from_text(value) if isinstance(value, str) else value

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002
        """Return the placeholder for the help."""
        return self.parameter.metavar

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Complete the choices of the parameter."""
        names = [str(choice) for choice in choices(self.parameter.annotation)]
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def parameter_option(parameter: MethodParameter) -> click.Option:
    """Return the option for a parameter."""
    facts = [parameter.allowed] if parameter.allowed and not parameter.is_flag and not parameter.is_choice else []
    text = f"{parameter.text}  [{'; '.join([*facts, f'default: {parameter.default_text}'])}]"
    name, flag = PREFIX + parameter.name, parameter.option_name
    if parameter.is_flag:
        return click.Option([f"{flag}/--no-{flag[2:]}", name], default=None, help=text)
    return click.Option([flag, name], type=ParameterValue(parameter), default=None, help=text)


class MethodCommand(click.Command):
    """A command with an option ``--method`` that also accepts the parameters of that method as options.

    The command gets the given ones as ``parameters``, a dictionary, and all arguments in the context, for the record.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Determine the method first, then parse with its options."""
        ctx.meta["manifoldry.arguments"] = tuple(args)
        name = self._method(ctx, args)
        ctx.meta["manifoldry.method"], ctx.meta["manifoldry.named"] = name or self._default(ctx), name is not None
        names = [name for param in super().get_params(ctx) for name in (*param.opts, *param.secondary_opts)]
        unknown = any(each.startswith("--") and each.partition("=")[0] not in names for each in args)
        # A completion imports a method, which takes a second, only if its parameters are on the line.
        ctx.meta["manifoldry.parameters"] = self._parameters(ctx) if unknown or not ctx.resilient_parsing else {}
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(unknown_option_message(ctx, error.option_name, names), ctx) from None
        inner = [name for name in ctx.params if name.startswith(PREFIX)]
        values = {name: ctx.params.pop(name) for name in inner}
        given = {name for name in inner if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
        ctx.params["parameters"] = {name.removeprefix(PREFIX): values[name] for name in inner if name in given}
        return rest

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of the command and of its method."""
        params = super().get_params(ctx)
        taken = {option for param in params for option in param.opts}
        parameters = ctx.meta["manifoldry.parameters"].values()
        return [*params, *(parameter_option(each) for each in parameters if each.option_name not in taken)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the command, then those of the method."""
        records: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                records[(param.name or "").startswith(PREFIX)].append(record)
        with formatter.section("Options"):
            formatter.write_dl(records[False])
        with formatter.section(f"Parameters of {ctx.meta['manifoldry.method']}"):
            formatter.write_dl(records[True])
        with formatter.section("Parameters of another method"):
            formatter.write_text(f"{ctx.command_path} --method NAME --help")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete options, with those of the method if it is named."""
        if incomplete.startswith("-") and ctx.meta["manifoldry.named"]:
            ctx.meta["manifoldry.parameters"] = self._parameters(ctx)
        return super().shell_complete(ctx, incomplete)

    def _default(self, ctx: click.Context) -> str:
        option = next(param for param in self.params if param.name == "method")
        return method_name(str(option.get_default(ctx)))

    def _method(self, ctx: click.Context, args: list[str]) -> str | None:
        """Return the method named in the arguments, None if there is none."""
        given = None
        for i, argument in enumerate(args):
            if argument == "--":
                break
            if argument == "--method" and i + 1 < len(args):
                given = args[i + 1]
            elif argument.startswith("--method="):
                given = argument.partition("=")[2]
        try:
            return None if given is None else method_name(given)
        except ValueError as error:
            if ctx.resilient_parsing:
                return None
            raise click.UsageError(str(error), ctx) from None

    def _parameters(self, ctx: click.Context) -> Mapping[str, MethodParameter]:
        return method_parameters(method_class(ctx.meta["manifoldry.method"]))


def unknown_option_message(ctx: click.Context, option: str, command_options: list[str]) -> str:
    """Return the error about an option of neither the command nor the method."""
    from manifoldry.methods._base._synonyms import our_word, unknown_parameter

    method: str = ctx.meta["manifoldry.method"]
    parameters: Mapping[str, MethodParameter] = ctx.meta["manifoldry.parameters"]
    name = option.lstrip("-").replace("-", "_")
    if name in NOT_OPTIONS:
        return f"There is no option {option}: {NOT_OPTIONS[name]}."
    parameter = {each.name.lower(): each for each in all_parameters(method_class(method)).values()}.get(name.lower())
    if parameter is not None and parameter.name not in parameters:
        return f"{parameter.name} of {method} can only be set in Python: it is {parameter.allowed}."
    with_choice = [each.option_name for each in parameters.values() if name in choices(each.annotation)]
    if with_choice:
        return f"There is no option {option}; did you mean {with_choice[0]} {name}?"
    if our_word(name, parameters) is not None:
        return _as_options(unknown_parameter(method, name, parameters))
    names = [*command_options, *(each.option_name for each in parameters.values())]
    if close := get_close_matches(option, names, n=1, cutoff=0.75):
        return f"There is no option {option}; did you mean {close[0]}?"
    others = [other for other in METHODS if name in inspect.signature(method_class(other)).parameters]
    if others:
        return f"{option} is a parameter of {_listed(others)}, not of {method}."
    return _as_options(unknown_parameter(method, name, parameters))


def _as_options(message: str) -> str:
    """Return a message with quoted parameter names as options."""
    return re.sub(r"'(\w+)'", lambda match: f"--{match[1].replace('_', '-')}", message)


def _listed(names: list[str]) -> str:
    shown = names if len(names) <= 4 else [*names[:3], "others"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
