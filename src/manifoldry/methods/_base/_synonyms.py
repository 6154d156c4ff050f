"""Words of scikit-learn, umap-learn, openTSNE and others for parameters that have another name here."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

OUR_NAMES: dict[str, tuple[str, ...]] = {
    "affinity": ("metric",),
    "alpha": ("weight_decay",),
    "angle": ("accuracy",),
    "bandwidth": ("gamma",),
    "callbacks": ("callback",),
    "callbacks_every_iters": ("callback",),
    "dims": ("n_components",),
    "disconnection_distance": ("radius",),
    "dissimilarity": ("metric",),
    "early_steps": ("early_exaggeration_iter",),
    "epochs": ("n_epochs", "max_iter"),
    "eps": ("tol", "radius"),
    "epsilon": ("radius", "bandwidth"),
    "exaggeration": ("late_exaggeration",),
    "force_approximation_algorithm": ("search",),
    "forces": ("repulsion",),
    "gamma": ("bandwidth",),
    "gap": ("tol",),
    "initial_dims": ("n_components",),
    "initialization": ("init",),
    "k": ("n_neighbors",),
    "kernel_bandwidth": ("gamma",),
    "knn": ("n_neighbors",),
    "lam": ("weight",),
    "late_steps": ("late_exaggeration_iter",),
    "learning_rate_init": ("learning_rate",),
    "max_iter": ("n_epochs",),
    "method": ("repulsion",),
    "metric_kwds": ("metric_params",),
    "min_grad_norm": ("tol",),
    "n_clusters": ("n_patches",),
    "n_epochs": ("max_iter",),
    "n_evecs": ("n_components",),
    "n_iter": ("max_iter", "n_epochs"),
    "n_iter_without_progress": ("tol",),
    "n_landmark": ("n_landmarks",),
    "n_nbrs": ("n_neighbors",),
    "n_patches": ("n_clusters",),
    "n_steps": ("max_iter",),
    "n_training_epochs": ("n_epochs",),
    "nearest_neighbors": ("n_neighbors",),
    "negative_gradient_method": ("repulsion",),
    "neighbors": ("n_neighbors",),
    "neighbors_algorithm": ("search",),
    "normalized_laplacian": ("laplacian",),
    "num_threads": ("n_jobs",),
    "offset": ("coef0",),
    "p": ("metric_params",),
    "random_seed": ("random_state",),
    "reg_covar": ("min_variance",),
    "regularization": ("reg",),
    "ridge": ("reg",),
    "seed": ("random_state",),
    "sigma": ("gamma", "bandwidth"),
    "slope": ("gamma",),
    "target_metric_kwds": ("target_metric",),
    "tesserae": ("patches",),
    "theta": ("accuracy",),
    "tqdm_kwds": ("verbose",),
}
"""Their word, and ours in the order of preference: the first that the estimator has is named."""

CONVERSIONS = {
    ("bandwidth", "gamma"): "gamma = 1 / (2 * bandwidth**2)",
    ("gamma", "bandwidth"): "bandwidth = 1 / sqrt(2 * gamma)",
    ("kernel_bandwidth", "gamma"): "gamma = 1 / (2 * kernel_bandwidth**2)",
    ("p", "metric_params"): "metric='minkowski', metric_params={'p': p}",
}
"""Their word and ours where the value changes too, and how."""

_SOLVERS = "eigensolvers are chosen by the size of the problem"

NOT_NEEDED = {
    "angular_rp_forest": "the search suits the metric by itself",
    "arpack_options": _SOLVERS,
    "copy_X": "X is never written into",
    "drop_first": "the constant eigenvector is always left out; its eigenvalue is in spectrum_.dropped",
    "eigen_solver": _SOLVERS,
    "eigen_tol": "eigenpairs are computed to rounding and their residuals reported in spectrum_",
    "final_momentum": "momentum is set by the phase and restarts where it leads uphill",
    "fit_inverse_transform": "inverse_transform is always there where a way back exists",
    "hessian_tol": _SOLVERS,
    "initial_momentum": "momentum is set by the phase and restarts where it leads uphill",
    "ints_in_interval": "the mesh of the FFT follows from accuracy",
    "iterated_power": _SOLVERS,
    "kernel_params": "pass a function as kernel",
    "low_memory": "memory is bounded by itself and reported in diagnostics_",
    "max_grad_norm": "a step is bounded by itself",
    "max_step_norm": "a step is bounded by itself",
    "metric_mds": "MDS is metric, NonmetricMDS is not",
    "min_num_intervals": "the mesh of the FFT follows from accuracy",
    "modified_tol": _SOLVERS,
    "n_interpolation_points": "the mesh of the FFT follows from accuracy",
    "normalized_stress": "stress_ is the stress; diagnostics_ has the normalized one and Kruskal's stress_1",
    "output_dens": "the log radii of UMAP(densmap=True) are in rad_orig_ and rad_emb_",
    "output_metric": "layouts are Euclidean",
    "path_method": "shortest paths are found by the way that suits the size of the graph",
    "precomputed_knn": "pass the graph itself as X, sparse with metric='precomputed', or a NeighborGraph",
    "remove_zero_eig": "components that the data do not have are columns of zeros",
    "transform_queue_size": "neighbors of new points are searched for as those of the fit were",
    "transform_seed": "random_state seeds transform too",
}
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


def unknown_parameter(estimator: str, name: str, names: Collection[str]) -> str:
    """Return the sentence that refuses a parameter: our word for it, the nearest one, or all of them."""
    why = {**NOT_NEEDED, **NOT_NEEDED_BY.get(estimator, {})}.get(name)
    if why is not None:
        return f"{estimator} has no parameter {name!r}: {why}."
    ours = next((word for word in OUR_NAMES.get(name, ()) if word in names), None)
    if ours is not None:
        conversion = f", {CONVERSIONS[name, ours]}" if (name, ours) in CONVERSIONS else ""
        return f"{estimator} has no parameter {name!r}; here it is {ours!r}{conversion}."
    near = get_close_matches(name, names, 1)
    if near:
        return f"{estimator} has no parameter {name!r}; did you mean {near[0]!r}?"
    return f"{estimator} has no parameter {name!r}; it has {', '.join(sorted(names))}."
