"""The dimension of known manifolds and of real sets: truth, every estimator, the consensus, scikit-dimension's values.

    MANIFOLDRY_DATA=... python benchmarks/dimension.py [--sizes 500 2500]

Values of scikit-dimension are those that dimension_peers.py stored. Seconds are those of the consensus, of one
thread's CPU time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dimension_sets import BENCHMARK, HELD_OUT, REAL, manifold, real
from manifoldry import dimension
from tables import Table

ESTIMATORS: dict[str, Callable[[Any], Any]] = {
    "ML": dimension.maximum_likelihood,
    "ML border": lambda X: dimension.maximum_likelihood(X, border=True),
    "TwoNN": dimension.two_nn,
    "ESS": dimension.simplex_skewness,
    "PCA": dimension.local_pca,
    "corr.": dimension.correlation_dimension,
    "elbow": dimension.residual_variance_elbow,
    "charts": dimension.charts,
}
THEIRS = {"sk MLE": "MLE", "sk TwoNN": "TwoNN", "sk lPCA": "lPCA", "sk CorrInt": "CorrInt", "sk ESS": "ESS"}
COLUMNS = {"set": "", "judged": "", "truth": "", "consensus": "", "low": ".1f", "high": ".1f", "kind": ""}
COLUMNS |= dict.fromkeys(ESTIMATORS, ".1f") | dict.fromkeys(THEIRS, ".1f") | {"CPU s": ".2f"}


def row(X: Any, truth: int | None, peers: dict[str, float]) -> dict[str, Any]:
    began = time.process_time()
    found = dimension.consensus(X, n_jobs=1)
    seconds = time.process_time() - began
    cells: dict[str, Any] = {"truth": truth, "consensus": found.value, "low": found.low, "high": found.high}
    cells |= {"kind": found.kind, "CPU s": seconds}
    for name, estimate in ESTIMATORS.items():
        try:
            cells[name] = estimate(X).value
        except dimension.UndecidedError:
            cells[name] = None
    return cells | {name: peers.get(key) for name, key in THEIRS.items()}


def main() -> None:
    """Measure and store the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", choices=(500, 2500), default=[500, 2500])
    sizes = parser.parse_args().sizes
    path = Path(__file__).with_name("dimension_peers.json")
    stored = json.loads(path.read_text(encoding="utf-8"))["values"] if path.exists() else {}
    captions = {n: f"Dimensions of manifolds, {n:,} points each." for n in (500, 2500)}
    tables = {
        500: lambda: Table("dimension_500", captions[500], COLUMNS),
        2500: lambda: Table("dimension_2500", captions[2500], COLUMNS),
    }
    for n in sizes:
        table = tables[n]()
        for label, sets in (("", BENCHMARK), ("held out", HELD_OUT)):
            for name, (truth, _) in sets.items():
                peers = stored.get(name, {}).get(str(n), {})
                table.add(set=name, judged=label, **row(manifold(name, n), truth, peers))
    table = Table("dimension_real", "Dimensions of real sets, at most 3,000 rows each.", COLUMNS)
    for name, truth in REAL.items():
        peers = stored.get(name, {}).get("real", {})
        table.add(set=name, judged="", **row(real(name), truth, peers))


if __name__ == "__main__":
    main()
