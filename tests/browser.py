"""The Chromium that tests of pages run in: found on the system, opened once, closed to the network.

As a program (``python tests/browser.py``), prints the path of the one that is found, or says how to get one.
"""

import os
import shutil
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
MISSING = (
    "No Chromium was found for the tests of pages: install your system's Chromium or Chrome package, or name one by "
    "MANIFOLDRY_CHROMIUM; MANIFOLDRY_NO_BROWSER=1 leaves these tests out."
)
ARGUMENTS = [
    "--use-angle=swiftshader",  # WebGL by the processor, the same on every machine
    "--enable-unsafe-swiftshader",
    "--disable-gpu-compositing",  # of the page itself, which SwiftShader does slowly
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def find_chromium():
    """Return the path of a Chromium or Chrome, or None."""
    named = os.environ.get("MANIFOLDRY_CHROMIUM")
    if named:
        return shutil.which(named)
    found = (shutil.which(name) for name in NAMES)
    return next((path for path in found if path), next((path for path in PLACES if Path(path).exists()), None))


class Pages:
    """Opens pages in contexts of their own, and remembers what went wrong in them."""

    def __init__(self, browser):
        self.browser = browser
        self.contexts = []
        self.problems = []

    def open(self, address, *, width=1200, height=800, offline=True, **options):
        """Open a file or an address; console errors, exceptions and failed requests become problems."""
        context = self.browser.new_context(viewport={"width": width, "height": height}, offline=offline, **options)
        self.contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: self.problems.append(f"exception: {error}"))
        page.on("console", lambda said: said.type == "error" and self.problems.append(f"console: {said.text}"))
        page.on("requestfailed", lambda asked: self.problems.append(f"request: {asked.url[:200]}"))
        page.goto(address.as_uri() if isinstance(address, Path) else address)
        return page

    def close(self):
        for context in self.contexts:
            context.close()
        assert self.problems == []


if __name__ == "__main__":
    path = find_chromium()
    sys.exit(MISSING if path is None else sys.stdout.write(f"{path}\n") and 0)
