"""A million points and more: the holed roll by patches, each size in its own process; and what Fast MVU makes of it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

from harness import Lab, Reason, experiment, main
from layouts import UNFOLDED, error
from manifoldry import IPA, FastMVU, TesseraMap, datasets
from rules import at_least, at_most, equals, no_less, no_more

MAX_SECONDS = {1_000_000: 5.0, 10_000_000: 50.0}
MAX_GIGABYTES = {1_000_000: 1.5, 10_000_000: 6.0}
N_MANY_PATCHES = 10_000


@experiment("The holed Swiss roll at a million points and more", source="khajehpour2013, Fig. 5.4", alone=True)
def million_points(lab: Lab) -> None:
    found = _in_own_process(1_000_000, 50, "flat")
    lab.claim("1,000,000 points, 50 flat patches: seconds of a core", found["core_seconds"], at_most(202))
    perfect = at_most(UNFOLDED, "perfectly unfolded")
    lab.claim("1,000,000 points, 50 flat patches: rigid error", found["error"], perfect)
    _judge_ten_thousand(lab)
    for n_points in MAX_SECONDS:
        found = _in_own_process(n_points, "auto", "curved")
        size = f"{n_points:,} points"
        lab.target(f"{size}: seconds", found["seconds"], no_more(MAX_SECONDS[n_points]))
        lab.target(f"{size}: peak memory, GB", found["gigabytes"], no_more(MAX_GIGABYTES[n_points]))
        lab.target(f"{size}: proven optimal", found["optimal"], equals(True))
        lab.target(f"{size}: rigid error to arc length", found["error"], no_more(0.002))
        lab.target(f"{size}: seconds to place as many more", found["transform"], no_more(2e-6 * n_points))
        lab.note(f"{size}: {found['n_patches']} patches, {found['stages']}.")
    found = _in_own_process(1_000_000, N_MANY_PATCHES, "curved")
    lab.target(f"{N_MANY_PATCHES:,} patches: seconds to place them", found["placement"], no_more(10.0))
    lab.target(f"{N_MANY_PATCHES:,} patches: proven optimal", found["optimal"], equals(True))
    lab.note(f"{N_MANY_PATCHES:,} patches: {found['stages']}, error {found['error']:.2g}, gap {found['gap']:.1g}.")


def _judge_ten_thousand(lab: Lab) -> None:
    """Judge the comparison at 10,000 points: 30 patches, and Fast MVU."""
    roll = datasets.swiss_roll(10_000, hole=True, random_state=0)
    models = {
        "IPA": (IPA(n_patches=30), 5.0),
        "TesseraMap": (TesseraMap(n_patches=30), 14.0),
        "FastMVU": (FastMVU(n_components=2), 31.0 + 95.0),
    }
    for name, (model, theirs) in models.items():
        with lab.time(name):
            model.fit(roll.X)
        lab.claim(f"10,000 points: seconds of a core, {name}", lab.core_seconds[name], at_most(theirs))
    ratio = lab.core_seconds["TesseraMap"] / lab.core_seconds["IPA"]
    lab.claim("10,000 points: seconds of TesseraMap over those of IPA", ratio, at_least(1.0, "IPA even faster"))
    off = error(models["FastMVU"][0].embedding_, roll.truth)
    coarse = Reason(
        "the source's Fast MVU did not fine-tune its result; rigid error of ours without the descent that ends it",
        lambda: error(FastMVU(n_components=2, max_iter=0).fit_transform(roll.X), roll.truth),
        no_less(UNFOLDED),
    )
    distorted = at_least(UNFOLDED, "the pattern of the data is clearly distorted")
    lab.claim("10,000 points: rigid error of FastMVU", off, distorted, reason=coarse)


def _in_own_process(n_points: int, n_patches: int | str, chart: str) -> dict:
    command = [sys.executable, __file__, "--cell", str(n_points), str(n_patches), chart]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _cell(n_points: int, n_patches: int | str, chart: str) -> dict:
    """Fit once; warmed up on a small roll, which loads every module."""
    IPA().fit(datasets.swiss_roll(2000, hole=True).X)
    roll = datasets.swiss_roll(n_points, hole=True, random_state=0)
    begin, on_core = time.perf_counter(), time.process_time()
    ipa = IPA(n_patches=n_patches, chart=chart).fit(roll.X)
    seconds, core_seconds = time.perf_counter() - begin, time.process_time() - on_core
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    begin = time.perf_counter()
    ipa.transform(roll.X)
    transform = time.perf_counter() - begin
    stages = ipa.diagnostics_["seconds"]
    return {
        "seconds": seconds,
        "core_seconds": core_seconds,
        "gigabytes": peak / 1e9,
        "gap": ipa.certificate_.gap,
        "optimal": bool(ipa.certificate_.optimal),
        "error": error(ipa.embedding_, roll.truth),
        "transform": transform,
        "n_patches": ipa.n_patches_,
        "placement": stages["placement"],
        "stages": ", ".join(f"{name} {spent:.2f} s" for name, spent in stages.items()),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["--cell"]:
        patches = sys.argv[3]
        print(json.dumps(_cell(int(sys.argv[2]), patches if patches == "auto" else int(patches), sys.argv[4])))
    else:
        main(million_points)
