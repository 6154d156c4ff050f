"""The widget in a real JupyterLab: server, kernel and browser. ``make jupyter`` runs it."""

import json
import os
import subprocess
import sys
import time

import pytest

from browser import Pages
from helpers import DEADLINE

TOKEN = "0123456789abcdef"
CELL = """
from manifoldry import PCA, datasets
digits = datasets.load("digits")
model = PCA().fit(digits.X)
widget = model.explore(digits.X, labels=digits.labels)
widget
"""


def wait_for(condition, what):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"Waited for {what} in vain.")


@pytest.fixture
def lab(tmp_path):
    """A JupyterLab with one notebook; returns its address and the folder of its connection files."""
    cell = {"cell_type": "code", "execution_count": None, "id": "one", "metadata": {}, "outputs": [], "source": CELL}
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    (tmp_path / "work").mkdir()
    notebook = {"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "work" / "explore.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    folders = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "RUNTIME", "DATA")}
    settings = tmp_path / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}', encoding="utf-8")
    options = ["--no-browser", "--allow-root", "--port=0", "--LabApp.expose_app_in_browser=True"]
    options += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={tmp_path / 'work'}"]
    with open(tmp_path / "log", "wb") as log:
        environment = {**os.environ, **folders, "JUPYTERLAB_SETTINGS_DIR": str(tmp_path / "settings")}
        command = [sys.executable, "-m", "jupyterlab", *options]
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        runtime = tmp_path / "RUNTIME"
        file = wait_for(lambda: next(runtime.glob("jpserver-*.json"), None), "JupyterLab")
        facts = wait_for(lambda: file.read_text(encoding="utf-8"), "the address of JupyterLab")
        yield f"{json.loads(facts)['url']}lab/tree/explore.ipynb?token={TOKEN}", runtime
    finally:
        server.terminate()
        server.wait(DEADLINE)


class Kernel:
    """The kernel of the notebook, as a second client reaches it."""

    def __init__(self, runtime):
        from jupyter_client import BlockingKernelClient

        file = wait_for(lambda: next(runtime.glob("kernel-*.json"), None), "the kernel")
        self.client = BlockingKernelClient(connection_file=str(file))
        self.client.load_connection_file()
        self.client.start_channels()
        self.client.wait_for_ready(DEADLINE)

    def run(self, code, value="None"):
        """Run code and return the text of a value."""
        answer = self.client.execute(code, user_expressions={"value": value}, reply=True, timeout=DEADLINE)["content"]
        assert answer["status"] == "ok", answer
        return answer["user_expressions"]["value"]["data"]["text/plain"]

    def selection(self):
        return json.loads(self.run("", "widget.selection.tolist()"))


def command(page, name):
    page.evaluate("(name) => void jupyterapp.commands.execute(name)", name)


@pytest.mark.heavy
def test_a_lasso_and_python_share_a_selection_in_jupyterlab(lab, chromium):
    address, runtime = lab
    pages = Pages(chromium)
    page = pages.open(address, width=1300, height=1000, offline=False)
    page.set_default_timeout(1000 * DEADLINE)
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.evaluate("jupyterapp.restored.then(() => null)")
    page.evaluate("jupyterapp.shell.currentWidget.sessionContext.ready.then(() => null)")
    command(page, "notebook:run-all-cells")
    canvas = page.locator(".embedding-widget canvas")
    canvas.wait_for()
    kernel = Kernel(runtime)
    assert kernel.selection() == []

    # A lasso changes the selection in the kernel.
    page.locator(".embedding-widget button[value=lasso]").click()
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    corners = [(0.5, 0.02), (0.98, 0.02), (0.98, 0.98), (0.5, 0.98)]
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=5)
    page.mouse.up()
    rows = wait_for(kernel.selection, "the selection")
    # The middle of the canvas is that of the range of each axis: the lasso holds the points to its right.
    right = "model.embedding_[:, 0] > (model.embedding_[:, 0].max() + model.embedding_[:, 0].min()) / 2"
    assert rows == json.loads(kernel.run("", f"(({right}).nonzero()[0]).tolist()"))
    assert page.inner_text(".embedding-widget .count") == f"{len(rows):,} selected"

    # Python highlights points.
    kernel.run("widget.selection = digits.labels == 3")
    threes = json.loads(kernel.run("", "int((digits.labels == 3).sum())"))
    page.wait_for_function(
        "(text) => document.querySelector('.lm-Widget [data-lm-suppress-shortcuts]').shadowRoot"
        ".querySelector('.count').textContent === text",
        arg=f"{threes} selected",
    )

    # A closed kernel loses nothing.
    kernel.run("widget.color = 'reliability'")
    page.wait_for_selector(".embedding-widget .panel .legend button")
    command(page, "kernelmenu:shutdown")
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=unknown]")
    page.locator(".embedding-widget select").select_option("labels")
    page.wait_for_selector(".embedding-widget [role=status]:has-text('The kernel cannot be reached')")
    assert page.locator(".embedding-widget select").input_value() == "reliability"
    page.locator(".embedding-widget .panel .legend button").first.click()
    entry = page.inner_text(".embedding-widget .panel .legend small")
    assert page.inner_text(".embedding-widget .count") == f"{entry} selected"
    # ipywidgets itself writes on the console that it cannot send the selection
    pages.problems[:] = [text for text in pages.problems if "Cannot send" not in text]
    pages.close()
