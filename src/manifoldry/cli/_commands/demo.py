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
    from manifoldry.cli._flow.demo import demo as run_demo
    from manifoldry.viz.plot._axes import pyplot

    pyplot()  # reports a missing matplotlib before the fits
    run_demo(out, n)
