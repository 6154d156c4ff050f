"""Real data: the sets that come with scikit-learn, and archives in a folder of the user."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from manifoldry._core.values import Array
from manifoldry.data.datasets._dataset import Dataset
from manifoldry.data.datasets._surfaces import on_sphere

FOLDER_VARIABLE = "MANIFOLDRY_DATA"
BUILT_IN = ("breast_cancer", "digits", "iris", "wine")

Archive = Mapping[str, Array]


def available() -> tuple[str, ...]:
    """Return the names that `load` can load now, in alphabetical order.

    Those are scikit-learn's small sets and every archive ``<name>.npz`` in the folder named by the
    environment variable MANIFOLDRY_DATA.

    Examples
    --------
    >>> "iris" in available()
    True
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    stored = {path.stem for path in Path(folder).glob("*.npz")} if folder else set()
    return tuple(sorted(stored.union(BUILT_IN)))


def load(name: str) -> Dataset:
    """Return a real data set by name, in its usual units.

    A built-in set comes from scikit-learn. Any other name is read from ``<name>.npz`` in the folder named
    by the environment variable MANIFOLDRY_DATA: the array ``X`` has one row per point, ``y`` the labels,
    and all other arrays are in ``extras``. Some sets are converted:

    ==================  ==============================================================================
    cities              degrees to unit vectors; parameters: latitude, longitude (radians)
    citeseq_cbmc        counts to log(1 + 1000 count / total of the cell)
    coil20_32           gray values to [0, 1]
    covertype           the ten quantitative columns
    etopo               the one-degree grid on the unit sphere; parameters: elevation, latitude, longitude
    flow_cytometry      the seven marker columns
    isomap_faces32      gray values to [0, 1]; parameters: light, pan, tilt
    mammoth             thousandths to units
    proteins            thousandths of an Angstrom to Angstrom, all structures, labeled
    ==================  ==============================================================================

    Parameters
    ----------
    name : str
        One of `available`.

    Returns
    -------
    Dataset
        X of shape (n, D); labels if the set has them.

    Examples
    --------
    >>> load("iris")
    Dataset('iris', n=150, D=4, intrinsic_dim=None, known: labels)
    """
    if not name or Path(name).name != name:
        raise ValueError(f"A data set has a name without folders; got {name!r}, try {FOLDER_VARIABLE} for its folder.")
    if name in BUILT_IN:
        return _from_scikit_learn(name)
    with np.load(_locate(name), allow_pickle=False) as stored:
        archive = {key: stored[key] for key in stored.files}
    try:
        X, *more = RECIPES.get(name, lambda archive: (archive["X"],))(archive)
    except KeyError as key:
        raise ValueError(
            f"The archive {name}.npz must hold an array {key}; it holds {', '.join(archive) or 'nothing'}, "
            "so save it again with that key."
        ) from None
    points = np.ascontiguousarray(X, dtype=np.float64)
    intrinsic_dim, parameters = more or (None, None)
    extras = {key: value for key, value in archive.items() if key not in ("X", "y")}
    return Dataset(points, name, intrinsic_dim, parameters=parameters, labels=archive.get("y"), extras=extras)


def _from_scikit_learn(name: str) -> Dataset:
    import sklearn.datasets

    bunch = getattr(sklearn.datasets, f"load_{name}")()
    names = {"names": np.asarray(bunch.target_names), "features": np.asarray(bunch.feature_names)}
    return Dataset(bunch.data.astype(np.float64), name, labels=bunch.target, extras=names)


def _locate(name: str) -> Path:
    folder = os.environ.get(FOLDER_VARIABLE)
    message = f"The data set {name!r} is read from the file {name}.npz in the folder that the environment "
    if not folder:
        raise FileNotFoundError(
            f"{message}variable {FOLDER_VARIABLE} names, and that variable is not set; set it, or load one of "
            f"{', '.join(BUILT_IN)}, which need no file."
        )
    path = Path(folder) / f"{name}.npz"
    if not path.is_file():
        raise FileNotFoundError(
            f"{message}variable {FOLDER_VARIABLE} names, and {path} does not exist; what can be loaded now is "
            f"{', '.join(available())}."
        )
    return path


def _cities(archive: Archive) -> tuple[Any, ...]:
    position = np.deg2rad(archive["X"] / 1e5)
    return np.stack(on_sphere(*position.T), axis=1), 2, position


def _etopo(archive: Archive) -> tuple[Any, ...]:
    latitude, longitude = np.meshgrid(np.deg2rad(archive["lat60"]), np.deg2rad(archive["lon60"]), indexing="ij")
    parameters = np.stack([archive["elevation60"].ravel(), latitude.ravel(), longitude.ravel()], axis=1)
    return np.stack(on_sphere(parameters[:, 1], parameters[:, 2]), axis=1), 2, parameters


RECIPES: dict[str, Callable[[Archive], tuple[Any, ...]]] = {
    "cities": _cities,
    "citeseq_cbmc": lambda archive: (np.log1p(archive["X"] / archive["X"].sum(axis=1, keepdims=True) * 1e3),),
    "coil20_32": lambda archive: (archive["X"] / 4080,),
    "covertype": lambda archive: (archive["X"][:, :10],),
    "etopo": _etopo,
    "flow_cytometry": lambda archive: (archive["X"][:, [8, 11, 13, 14, 15, 16, 17]],),
    "isomap_faces32": lambda archive: (archive["X"] / 65280, 3, archive["pose"]),
    "mammoth": lambda archive: (archive["X"] / 1000,),
    "proteins": lambda archive: (archive["X"] / 1000,),
}
"""Points of an archive, and where they are known the dimension of the manifold and the parameters."""
