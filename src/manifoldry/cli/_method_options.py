"""The parameters of a method as options of a command, typed and described by their declarations."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from manifoldry._core.parameters import choices
from manifoldry._core.registry import METHODS
from manifoldry.cli._method_names import method_class, method_name
from manifoldry.cli._parameters import NOT_OPTIONS, MethodParameter, all_parameters, method_parameters

PREFIX = "parameter_"
"""Begins the inner names of options that are parameters, apart from the command's own."""


class ParameterValue(click.ParamType):
    """The value of a method's parameter; the sentence of the library refuses others."""

    def __init__(self, parameter: MethodParameter) -> None:
        self.parameter = parameter
        self.name = "value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002
        """Return the value that a text stands for."""
        return self.parameter.from_text(value) if isinstance(value, str) else value

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002
        """Return what may come."""
        return self.parameter.metavar

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return the choices that begin so."""
        names = [str(choice) for choice in choices(self.parameter.annotation)]
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def parameter_option(parameter: MethodParameter) -> click.Option:
    """Return the option of a parameter."""
    facts = [parameter.allowed] if parameter.allowed and not parameter.is_flag and not parameter.is_choice else []
    said = f"{parameter.text}  [{'; '.join([*facts, f'default: {parameter.default_text}'])}]"
    name, flag = PREFIX + parameter.name, parameter.option_name
    if parameter.is_flag:
        return click.Option([f"{flag}/--no-{flag[2:]}", name], default=None, help=said)
    return click.Option([flag, name], type=ParameterValue(parameter), default=None, help=said)


class MethodCommand(click.Command):
    """A command with an option ``--method``, which adds the parameters of that method to its own options.

    The command gets those that were given as ``parameters``, a dictionary.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find the method first, then parse with its options."""
        name = self._method(ctx, args)
        ctx.meta["manifoldry.method"], ctx.meta["manifoldry.named"] = name or self._default(ctx), name is not None
        own = {option for param in self.params for option in (*param.opts, *param.secondary_opts)}
        strange = any(each.startswith("--") and each.partition("=")[0] not in own for each in args)
        # A completion loads a method, which takes a second, only if its parameters are on the line.
        ctx.meta["manifoldry._core.parameters"] = self._known(ctx) if strange or not ctx.resilient_parsing else {}
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(self._unknown(ctx, error), ctx) from None
        inner = [name for name in ctx.params if name.startswith(PREFIX)]
        values = {name: ctx.params.pop(name) for name in inner}
        given = {name for name in inner if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
        ctx.params["parameters"] = {name.removeprefix(PREFIX): values[name] for name in inner if name in given}
        return rest

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of the command, and those of the method that is asked for."""
        own = super().get_params(ctx)
        taken = {option for param in own for option in param.opts}
        options = self._parameters(ctx).values()
        return [*own, *(parameter_option(each) for each in options if each.option_name not in taken)]

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
        """Return the options that begin so, with those of the method if it is named."""
        if incomplete.startswith("-") and ctx.meta["manifoldry.named"]:
            ctx.meta["manifoldry._core.parameters"] = self._known(ctx)
        return super().shell_complete(ctx, incomplete)

    def _default(self, ctx: click.Context) -> str:
        option = next(param for param in self.params if param.name == "method")
        return method_name(str(option.get_default(ctx)))

    def _method(self, ctx: click.Context, args: list[str]) -> str | None:
        """Return the method that the arguments name, None if they name none, or refuse it."""
        given = None
        for place, argument in enumerate(args):
            if argument == "--":
                break
            if argument == "--method" and place + 1 < len(args):
                given = args[place + 1]
            elif argument.startswith("--method="):
                given = argument.partition("=")[2]
        try:
            return None if given is None else method_name(given)
        except ValueError as error:
            if ctx.resilient_parsing:
                return None
            raise click.UsageError(str(error), ctx) from None

    def _known(self, ctx: click.Context) -> Mapping[str, MethodParameter]:
        return method_parameters(method_class(ctx.meta["manifoldry.method"]))

    def _parameters(self, ctx: click.Context) -> Mapping[str, MethodParameter]:
        known: Mapping[str, MethodParameter] = ctx.meta["manifoldry._core.parameters"]
        return known

    def _unknown(self, ctx: click.Context, error: click.NoSuchOption) -> str:
        """Return the sentence about an option that neither the command nor the method has."""
        own = [option for param in super().get_params(ctx) for option in (*param.opts, *param.secondary_opts)]
        return unknown_option(ctx.meta["manifoldry.method"], error.option_name, own, self._parameters(ctx))


def unknown_option(method: str, option: str, own: list[str], known: Mapping[str, MethodParameter]) -> str:
    """Return what to say of an option that is neither the command's own nor a parameter of the method."""
    from manifoldry.methods._base._synonyms import OUR_NAMES, unknown_parameter

    name = option.lstrip("-").replace("-", "_")
    if name in NOT_OPTIONS:
        return f"There is no option {option}: {NOT_OPTIONS[name]}."
    unwritten = {each.name.lower(): each for each in all_parameters(method_class(method)).values()}.get(name.lower())
    if unwritten is not None and unwritten.name not in known:
        kind = unwritten.allowed
        return f"{unwritten.name} of {method} cannot be written on a command line: it is {kind}; set it in Python."
    valued = [each.option_name for each in known.values() if name in choices(each.annotation)]
    if valued:
        return f"There is no option {option}; did you mean {valued[0]} {name}?"
    if any(ours in known for ours in OUR_NAMES.get(name, ())):
        return _as_options(unknown_parameter(method, name, known))
    near = get_close_matches(option, [*own, *(each.option_name for each in known.values())], n=1, cutoff=0.75)
    if near:
        return f"There is no option {option}; did you mean {near[0]}?"
    others = [other for other in METHODS if name in inspect.signature(method_class(other)).parameters]
    if others:
        return f"{option} is a parameter of {_listed(others)}, not of {method}."
    return _as_options(unknown_parameter(method, name, known))


def _as_options(sentence: str) -> str:
    """Return a sentence with the quoted names of parameters as options."""
    return re.sub(r"'(\w+)'", lambda found: f"--{found[1].replace('_', '-')}", sentence)


def _listed(names: list[str]) -> str:
    shown = names if len(names) <= 4 else [*names[:3], "others"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
