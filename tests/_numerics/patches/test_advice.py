"""What the doctor says: every sentence where it is due, with the right numbers, and nowhere else."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from helpers import problems
from manifoldry import IPA, TesseraMap, datasets
from manifoldry._core.run import Run
from manifoldry._core.values import Spectrum
from manifoldry._numerics.patches.advice import MAX_CHART_RESIDUAL as RESIDUAL
from manifoldry._numerics.patches.advice import MAX_LOST_VARIANCE as LOST
from manifoldry._numerics.patches.advice import MAX_TORN_SHARE, advice, chart_remarks, is_loop
from manifoldry._numerics.patches.atlas import MAX_SURFACE_RESIDUAL as SURFACE
from manifoldry._numerics.patches.atlas import ChartOptions, voronoi_atlas
from manifoldry._numerics.patches.layout import PatchLayout, UnfoldedPatches
from manifoldry._numerics.patches.overlaps import Stitched
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph

NOT_FLAT_ENOUGH, TOO_LITTLE, SEPARATE = (
    "are not flat enough",
    "too little with any other",
    "connected components, drawn side by side",
)
TORN_APART, LARGER = "are torn apart", "intrinsic dimension looks larger"
LOOP, CLOSED, AROUND = "curve is a closed loop", "surface is closed", "points form a closed loop"
NO_SURFACE, AS_PCA = "cannot preserve distances", "is that of PCA"
NOT_UNFOLDED, DISAGREE = "surface is not unfolded", "do not agree with each other"
SHARED = "are kept less well than by PCA"
SENTENCES = (
    NOT_FLAT_ENOUGH,
    TOO_LITTLE,
    SEPARATE,
    TORN_APART,
    LARGER,
    LOOP,
    CLOSED,
    AROUND,
    NO_SURFACE,
    AS_PCA,
    NOT_UNFOLDED,
    DISAGREE,
)


def said(findings):
    """Return which sentences there are, each of which must be one of the known ones or of any method's look."""
    own = [finding for finding in findings if SHARED not in finding]
    found = [[sentence for sentence in SENTENCES if sentence in finding] for finding in own]
    assert all(len(names) == 1 for names in found)
    return {names[0] for names in found}


def grid(columns, rows):
    """Return a unit grid, column after column, and the column of each point."""
    x, y = (part.ravel() for part in np.meshgrid(np.arange(columns), np.arange(rows), indexing="ij"))
    return np.column_stack([x, y]).astype(float), x


def strips(x, *bounds):
    """Return the members of patches that reach from one column to another, both included."""
    return [np.flatnonzero((x >= low) & (x <= high)) for low, high in bounds]


def sheet():
    points, x = grid(15, 6)
    return points, {"patches": strips(x, (0, 6), (4, 10), (8, 14))}


def arch(angle):
    """Return a bent sheet in three patches, each over an arc of twice that ``angle``, for flat charts."""
    points, x = grid(31, 6)
    turn = points[:, 0] / 30 * 4 * angle
    bent = np.column_stack([np.sin(turn), np.cos(turn), points[:, 1] * angle / 7.5])
    return bent, {"patches": strips(x, (0, 15), (8, 22), (15, 30)), "chart": "flat"}


def hinge():
    """Return three patches of a sheet, of which the last holds to the others by one line of points."""
    points, x = grid(15, 6)
    return points, {"patches": strips(x, (0, 6), (4, 10), (10, 14))}


def two_pairs():
    """Return four patches, held together two by two, and a line of points between the pairs."""
    points, x = grid(15, 6)
    return points, {"patches": strips(x, (0, 4), (2, 7), (7, 12), (10, 14))}


def two_sheets():
    points, x = grid(14, 6)
    points[x > 6, 0] += 100
    return points, {"patches": strips(x, (0, 4), (2, 6), (7, 11), (9, 13))}


def torn():
    """Return a sheet whose patches leave a border between two columns that none of them crosses."""
    points, x = grid(14, 6)
    return points, {"patches": strips(x, (0, 4), (2, 6), (7, 11), (9, 13))}


def squashed():
    """Return a sheet of three columns to be laid on a line, on which edges across it have no length."""
    points, _ = grid(3, 40)
    return points, {"patches": strips(points[:, 1], (0, 24), (15, 39)), "n_components": 1}


def ring():
    """Return a ring of arcs, which bend too little to tell from segments but close only in the plane."""
    angle = np.arange(120) * np.pi / 60
    lists = [np.arange(start, start + 20) % 120 for start in range(0, 120, 10)]
    return np.column_stack([np.cos(angle), np.sin(angle)]), {"patches": lists, "n_components": 1, "n_neighbors": 2}


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (sheet, set()),
        (lambda: arch(0.3), set()),
        (lambda: arch(0.9), {NOT_UNFOLDED}),
        (hinge, {TOO_LITTLE, SEPARATE}),
        (two_pairs, {SEPARATE}),
        (two_sheets, {SEPARATE}),
        (torn, {SEPARATE, TORN_APART}),
        (squashed, {NOT_UNFOLDED}),
        (ring, {LOOP}),
    ],
)
def test_every_shape_gets_its_sentences_and_no_other(make, expected):
    X, settings = make()
    model = IPA(**{"n_neighbors": 8, **settings}).fit(X)
    assert said(problems(model)) == expected


def all_firm(overlaps):
    return np.ones(len(overlaps), dtype=bool)


def consulted(residuals=0.0, distortions=(0.0,), parts=1, values=(3.0, 1.0), firm=all_firm):
    """Return the advice for two dimensions on four patches of a plane of which such numbers are told, and the patches.

    They are a ring with one diagonal: 0 overlaps with all others, 3 too, 1 and 2 not with each other.
    """
    X = np.random.default_rng(1).uniform(size=(120, 2))
    graph = symmetrize(neighbor_graph(X, NeighborRule(8).resolve(120), Run(0, 1))[0])
    atlas = voronoi_atlas(X, graph, 4, ChartOptions(2, "flat", None, 0.3, False), Run(0, 1))
    charts = replace(atlas.charts, residuals=np.broadcast_to(residuals, 4))
    atlas, overlaps = replace(atlas, charts=charts, distortions=np.asarray(distortions)), atlas.overlaps
    spectrum = Spectrum(np.asarray(values), np.zeros((120, len(values))), np.zeros(len(values)))
    components = np.minimum(np.arange(4), parts - 1)
    stitched = Stitched(np.zeros((4, 2, 2)), np.zeros((4, 2)), components, None, None)
    unfolded = UnfoldedPatches(X, stitched, spectrum, np.zeros(120))
    return advice(PatchLayout(atlas, overlaps, firm(overlaps), firm(overlaps), unfolded), 2), overlaps


def test_flat_firm_whole_patches_need_no_word():
    findings, overlaps = consulted()
    assert findings == ()
    assert (overlaps.first.tolist(), overlaps.second.tolist()) == ([0, 0, 0, 1, 2], [1, 2, 3, 3, 3])


@pytest.mark.parametrize(
    ("told", "sentence", "numbers"),
    [
        ({"residuals": [0.0, 1.01 * SURFACE, 0.5, 1.01 * SURFACE]}, NOT_FLAT_ENOUGH, ("3 of 4", "50%")),
        ({"parts": 2}, SEPARATE, ("2 connected components",)),
        ({"distortions": np.repeat([0.0, 1.0], [9, 1])}, TORN_APART, ("10%",)),
        ({"distortions": np.repeat([0.0, 0.51, np.nan], [6, 3, 1])}, TORN_APART, ("30%",)),
        ({"values": [5.0, 3.0, 1.5, 0.5]}, LARGER, ("need 3 dimensions", "2 lose 20%")),
        (
            {"values": [0.5, 0.5 - 1.01 * LOST, 1.01 * LOST]},
            LARGER,
            ("need 3 dimensions", "2 lose 5%"),
        ),
    ],
)
def test_sentences_count_what_is_wrong(told, sentence, numbers):
    findings, _ = consulted(**told)
    assert said(findings) == {sentence}
    assert all(number in findings[0] for number in numbers)


@pytest.mark.parametrize(
    "told",
    [
        {"residuals": SURFACE},
        {"distortions": np.repeat([0.0, -0.9], [1, 9])},  # noise across the surface is not torn
        {"distortions": np.repeat([0.0, 1.0], [round(1 / MAX_TORN_SHARE) - 1, 1])},
        {"distortions": [0.5, -0.5, np.nan, np.nan]},  # without a common patch, but in patches that overlap
        {"distortions": []},
        {"values": [0.5, 0.5 - 0.99 * LOST, 0.99 * LOST]},
        {"values": [0.0, 0.0, 0.0]},
    ],
)
def test_what_is_within_its_limit_is_not_worth_a_word(told):
    assert consulted(**told)[0] == ()


def remarks(residuals):
    return chart_remarks(SimpleNamespace(residuals=residuals))


def test_single_patches_that_are_not_flat_are_recorded_and_not_warned_of():
    one, two = (remarks(np.array([0.0, 0.0, rough, 0.25])) for rough in (RESIDUAL, 1.01 * RESIDUAL))
    assert "1 of 4 patches is not flat enough" in one[0]
    assert "2 of 4 patches are not flat enough" in two[0]
    assert "25%" in two[0]
    assert remarks(np.full(4, RESIDUAL)) == ()
    assert remarks(np.full(4, 1.01 * SURFACE)) == ()  # worth a warning, which says the same


def test_only_patches_without_any_firm_overlap_hang_loose():
    findings, _ = consulted(firm=lambda overlaps: overlaps.first > 0)
    assert said(findings) == {TOO_LITTLE}
    assert findings[0].startswith("1 of 4 patches")
    # One firm overlap of each patch is enough, however thin the others are.
    assert consulted(firm=lambda overlaps: overlaps.first == 0)[0] == ()


RNG = np.random.default_rng(0)
A, B = RNG.uniform(0, 2 * np.pi, (2, 1200))
V = RNG.uniform(-0.4, 0.4, 1200)


def sphere():
    points = RNG.normal(size=(1000, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


CLOSED_SURFACES = {
    "sphere": sphere(),
    "torus": np.column_stack([(3 + np.cos(A)) * np.cos(B), (3 + np.cos(A)) * np.sin(B), np.sin(A)]),
    "flat torus": np.column_stack([np.cos(A), np.sin(A), np.cos(B), np.sin(B)]),
    "tube": np.column_stack([np.cos(A), np.sin(A), B / 3]),
    "Moebius strip": np.column_stack(
        [(1 + V * np.cos(A / 2)) * np.cos(A), (1 + V * np.cos(A / 2)) * np.sin(A), V * np.sin(A / 2)]
    ),
}

OPEN_SURFACES = {
    "roll": datasets.swiss_roll(1000).X,
    "holed roll": datasets.swiss_roll(1000, hole=True).X,
    "annulus": np.column_stack([np.cos(A), np.sin(A)]) * (1 + V[:, None]),
    "noisy roll": datasets.swiss_roll(2000).X + RNG.normal(0, 0.3, (2000, 3)),
}


@pytest.mark.parametrize("name", CLOSED_SURFACES)
def test_surfaces_that_cannot_be_laid_flat_are_called_closed(name):
    assert CLOSED in said(problems(IPA(n_init=2).fit(CLOSED_SURFACES[name])))


@pytest.mark.parametrize("name", OPEN_SURFACES)
def test_open_surfaces_with_and_without_holes_are_not(name):
    assert not said(problems(IPA().fit(OPEN_SURFACES[name]))) & {CLOSED, LOOP, AROUND, NO_SURFACE, AS_PCA}


def views(turns):
    """Return a path through images: a dot on a ring of 20 pixels, blurred, at as many places on an arc."""
    angle = np.linspace(0, turns * 2 * np.pi, 90, endpoint=False)
    away = np.angle(np.exp(1j * (angle[:, None] - np.arange(20) * np.pi / 10)))
    return np.exp(-np.square(away) / (2 * 0.25**2))


def test_views_of_a_turning_object_are_a_loop_and_half_a_turn_is_not():
    graph = [symmetrize(neighbor_graph(views(turns), NeighborRule(6).resolve(90), Run(0, 1))[0]) for turns in (1, 0.5)]
    assert is_loop(graph[0])
    assert not is_loop(graph[1])


def test_data_of_many_dimensions_is_told_to_have_them():
    X = RNG.normal(size=(500, 6))
    ipa = IPA().fit(X)
    findings, d = ipa.diagnostics_["advice"], int(ipa.suggest_n_components())
    assert 5 <= d <= 6
    assert findings[0].startswith(
        f"The data is about {d}-dimensional, so an embedding with n_components=2 cannot preserve distances"
    )
    assert f"n_components={d}" in findings[0]
    assert not any("more patches" in finding for finding in findings)
    model = TesseraMap().fit(X)
    assert model.diagnostics_["advice"][0] == findings[0]
