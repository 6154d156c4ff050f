"""``manifoldry explore``."""

from __future__ import annotations

import html
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from manifoldry.cli._options import method_option, reading_of, reading_options, seed_option, source_argument
from manifoldry.cli._progress import progress_reporter
from manifoldry.cli._text import print_note


@click.command()
@source_argument
@reading_options
@seed_option
@method_option(None, "First method, in addition to PCA.")
@click.option("--n-jobs", type=int, help="Threads.  [default: all]")
@click.option(
    "--host", help="Address to listen on; others than the default admit other machines.  [default: 127.0.0.1]"
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port.  [default: a free one]")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="Folder for saved selections.  [default: the current folder]",
)
@click.option("--open/--no-open", "opened", default=True, help="Open the page in the browser.  [default: open]")
def explore(  # noqa: PLR0913
    source: str,
    seed: int,
    method: str | None,
    n_jobs: int | None,
    host: str | None,
    port: int,
    folder: Path,
    opened: bool,
    **values: Any,
) -> None:
    """Explore FILE in the browser: change method and parameters, embed again, select rows and save them.

    The page is served on this machine only, at an address with a random token. Ctrl-C stops the server.
    """
    from manifoldry.cli._explore.server import LOOPBACK, ExploreServer
    from manifoldry.cli._explore.session import Session

    with progress_reporter() as reporter:
        with reporter.stage("read", f"reading {source}"):
            table, X, units = reading_of(values).prepared(source, seed)
        with reporter.stage("page", "analyzing the data"):
            session = Session(table, X, units=units, folder=folder, seed=seed, n_jobs=n_jobs)
    if method is not None:
        session.embed({"method": method})
    with ExploreServer(session, host or LOOPBACK, port) as server:
        if host not in (None, LOOPBACK):
            print_note(f"anyone who can reach {host} and knows the address can see the data.")
        click.echo(f"{table.source}: {table.X.shape[0]:,} rows. Open {server.url} (Ctrl-C stops the server).")
        with redirect_page(server.url) as page:
            if opened:
                webbrowser.open(page.as_uri())
            try:
                server.serve_forever(poll_interval=0.2)
            except KeyboardInterrupt:
                session.stop()


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}"><title>manifoldry</title></head>
<body><p><a href="{url}">Open the live page</a></p></body></html>
"""


@contextmanager
def redirect_page(url: str) -> Iterator[Path]:
    """Yield a temporary page, readable by the user only, that redirects to an address.

    A browser gets the address to open as an argument, which every user of the machine can see in the process list. The
    path of this page does not reveal the token.
    """
    with tempfile.TemporaryDirectory(prefix="manifoldry-") as folder:
        page = Path(folder) / "open.html"
        page.touch(mode=0o600)
        page.write_text(PAGE.format(url=html.escape(url)), encoding="utf-8")
        yield page
