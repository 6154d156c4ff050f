"""CPU time of fits to small data: the method itself, everything else, and scikit-learn's class.

    python benchmarks/small_fits.py

Iris (150 x 4) and a Swiss roll of 2,000 points, one thread, the least of nine fits after two. The method itself is
what its ``_embed_with`` computes, for PCA scikit-learn's fit and transform, without the search for short circuits and
the comparison with paths along the data. All else is overhead: checks of parameters, input and result.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn import decomposition, manifold
from sklearn.datasets import load_iris

import manifoldry
from manifoldry import datasets
from manifoldry._core.run import one_blas_thread
from tables import Table

REPEATS = 9
PEERS: dict[str, Callable[[], Any] | None] = {
    "PCA": lambda: decomposition.PCA(2),
    "Isomap": lambda: manifold.Isomap(n_neighbors=10, n_jobs=1),
    "LandmarkIsomap": None,
    "LLE": lambda: manifold.LocallyLinearEmbedding(n_neighbors=10, n_jobs=1),
    "LaplacianEigenmaps": lambda: manifold.SpectralEmbedding(affinity="nearest_neighbors", n_neighbors=10, n_jobs=1),
    "UMAP": None,
}
CHECKS = ("manifoldry.methods.geodesic._isomap.with_path_error",)
"""Checks that a method runs before it returns its embedding."""


class Clock:
    """CPU seconds inside some functions, without those inside others."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, function: Callable[..., Any], sign: float) -> Callable[..., Any]:
        """Return the function with its time added or subtracted."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += sign * (time.process_time() - began)

        return timed


@contextmanager
def method_time(cls: type) -> Iterator[Clock]:
    """Measure the time of the method itself."""
    clock, own = Clock(), getattr(cls, "_wraps", cls)
    with ExitStack() as stack:
        for name in ("fit", "transform") if own is not cls else ("_embed_with",):
            stack.enter_context(patch.object(own, name, clock.around(getattr(own, name), 1.0)))
        for path in CHECKS:
            module, _, name = path.rpartition(".")
            function = getattr(__import__(module, fromlist=[name]), name)
            stack.enter_context(patch(path, clock.around(function, -1.0)))
        yield clock


def milliseconds(fit: Callable[[], Any]) -> float:
    """Return the least CPU time of several fits."""
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        fit()
        times.append(time.process_time() - began)
    return 1e3 * min(times)


def measure(name: str, X: Any) -> dict[str, Any]:
    """Return the row of a method."""
    cls, peer = getattr(manifoldry, name), PEERS[name]
    settings = {"n_jobs": 1} if "n_jobs" in cls().get_params() else {}
    for _ in range(2):
        cls(**settings).fit(X)
    whole, method = milliseconds(lambda: cls(**settings).fit(X)), []
    with method_time(cls) as clock:
        for _ in range(REPEATS):
            clock.seconds = 0.0
            cls(**settings).fit(X)
            method.append(1e3 * clock.seconds)
    overhead = whole - min(method)
    row: dict[str, Any] = {"method": name, "all": whole, "method itself": min(method), "overhead": overhead}
    row["overhead / method"] = overhead / min(method)
    if peer is not None:
        peer().fit(X)
        with one_blas_thread():
            row["scikit-learn"] = milliseconds(lambda: peer().fit(X))
    return row


def main() -> None:
    """Measure all methods."""
    caption = "CPU milliseconds of a fit with one thread, the least of nine; overhead is what is not the method itself."
    numbers = ("all", "method itself", "overhead")
    columns = {"data": "", "method": "", **dict.fromkeys(numbers, ".1f"), "overhead / method": ".0%"}
    table = Table("small_fits", caption, {**columns, "scikit-learn": ".1f"})
    sets = {"iris, 150 x 4": load_iris().data, "roll, 2,000 x 3": datasets.swiss_roll(2000).X}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for data, X in sets.items():
            for name in PEERS:
                table.add(
                    data=data, **{key.replace(" ", "_"): cell for key, cell in measure(name, np.array(X)).items()}
                )


if __name__ == "__main__":
    main()
