"""The live page in a real browser, and the command that serves it."""

import http.client
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import urlsplit

import numpy as np
import pytest

from live_pages import made_table, served
from manifoldry.cli._explore.session import Session

HEARING_CTRL_C = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell runs in the background
from manifoldry.cli._commands import main
sys.exit(main(sys.argv[1:]))
"""


@contextmanager
def killed(program):
    """End a program whatever happens, so that nothing waits for it."""
    try:
        yield
    finally:
        program.kill()


@pytest.fixture
def live(pages, tmp_path):
    """A session on a page, which may talk to its server."""
    with served(Session(made_table(), folder=tmp_path)) as server:
        page = pages.open(server.url, offline=False)
        page.locator("#live-method").wait_for()
        yield server.session, page


def embed(page, method, **fields):
    page.select_option("#live-method", method)
    for name, value in fields.items():
        page.fill(f"#live-{name}", value)
    page.click("#live button[type=submit]")
    page.locator("#live-told", has_text=re.compile(f"^{method}.* done in")).wait_for(timeout=60_000)


def headings(page):
    return page.locator(".panel h2").all_text_contents()


def test_a_page_embeds_again_and_keeps_what_is_selected(live):
    session, page = live
    assert headings(page) == ["PCA"]
    page.evaluate("() => window.Report.select(Uint8Array.from({length: 120}, (_, i) => i < 7))")
    embed(page, "Isomap", n_neighbors="9")
    assert headings(page) == ["Isomap (n_neighbors=9)", "PCA"]
    assert page.evaluate("() => window.Report.selectedIds()") == [f"row {i}" for i in range(7)]
    page.click("#live >> text=Save selected rows")
    page.locator("#live-told", has_text="7 rows saved").wait_for()
    (saved,) = session.folder.iterdir()
    assert [line.split(",")[0] for line in saved.read_text().splitlines()[1:]] == [f"row {i}" for i in range(7)]
    page.click("text=Remove Isomap")
    page.locator(".panel h2", has_text="Isomap").wait_for(state="detached")
    assert headings(page) == ["PCA"]


def test_what_is_refused_is_said_on_the_page(live, pages):
    _, page = live
    page.select_option("#live-method", "UMAP")
    page.fill("#live-n_neighbors", "many")
    with page.expect_response(re.compile("embed$")) as answer:
        page.click("#live button[type=submit]")
    assert answer.value.status == 400
    page.locator("#live-told", has_text="n_neighbors must be").wait_for()
    assert headings(page) == ["PCA"]
    assert len(pages.problems) == 1  # the browser's own line about the refusal
    assert "400" in pages.problems.pop()


def test_a_lasso_on_the_live_page_selects_rows_of_every_panel(live):
    session, page = live
    embed(page, "ClassicalMDS")
    page.click("#modes button[value=lasso]")
    canvas = page.locator(".panel canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    left, top, right, bottom = box["x"] + 2, box["y"] + 2, box["x"] + box["width"] / 2, box["y"] + box["height"] - 2
    page.mouse.move(left, top)
    page.mouse.down()
    for x, y in [(right, top), (right, bottom), (left, bottom), (left, top)]:
        page.mouse.move(x, y, steps=4)
    page.mouse.up()
    chosen = {int(name.split()[1]) for name in page.evaluate("() => window.Report.selectedIds()")}
    Y = session.report.panels[0].coordinates
    middle = (Y[:, 0].min() + Y[:, 0].max()) / 2
    clear = np.abs(Y[:, 0] - middle) > 0.02 * np.ptp(Y[:, 0])  # a pixel is 0.003 of the width
    assert {i for i in chosen if clear[i]} == set(np.flatnonzero(clear & (Y[:, 0] < middle)).tolist())


def test_the_command_serves_a_page_until_it_is_interrupted(tmp_path):
    arguments = ["explore", "iris", "--no-open", "--folder", str(tmp_path)]
    command = [sys.executable, "-c", HEARING_CTRL_C, *arguments]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program,
        killed(program),
    ):
        url = urlsplit(re.search(r"http://\S+", program.stdout.readline())[0])
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
        connection.request("GET", url.path)
        answer = connection.getresponse()
        assert answer.status == 200
        assert b"<title>iris</title>" in answer.read()
        connection.close()
        assert url.hostname == "127.0.0.1"
        program.send_signal(signal.SIGINT)
        assert program.wait(30) == 0
        assert "Traceback" not in program.stderr.read()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"), [(["nowhere.csv"], "nowhere.csv"), (["iris", "--port", "70000"], "70000")]
)
def test_what_cannot_be_served_ends_with_code_2(arguments, said):
    done = subprocess.run([sys.executable, "-m", "manifoldry", "explore", *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
