"""Regularization of TesseraMap's map of new points: fixed values, and the automatic one, on surfaces and images.

    python benchmarks/regularization.py

The layout of the fitted points is the same for all values, so each set is fitted once. Half of the points are new.
"""

from __future__ import annotations

import warnings

import numpy as np

from manifoldry import PCA, TesseraMap, datasets, metrics
from manifoldry._core.run import Run
from manifoldry._core.warnings import EmbeddingWarning
from manifoldry._numerics.extension.kernel import Kernel, KernelName
from manifoldry.methods.unfolding._tesseramap import fit_landmark_map
from silent_failures import cone_sector
from tables import Table

FIXED = (1e-10, 1e-6, 1e-4, 1e-2)
MAPS = (*(f"{reg:g}" for reg in FIXED), "auto")
N_NEIGHBORS = 12
N_ROWS = 2000
CONTINENTS = ("Africa", "Asia", "Europe")
IMAGES = {"Frey faces": "frey_faces", "UMIST faces": "umist_faces32", "digits": "digits", "COIL-20": "coil20_32"}


def surfaces() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return points and their true coordinates, in random order, twice as many as are fitted."""
    made = {
        "Swiss roll, 1,000": datasets.swiss_roll(2000),
        "Swiss roll, 5,000": datasets.swiss_roll(10_000),
        "Swiss roll with a hole, 1,000": datasets.swiss_roll(2000, hole=True),
        "Swiss roll, noise 0.2, 1,000": datasets.swiss_roll(2000, noise=0.2),
        "S-curve, 500": datasets.s_curve(1000),
        "S-curve, noise 0.05, 750": datasets.s_curve(1500, noise=0.05),
    }
    found = {name: (data.X, np.asarray(data.truth)) for name, data in made.items()}
    return {**found, "sector of a cone, 600": cone_sector(1200, 0)}


def real_rows() -> dict[str, tuple[np.ndarray, KernelName]]:
    """Return rows of real data in random order, and the kernel of their map."""
    rng = np.random.default_rng(0)
    mnist, cities = datasets.load("mnist"), datasets.load("cities")
    sets = {name: datasets.load(stored).X for name, stored in IMAGES.items()}
    sets["MNIST 3, 6, 9"] = mnist.X[np.isin(np.asarray(mnist.labels), (3, 6, 9))]
    drawn = {name: X[rng.permutation(len(X))[:N_ROWS]].astype(float) for name, X in sets.items()}
    kernels: tuple[KernelName, ...] = ("rbf", "linear")
    found = {f"{name}, {kernel}": (X, kernel) for name, X in drawn.items() for kernel in kernels}
    old_world = cities.X[np.isin(np.asarray(cities.extras["names"])[cities.labels].astype(str), CONTINENTS)]
    return {**found, "cities on the globe, rbf": (old_world[rng.permutation(len(old_world))[:N_ROWS]], "rbf")}


def mapped(X: np.ndarray, new: np.ndarray, kernel: KernelName) -> tuple[np.ndarray, dict[str, np.ndarray], float]:
    """Return the layout of X, the new points mapped with each regularization, and the automatic one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmbeddingWarning)
        model = TesseraMap(n_components=2, kernel=kernel).fit(X)
    found, chosen = {}, 0.0
    for name, reg in zip(MAPS, (*FIXED, None), strict=True):
        run = Run(0)
        extension, _, chosen = fit_landmark_map(X, model.embedding_, Kernel(kernel), None, model.n_landmarks, reg, run)
        found[name] = extension(new, run)
    return model.embedding_, found, chosen


def measure_surfaces() -> None:
    caption = (
        "Rigid error of as many new points of surfaces (lower is better), by the regularization of TesseraMap's map."
    )
    columns = {"set": "", "fitted points": ".2g", **dict.fromkeys(MAPS, ".2g"), "chosen": ".0e"}
    table = Table("regularization_surfaces", caption, columns)
    for name, (points, truth) in surfaces().items():
        half = len(points) // 2
        Y, found, chosen = mapped(points[:half], points[half:], "rbf")
        errors = {each: metrics.procrustes(there, truth[half:]).error for each, there in found.items()}
        learned = metrics.procrustes(Y, truth[:half]).error
        table.add(**{"set": name, "fitted points": learned, **errors, "chosen": chosen})


def measure_real() -> None:
    caption = (
        f"Trustworthiness of new rows with {N_NEIGHBORS} neighbors (higher is better), by the kernel and the "
        f"regularization of TesseraMap's map. At most {N_ROWS:,} rows, half of them new."
    )
    columns = {"set": "", "PCA": ".4f", **dict.fromkeys(MAPS, ".4f"), "chosen": ".0e"}
    table = Table("regularization_real", caption, columns)
    for name, (rows, kernel) in real_rows().items():
        half = len(rows) // 2
        old, new = rows[:half], rows[half:]
        _, found, chosen = mapped(old, new, kernel)
        found["PCA"] = PCA(n_components=2).fit(old).transform(new)
        kept = {each: metrics.trustworthiness(new, there, n_neighbors=N_NEIGHBORS) for each, there in found.items()}
        table.add(**{"set": name, **kept, "chosen": chosen})


if __name__ == "__main__":
    measure_surfaces()
    measure_real()
