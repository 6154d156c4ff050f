"""Networks: the backward pass is the derivative, linear ones are PCA, parametric losses are those of the layouts."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from helpers import bent_sheet
from manifoldry import PCA, TSNE, Autoencoder, ParametricTSNE, ParametricUMAP, datasets, diagnose
from manifoldry._core.run import Run
from manifoldry._core.values import Stop
from manifoldry._numerics.descent.divergence import ExaggerationSchedule, JointDivergence
from manifoldry._numerics.descent.negative_sampling import REPULSION_OFFSET, LayoutParameters, NegativeSampling
from manifoldry._numerics.geometry.neighbor_affinity import negative_entropy
from manifoldry._numerics.repulsion import LayoutKernel, choose_repulsion
from manifoldry.methods.networks._autoencoder import ReconstructionLoss
from manifoldry.methods.networks._network import NETWORK_ROWS_PER_TASK, Adam, Network, Schedule, minimize_loss
from manifoldry.methods.networks._parametric import (
    N_REPELLED,
    DivergenceLoss,
    EncoderLoss,
    FuzzyCrossEntropy,
    NoisyRows,
    TargetLoss,
    _nearest_distances,
)

STEP = 1e-5
KERNEL = LayoutParameters(1.6, 0.9, 5, 1.0, 1.0, 1)


def bent(sizes, activation="tanh", seed=0):
    """A net with all parameters random, so that no derivative is zero."""
    rng = np.random.default_rng(seed)
    network = Network(sizes, activation, np.empty(0))
    return replace(network, parameters=0.5 * rng.standard_normal(network.n_parameters))


def by_differences(function, at):
    """The gradient by central differences: good to STEP^2 times third derivatives, and rounding over STEP."""
    slopes = np.empty(len(at))
    for i in range(len(at)):
        there = [at.copy(), at.copy()]
        there[0][i] += STEP
        there[1][i] -= STEP
        slopes[i] = (function(there[0]) - function(there[1])) / (2 * STEP)
    return slopes


def assert_derivative(loss, parameters, rows):
    value, gradient = loss(parameters, rows)
    assert value == pytest.approx(loss.value(parameters, rows), rel=1e-12)
    expected = by_differences(lambda p: loss.value(p, rows), parameters)
    assert np.abs(gradient - expected).max() < 1e-7 * max(1.0, np.abs(expected).max())
    assert np.abs(expected).max() > 1e-3


# The net


@pytest.mark.parametrize("activation", ["tanh", "relu", "identity"])
@pytest.mark.parametrize("hidden", [(), (4,), (5, 3)])
def test_the_backward_pass_is_the_derivative_by_parameters_and_inputs(hidden, activation):
    network, rng = bent((3, *hidden, 2), activation), np.random.default_rng(1)
    X, G = rng.standard_normal((6, 3)), rng.standard_normal((6, 2))
    into = np.empty(network.n_parameters)
    by_inputs = network.backward(network.forward(X)[1], G, into)()

    def along(parameters, rows=X):
        return float((replace(network, parameters=parameters).forward(rows)[0] * G).sum())

    np.testing.assert_allclose(into, by_differences(along, network.parameters), atol=1e-7)
    slopes = by_differences(lambda flat: along(network.parameters, flat.reshape(X.shape)), X.ravel())
    np.testing.assert_allclose(by_inputs.ravel(), slopes, atol=1e-7)


def test_the_net_is_its_formula():
    network = bent((3, 4, 2))
    V, c, W1, b1, W = np.split(network.parameters, np.cumsum([6, 2, 12, 4]))
    x = np.array([0.3, -1.0, 2.0])
    expected = x @ V.reshape(3, 2) + c + np.tanh(x @ W1.reshape(3, 4) + b1) @ W.reshape(4, 2)
    np.testing.assert_allclose(network.forward(x[None])[0][0], expected, rtol=1e-14)
    assert network.decay(2.0) == pytest.approx(2 * ((W1**2).sum() + (W**2).sum()))


@pytest.mark.parametrize("hidden", [(), (4,), (4, 5)])
def test_matrices_before_and_after_a_net_are_taken_in(hidden):
    rng, network = np.random.default_rng(2), bent((3, *hidden, 2))
    X, A, B = rng.standard_normal((5, 7)), rng.standard_normal((7, 3)), rng.standard_normal((2, 4))
    joined = network.after(A).before(B).shifted(np.ones(4))
    assert joined.sizes == (7, *hidden, 4)
    np.testing.assert_allclose(joined(X, Run(0)), network(X @ A, Run(0)) @ B + 1, rtol=1e-12, atol=1e-12)


def test_adam_takes_the_steps_of_its_paper():
    rng = np.random.default_rng(0)
    at, m, v, adam = rng.standard_normal(5), np.zeros(5), np.zeros(5), Adam(0.1)
    expected = at.copy()
    for t in range(1, 8):
        g = rng.standard_normal(5)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        expected -= 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        adam.move(at, g.copy(), 1.0)
    np.testing.assert_allclose(at, expected, rtol=1e-9)


# Autoassociative nets


def association(n=12, p=4, d=2, hidden=(3,), weight_decay=0.1):
    X = np.random.default_rng(3).standard_normal((n, p)) * [3, 2, 1, 0.5][:p]
    encoder, decoder = bent((p, *hidden, d), seed=1), bent((d, *hidden, p), seed=2)
    loss = ReconstructionLoss(encoder, decoder, X, 2.0, weight_decay, Run(0, 1))
    return loss, np.concatenate([encoder.parameters, decoder.parameters])


def test_the_gradient_of_the_reconstruction_is_its_derivative():
    loss, parameters = association()
    assert_derivative(loss, parameters, np.array([0, 5, 2, 7]))


def test_a_linear_net_ends_at_the_principal_subspace():
    r"""Baldi and Hornik: without hidden layers all minima are global, and their loss is that of PCA.

    At a minimum with encoder A and decoder B the loss rises quadratically, by at least half its least curvature c times
    the squared distance in the quotient by A -> CA, B -> BC^-1; the gradient g is at most c times that distance. So the
    loss is within g^2 / (2c) of the optimum, and the angle within g / c up to the size of B. The least curvature is of
    the order of the gap of the eigenvalues, 4 - 1 here, in units of the variance.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5)) * [3, 2, 1, 0.5, 0.2] @ np.linalg.qr(rng.standard_normal((5, 5)))[0]
    X -= X.mean(axis=0)
    variance = float((X**2).sum() / len(X))
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    encoder, decoder = bent((5, 2), seed=4), bent((2, 5), seed=5)
    loss = ReconstructionLoss(encoder, decoder, X, variance, 0.0, Run(0, 1))
    start = np.concatenate([encoder.parameters, decoder.parameters])
    schedule = Schedule(500, 300, 1.0, tol=1e-9)
    found, trace = minimize_loss(start, loss, np.arange(300), schedule, Run(0, 1))
    discarded = values[:3].sum() / variance
    value, gradient = loss(found, np.arange(300))
    g, c = np.linalg.norm(gradient), 2 * (values[3] - values[2]) / variance
    assert trace.objective[0] > 1.5 * discarded
    assert g < 1e-6
    assert -1e-12 <= value - discarded < g**2 / c + 1e-12
    shapes = [net.layers().linear for net in loss.split(found)]
    for span in (shapes[1].T, shapes[0]):
        assert subspace_angles(span, vectors[:, 3:]).max() < 1e3 * g / c + 1e-9


def test_without_hidden_layers_an_autoencoder_is_pca():
    X = bent_sheet(200)
    model = Autoencoder(n_components=2, hidden_layer_sizes=(), weight_decay=0.0).fit(X)
    pca = PCA(n_components=2).fit(X)
    lost = 1 - pca.explained_variance_ratio_.sum()
    assert model.reconstruction_error_ == pytest.approx(lost, rel=1e-9)
    back = model.inverse_transform(model.embedding_)
    assert ((X - back) ** 2).sum() / ((X - X.mean(axis=0)) ** 2).sum() == pytest.approx(lost, rel=1e-6)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_parabola_is_rebuilt_from_one_number(activation):
    t = np.linspace(-1, 1, 100)
    X = np.column_stack([t, t**2])
    model = Autoencoder(n_components=1, hidden_layer_sizes=(10,), activation=activation, max_iter=100).fit(X)
    assert model.diagnostics_["pca_error"] > 0.2
    assert model.reconstruction_error_ < 0.01
    rebuilt = model.inverse_transform(model.transform(X))
    error = ((X - rebuilt) ** 2).sum() / ((X - X.mean(axis=0)) ** 2).sum()
    assert error == pytest.approx(model.reconstruction_error_, rel=1e-6)
    order = np.diff(model.embedding_[:, 0])
    assert (order > 0).all() or (order < 0).all()


@pytest.mark.parametrize(("n", "seed"), [(120, 1), (600, 0)])
def test_a_circle_is_cut_open(n, seed):
    angle = 2 * np.pi * np.arange(n) / n
    X = np.column_stack([np.cos(angle), 1.1 * np.sin(angle)])
    model = Autoencoder(n_components=1, hidden_layer_sizes=(16, 16), random_state=seed).fit(X)
    assert model.reconstruction_error_ < 0.3 * model.diagnostics_["pca_error"]


@pytest.mark.parametrize("settings", [{"solver": "lbfgs"}, {"solver": "adam", "learning_rate": 3.0}])
def test_never_worse_than_pca(settings):
    """With a learning rate that throws the weights about nothing is learned, and the start is returned."""
    X = datasets.gaussian_clusters(120, n_features=6, random_state=0).X
    for decay in (0.0, 10.0):
        model = Autoencoder(hidden_layer_sizes=(5,), weight_decay=decay, max_iter=20, **settings).fit(X)
        assert model.reconstruction_error_ <= model.diagnostics_["pca_error"] * (1 + 1e-12)


def test_training_ends_by_the_held_out_points():
    """Pure noise has nothing that a net could learn: of held-out points it becomes worse, and the advice says so."""
    X = np.random.default_rng(0).standard_normal((600, 10))
    model = Autoencoder(hidden_layer_sizes=(40,), solver="adam", max_iter=200, n_iter_no_change=5).fit(X)
    assert model.trace_.stop is Stop.CONVERGED
    assert model.n_iter_ < 200
    assert any("PCA" in sentence for sentence in model.diagnostics_["advice"])
    assert "held_out_error" not in Autoencoder(max_iter=2, validation_fraction=0).fit(X).diagnostics_


def test_few_rows_are_not_learned_by_heart():
    """Of a Gaussian no net rebuilds new rows better than PCA; one that learned its rows loses twice as much of them."""
    X = np.random.default_rng(5).standard_normal((600, 10)) * np.linspace(3, 0.5, 10)
    fitted, new = X[:100], X[100:]

    def lost(model):
        return ((model.inverse_transform(model.transform(new)) - new) ** 2).sum()

    model = Autoencoder().fit(fitted)
    assert lost(model) < 1.2 * lost(PCA(n_components=2).fit(fitted))
    assert not any("by heart" in sentence for sentence in model.diagnostics_["advice"])
    few = Autoencoder(max_iter=30).fit(fitted[:30])
    assert "held_out_error" not in few.diagnostics_
    assert any("by heart" in sentence for sentence in few.diagnostics_["advice"])


# Parametric neighbor embeddings


def fuzzy(n=9, seed=0):
    """Symmetric weights of some pairs."""
    A = np.triu(np.random.default_rng(seed).uniform(size=(n, n)), 1)
    A[A < 0.4] = 0
    return csr_array(A + A.T)


def fuzzy_loss_by_definition(weights, Y):
    W = weights.toarray() / weights.data.max()
    S = cdist(Y, Y) ** 2 + REPULSION_OFFSET
    power = KERNEL.a * S**KERNEL.b
    repelled = np.log1p(1 / power)
    np.fill_diagonal(repelled, 0)
    n = len(Y)
    return ((W * np.log1p(power)).sum() + 5 * (W.sum(axis=1) * repelled.sum(axis=1) / (n - 1)).sum()) / n


def cross_entropy(weights):
    n = weights.shape[0]
    return FuzzyCrossEntropy(weights, KERNEL, np.arange(n), np.random.default_rng(0))


def exactly(X):
    """Rows without noise."""
    return NoisyRows(X, np.zeros(len(X)), np.random.default_rng(0))


def divergence_loss(n=9):
    joint = fuzzy(n)
    joint = joint / joint.sum()
    kernel = LayoutKernel(1.0)
    repulsion = choose_repulsion(kernel, n, 2, repulsion="exact")
    return DivergenceLoss(JointDivergence(joint, negative_entropy(joint.data), kernel, repulsion, Run(0, 1)))


def test_the_loss_of_a_table_is_that_of_umap():
    """With a table of places in place of a net: the definition, and the estimate of UMAP's own descent."""
    weights, Y = fuzzy(), np.random.default_rng(1).standard_normal((9, 2))
    loss = cross_entropy(weights)
    assert loss.value(Y) == pytest.approx(fuzzy_loss_by_definition(weights, Y), rel=1e-12)
    large, places = fuzzy(300, seed=2), 4 * np.random.default_rng(3).standard_normal((300, 2))
    expected = fuzzy_loss_by_definition(large, places)
    # 64 of 299 partners of each point: their mean has a hundredth of the spread, over 300 points.
    assert cross_entropy(large).value(places) == pytest.approx(expected, rel=0.01)
    assert NegativeSampling(large, KERNEL, Run(0, 1)).objective(places) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("make", [lambda: cross_entropy(fuzzy()), divergence_loss])
def test_slopes_of_a_layout_are_the_derivative_of_its_loss(make):
    loss, Y = make(), np.random.default_rng(1).standard_normal((9, 2))
    rows = np.array([4, 0, 7])
    _, slopes = loss.slopes(Y, rows)
    expected = 9 * by_differences(lambda flat: loss.value(flat.reshape(Y.shape)), Y.ravel()).reshape(Y.shape)
    np.testing.assert_allclose(slopes, expected[rows], rtol=1e-6, atol=1e-7)


def test_random_partners_give_the_slope_in_the_mean():
    weights, Y = fuzzy(N_REPELLED + 20), 2 * np.random.default_rng(1).standard_normal((N_REPELLED + 20, 2))
    loss, rows = cross_entropy(weights), np.arange(5)
    mean = np.mean([loss.slopes(Y, rows)[1] for _ in range(400)], axis=0)
    expected = len(Y) * by_differences(lambda flat: fuzzy_loss_by_definition(weights, flat.reshape(Y.shape)), Y.ravel())
    difference = mean - expected.reshape(Y.shape)[rows]
    spread = np.std([loss.slopes(Y, rows)[1] for _ in range(50)], axis=0)
    assert (np.abs(difference) < 5 * spread / np.sqrt(400)).all()


@pytest.mark.parametrize("make", [lambda: cross_entropy(fuzzy()), divergence_loss])
def test_the_gradient_of_an_encoder_is_its_derivative(make):
    X, network = np.random.default_rng(0).standard_normal((9, 3)), bent((3, 4, 2))
    loss = EncoderLoss(network, exactly(X), make(), np.zeros((9, 2)), np.ones(2), 2.0, 0.01)
    assert_derivative(loss, network.parameters, np.arange(9))


def test_the_gradient_towards_a_layout_is_its_derivative():
    rng, network = np.random.default_rng(0), bent((3, 4, 2))
    loss = TargetLoss(network, exactly(rng.standard_normal((9, 3))), rng.standard_normal((9, 2)), 0.01, Run(0, 1))
    assert_derivative(loss, network.parameters, np.array([1, 2, 8]))


def test_noise_costs_as_much_as_steep_weights():
    r"""Of a linear net V the mean over noise of length l is the loss of exact rows plus :math:`l^2 \|V\|^2 / p`.

    The layout is linear too and V is it, so the loss of exact rows is zero.
    """
    rng, n, p = np.random.default_rng(0), 40_000, 3
    X, lengths = rng.standard_normal((n, p)), rng.uniform(0.5, 2.0, n)
    network = bent((p, 2))
    targets = network.forward(X)[0]
    noisy = NoisyRows(X, lengths, np.random.default_rng(1))
    loss = TargetLoss(network, noisy, targets, 0.0, Run(0, 1))
    rows = np.arange(n)
    assert replace(loss, inputs=exactly(X))(network.parameters, rows)[0] == 0
    expected = float((lengths**2).mean() * (network.layers().linear ** 2).sum() / p)
    # The square of a Gaussian has a relative spread of at most sqrt(2), and lengths**2 one of 0.7: five spreads.
    for value in (loss(network.parameters, rows)[0], loss.value(network.parameters, rows)):
        assert value == pytest.approx(expected, rel=5 * 2 / np.sqrt(n))


def test_noise_is_as_long_as_the_way_to_the_nearest_distances_neighbor():
    X = np.concatenate([np.zeros((2, 3)), np.random.default_rng(0).standard_normal((30, 3))])
    model = ParametricUMAP(n_neighbors=4, n_epochs=2, hidden_layer_sizes=(3,)).fit(X)
    apart = cdist(X, X)
    np.fill_diagonal(apart, np.inf)
    np.testing.assert_allclose(_nearest_distances(model.graph_), apart.min(axis=1), rtol=1e-9)


def test_noise_is_the_same_for_any_number_of_threads():
    """Minibatches of more rows than one thread takes, so that several do."""
    X = np.random.default_rng(0).standard_normal((NETWORK_ROWS_PER_TASK + 200, 3))
    settings = {"n_epochs": 2, "batch_size": 2 * len(X), "hidden_layer_sizes": (4,), "n_neighbors": 4}
    one, two = (ParametricUMAP(n_jobs=n_jobs, **settings).fit_transform(X) for n_jobs in (1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, ParametricUMAP(noise=0.0, **settings).fit_transform(X))


def test_minibatches_of_a_table_add_up_to_all_rows():
    """Where the net has not moved since, the slopes of two halves are those of all rows."""
    X, network = np.random.default_rng(0).standard_normal((9, 3)), bent((3, 4, 2))
    loss = EncoderLoss(network, exactly(X), divergence_loss(), np.zeros((9, 2)), np.zeros(2), 1.0, 0.0)
    loss.value(network.parameters, np.arange(9))
    halves = [(np.arange(4), 4), (np.arange(4, 9), 5)]
    together = sum(n * loss(network.parameters, rows)[1] for rows, n in halves) / 9
    np.testing.assert_allclose(together, loss(network.parameters, np.arange(9))[1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("cls", [ParametricUMAP, ParametricTSNE])
def test_the_map_is_the_embedding_and_tuning_lowers_the_loss(cls):
    blobs = datasets.gaussian_clusters(150, n_clusters=3, n_features=5, random_state=0)
    model = cls(n_epochs=40, hidden_layer_sizes=(16,), batch_size=50, fine_tuning=0.25).fit(blobs.X)
    assert np.array_equal(model.transform(blobs.X), model.embedding_)
    assert model.trace_.objective[-1] < model.trace_.objective[0]
    assert model.n_iter_ == 10
    assert "convergence" not in diagnose(model)  # the epochs asked for are no limit that was hit
    centers = np.array([model.embedding_[blobs.labels == k].mean(axis=0) for k in range(3)])
    assert (cdist(model.embedding_, centers).argmin(axis=1) == blobs.labels).mean() > 0.95
    alone = cls(n_epochs=10, hidden_layer_sizes=(16,), batch_size=50, fine_tuning=1.0).fit(blobs.X)
    assert alone.trace_.objective[-1] < alone.trace_.objective[0]
    assert alone.diagnostics_["layout_missed"] == 0
    if cls is ParametricTSNE:
        assert model.kl_divergence_ == pytest.approx(
            divergence_of(model.affinity_matrix_.toarray(), model.embedding_), rel=1e-9
        )


def divergence_of(P, Y):
    W = 1 / (1 + cdist(Y, Y) ** 2)
    np.fill_diagonal(W, 0)
    Q = W / W.sum()
    listed = P > 0
    return float((P[listed] * np.log(P[listed] / Q[listed])).sum())


def test_the_map_does_not_grow_with_the_rows():
    import pickle

    sizes = [
        len(pickle.dumps(ParametricUMAP(n_epochs=2).fit(bent_sheet(n))._strip_for_transform("transform")))
        for n in (60, 240)
    ]
    assert abs(sizes[0] - sizes[1]) < 100


def test_a_net_too_small_for_its_layout_is_said():
    X = datasets.swiss_roll(300, random_state=0).X
    model = ParametricTSNE(hidden_layer_sizes=(), n_epochs=4).fit(X)
    assert model.diagnostics_["layout_missed"] > 0.1
    assert any("hidden_layer_sizes" in sentence for sentence in model.diagnostics_["advice"])


def test_minibatches_do_not_depend_on_the_order_of_the_rows():
    X = bent_sheet(90)
    order = np.random.default_rng(0).permutation(90)
    for model in (Autoencoder(solver="adam", max_iter=3), ParametricUMAP(n_epochs=4), ParametricTSNE(n_epochs=4)):
        model.set_params(batch_size=20, hidden_layer_sizes=(6,))
        straight, permuted = model.fit_transform(X)[order], model.fit_transform(X[order])
        assert np.abs(straight - permuted).max() < 1e-8 * np.abs(straight).max()


@pytest.mark.parametrize("cls", [Autoencoder, ParametricUMAP, ParametricTSNE])
def test_bad_layers_are_refused(cls):
    for layers in (64, (0,), (3.5,), "64", (True,)):
        with pytest.raises(ValueError, match="hidden_layer_sizes must be a tuple, each of it an integer of at least 1"):
            cls(hidden_layer_sizes=layers).fit(bent_sheet())
    with pytest.raises(ValueError, match="min_dist must be at most spread"):
        ParametricUMAP(min_dist=2.0).fit(bent_sheet())


def test_the_layout_that_a_net_learns_is_that_of_tsne_by_default():
    asked = TSNE().get_params()
    assert vars(ExaggerationSchedule()) == {name: asked[name] for name in vars(ExaggerationSchedule())}
