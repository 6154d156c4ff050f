"""Build the wheel and the sdist, check them, and test them in new environments outside of the source tree.

    python .ci/release.py [--full] [--only build core extras tests] [--python python3.12]

``build``: both files in dist/, their metadata, and that the sdist has every file of the repository. ``core``: the wheel
without extras: a default fit of every method, and what is said about missing extras. ``extras``: each extra alone.
``tests``: a selection of the tests (``--full``: all of them) from the unpacked sdist against the installed wheel.

It needs build and twine, which the extra dev brings.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
STEPS = ("build", "core", "extras", "tests")
SELECTED = (
    "tests/test_api.py", "tests/test_imports.py", "tests/test_release.py", "tests/_core/test_check.py",
    "tests/contract/test_defaults.py", "tests/data/models/test_round_trip.py", "tests/cli/test_embed.py",
)  # fmt: skip

MISSING_EXTRAS = """
import subprocess, sys, manifoldry
assert "site-packages" in manifoldry.__file__, manifoldry.__file__
model = manifoldry.Isomap().fit(manifoldry.datasets.swiss_roll(200).X)

def message(call):
    try:
        call()
    except ImportError as error:
        return str(error)
    raise AssertionError("this should need an extra")

assert 'pip install "manifoldry[plot]"' in message(lambda: manifoldry.plot.scatter(model))
open("data.csv", "w").write("a,b\\n1,2\\n")
assert 'pip install "manifoldry[cli]"' in message(lambda: manifoldry.read_table("data.csv"))
open("data.h5ad", "wb").write(b"\\x89HDF\\r\\n\\x1a\\n")
assert 'pip install "manifoldry[anndata]"' in message(lambda: manifoldry.read_table("data.h5ad"))
done = subprocess.run([sys.executable, "-m", "manifoldry", "--version"], capture_output=True, text=True)
assert (done.returncode, done.stdout) == (1, "") and 'pip install "manifoldry[cli]"' in done.stderr, done
"""

EXTRAS = {
    "plot": "m.plot.scatter(m.PCA().fit(X)).figure.savefig('iris.png')",
    "cli": "from manifoldry.__main__ import run; sys.argv[1:] = ['embed', 'iris', '--method', 'pca']; sys.exit(run())",
    "anndata": "import anndata; a = anndata.AnnData(X); m.embed_anndata(a, m.PCA()); a.write_h5ad('iris.h5ad')",
    "dask": "import dask.array; m.PCA().fit(dask.array.from_array(X, chunks=(50, -1)))",
    "notebook": "import anywidget; m.PCA().fit(X)._repr_html_()",
}
"""What each extra makes possible, as a program. The extra gpu needs a GPU: ``make test-gpu``."""


def main() -> None:
    """Run the steps in order; the first failure ends the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=STEPS, default=STEPS)
    parser.add_argument("--full", action="store_true", help="all tests, not a selection")
    parser.add_argument("--python", default=sys.executable, help="of the new environments")
    given = parser.parse_args()
    if "build" in given.only:
        build()
    wheel, sdist = newest("*.whl"), newest("*.tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if "core" in given.only:
            check_core(environment(given.python, work / "core", str(wheel), "pytest>=8.3"), unpack(sdist, work), work)
        if "extras" in given.only:
            for extra, program in EXTRAS.items():
                program = f"import sys, manifoldry as m; X = m.datasets.load('iris').X; {program}"
                run(environment(given.python, work / extra, f"{wheel}[{extra}]"), "-c", program, cwd=work)
        if "tests" in given.only:
            check_tests(environment(given.python, work / "dev", f"{wheel}[dev]"), unpack(sdist, work), given.full)


def build() -> None:
    """Build both files anew, the wheel from the sdist, and check them."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT))
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, DIST.iterdir()))
    with tarfile.open(newest("*.tar.gz")) as archive:
        packed = {member.name.partition("/")[2] for member in archive}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    missing = sorted(set(listed.splitlines()) - packed)
    if missing:
        sys.exit(f"The sdist lacks {', '.join(missing)}: name them in MANIFEST.in.")


def check_core(python: str, source: Path, work: Path) -> None:
    """Fit everything without extras, and ask for what needs one."""
    run(python, "-m", "pip", "check")
    run(python, "-c", MISSING_EXTRAS, cwd=work)
    run(python, "-m", "pytest", "-q", "tests/contract/test_defaults.py", cwd=source)


def check_tests(python: str, source: Path, full: bool) -> None:
    """Run the tests of the sdist against the installed wheel: ``src`` is not on the path."""
    selected = ["-n", "2", "--dist", "worksteal"] if full else list(SELECTED)
    run(python, "-m", "pytest", "-q", *selected, cwd=source)


def environment(python: str, folder: Path, *packages: str) -> str:
    """Return the interpreter of a new environment with these packages."""
    run(python, "-m", "venv", str(folder))
    made = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    run(str(made), "-m", "pip", "--quiet", "--disable-pip-version-check", "install", *packages)
    return str(made)


def unpack(sdist: Path, work: Path) -> Path:
    """Return the folder of the unpacked sdist."""
    with tarfile.open(sdist) as archive:
        archive.extractall(work, filter="data")
    return work / sdist.name.removesuffix(".tar.gz")


def newest(pattern: str) -> Path:
    """Return the file in dist/ of this pattern."""
    return max(DIST.glob(pattern), key=lambda path: path.stat().st_mtime)


def run(*command: str, cwd: Path = ROOT) -> None:
    """Print and run a command, without the source tree on the path; a failure ends the program."""
    print("+", *command[:6], flush=True)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, cwd=cwd, check=True, env={**variables, "OPENBLAS_NUM_THREADS": "1"})


if __name__ == "__main__":
    main()
