"""Make the real data sets of the benchmarks from their public sources, and check the archives in a folder.

    python benchmarks/obtain_data.py FOLDER                          # which sets are there, and how to get the others
    python benchmarks/obtain_data.py FOLDER --make mnist wine_type   # download with scikit-learn, or convert
    python benchmarks/obtain_data.py FOLDER --make frey_faces --downloads ~/Downloads

``FOLDER`` is what the environment variable MANIFOLDRY_DATA names. Rows are in the order of the source, and images
upright, row by row. The terms of the sources apply; nothing of them is distributed here.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Arrays = dict[str, Any]


class Source(NamedTuple):
    """Where a set comes from: shape and type of its main array, what to download, and its conversion, if any."""

    shape: tuple[int, int]
    dtype: str
    origin: str
    make: Callable[[Path], Arrays] | None = None


def _openml(name: str) -> Callable[[Path], Arrays]:
    def make(_: Path) -> Arrays:
        from sklearn.datasets import fetch_openml

        found = fetch_openml(name, version=1, as_frame=False, parser="liac-arff")
        return {"X": np.asarray(found.data, dtype=np.uint8), "y": np.asarray(found.target, dtype=np.uint8)}

    return make


def _olivetti(_: Path) -> Arrays:
    from sklearn.datasets import fetch_olivetti_faces

    found = fetch_olivetti_faces()
    return {"X": np.rint(255 * found.data).astype(np.uint8), "y": found.target.astype(np.uint8)}


def _covertype(_: Path) -> Arrays:
    from sklearn.datasets import fetch_covtype

    found = fetch_covtype()
    return {"X": found.data.astype(np.int16), "y": found.target.astype(np.uint8)}


def _wine_type(_: Path) -> Arrays:
    from sklearn.datasets import load_wine

    found = load_wine()
    return {"X": found.data, "y": found.target.astype(np.uint8)}


def _wine_quality(downloads: Path) -> Arrays:
    red, white = (
        np.loadtxt(downloads / f"winequality-{color}.csv", delimiter=";", skiprows=1, ndmin=2)
        for color in ("red", "white")
    )
    rows = np.concatenate([red, white])
    return {"X": rows[:, :-1], "y": rows[:, -1].astype(np.uint8)}


def _frey(downloads: Path) -> Arrays:
    from scipy.io import loadmat

    return {"X": loadmat(downloads / "frey_rawface.mat")["ff"].T.astype(np.uint8)}


def _isomap_faces(downloads: Path) -> Arrays:
    """Average blocks of 2 by 2 pixels. MATLAB stores images by columns; poses are pan and tilt."""
    from scipy.io import loadmat

    found = loadmat(downloads / "face_data.mat")
    images = found["images"].T.reshape(-1, 64, 64).transpose(0, 2, 1)
    pooled = images.reshape(-1, 32, 2, 32, 2).mean(axis=(2, 4))
    pose = np.concatenate([found["lights"][:1], found["poses"][:2]]).T.astype(float)
    pose = (pose - pose.mean(axis=0)) / pose.std(axis=0)
    return {"X": np.rint(65280 * pooled).reshape(len(pooled), -1).astype(np.uint16), "pose": pose}


def _coil(downloads: Path) -> Arrays:
    """Sum blocks of 4 by 4 pixels: at most 16 * 255 = 4080."""
    from PIL import Image

    names = [(k, downloads / "coil-20-proc" / f"obj{k + 1}__{view}.png") for k in range(20) for view in range(72)]
    images = np.stack([np.asarray(Image.open(path).convert("L"), dtype=np.uint16) for _, path in names])
    summed = images.reshape(-1, 32, 4, 32, 4).sum(axis=(2, 4))
    return {"X": summed.reshape(len(names), -1).astype(np.uint16), "y": np.array([k for k, _ in names], dtype=np.uint8)}


CONTINENTS = {"AF": "Africa", "AN": "Antarctica", "AS": "Asia", "EU": "Europe", "NA": "North America", "OC": "Oceania"}
CONTINENTS |= {"SA": "South America"}


def _cities(downloads: Path) -> Arrays:
    """Read the tables of GeoNames; positions are in units of 1e-5 degrees, sorted by the number of the place."""
    continent = {row[0]: CONTINENTS[row[8]] for row in _tab_separated(downloads / "countryInfo.txt")}
    rows = sorted(_tab_separated(downloads / "cities500.txt"), key=lambda row: int(row[0]))
    rows = [row for row in rows if row[8] in continent]
    names, y = np.unique([continent[row[8]] for row in rows], return_inverse=True)
    return {
        "X": np.rint(1e5 * np.array([[float(row[4]), float(row[5])] for row in rows])).astype(np.int32),
        "y": y.astype(np.uint8),
        "names": names,
        "population": np.array([int(row[14]) for row in rows], dtype=np.int32),
    }


def _tab_separated(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row for row in rows if row and not row[0].startswith("#")]


def _mammoth(downloads: Path) -> Arrays:
    points = np.array(json.loads((downloads / "mammoth_3d_50k.json").read_text(encoding="utf-8")))
    return {"X": np.rint(1000 * points).astype(np.int32)}


SOURCES: Mapping[str, Source] = {
    "mnist": Source((70000, 784), "uint8", "OpenML mnist_784, downloaded", _openml("mnist_784")),
    "fashion_mnist": Source((70000, 784), "uint8", "OpenML Fashion-MNIST, downloaded", _openml("Fashion-MNIST")),
    "olivetti_faces": Source((400, 4096), "uint8", "AT&T faces, downloaded with scikit-learn", _olivetti),
    "covertype": Source((581012, 54), "int16", "UCI Covertype, downloaded with scikit-learn", _covertype),
    "wine_type": Source((178, 13), "float64", "UCI Wine, part of scikit-learn", _wine_type),
    "wine_quality": Source(
        (6497, 11), "float64", "UCI Wine Quality: winequality-red.csv and winequality-white.csv", _wine_quality
    ),
    "frey_faces": Source((1965, 560), "uint8", "data page of Sam Roweis: frey_rawface.mat", _frey),
    "isomap_faces32": Source((698, 1024), "uint16", "data page of Isomap: face_data.mat", _isomap_faces),
    "coil20_32": Source((1440, 1024), "uint16", "Columbia COIL-20, processed: the folder coil-20-proc", _coil),
    "cities": Source((234908, 2), "int32", "GeoNames export: cities500.txt and countryInfo.txt", _cities),
    "mammoth": Source((50000, 3), "int32", "PAIR-code/understanding-umap: raw_data/mammoth_3d_50k.json", _mammoth),
    "umist_faces32": Source((575, 1024), "uint8", "Sheffield (UMIST) faces at 32 x 32, y the person 0 to 19"),
    "olive_oil": Source((572, 8), "int16", "olive.csv of GGobi: eight fatty acids in 0.01 percent, y the area 1 to 9"),
    "etopo": Source(
        (180, 360), "float32", "NOAA ETOPO5 averaged to one degree: elevation60, lat60, lon60, from south and 20.5 E"
    ),
    "proteins": Source((7587, 3), "int32", "PDB 2JUY 1GB1 1EJG 1UBI 1D3Z 1AX8 2M3T: atoms in 0.001 Angstrom, y"),
    "flow_cytometry": Source((19225, 18), "float32", "FlowSOM example 68983.fcs, compensated, logicle; y the gate"),
    "citeseq_cbmc": Source((8617, 500), "uint16", "GEO GSE100866 (CBMC CITE-seq): counts of 500 genes, y the type"),
    "pbmc3k_pca50": Source((2700, 50), "float32", "10x PBMC 3k: 50 principal components, y Leiden clusters"),
}
"""The named sets. Those without a conversion are described: save these arrays with ``numpy.savez_compressed``."""


def state(folder: Path, name: str) -> str:
    """Return whether the archive of a set is there and holds what the benchmarks expect."""
    path, source = folder / f"{name}.npz", SOURCES[name]
    if not path.is_file():
        return f"missing; from {source.origin}{'' if source.make is None else f' (--make {name})'}"
    with np.load(path, allow_pickle=False) as stored:
        X = stored["elevation60" if name == "etopo" else "X"]
    if (X.shape, X.dtype) != (source.shape, np.dtype(source.dtype)):
        return f"differs: {X.shape} {X.dtype}, measured with {source.shape} {source.dtype}"
    return "complete"


def main() -> None:
    """Make the sets that are asked for, then list all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--make", nargs="+", default=[], choices=[name for name in SOURCES if SOURCES[name].make])
    parser.add_argument("--downloads", type=Path, default=Path(), help="folder of the downloaded files")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.make:
        make = SOURCES[name].make
        assert make is not None
        np.savez_compressed(given.folder / f"{name}.npz", **make(given.downloads.expanduser()))
    for name in SOURCES:
        print(f"{name:15}  {state(given.folder, name)}")


if __name__ == "__main__":
    main()
