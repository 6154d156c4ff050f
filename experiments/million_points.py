"""A million points and more: the holed roll by patches that choose their own number, each size in its own process."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np

from harness import Lab, at_most, equals, experiment, main
from manifoldry import IPA, datasets, quality

MAX_SECONDS = {1_000_000: 5.0, 10_000_000: 50.0}
MAX_GIGABYTES = {1_000_000: 1.5, 10_000_000: 6.0}
SOURCE_SECONDS = 202.0
N_MANY_PATCHES = 10_000


@experiment("The holed Swiss roll at a million points and more", source="khajehpour2013, Fig. 5.4")
def million_points(lab: Lab) -> None:
    for n_points in MAX_SECONDS:
        found = _in_own_process(n_points, "auto")
        size = f"{n_points:,} points"
        lab.claim(f"seconds for {size}", found["seconds"], at_most(MAX_SECONDS[n_points], within=0))
        lab.claim(f"peak memory for {size}, GB", found["gigabytes"], at_most(MAX_GIGABYTES[n_points], within=0))
        lab.claim(f"relative gap of the certificate, {size}", found["gap"], at_most(1e-8, within=0))
        lab.claim(f"rigid error to arc length, {size}", found["error"], at_most(0.002, within=0))
        lab.claim(f"seconds to place {size} more", found["transform"], at_most(2e-6 * n_points, within=0))
        lab.note(
            f"{size}: {found['n_patches']} patches, {found['stages']}; the source took {SOURCE_SECONDS:.0f} s with 50"
        )
    found = _in_own_process(1_000_000, N_MANY_PATCHES)
    lab.claim(f"seconds to place {N_MANY_PATCHES:,} patches", found["placement"], at_most(10.0, within=0))
    lab.claim(f"certificate of {N_MANY_PATCHES:,} patches is optimal", found["optimal"], equals(True))
    lab.note(f"{N_MANY_PATCHES:,} patches: {found['stages']}, error {found['error']:.2g}, gap {found['gap']:.1g}")


def _in_own_process(n_points: int, n_patches: int | str) -> dict:
    command = [sys.executable, __file__, "--cell", str(n_points), str(n_patches)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _cell(n_points: int, n_patches: int | str) -> dict:
    """Fit once; warmed up on a small roll, which loads every module."""
    IPA().fit(datasets.swiss_roll(2000, hole=True).X)
    roll = datasets.swiss_roll(n_points, hole=True, random_state=0)
    begin = time.perf_counter()
    ipa = IPA(n_patches=n_patches).fit(roll.X)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    begin = time.perf_counter()
    ipa.transform(roll.X)
    transform = time.perf_counter() - begin
    stages = ipa.diagnostics_["seconds"]
    return {
        "seconds": seconds,
        "gigabytes": peak / 1e9,
        "gap": ipa.certificate_.gap,
        "optimal": ipa.certificate_.optimal,
        "error": float(np.sqrt(quality.procrustes(ipa.embedding_, roll.truth).error)),
        "transform": transform,
        "n_patches": ipa.n_patches_,
        "placement": stages["placement"],
        "stages": ", ".join(f"{name} {spent:.2f} s" for name, spent in stages.items()),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["--cell"]:
        patches = sys.argv[3]
        print(json.dumps(_cell(int(sys.argv[2]), patches if patches == "auto" else int(patches))))
    else:
        main(million_points)
