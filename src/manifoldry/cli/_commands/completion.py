"""``manifoldry completion``."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

INSTALLATION = {
    "bash": 'eval "$(manifoldry completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(manifoldry completion zsh)"   # in ~/.zshrc, after compinit',
    "fish": "manifoldry completion fish > ~/.config/fish/completions/manifoldry.fish",
}
"""How to enable the completion permanently, by shell."""


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(tuple(INSTALLATION)))
def completion(shell: str) -> None:
    """Print a script that completes commands, options, methods and files in a shell.

    To enable it permanently: eval "$(manifoldry completion bash)" in ~/.bashrc, eval "$(manifoldry completion zsh)" in
    ~/.zshrc, or manifoldry completion fish > ~/.config/fish/completions/manifoldry.fish
    """
    from manifoldry.cli._main import COMPLETION_VARIABLE, program

    kind = get_completion_class(shell)
    assert kind is not None
    complete = kind(program, {}, "manifoldry", COMPLETION_VARIABLE)
    click.echo(f"# {INSTALLATION[shell]}")
    click.echo(ShellComplete.source(complete))  # skips BashComplete.source, which runs bash to get its version
