"""``manifoldry demo``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo"),
    help="Folder for the pictures and the report.",
    show_default=True,
)
@click.option("--n", type=int, default=1500, help="Number of points.", show_default=True)
def demo(out: Path, n: int) -> None:
    """Unfold a Swiss roll with every method: print scores, save pictures and a report."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError(
            "The demo draws with matplotlib, which is not installed: run pip install 'manifoldry[app]'."
        ) from None
    from manifoldry.cli._flow.demo import demo as run_demo

    run_demo(out, n)
