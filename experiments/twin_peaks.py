"""The weight of locality in LDLC: on the twin peaks the error grows with rho, and 0.01 keeps clusters whole."""

from __future__ import annotations

from clusterings import draw_clusters, draw_lines, fitted, mean_error
from harness import Lab, at_least, at_most, equals, experiment, main, rising
from manifoldry import datasets

SLIGHTLY_LESS = at_most(1.0, within=0, said="slightly less")
WEIGHTS = (0.0, 0.001, 0.01, 0.05, 0.1, 0.5, 1.0)


@experiment("Twin peaks over the weight rho of locality", source="khajehpour2013, Fig. 4.5 and 4.6", quick=True)
def twin_peaks(lab: Lab) -> None:
    X = datasets.twin_peaks(2000, random_state=0).X
    sizes = {"n_clusters": 6, "n_components": 2, "n_neighbors": 8}
    ldlc = {rho: fitted(lab, "LDLC", X, rho=rho, **sizes) for rho in lab.pick(WEIGHTS, (0.0, 0.01, 1.0))}
    per_run = lab.core_seconds["LDLC"]
    mppca = fitted(lab, "MPPCA", X, **sizes)
    errors = {rho: mean_error(model) for rho, model in ldlc.items()}
    lab.claim("error of LDLC as rho grows", list(errors.values()), rising())
    lab.claim("rho 0: clusters in several parts", ldlc[0.0].n_nonlocalized_, at_least(1, within=0, said="some"))
    lab.claim("rho 0.01: clusters in several parts", ldlc[0.01].n_nonlocalized_, equals(0))
    lab.claim("MPPCA: clusters in several parts", mppca.n_nonlocalized_, at_least(1, within=0))
    lab.claim("error of LDLC, rho 0.01, over that of MPPCA", errors[0.01] / mean_error(mppca), SLIGHTLY_LESS)
    lab.claim("seconds of a core, a start", per_run, at_most(60.0, said="less than a minute"))
    lab.note("Surface of the same kind: the source states neither its equation nor the list of rho.")
    with lab.figure(size=(12, 6)) as figure:
        axes = figure.subplots(2, 4).ravel()
        panels = {f"LDLC, rho {rho}": ldlc[rho] for rho in list(ldlc)[:6]} | {"MPPCA": mppca}
        for panel, (title, model) in zip(axes, panels.items(), strict=False):
            draw_clusters(panel, X[:, :2], model.labels_, f"{title}: {model.n_nonlocalized_} in several parts")
        draw_lines(axes[-1], errors, {"LDLC": list(errors.values())}, ("rho", "error per point"))
        axes[-1].axhline(mean_error(mppca), linestyle="--", color="gray")
        axes[-1].set_xscale("symlog", linthresh=1e-3)
        axes[-1].set_xlim(left=0)


if __name__ == "__main__":
    main(twin_peaks)
