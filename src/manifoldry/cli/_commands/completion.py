"""``manifoldry completion``."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

INSTALLATION = {
    "bash": 'eval "$(manifoldry completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(manifoldry completion zsh)"   # in ~/.zshrc, after compinit',
    "fish": "manifoldry completion fish > ~/.config/fish/completions/manifoldry.fish",
}
"""What makes the completion permanent, by shell."""


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(tuple(INSTALLATION)))
def completion(shell: str) -> None:
    """Print the script by which a shell completes commands, options, methods and files.

    For good: eval "$(manifoldry completion bash)" in ~/.bashrc, eval "$(manifoldry completion zsh)" in ~/.zshrc, or
    manifoldry completion fish > ~/.config/fish/completions/manifoldry.fish
    """
    from manifoldry.cli._main import COMPLETION_VARIABLE, program

    kind = get_completion_class(shell)
    assert kind is not None
    complete = kind(program, {}, "manifoldry", COMPLETION_VARIABLE)
    click.echo(f"# {INSTALLATION[shell]}")
    click.echo(ShellComplete.source(complete))  # bash's own first runs bash to ask for its version
