"""Compare the CPU seconds of fixed fits, stage by stage, with those of an earlier commit; fail where one is slower.

    make bench BENCH=gate [ARGS="--against COMMIT --only TSNE score"]

The earlier commit (HEAD if the source differs from it, otherwise the one before) is checked out into a temporary
folder. Both trees run the same calls with one thread, in processes that alternate; the best call of each counts. What
is more than a tenth slower is repeated before it fails: on a busy machine CPU seconds vary by as much.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from before_after import CELLS, clusters, digits, last_line, roll

ROOT = Path(__file__).resolve().parent.parent
MAX_RATIO, MIN_SECONDS = 1.1, 0.02  # a stage is slower if it takes so many times as long, and so many seconds more
N_ROUNDS, MAX_ROUNDS, N_CALLS = 2, 6, 2  # processes per tree, processes if a stage is slower, measured calls in each
ALL = "all"
FITS = {name: cell for name, cell in CELLS.items() if not name.startswith("transform")} | {
    "PCA": ("PCA", clusters, 20_000, {}),
    "ProbabilisticPCA": ("ProbabilisticPCA", clusters, 5_000, {}),
    "KernelPCA": ("KernelPCA", digits, 1_797, {"kernel": "rbf"}),
    "ClassicalMDS": ("ClassicalMDS", roll, 2_000, {}),
    "HessianEigenmaps": ("HessianEigenmaps", roll, 10_000, {"n_neighbors": 10}),
    "LaplacianEigenmaps of clusters": ("LaplacianEigenmaps", clusters, 10_000, {"n_neighbors": 10}),
    "PrincipalCurve": ("PrincipalCurve", roll, 2_000, {}),
    "Autoencoder": ("Autoencoder", digits, 500, {"max_iter": 20}),
    "SpectralClustering": ("SpectralClustering", digits, 1_797, {"n_clusters": 10}),
    "LDLC of clusters": ("LDLC", clusters, 2_500, {}),
}
"""A method of every family, as (class, data, rows, parameters)."""
FUNCTIONS: dict[str, tuple[Callable[[int], Any], int, Callable[[Any, Any], Any]]] = {
    "score": (clusters, 10_000, lambda package, X: package.score(X, X[:, :2], n_jobs=1)),
    "diagnose": (clusters, 5_000, lambda package, X: package.diagnose(X, n_jobs=1)),
    "diagnose roll": (roll, 5_000, lambda package, X: package.diagnose(X, n_jobs=1)),
    "compare": (
        roll,
        1_500,
        lambda package, X: package.compare(X, budget=None, methods=["Isomap", "UMAP"], n_jobs=1),
    ),
}


def measure(name: str) -> dict[str, float]:
    """Return the CPU seconds of a call and of its stages, with what they contain: the least of several warm calls."""
    import manifoldry

    if name in FUNCTIONS:
        make, n, function = FUNCTIONS[name]
        X = make(n)
        call = lambda: function(manifoldry, X)  # noqa: E731
    else:
        method, make, n, settings = FITS[name]
        X, cls = make(n), getattr(manifoldry, method)
        settings = {**dict.fromkeys({"n_jobs"} & cls().get_params().keys(), 1), **settings}
        call = lambda: cls(random_state=0, **settings).fit(X)  # noqa: E731
    seconds: Counter[str] = Counter()

    @contextmanager
    def timed_stage(run: Any, title: str) -> Iterator[None]:
        begin = time.process_time()
        with stage(run, title):
            yield
        seconds[title] += time.process_time() - begin

    call()
    # The package of this module has not always had its present name.
    Run = next(module for title, module in sys.modules.items() if re.fullmatch(r"manifoldry\.(\w+\.)?run", title)).Run
    stage, Run.stage = Run.stage, timed_stage
    found: list[dict[str, float]] = []
    for _ in range(N_CALLS):
        seconds.clear()
        begin = time.process_time()
        call()
        found.append({ALL: time.process_time() - begin, **seconds})
    return least(found)


def least(found: list[dict[str, float]]) -> dict[str, float]:
    """Return the least seconds of each stage that all have."""
    return {title: min(each[title] for each in found) for title in found[0] if all(title in each for each in found)}


def slower(before: dict[str, float], after: dict[str, float]) -> list[str]:
    """Return the common stages that take more than a tenth longer now."""
    return [
        title
        for title in before
        if title in after and after[title] > max(MAX_RATIO * before[title], before[title] + MIN_SECONDS)
    ]


def compare(name: str, trees: tuple[Path, Path]) -> list[str]:
    """Print the table of one call, and return what is slower."""
    found: tuple[list[dict[str, float]], ...] = [], []
    best: list[dict[str, float]] = []
    for number in range(MAX_ROUNDS):
        for side in (0, 1) if number % 2 == 0 else (1, 0):  # neither tree always follows the other
            try:
                found[side].append(json.loads(last_line(trees[side], [__file__, "--call", name])))
            except RuntimeError as error:
                if side == 1:
                    raise
                print(f"{name:30} the earlier commit cannot do this: {error}", flush=True)
                return []
        best = [least(each) for each in found]
        if number + 1 >= N_ROUNDS and not slower(*best):
            break
    before, after = best
    failed = slower(before, after)
    for title in (title for title in before if title in after):
        if max(before[title], after[title]) >= MIN_SECONDS:
            ratio = after[title] / max(before[title], 1e-9)
            mark = "  slower" if title in failed else ""
            print(f"{name:30} {title:24} {before[title]:8.3f} {after[title]:8.3f} {ratio:6.2f}{mark}", flush=True)
    return [f"{name}: {title}" for title in failed]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT", help="the earlier commit")
    parser.add_argument("--only", nargs="*", choices=[*FITS, *FUNCTIONS], default=[*FITS, *FUNCTIONS], metavar="NAME")
    parser.add_argument("--call", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.call:
        print(json.dumps(measure(options.call)))
        return
    commit = options.against or ("HEAD" if _git("status", "--porcelain", "--", "src") else "HEAD~1")
    print(f"{'':55} {commit[:8]:>8} {'now':>8} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        earlier = Path(folder) / "earlier"
        _git("worktree", "add", "--detach", str(earlier), commit)
        try:
            failed = [title for name in options.only for title in compare(name, (earlier, ROOT))]
        finally:
            _git("worktree", "remove", "--force", str(earlier))
    if failed:
        sys.exit(f"More than {MAX_RATIO - 1:.0%} slower than {commit}: {', '.join(failed)}.")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
