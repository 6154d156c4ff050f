"""Words of scikit-learn, umap-learn, openTSNE, scanpy and others for parameters that have another name here."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

SYNONYMS: dict[str, tuple[str, ...]] = {
    "n_components": ("dims", "initial_dims", "n_evecs"),
    "n_neighbors": ("k", "knn", "n_nbrs", "nearest_neighbors", "neighbors"),
    "n_clusters": ("n_patches",),
    "n_patches": ("n_clusters",),
    "n_landmarks": ("n_landmark",),
    "patches": ("tesserae",),
    "metric": ("affinity", "dissimilarity"),
    "metric_params": ("metric_kwds", "p"),
    "target_metric": ("target_metric_kwds",),
    "search": ("force_approximation_algorithm", "knn_kwargs", "neighbors_algorithm"),
    "n_epochs": ("epochs", "max_iter", "maxiter", "n_iter", "n_training_epochs"),
    "max_iter": ("epochs", "maxiter", "n_epochs", "n_iter", "n_steps"),
    "tol": ("eps", "gap", "min_grad_norm", "n_iter_without_progress"),
    "radius": ("disconnection_distance", "eps", "epsilon"),
    "callback": ("callbacks", "callbacks_every_iters"),
    "verbose": ("tqdm_kwds",),
    "n_jobs": ("num_threads",),
    "random_state": ("random_seed", "seed"),
    "init": ("init_pos", "initialization"),
    "dof": ("alpha", "df"),
    "weight": ("lam",),
    "weight_decay": ("alpha",),
    "learning_rate": ("alpha", "learning_rate_init"),
    "repulsion_strength": ("gamma",),
    "reg": ("regularization", "ridge"),
    "min_variance": ("reg_covar",),
    "gamma": ("bandwidth", "kernel_bandwidth", "sigma", "slope"),
    "bandwidth": ("epsilon", "gamma", "sigma"),
    "coef0": ("offset",),
    "laplacian": ("normalized_laplacian",),
    "repulsion": ("forces", "method", "negative_gradient_method"),
    "accuracy": ("angle", "theta"),
    "early_exaggeration_iter": ("early_steps",),
    "late_exaggeration": ("exaggeration",),
    "late_exaggeration_iter": ("late_steps",),
}
"""Our word, and theirs. Of several of ours, the first that an estimator has is named."""

CONVERSIONS = {
    ("bandwidth", "gamma"): "gamma = 1 / (2 * bandwidth**2)",
    ("gamma", "bandwidth"): "bandwidth = 1 / sqrt(2 * gamma)",
    ("kernel_bandwidth", "gamma"): "gamma = 1 / (2 * kernel_bandwidth**2)",
    ("p", "metric_params"): "metric='minkowski', metric_params={'p': p}",
}
"""Their word and ours where the value changes too, and how."""
_SOLVERS = "eigensolvers are chosen by the size of the problem"

_REASONS: dict[str, tuple[str, ...]] = {
    "the search is chosen for the metric": ("angular_rp_forest",),
    _SOLVERS: ("arpack_options", "eigen_solver", "hessian_tol", "iterated_power", "modified_tol"),
    "X is never modified": ("copy_X",),
    "the constant eigenvector is always left out; its eigenvalue is in spectrum_.dropped": ("drop_first",),
    "eigenpairs are computed to rounding and their residuals reported in spectrum_": ("eigen_tol",),
    "momentum depends on the phase and is reset when it leads uphill": ("final_momentum", "initial_momentum"),
    "inverse_transform needs no preparation": ("fit_inverse_transform",),
    "the mesh of the FFT follows from accuracy": ("ints_in_interval", "min_num_intervals", "n_interpolation_points"),
    "pass a function as kernel": ("kernel_params",),
    "memory use is bounded automatically and reported in diagnostics_": ("low_memory",),
    "the step length is limited automatically": ("max_grad_norm", "max_step_norm"),
    "MDS is metric, NonmetricMDS is not": ("metric_mds",),
    "stress_ is the stress; diagnostics_ has the normalized one and Kruskal's stress_1": ("normalized_stress",),
    "the log radii of UMAP(densmap=True) are in rad_orig_ and rad_emb_": ("output_dens",),
    "layouts are Euclidean": ("output_metric", "output_metric_kwds"),
    "the shortest-path algorithm is chosen by the size of the graph": ("path_method",),
    "pass the graph itself as X, sparse with metric='precomputed', or a NeighborGraph": ("precomputed_knn",),
    "components that the data do not have are columns of zeros": ("remove_zero_eig",),
    "neighbors of new points are searched in the same way as in the fit": ("transform_queue_size",),
    "random_state seeds transform too": ("transform_seed",),
    "the graph alone is affinity_matrix_ after a fit": ("transform_mode",),
    "lengths belong to the graph: fit neighborhood_graph(X, edge_lengths=...)": ("edge_lengths",),
}
NOT_NEEDED = {word: why for why, words in _REASONS.items() for word in words}
"""Words for which there is no parameter here, and why."""

NOT_NEEDED_BY = {
    "Isomap": {"max_iter": _SOLVERS, "tol": _SOLVERS},
    "KernelPCA": {
        "alpha": "pre-images are local regressions without a ridge to choose",
        "max_iter": _SOLVERS,
        "tol": _SOLVERS,
    },
    "LLE": {
        "max_iter": _SOLVERS,
        "method": "each method is a class of its own here: LLE, ModifiedLLE, HessianEigenmaps, LTSA",
        "tol": _SOLVERS,
    },
    "UMAP": {
        "disconnection_distance": "pass a sparse graph without the pairs beyond it as X, with metric='precomputed', "
        "as NearestNeighbors(radius=...).radius_neighbors_graph gives it",
    },
}
"""The same for words that other estimators have."""


def our_word(name: str, names: Collection[str]) -> str | None:
    """Return the one of our ``names`` for which other libraries have this name."""
    return next((ours for ours, theirs in SYNONYMS.items() if name in theirs and ours in names), None)


def absent(estimator: str, name: str) -> str | None:
    """Return why an estimator has no parameter of this name of another library, None if it has one or is unknown."""
    return {**NOT_NEEDED, **NOT_NEEDED_BY.get(estimator, {})}.get(name)


def unknown_parameter(estimator: str, name: str, names: Collection[str]) -> str:
    """Return the error message for an unknown parameter: our word for it, the closest one, or all of them."""
    why = absent(estimator, name)
    if why is not None:
        return f"{estimator} has no parameter {name!r}: {why}."
    ours = our_word(name, names)
    if ours is not None:
        conversion = f", {CONVERSIONS[name, ours]}" if (name, ours) in CONVERSIONS else ""
        return f"{estimator} has no parameter {name!r}; here it is {ours!r}{conversion}."
    if close := get_close_matches(name, names, 1):
        return f"{estimator} has no parameter {name!r}; did you mean {close[0]!r}?"
    return f"{estimator} has no parameter {name!r}; it has {', '.join(sorted(names))}."
