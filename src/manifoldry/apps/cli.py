"""The command line: ``manifoldry demo`` and ``manifoldry methods``."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import is_dataclass
from difflib import get_close_matches
from pathlib import Path

from manifoldry import __version__
from manifoldry.parameters import declared, describe
from manifoldry.registry import METHODS, Card, methods

LINE_WIDTH = 100
ADVICE = {"keeps": "keeps", "loses": "loses", "use when": "use_when", "fails when": "fails_when", "cost": "cost"}
"""Rows of advice, and the fields of a card that hold them."""

BROKEN_PIPE = 141
"""What a shell reports of a program that a broken pipe has ended: 128 + SIGPIPE."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 for what the machine lacks, 2 for what was asked wrongly.

    A reader that has closed the pipe (``manifoldry methods | head``) ends the command in silence, with code 141.
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
    options = _parser().parse_args(arguments)
    try:
        if options.command == "demo":
            _demo(options.out, options.n)
        elif options.name is None:
            print(cards_text(methods()))
        else:
            print(card_text(find_card(options.name)))
    except ValueError as error:
        return _complain(error, 2)
    except BrokenPipeError:
        raise
    except (ImportError, OSError, MemoryError) as error:
        return _complain(error, 1)
    return 0


def find_card(name: str) -> Card:
    """Return the card of a method by its name, in any case, or say which names there are."""
    by_name = {card.name.lower(): card for card in methods()}
    if name.lower() not in by_name:
        close = [by_name[word].name for word in get_close_matches(name.lower(), by_name, n=1)]
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(METHODS)}."
        raise ValueError(f"There is no method {name!r}; {hint}")
    return by_name[name.lower()]


def cards_text(cards: Sequence[Card]) -> str:
    """Return the table of methods: family, problem and what each gives, then what it keeps and when to use it."""
    facts = [("method", "family", "problem", "gives")]
    facts += [(card.name, card.family, card.problem, ", ".join(card.gives)) for card in cards]
    widths = [max(map(len, column)) for column in zip(*facts, strict=True)]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in facts]
    blocks = [
        "\n".join([line, _advice("keeps", card.keeps), _advice("use when", card.use_when)])
        for line, card in zip(lines[1:], cards, strict=True)
    ]
    return "\n\n".join([lines[0], *blocks])


def card_text(card: Card) -> str:
    """Return everything a card says."""
    summary = (card.cls.__doc__ or "").strip().partition("\n")[0]
    facts = {"family": card.family, "problem": card.problem, "gives": ", ".join(card.gives)}
    advice = {heading: getattr(card, field) for heading, field in ADVICE.items()}
    rows = {**facts, **advice, "papers": ", ".join(card.papers)}
    lines = [card.name, f"  {summary}", "", *(_advice(heading, text) for heading, text in rows.items())]
    return "\n".join([*lines, "", "  parameters", *parameter_lines(card)])


def parameter_lines(card: Card) -> list[str]:
    """Return a line for each parameter of a method: its default, and what it may be."""
    known = declared(card.cls) if is_dataclass(card.cls) else {}
    lines = []
    for name, parameter in inspect.signature(card.cls).parameters.items():
        allowed = describe(known[name]) if name in known else "as in scikit-learn"
        indent = " " * (6 + len(name))
        lines.append(
            textwrap.fill(
                f"{name}={parameter.default!r}: {allowed}", LINE_WIDTH, initial_indent="    ", subsequent_indent=indent
            )
        )
    return lines


def _advice(heading: str, text: str) -> str:
    return textwrap.fill(text, LINE_WIDTH, initial_indent=f"  {heading:<12}", subsequent_indent=" " * 14)


def _demo(out: Path, n: int) -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("The demo draws with matplotlib, which is not installed; install manifoldry[app].") from None
    from manifoldry.apps.demo import demo

    demo(out, n)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="manifoldry",
        description="Unfold high-dimensional data: see what the methods do, and choose one.",
        epilog="Begin with: manifoldry demo",
    )
    parser.add_argument("--version", action="version", version=f"manifoldry {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    text = "Unfold a Swiss roll by every method: figures on the screen, pictures in a folder."
    demo = commands.add_parser("demo", help=text, description=text)
    demo.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR", help="folder of the pictures (demo)")
    demo.add_argument("--n", type=int, default=1500, metavar="N", help="number of points (1500)")

    text = "List the methods, or tell all about one."
    table = commands.add_parser("methods", help=text, description=text)
    table.add_argument("name", nargs="?", metavar="NAME", help="a method, such as Isomap")
    return parser


def _complain(error: BaseException, code: int) -> int:
    print(f"manifoldry: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
