"""Count the bytes that a worker gets of each fitted method: its map alone, against the whole estimator.

    MANIFOLDRY_DATA=... python benchmarks/shipped.py [--rows 1000] [--only UMAP ...]

The data is the first rows of MNIST in single precision, without columns that are constant; the parameters are those of
the tests.
"""

from __future__ import annotations

import argparse
import pickle
import warnings

import numpy as np

import manifoldry


def main() -> None:
    """Fit every method and print a table of megabytes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    X = manifoldry.datasets.load("mnist").X[: options.rows].astype(np.float32)
    X = X[:, X.std(axis=0) > 0]
    print(f"data: {X.shape[0]} x {X.shape[1]}, {X.nbytes / 1e6:.2f} MB")
    for card in (*manifoldry.list_methods(), *manifoldry.list_clusterings()):
        if options.only and card.name not in options.only:
            continue
        model = card.cls(**card.test_params).fit(X)
        method = "transform" if hasattr(model, "transform") else "predict"
        alone, whole = (len(pickle.dumps(one)) / 1e6 for one in (model._strip_for_transform(method), model))
        print(f"| {card.name} | {alone:.3f} | {whole:.2f} |", flush=True)


if __name__ == "__main__":
    main()
