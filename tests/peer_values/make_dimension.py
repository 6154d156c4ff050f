"""Write dimension.json: values of scikit-dimension 0.5.0 for small sets that the test makes again from their seeds.

Run in an environment that has scikit-dimension, which this library does not need.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import skdim

RECIPES = {
    "cube3": "default_rng(0).uniform(size=(400, 3))",
    "gauss6": "default_rng(1).normal(size=(400, 6))",
    "roll": "t = 1.5 pi (1 + 2 u), u, v the columns of default_rng(2).uniform(size=(400, 2)): t cos t, 21 v, t sin t",
    "digits": "the first 400 rows of scikit-learn's load_digits",
}


def make(name):
    if name == "cube3":
        return np.random.default_rng(0).uniform(size=(400, 3))
    if name == "gauss6":
        return np.random.default_rng(1).normal(size=(400, 6))
    if name == "roll":
        u, v = np.random.default_rng(2).uniform(size=(400, 2)).T
        t = 1.5 * np.pi * (1 + 2 * u)
        return np.column_stack([t * np.cos(t), 21 * v, t * np.sin(t)])
    from sklearn.datasets import load_digits

    return load_digits().data[:400].astype(float)


def values(X):
    likelihood = skdim.id.MLE(unbiased=True).fit(X, n_neighbors=20)
    plain = skdim.id.MLE().fit(X, n_neighbors=20, comb="mle")
    skewness = {v: skdim.id.ESS(ver=v, random_state=0).fit(X, n_neighbors=20).essval_ for v in "ab"}
    near = skdim._commonfuncs.get_nn(X, k=40)[1]
    planes = {
        ver: [float(skdim.id.lPCA(ver=ver).fit(X[row]).dimension_) for row in near[:50]]
        for ver in ("FO", "maxgap", "participation_ratio")
    }
    return {
        "mle": float(plain.dimension_),
        "mle_local": likelihood.dimension_pw_[:50].tolist(),
        "two_nn_linear": float(skdim.id.TwoNN().fit(X).dimension_),
        "two_nn_mle": float(skdim.id.TwoNN(method="mle").fit(X).dimension_),
        "corr_int": float(skdim.id.CorrInt().fit(X).dimension_),
        "ess_a": skewness["a"][:50].tolist(),
        "ess_b": skewness["b"][:50].tolist(),
        "lpca": planes,
    }


def main():
    tables = {name: values(make(name)) for name in RECIPES}
    made = {"package": "scikit-dimension 0.5.0", "script": "make_dimension.py", "data": RECIPES}
    text = json.dumps({"made_with": made, "values": tables}, indent=1)
    Path(__file__).with_name("dimension.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
