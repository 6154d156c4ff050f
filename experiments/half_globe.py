"""Half the globe as a flat map: distances to be reached are given, and 32,400 places follow 182 mesh points."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from harness import Lab, experiment, main
from layouts import UNFOLDED, error
from manifoldry import EAT, datasets
from rules import about, at_least, at_most

SIGMA, N_NEIGHBORS = 0.3, 8


@experiment("Half the globe as a map", source="khajehpour2013, Fig. 2.6", needs=("etopo",), quick=True)
def half_globe(lab: Lab) -> None:
    mesh = datasets.half_globe(181, grid=True)
    flat = cdist(mesh.parameters, mesh.parameters)
    eat = EAT(n_components=2, kernel="rbf", gamma=SIGMA**-2, distances=flat, n_neighbors=N_NEIGHBORS).fit(mesh.X)
    middle = mesh.parameters.mean(axis=0)
    lab.claim("mesh points", len(mesh.X), about(181))
    lab.claim("error of the kept distances", eat.error_, at_most(1e-6, "the embedding became feasible"))
    lab.claim("rigid error of the mesh", error(eat.embedding_, mesh.parameters - middle), at_most(UNFOLDED, "unfolded"))
    round_ones = EAT(n_components=2, kernel="rbf", gamma=SIGMA**-2, n_neighbors=N_NEIGHBORS).fit(mesh.X)
    straight = error(round_ones.embedding_, mesh.parameters - middle)
    lab.claim("rigid error of the mesh with its own distances", straight, at_least(UNFOLDED, "not possible to unfold"))
    earth = lab.load("etopo")
    elevation, latitude, longitude = earth.parameters.T
    longitude = (longitude + np.pi) % (2 * np.pi) - np.pi
    half = np.abs(longitude) < np.pi / 2
    place = np.column_stack([latitude, longitude])[half]
    lab.claim("places mapped", int(half.sum()), at_least(30_000))
    Y = eat.transform(earth.X[half])
    within = (np.abs(place) < np.abs(mesh.parameters).max(axis=0)).all(axis=1)
    inside, beyond = error(Y[within], place[within]), error(Y[~within], place[~within])
    lab.claim("rigid error of places inside the mesh", inside, at_most(UNFOLDED, "the pattern has not changed"))
    lab.claim(
        "error beyond the mesh over error inside", beyond / inside, at_least(1.5, "distorted at the sides, untrained")
    )
    lab.note(
        f"{len(mesh.X)} mesh points up to 84 degrees, {N_NEIGHBORS} neighbors; {int(half.sum())} places, of which "
        f"{1 - within.mean():.0%} lie beyond the mesh."
    )
    with lab.figure(size=(9.6, 4.4)) as figure:
        left, right = figure.subplots(1, 2)
        left.scatter(*eat.embedding_.T, c=mesh.parameters[:, 0], s=8, linewidths=0)
        right.scatter(*Y.T, c=np.clip(elevation[half], -4000, 4000), s=0.4, linewidths=0, cmap="terrain")
        for axes in (left, right):
            axes.set_aspect("equal")
            axes.set_axis_off()


if __name__ == "__main__":
    main(half_globe)
