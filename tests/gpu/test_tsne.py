"""t-SNE on a GPU: probabilities, the mesh, iterations and new points against the stages of the CPU."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from manifoldry import TSNE
from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry._numerics.descent.divergence import ExaggerationPhase, JointDivergence, MeshMomentum
from manifoldry._numerics.descent.initialization import initial_layout
from manifoldry._numerics.extension.affinity import (
    MAX_NEW_MOVE,
    MAX_NEW_STEPS,
    NEW_MOMENTUM,
    NEW_RATE,
    NEW_TOL,
    DivergenceExtension,
)
from manifoldry._numerics.geometry.neighbor_affinity import (
    host_matrix,
    joint_of_bandwidths,
    negative_entropy,
    perplexity_probabilities,
)
from manifoldry._numerics.gpu.joint_descent import DeviceLayout, DeviceMomentum
from manifoldry._numerics.gpu.kernels import joint_descent as loops
from manifoldry._numerics.gpu.kernels.mesh import CHARGE_BITS, WIDTH, spread
from manifoldry._numerics.gpu.mesh import solve_mesh
from manifoldry._numerics.gpu.new_points import embed_new_points
from manifoldry._numerics.repulsion import LayoutKernel
from manifoldry._numerics.repulsion.fft import FFTRepulsion, Mesh
from manifoldry._numerics.repulsion.sums import ExactPotential

CPU = Run(0, 1)
N, K = 40, 5


def lists(seed=0, n=N, k=K):
    """Return the neighbor graph of random rows, without a search that might run on the GPU."""
    X = np.random.default_rng(seed).normal(size=(n, 3))
    distances = cdist(X, X)
    np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1)[:, :k]
    return NeighborGraph.from_rows(order.astype(np.int32), np.take_along_axis(distances, order, axis=1))


def layout_of(width, n=N, seed=1):
    Y = np.random.default_rng(seed).normal(size=(n, 2))
    return width * (Y - Y.mean(axis=0))


def divergence_of(run, dof=1.0):
    """Return the divergence of random lists, with rows on the host, and its mesh."""
    joint = perplexity_probabilities(lists(), [2.0], CPU).joint()
    kernel = LayoutKernel(dof)
    return JointDivergence(joint, negative_entropy(joint.data), kernel, FFTRepulsion(kernel), run)


@pytest.mark.parametrize("perplexities", [[2.0], [1.5, 4.0]])
def test_probabilities_are_those_of_the_cpu(run, perplexities):
    graph = lists()
    expected, found = (perplexity_probabilities(graph, perplexities, on) for on in (CPU, run))
    # Lengths are rounded to float32, and the entropy of a row is accurate to 1e-7.
    np.testing.assert_allclose(found.bandwidths, expected.bandwidths, rtol=1e-5)
    assert found.missed == expected.missed
    joint, matrix = found.joint(), expected.joint()
    on_host = host_matrix(joint, run)
    np.testing.assert_array_equal(on_host.indptr, matrix.indptr)
    np.testing.assert_array_equal(on_host.indices, matrix.indices)
    np.testing.assert_allclose(on_host.data, matrix.data, rtol=1e-4, atol=1e-12)
    np.testing.assert_array_equal(on_host.data, on_host.T.tocsr().data)
    np.testing.assert_allclose(joint.degrees, matrix.sum(axis=1), rtol=1e-4)
    assert negative_entropy(joint.data) == pytest.approx(negative_entropy(matrix.data), rel=1e-5)
    later = joint.later()
    np.testing.assert_array_equal(later.indices, matrix.indices)
    np.testing.assert_allclose(later.data, matrix.data, rtol=1e-4, atol=1e-12)


def test_a_row_without_the_perplexity_is_counted(run):
    graph = lists()
    graph.lengths[:K] = 1.0
    assert perplexity_probabilities(graph, [2.0], run).missed == perplexity_probabilities(graph, [2.0], CPU).missed == 1


def test_bandwidths_give_back_the_joint_probabilities():
    probabilities = perplexity_probabilities(lists(), [2.0, 3.0], CPU)
    again = joint_of_bandwidths(lists(), probabilities.bandwidths)
    np.testing.assert_allclose(again.toarray(), probabilities.joint().toarray(), atol=1e-12)


def spline(x):
    """Return the quintic B-spline of knots 0..6, by divided differences."""
    powers = np.maximum(x - np.arange(7)[:, None, None], 0.0) ** 5
    return np.einsum("k,kij->ij", [1, -6, 15, -20, 15, -6, 1], powers) / 120


@pytest.mark.parametrize("n_threads", [32, 96])
def test_charges_are_spread_by_splines_in_any_order(run, n_threads):
    rng, xp = np.random.default_rng(2), run.gpu.xp
    positions, charges = rng.uniform(0, 9, size=(40, 2)).astype(np.float32), rng.uniform(-1, 1, 40).astype(np.float32)
    copies = xp.zeros((3, 16, 15), np.int64)
    place, go = xp.asarray(np.array([0.0, 0.0, 1.0])), xp.zeros(1)
    spread.over(40 * WIDTH, xp.asarray(positions), xp.asarray(charges), place, go, copies, n_threads=n_threads)
    down = spline(positions[:, 0, None] - np.arange(16)[None] + 5)
    across = spline(positions[:, 1, None] - np.arange(15)[None] + 5)
    expected = np.einsum("p,pi,pj->ij", charges, down, across)
    # Weights of float32, each rounded to 2^-32; their order does not matter.
    nodes = run.gpu.host(copies).sum(axis=0)
    np.testing.assert_allclose(nodes / 2.0**CHARGE_BITS, expected, atol=40 * 1e-6)


@pytest.mark.parametrize("dof", [1.0, 0.5])
def test_the_potential_of_a_mesh_is_that_of_the_cpu_and_of_all_pairs(run, dof):
    kernel, Y = LayoutKernel(dof), layout_of(4.0)
    layout, repulsion = ExactPotential.of(kernel, Y, None), FFTRepulsion(kernel)
    mesh = Mesh.around(layout.columns, repulsion.spacing, repulsion.min_cells, 0.1)
    found = solve_mesh(layout, mesh, run)
    expected = repulsion._solve(layout, 0.1, CPU)
    assert found.mesh == expected.mesh
    assert found.offset + found.factor * found.nodes.max() > 0
    phi, grad = found.gathered(layout.columns, CPU)
    on_cpu = expected.gathered(layout.columns, CPU)
    # Transforms of float32 lose a few units of 1e-7 of the largest node.
    np.testing.assert_allclose(phi, on_cpu[0], rtol=2e-5)
    np.testing.assert_allclose(grad, on_cpu[1], atol=2e-5 * np.abs(grad).max())
    exact = layout(Y, CPU)
    assert np.linalg.norm(grad - exact[1]) < repulsion.error * np.linalg.norm(exact[1])


@pytest.mark.parametrize("dof", [1.0, 2.0])
def test_forces_and_value_are_those_of_all_pairs(run, dof):
    divergence, Y = divergence_of(run, dof), layout_of(3.0)
    layout = DeviceLayout(divergence, Y)
    layout.renumber()
    on_cpu = JointDivergence(
        *(getattr(divergence, name) for name in ("joint", "information", "kernel", "repulsion")), CPU
    )
    # float32 has seven digits; the mesh of both is the same
    assert layout.value() == pytest.approx(on_cpu.value(Y), rel=1e-5)
    pull, push, potential = (layout.get(name) for name in ("pull", "push", "potential"))
    gradient = 4.0 * pull + 2.0 / potential.sum() * push
    squares = cdist(Y, Y, "sqeuclidean")
    w, g = divergence.kernel.value(squares), divergence.kernel.attraction(squares)
    np.fill_diagonal(w, 0.0)
    forces = 4.0 * (divergence.joint.toarray() - w / w.sum()) * g
    exact = forces.sum(axis=1)[:, None] * Y - forces @ Y
    assert np.linalg.norm(gradient - exact) < 1e-2 * np.linalg.norm(exact)
    logs = divergence.joint.multiply(np.log(np.where(w > 0, w, 1.0))).sum(axis=1)
    np.testing.assert_allclose(layout.get("logs"), logs, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(layout.get("Y"), Y, atol=1e-12)


def moved(moving, layout, n_steps):
    step = 0
    while step < n_steps:
        step += moving.advance(layout, step, n_steps - step)
    return layout


@pytest.mark.parametrize("exaggeration", [4.0, 1.0])
def test_iterations_are_those_of_the_cpu(run, exaggeration):
    phase, Y, n_steps = ExaggerationPhase("phase", 3, exaggeration), layout_of(2.0), 3
    cpu, divergence = divergence_of(CPU), divergence_of(run)
    single = phase.optimizing(cpu, "auto").optimizer
    expected = moved(MeshMomentum(single, cpu, cpu.repulsion, exaggeration), Y.copy(), n_steps)
    found, again = (
        moved(
            DeviceMomentum(phase.optimizing(divergence, "auto").optimizer, phase), DeviceLayout(divergence, Y), n_steps
        )
        for _ in range(2)
    )
    # Forces have seven digits, and their errors grow with every step.
    np.testing.assert_allclose(found.get("Y"), expected, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_array_equal(found.get("Y"), again.get("Y"))


def test_renumbered_points_keep_their_rows(run):
    divergence, Y = divergence_of(run), layout_of(3.0)
    layout = DeviceLayout(divergence, Y)
    layout.renumber()
    arrays = {name: run.gpu.host(array) for name, array in vars(layout.arrays).items()}
    order = arrays["order"]
    assert (np.sort(order) == np.arange(N)).all()
    renumbered = csr_array((arrays["affinities"], arrays["indices"], arrays["indptr"]), shape=(N, N))
    expected = divergence.joint.toarray()[np.ix_(order, order)]
    np.testing.assert_allclose(renumbered.toarray(), expected, rtol=1e-6)
    np.testing.assert_array_equal(arrays["Y"], Y[order])


@pytest.mark.parametrize("n_threads", [8, 40])
def test_attraction_does_not_depend_on_the_threads_of_a_block(run, n_threads):
    layout = DeviceLayout(divergence_of(run), layout_of(3.0))
    assert layout.fit_mesh()
    v = layout.views
    layout._begin(0.0)
    loops.center.over(N, v.Y, v.state, v.positions)
    rows = v.indptr, v.indices, v.affinities, v.packed, 1.0, True, v.state
    loops.attract.over(N * loops.LANES, *rows, v.pull, v.logs, n_threads=128)
    pull, logs = layout.get("pull").copy(), layout.get("logs").copy()
    loops.attract.over(N * loops.LANES, *rows, v.pull, v.logs, n_threads=n_threads)
    np.testing.assert_array_equal(layout.get("pull"), pull)
    np.testing.assert_array_equal(layout.get("logs"), logs)


def test_exact_sums_are_those_of_all_pairs(run):
    layout, Y = DeviceLayout(divergence_of(run, 2.0), layout_of(3.0)), layout_of(3.0)
    layout.fit_mesh()
    layout._begin(0.0)
    loops.center.over(N, layout.views.Y, layout.views.state, layout.views.positions)
    sums = run.gpu.xp.empty((3, 3))
    layout._sum_exactly(run.gpu.xp.asarray(np.array([0, 7, 30])), sums)
    potential = ExactPotential.of(LayoutKernel(2.0), Y, None)
    phi, grad = potential.without(np.array([0, 7, 30]), Y[[0, 7, 30]], CPU)
    found = run.gpu.host(sums)
    np.testing.assert_allclose(found[:, 0], phi, rtol=1e-5)
    np.testing.assert_allclose(found[:, 1:], grad, rtol=1e-4, atol=1e-6)


def test_a_layout_with_a_faint_point_is_repaired(run):
    Y = layout_of(0.3)
    Y[0] = 60.0, 0.0
    divergence = divergence_of(run)
    layout = DeviceLayout(divergence, Y)
    on_cpu = replace(divergence, run=CPU)
    assert layout.value() == pytest.approx(on_cpu.value(Y), rel=1e-4)


def test_new_points_are_those_of_the_cpu(run):
    rng, Y = np.random.default_rng(4), layout_of(3.0)
    kernel = LayoutKernel()
    potential = FFTRepulsion(kernel).potential(Y, None, CPU)
    neighbors = np.stack([rng.choice(N, 5, replace=False) for _ in range(12)])
    distances = np.sort(rng.gamma(5.0, size=(12, 5)), axis=1)
    distances[3, 0] = 0.0
    extension = DivergenceExtension(None, Y, kernel, potential, 2.0)
    expected = extension._of_lists(neighbors, distances, CPU)
    rule = NEW_RATE, NEW_MOMENTUM, MAX_NEW_MOVE, NEW_TOL, MAX_NEW_STEPS
    found, left = embed_new_points((neighbors, distances), 2.0, (Y, kernel, potential), rule, run)
    assert len(left) == 0
    # The step that ends the descent of a point may be another one: positions are accurate to a few tolerances.
    np.testing.assert_allclose(found, expected, atol=20 * NEW_TOL)
    np.testing.assert_array_equal(found[3], Y[neighbors[3, 0]])


def test_new_points_outside_of_the_mesh_are_left_to_the_host(run):
    Y, kernel = layout_of(3.0), LayoutKernel()
    potential = FFTRepulsion(kernel).potential(Y, None, CPU)
    neighbors, distances = np.arange(10).reshape(2, 5), np.ones((2, 5))
    far = Y.copy()
    far[0] += 1e3
    rule = NEW_RATE, NEW_MOMENTUM, MAX_NEW_MOVE, NEW_TOL, MAX_NEW_STEPS
    assert list(embed_new_points((neighbors, distances), 2.0, (far, kernel, potential), rule, run)[1]) == [0]


@pytest.mark.parametrize("columns", [2, 5])
def test_the_first_layout_has_the_principal_components(run, columns):
    X = np.random.default_rng(5).normal(size=(N, columns)) * (1.0 + np.arange(columns)) + 100.0
    expected, found = (initial_layout("pca", X, csr_array((N, N)), 2, on) for on in (CPU, run))
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_a_layout_is_that_of_the_cpu_and_the_same_twice():
    X = np.random.default_rng(3).normal(size=(N, 4)) + 6.0 * (np.arange(N) % 3)[:, None]
    parameters = {"perplexity": 2, "repulsion": "fft", "init": "pca", "max_iter": 6, "early_exaggeration_iter": 3}
    expected = TSNE(**parameters).fit(X)
    found = TSNE(**parameters, device="cuda").fit(X)
    np.testing.assert_allclose(found.trace_.objective, expected.trace_.objective, rtol=1e-4)
    np.testing.assert_array_equal(found.trace_.steps, expected.trace_.steps)
    assert found.kl_divergence_ == pytest.approx(expected.kl_divergence_, rel=1e-4)
    np.testing.assert_allclose(found.affinity_matrix_.toarray(), expected.affinity_matrix_.toarray(), atol=1e-7)
    new = X[:20] + 0.1
    np.testing.assert_allclose(found.transform(X[:5]), found.embedding_[:5])
    again = TSNE(**parameters, device="cuda").fit(X)
    np.testing.assert_array_equal(found.embedding_, again.embedding_)
    np.testing.assert_array_equal(found.transform(new), again.transform(new))
