"""Terms that are added to a descent: alignment of shared rows and confinement, against formulas and differences."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from manifoldry._core.run import Run
from manifoldry._numerics.descent.alignment import AlignmentTerm, Confinement, joined, merged_start
from manifoldry._numerics.descent.divergence import ExaggerationPhase, JointDivergence, prepare_divergence
from manifoldry._numerics.descent.negative_sampling import LayoutParameters, prepare_layout
from manifoldry._numerics.geometry.neighbor_affinity import joint_probabilities, negative_entropy
from manifoldry._numerics.repulsion import LayoutKernel, choose_repulsion

IDENTITIES = [np.array([0, 1, 2, 3]), np.array([5, 2, 1]), np.array([1, 4, 6, 2, 0]), np.array([7, 1, 0])]
N = sum(map(len, IDENTITIES))


def pairs_of(window):
    """Pairs of stacked rows that are the same, and their weights, by a loop."""
    rows = [(number, t) for t, numbers in enumerate(IDENTITIES) for number in numbers]
    return [
        (i, j, np.exp(1 - (rows[j][1] - rows[i][1])))
        for i in range(N)
        for j in range(i + 1, N)
        if rows[i][0] == rows[j][0] and rows[j][1] - rows[i][1] <= window
    ]


def hessian(weight, window):
    matrix = np.zeros((N, N))
    for i, j, share in pairs_of(window):
        matrix[[i, j], [i, j]] += weight * share
        matrix[[i, j], [j, i]] -= weight * share
    return matrix


@pytest.mark.parametrize("window", [1, 2, 3, 9])
def test_the_term_is_the_sum_over_pairs_and_its_gradient_that_of_differences(window):
    term, Y = AlignmentTerm(IDENTITIES, 0.7, window), np.random.default_rng(0).normal(size=(N, 2))
    by_loop = sum(0.35 * share * np.square(Y[i] - Y[j]).sum() for i, j, share in pairs_of(window))
    assert term.value(Y) == pytest.approx(by_loop, rel=1e-12)
    step, differences = 1e-5, np.empty_like(Y)
    for entry in np.ndindex(Y.shape):
        moves = np.zeros_like(Y)
        moves[entry] = step
        differences[entry] = (term.value(Y + moves) - term.value(Y - moves)) / (2 * step)
    # Differences of a quadratic are exact but for rounding: 1e-16 times the value, 10, divided by the step.
    np.testing.assert_allclose(term.gradient(Y), differences, atol=1e-9)


@pytest.mark.parametrize("weight", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("columns", [1, 2])
def test_the_proximal_step_solves_its_linear_system(weight, columns):
    rng = np.random.default_rng(1)
    Y, rates = rng.normal(size=(N, 2)), rng.uniform(0.1, 2.0, (N, columns))
    Z = AlignmentTerm(IDENTITIES, weight, 2).proximal(Y, rates)
    for c in range(2):
        rate = rates[:, c % columns]
        expected = np.linalg.solve(np.diag(1 / rate) + hessian(weight, 2), Y[:, c] / rate)
        # The condition number is at most 4 * 3 * weight * 2 / 0.1.
        np.testing.assert_allclose(Z[:, c], expected, atol=1e-14 * max(1, 240 * weight))
    alone = np.setdiff1d(np.arange(N), [row for i, j, _ in pairs_of(2) for row in (i, j)])
    np.testing.assert_allclose(Z[alone], Y[alone], rtol=1e-14)


def test_a_large_weight_moves_shared_rows_to_their_mean():
    Y = np.random.default_rng(2).normal(size=(N, 2))
    Z = AlignmentTerm(IDENTITIES, 1e6, 3).proximal(Y, np.full((N, 1), 1.0))
    identity = np.concatenate(IDENTITIES)
    for number in np.unique(identity):
        mean = Y[identity == number].mean(axis=0)
        np.testing.assert_allclose(Z[identity == number] - mean, 0, atol=2e-5)  # distances of order 1 / (weight / e^2)


def test_a_confined_row_moves_towards_its_position_by_no_more_than_needed():
    Y = np.array([[3.0, 4.0], [0.3, 0.4], [7.0, 7.0], [1.0, 1.0]])
    Z = Confinement(np.array([0, 1, 3]), np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]), 1.0).proximal(
        Y, np.ones((4, 1))
    )
    np.testing.assert_allclose(Z, [[0.6, 0.8], [0.3, 0.4], [7.0, 7.0], [1.0, 1.0]], rtol=2e-6)
    fixed = Confinement(np.array([0]), np.array([[1.0, 2.0]]), 0.0).proximal(Y, np.ones((4, 1)))
    assert fixed[0].tolist() == [1.0, 2.0]


def graphs(seed):
    rng = np.random.default_rng(seed)
    for numbers in IDENTITIES:
        dense = np.triu(rng.uniform(0.2, 1.0, (len(numbers),) * 2), 1)
        yield csr_array(dense + dense.T), rng.normal(size=(len(numbers), 2))


def layouts(term, run, kind):
    descents = []
    for weights, start in graphs(3):
        if kind == "umap":
            parameters = LayoutParameters(1.5, 0.9, 5, 1.0, 1.0, 30)
            descents.append(prepare_layout(start, weights, parameters, run))
            continue
        joint, kernel = joint_probabilities(weights), LayoutKernel(1.0)
        repulsion = choose_repulsion(kernel, len(start), 2, repulsion="exact")
        divergence = JointDivergence(joint, negative_entropy(joint.data), kernel, repulsion, run)
        phases = [ExaggerationPhase("early", 20, 4.0), ExaggerationPhase("main", 4000)]
        descents.append(prepare_divergence(divergence, start, phases, "auto", run, alone=term is None))
    if term is None:
        return np.concatenate([descent.run(run)[0] for descent in descents])
    ordered = [numbers[each.order] for numbers, each in zip(IDENTITIES, descents, strict=True)]
    together = joined(descents, AlignmentTerm(ordered, *term))
    layout, trace = together.run(run)
    positions = together.positions.astype(float)
    assert trace.objective[-1] == pytest.approx(together.phases[-1].optimizer.objective(positions), rel=1e-6)
    return layout


def test_with_weight_zero_the_layouts_are_those_of_separate_descents():
    np.testing.assert_array_equal(layouts((0.0, 2), Run(0), "umap"), layouts(None, Run(0), "umap"))


def test_an_aligned_t_sne_ends_where_both_gradients_cancel():
    """The descent ends at a stationary point of the sum, whatever its momentum and gains."""
    run, weight, window = Run(0), 0.01, 2
    Y, term = layouts((weight, window), run, "tsne"), AlignmentTerm(IDENTITIES, weight, window)
    lo, slopes = 0, term.gradient(Y)
    assert np.abs(slopes).max() > 1e-3
    for weights, start in graphs(3):
        joint, n = joint_probabilities(weights), len(start)
        kernel = LayoutKernel(1.0)
        repulsion = choose_repulsion(kernel, n, 2, repulsion="exact")
        divergence = JointDivergence(joint, negative_entropy(joint.data), kernel, repulsion, run)
        gradient = n * divergence.gradient(np.ascontiguousarray(Y[lo : lo + n]))
        np.testing.assert_allclose(gradient + slopes[lo : lo + n], 0, atol=1e-6 * np.abs(slopes).max())
        lo += n


def test_shared_rows_begin_at_one_position_which_the_merged_graph_defines():
    weights = [each for each, _ in graphs(4)]
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(len(each), 4)) for each in IDENTITIES]
    run, identity = Run(0), np.concatenate(IDENTITIES)
    start = merged_start("pca", rows, weights, IDENTITIES, 2, run)
    means = np.array([np.concatenate(rows)[identity == number].mean(axis=0) for number in range(8)])
    scores = np.linalg.svd(means - means.mean(axis=0))
    expected = np.abs(scores[0][:, :2] * scores[1][:2])
    np.testing.assert_allclose(np.abs(start.places) / np.abs(start.places).max(), expected / expected.max(), atol=1e-12)
    sparse = merged_start("pca", [csr_array(each) for each in rows], weights, IDENTITIES, 2, run)
    np.testing.assert_allclose(np.abs(sparse.places), np.abs(start.places), atol=1e-9)
