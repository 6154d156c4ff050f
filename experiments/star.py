"""Four twisted strips joined at a center: stitched patches lie in the plane."""

from __future__ import annotations

import numpy as np

from harness import Lab, at_most, equals, experiment, main
from manifoldry import IPA, datasets, quality


@experiment("The three-dimensional star has rank two", source="khajehpour2013, Fig. 5.6", quick=True)
def star(lab: Lab) -> None:
    data = datasets.star(1000)
    ipa = IPA().fit(data.X)
    shares = ipa.spectrum_.values / ipa.spectrum_.values.sum()
    lab.claim("share of the third eigenvalue", float(shares[2:].sum()), at_most(1e-3, within=0))
    lab.claim("certificate is optimal", ipa.certificate_.optimal, equals(True))
    error = float(np.sqrt(quality.procrustes(ipa.embedding_, data.truth).error))
    lab.claim("rigid error to the flat star", error, at_most(0.01, within=0))
    with lab.figure(size=(7.2, 3.2)) as figure:
        left, right = figure.subplots(1, 2)
        left.scatter(*ipa.embedding_.T, c=data.truth[:, 0], s=4, linewidths=0)
        left.set_aspect("equal")
        left.set_axis_off()
        right.bar(range(1, len(shares) + 1), shares)
        right.set_xlabel("eigenvalue")
        right.set_ylabel("share of variance")


if __name__ == "__main__":
    main(star)
