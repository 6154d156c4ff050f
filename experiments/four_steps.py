"""The four steps of IPA on a simple surface: clusters, overlaps, flat patches, and patches stitched together."""

from __future__ import annotations

from harness import Lab, experiment, main
from layouts import UNFOLDED, draw_layouts, error
from manifoldry import IPA, datasets
from rules import at_most, equals, no_more

N_POINTS, N_PATCHES = 20_000, 25


@experiment("IPA in four steps", source="khajehpour2013, Fig. 5.1", quick=True)
def four_steps(lab: Lab) -> None:
    data = datasets.s_curve(N_POINTS, random_state=0)
    with lab.time("fit"):
        ipa = IPA(n_patches=N_PATCHES, chart="flat", blend="mean").fit(data.X)
    lab.claim("patches", ipa.n_patches_, equals(N_PATCHES))
    unfolded = at_most(UNFOLDED, "constructs the unfolded manifold")
    lab.claim("rigid error, flat patches as the source's", error(ipa.embedding_, data.truth), unfolded)
    curved = IPA(n_patches=N_PATCHES).fit_transform(data.X)
    lab.target("rigid error, curved patches", error(curved, data.truth), no_more(0.01))
    lab.target("IPA's certificate is optimal", ipa.certificate_.optimal, equals(True))
    lab.note(f"The surface is an S-curve: not stated. Certificate gap {ipa.certificate_.gap:.1g}.")
    with lab.figure(size=(6, 3)) as figure:
        draw_layouts(figure, {"IPA": ipa.embedding_}, data.truth[:, 0])


if __name__ == "__main__":
    main(four_steps)
