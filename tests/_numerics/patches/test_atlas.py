"""Atlases: distortions of edges against a slow twin, and as many patches as a surface asks for."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._numerics.patches import atlas as atlas_module
from manifoldry._numerics.patches.atlas import (
    DISTORTION_TOL,
    ChartOptions,
    choose_atlas,
    cluster_atlas,
    edge_distortions,
    loose_patches,
    sample_overlaps,
    voronoi_atlas,
)
from manifoldry._numerics.patches.cover import Membership, cells_around, find_cells
from manifoldry._numerics.patches.overlaps import find_overlaps
from manifoldry._numerics.patches.restarts import Trial
from manifoldry.graph._operations import components, symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph


def graph_and_index(X, k=8):
    graph, index = neighbor_graph(X, NeighborRule(k).resolve(len(X)), Run(0, 1))
    return symmetrize(graph), index


def charting(width=2, kind="curved", overlap=0.3, share=None, even=False):
    return ChartOptions(width, kind, share, overlap, even)


@pytest.mark.parametrize("at_once", [7, 2**14])
def test_changes_of_edges_are_those_of_the_heaviest_patch_that_holds_both_ends(monkeypatch, at_once):
    monkeypatch.setattr(atlas_module, "EDGES_AT_ONCE", at_once)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    X[7] = X[3]  # an edge of length zero has no relative change
    graph, _ = graph_and_index(X, 5)
    belongs = (rng.random((60, 6)) < 0.3) * rng.uniform(0.1, 1, (60, 6))
    belongs[np.arange(60), rng.integers(3, size=60)] = 1.0
    belongs[:2], belongs[0, 3], belongs[1, 4] = 0.0, 1.0, 1.0
    members = Membership.of_matrix(sp.csr_array(belongs))
    f = rng.normal(size=(len(members.points), 2))
    overlaps = find_overlaps(members, f, 6)
    tied = set(zip(overlaps.first.tolist(), overlaps.second.tolist(), strict=True))
    place = {(p, c): e for e, (p, c) in enumerate(zip(members.points.tolist(), members.patches.tolist(), strict=True))}
    expected = []
    for i, j, length in zip(graph.rows().tolist(), graph.indices.tolist(), graph.lengths.tolist(), strict=True):
        if i >= j or length == 0:
            continue
        common = np.flatnonzero(belongs[i] * belongs[j])
        if len(common):
            best = int(common[np.argmax(belongs[i, common] * belongs[j, common])])
            expected.append(np.linalg.norm(f[place[i, best]] - f[place[j, best]]) / length - 1)
        else:
            pair = sorted((int(np.argmax(belongs[i])), int(np.argmax(belongs[j]))))
            expected.append(np.nan if tuple(pair) in tied else 1.0)
    found = edge_distortions(graph, members, f, overlaps, 6, Run(0, 3))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert np.isnan(found).any()


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 16])
def test_overlaps_of_blocks_of_points_are_those_of_all_for_any_number_of_threads(monkeypatch, threads):
    rng = np.random.default_rng(2)
    belongs = rng.random((90, 7)) * (rng.random((90, 7)) < 0.4)
    belongs[np.arange(90), rng.integers(7, size=90)] = 1.0
    belongs[20:40, 1:], belongs[20:40, 0] = 0.0, 1.0  # whole blocks share nothing
    members = Membership.of_matrix(sp.csr_array(belongs))
    f = rng.normal(size=(len(members.points), 2))
    whole = find_overlaps(members, f, 7)
    monkeypatch.setattr(atlas_module, "OVERLAPS_AT_ONCE", 8)
    once, found = (sample_overlaps(members, f, 7, Run(0, count)) for count in (1, threads))
    for name in ("first", "second", "counts", "means", "moments"):
        assert getattr(found, name).tobytes() == getattr(once, name).tobytes()
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), atol=1e-14)


def test_patches_of_a_plane_change_nothing():
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(400, 2)) @ np.linalg.qr(rng.normal(size=(5, 2)))[0].T
    graph, _ = graph_and_index(X)
    atlas = voronoi_atlas(X, graph, 10, charting(), Run(0, 1))
    assert atlas.distortion < 1e-10
    assert (atlas.members.n_points, atlas.charts.n_patches) == (400, atlas.cover.n_patches)
    chosen, history = choose_atlas(X, Trial(0, graph), charting(), Run(0, 1))
    assert len(history) == 1  # the first number of patches is enough
    assert chosen.distortion < 1e-10


def rolled(n, seed):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(1.5 * np.pi, 4.5 * np.pi, n)
    return np.column_stack([angle * np.cos(angle), angle * np.sin(angle), rng.uniform(0, 20, n)])


def test_a_roll_gets_more_patches_until_its_edges_are_kept():
    X = rolled(1500, 3)
    graph, _ = graph_and_index(X)
    chosen, history = choose_atlas(X, Trial(0, graph), charting(), Run(0, 1))
    distortions = [change for _, change in history]
    assert history[0][0] < chosen.charts.n_patches
    assert chosen.distortion == min(distortions)
    assert chosen.distortion < 2 * DISTORTION_TOL
    flat, _ = choose_atlas(X, Trial(0, graph), charting(kind="flat"), Run(0, 1))
    assert flat.charts.n_patches >= chosen.charts.n_patches
    assert flat.distortion > chosen.distortion


def test_a_callback_that_asks_to_stop_gets_the_patches_so_far():
    X = rolled(800, 4)
    graph, _ = graph_and_index(X)
    chosen, history = choose_atlas(X, Trial(0, graph), charting(), Run(0, 1, callback=lambda _: True))
    assert len(history) == 1
    assert chosen.charts.n_patches == history[0][0]


@pytest.mark.parametrize("even", [False, True])
def test_given_clusters_are_grown_until_they_hold_together(even):
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(500, 2))
    graph, index = graph_and_index(X)
    labels = (X[:, 0] * 3).astype(int) * 3 + (X[:, 1] * 3).astype(int)
    atlas = cluster_atlas(X, graph, labels, index, charting(even=even), Run(0, 1))
    assert atlas.charts.n_patches == 9
    assert atlas.distortion < 1e-10
    # Every point still belongs to its own cluster, and with even weights all its patches count alike.
    own = atlas.members.patches == labels[atlas.members.points]
    assert np.array_equal(np.unique(atlas.members.points[own]), np.arange(500))
    assert (len(np.unique(atlas.members.weights)) == 1) == even


def test_the_number_of_points_a_patch_needs_grows_with_its_dimension():
    assert [charting(width).min_points for width in (1, 2, 5)] == [6, 9, 18]


def test_patches_that_nothing_holds_are_loose_unless_they_are_many():
    X = np.random.default_rng(0).uniform(size=(600, 2))
    graph = symmetrize(neighbor_graph(X, NeighborRule(6).resolve(600), Run(0, 1))[0])
    cells = find_cells(X, graph, 20, 2, Run(0, 1))
    atlas = voronoi_atlas(X, graph, 20, charting(), Run(0, 1))
    assert not loose_patches(atlas, cells.labels, components(graph)).any()
    overlaps = atlas.overlaps
    alone = replace(atlas, overlaps=overlaps[(overlaps.first != 7) & (overlaps.second != 7)])
    assert np.flatnonzero(loose_patches(alone, cells.labels, components(graph))).tolist() == [7]
    left = cells.centers[:, 0] < 0.5  # two halves, neither of them small
    halves = replace(atlas, overlaps=overlaps[left[overlaps.first] == left[overlaps.second]])
    assert not loose_patches(halves, cells.labels, components(graph)).any()
    fewer = cells_around(X, graph, np.delete(cells.centers, 7, axis=0), Run(0, 1))
    others = np.delete(cells.centers, 7, axis=0)
    nearest = np.argmin(np.linalg.norm(X[:, None] - others, axis=2), axis=1)
    assert np.array_equal(fewer.labels, nearest)
