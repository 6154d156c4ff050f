"""Manifolds of known dimension: those of Hein and Audibert and of Campadelli et al., and some more.

``BENCHMARK`` holds the sets that thresholds of the consensus were chosen on, ``HELD_OUT`` those it is judged on. Each
maps a name to the dimension and a function of n and a generator. They need numpy only, so that a peer's environment can
make them too.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np


def turned(X, columns, rng):
    """Return the rows turned into more columns."""
    return X @ np.linalg.qr(rng.normal(size=(columns, columns)))[0][: X.shape[1]]


def ball(n, d, rng):
    X = rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True) * rng.uniform(size=(n, 1)) ** (1 / d)


def sphere(n, d, rng):
    X = rng.normal(size=(n, d + 1))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def cube(n, d, rng):
    return turned(rng.uniform(size=(n, d)), 50, rng)


def torus(n, d, rng):
    a = rng.uniform(0, 2 * np.pi, size=(n, d))
    return np.hstack([np.cos(a), np.sin(a)])


def bent(n, d, rng):
    U = rng.uniform(size=(n, d))
    waves = np.sin(2 * U @ rng.normal(size=(d, 30)) / np.sqrt(d))
    return turned(U, 30, rng) + 0.2 * np.sqrt(d / 30) * waves


def helix(n, rng):
    t = rng.uniform(0, 2 * np.pi, n)
    width = 2 + np.cos(8 * t)
    return np.column_stack([width * np.cos(t), width * np.sin(t), np.sin(8 * t)])


def helicoid(n, rng):
    r, p = 10 * np.pi * rng.uniform(size=(2, n))
    return np.column_stack([r * np.cos(p), r * np.sin(p), 0.5 * p])


def roll(n, rng, noise=0.0, columns=3):
    t = 1.5 * np.pi * (1 + 2 * rng.uniform(size=n))
    X = np.column_stack([t * np.cos(t), 21 * rng.uniform(size=n), t * np.sin(t)])
    return X @ np.eye(3, columns) + rng.normal(0, noise or 1e-12, size=(n, columns))


def s_curve(n, rng):
    t = 3 * np.pi * (rng.uniform(size=n) - 0.5)
    return np.column_stack([np.sin(t), 2 * rng.uniform(size=n), np.sign(t) * (np.cos(t) - 1)])


def moebius(n, rng):
    phi, r = rng.uniform(0, 2 * np.pi, n), rng.uniform(-1, 1, n)
    width = 1 + 0.5 * r * np.cos(5 * phi)
    return np.column_stack([width * np.cos(phi), width * np.sin(phi), 0.5 * r * np.sin(5 * phi)])


def affine(n, rng):
    A = np.array([[1.2, -0.5, 0], [0.5, 0.9, 0], [-0.5, -0.2, 1], [0.4, -0.9, -0.1], [1.1, -0.3, 0]])
    return 4 * rng.uniform(size=(n, 3)) @ A.T


def concentrated(n, rng):
    a, b, c, e = rng.uniform(size=(4, n))
    rows = [b**2 * np.cos(2 * np.pi * a), c**2 * np.sin(2 * np.pi * a), b + c + (b - e) ** 2]
    rows += [b - 2 * c + (a - e) ** 2, -b - 2 * c + (c - e) ** 2, a**2 - b**2 + c**2 - e**2]
    return np.column_stack(rows)


def curled(n, d, rng):
    p = rng.uniform(size=(n, d))
    radius = np.roll(p, -1, axis=1)
    return np.hstack([radius * np.cos(2 * np.pi * p), radius * np.sin(2 * np.pi * p)])


def tangents(n, d, rng):
    p = rng.uniform(size=(n, d))
    return np.hstack([np.tan(p * np.cos(p[:, ::-1])), np.arctan(p[:, ::-1] * np.sin(p))])


def beta(n, d, rng):
    p = rng.beta(10, 0.5, size=(n, d))
    return np.hstack([p * np.sin(np.cos(2 * np.pi * p)), p * np.cos(np.sin(2 * np.pi * p))])


def paraboloid(n, d, rng):
    E = rng.exponential(size=(n, d + 1))
    p = 1 / (1 + E[:, 1:] / E[:, :1])
    X = np.column_stack([p, (p**2).sum(axis=1)])
    return np.hstack([X, np.sin(X), X**2])


def faces(n, d, rng):
    """Return points on the faces of a cube of d + 1 dimensions."""
    X = rng.uniform(size=(n, d + 1))
    X[np.arange(n), rng.integers(d + 1, size=n)] = rng.integers(2, size=n)
    return X


def rotations(n, rng):
    w, x, y, z = sphere(n, 3, rng).T
    rows = [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]
    rows += [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]
    rows += [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]
    return np.column_stack(rows)


def planes(n, rng):
    """Return projections onto random planes of five dimensions."""
    Q = np.linalg.qr(rng.normal(size=(n, 5, 2)))[0]
    return (Q @ Q.swapaxes(1, 2)).reshape(n, 25)


def ring_torus(n, rng):
    a, b = rng.uniform(0, 2 * np.pi, size=(2, n))
    return np.column_stack([(2 + np.cos(b)) * np.cos(a), (2 + np.cos(b)) * np.sin(a), np.sin(b)])


def klein(n, rng):
    a, b = rng.uniform(0, 2 * np.pi, size=(2, n))
    wide = 2 + np.cos(b)
    return np.column_stack([wide * np.cos(a), wide * np.sin(a), np.sin(b) * np.cos(a / 2), np.sin(b) * np.sin(a / 2)])


def blobs(n, rng):
    """Return images of 16 x 16 pixels of a blob at two positions and of a width."""
    g, p, s = np.linspace(0, 1, 16), 0.25 + 0.5 * rng.uniform(size=(n, 2)), 0.15 + 0.1 * rng.uniform(size=n)
    squares = (g[:, None] - p[:, 0, None, None]) ** 2 + (g - p[:, 1, None, None]) ** 2
    return np.exp(-squares / (2 * s[:, None, None] ** 2)).reshape(n, -1)


def mixture(n, d, rng):
    centers = 6 * rng.normal(size=(6, d))
    return centers[rng.integers(6, size=n)] + rng.normal(size=(n, d))


def noisy(n, d, size, noise, rng):
    return turned(size * rng.uniform(size=(n, d)), 20, rng) + rng.normal(0, noise, size=(n, 20))


BENCHMARK = {
    "line": (1, lambda n, rng: np.outer(rng.uniform(size=n), np.ones(5))),
    "helix": (1, helix),
    "roll": (2, roll),
    "roll, noise 0.3": (2, lambda n, rng: roll(n, rng, 0.3)),
    "roll, noise 0.6": (2, lambda n, rng: roll(n, rng, 0.6)),
    "S curve": (2, s_curve),
    "Moebius strip, ten twists": (2, moebius),
    "helicoid": (2, helicoid),
    "affine in 5": (3, affine),
    "concentrated in 6": (4, concentrated),
    "curled 4 in 8": (4, lambda n, rng: curled(n, 4, rng)),
    "curled 6 in 12": (6, lambda n, rng: curled(n, 6, rng)),
    "curled 12 in 24": (12, lambda n, rng: curled(n, 12, rng)),
    "tangents 18 in 36": (18, lambda n, rng: tangents(n, 18, rng)),
    "beta 10 in 20": (10, lambda n, rng: beta(n, 10, rng)),
    "paraboloid 3": (3, lambda n, rng: paraboloid(n, 3, rng)),
    "paraboloid 6": (6, lambda n, rng: paraboloid(n, 6, rng)),
    "paraboloid 9": (9, lambda n, rng: paraboloid(n, 9, rng)),
    "faces of a cube 10": (10, lambda n, rng: faces(n, 10, rng)),
    "bent sheet 10 in 30": (10, lambda n, rng: bent(n, 10, rng)),
    **{f"flat torus {d}": (d, lambda n, rng, d=d: torus(n, d, rng)) for d in (2, 3, 5)},
    **{f"cube {d} in 50": (d, lambda n, rng, d=d: cube(n, d, rng)) for d in (2, 3, 5, 10, 15, 20)},
    **{f"ball {d}": (d, lambda n, rng, d=d: ball(n, d, rng)) for d in (3, 5, 10, 20)},
    **{f"sphere {d}": (d, lambda n, rng, d=d: sphere(n, d, rng)) for d in (2, 5, 10, 20)},
    **{f"Gaussian {d}": (d, lambda n, rng, d=d: rng.normal(size=(n, d))) for d in (3, 5, 10, 20)},
}

HELD_OUT = {
    "ring torus": (2, ring_torus),
    "Klein bottle in 4": (2, klein),
    "rotations of space": (3, rotations),
    "planes of 5-space": (6, planes),
    "sphere 2 x cube 4": (6, lambda n, rng: np.hstack([sphere(n, 2, rng), rng.uniform(size=(n, 4))])),
    "ellipsoid 7": (7, lambda n, rng: ball(n, 7, rng) * np.linspace(1, 0.4, 7)),
    "Student's t 4": (4, lambda n, rng: rng.standard_t(3, size=(n, 4))),
    "exponential 6": (6, lambda n, rng: rng.exponential(size=(n, 6))),
    "Laplace 12": (12, lambda n, rng: rng.laplace(size=(n, 12))),
    "six Gaussians 9": (9, lambda n, rng: mixture(n, 9, rng)),
    "plane, little noise in 20": (2, lambda n, rng: noisy(n, 2, 10, 0.05, rng)),
    "plane, much noise in 20": (2, lambda n, rng: noisy(n, 2, 10, 0.15, rng)),
    "images of a blob": (3, blobs),
    "tangents 24 in 48": (24, lambda n, rng: tangents(n, 24, rng)),
    "cube 17": (17, lambda n, rng: rng.uniform(size=(n, 17))),
    "box 10 x 3 x 1 x 1": (4, lambda n, rng: turned(rng.uniform(size=(n, 4)) * [10, 3, 1, 1], 12, rng)),
}

REAL = {
    "digits": None,
    "mnist": None,
    "frey_faces": None,
    "isomap_faces32": 3,
    "coil20_32": None,
    "umist_faces32": None,
    "olive_oil": None,
    "wine_type": None,
    "wine_quality": None,
    "pbmc3k_pca50": None,
    "mammoth": 2,
    "cities": 2,
    "iris": None,
}
"""Real sets, and the dimension where it is known: pan, tilt and light of a face, surfaces in space."""

MAX_REAL_ROWS = 3000


def real(name):
    """Return the rows of a real set, at most 3,000 of them, from scikit-learn or the folder MANIFOLDRY_DATA."""
    if name in ("digits", "iris"):
        import sklearn.datasets

        X = getattr(sklearn.datasets, f"load_{name}")().data
    else:
        with np.load(Path(os.environ["MANIFOLDRY_DATA"]) / f"{name}.npz") as stored:
            X = stored["X"]
    X = X.astype(float)
    if name == "cities":
        latitude, longitude = np.deg2rad(X.T / 1e5)
        turn = np.cos(latitude)
        X = np.column_stack([turn * np.cos(longitude), turn * np.sin(longitude), np.sin(latitude)])
    if len(X) <= MAX_REAL_ROWS:
        return X
    return X[np.sort(np.random.default_rng(0).choice(len(X), MAX_REAL_ROWS, replace=False))]


def manifold(name, n):
    """Return n points of a manifold, always the same ones."""
    names = [*BENCHMARK, *HELD_OUT]
    return {**BENCHMARK, **HELD_OUT}[name][1](n, np.random.default_rng([n, names.index(name)]))
