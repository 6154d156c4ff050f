"""Texts of parameters that several methods declare without a common base class."""

from __future__ import annotations

METRIC_TEXT = (
    "Name of a metric of scikit-learn, or a function of two rows; "
    'or "precomputed": ``X`` holds pairwise distances, or a sparse matrix with the edge lengths of a graph.'
)
DISTANCES_METRIC_TEXT = (
    'Name of a metric of scikit-learn, or a function of two rows; or "precomputed": ``X`` holds pairwise distances.'
)
AFFINITY_METRIC_TEXT = (
    f'{METRIC_TEXT[:-1]}; or "affinity": ``X`` holds edge weights, dense or sparse, 0 for no edge. '
    "Then no neighbors are searched, and the diagonal is ignored."
)
JOINT_METRIC_TEXT = (
    f'{METRIC_TEXT[:-1]}; or "affinity": ``X`` holds the joint probabilities p themselves, symmetric, dense or sparse, '
    "up to a factor."
)
METRIC_PARAMS_TEXT = "Further parameters of the metric by name."
SEARCH_TEXT = "Type of neighbor search; an approximate search reports its recall in ``diagnostics_``."
RADIUS_TEXT = (
    "Neighbors are all points within this distance; if ``n_neighbors`` is given too, at most that many of them."
)
SYMMETRY_TEXT = (
    'Whether an edge of the graph needs one of its ends to list the other as a neighbor ("or"), or both ("and").'
)
SEARCH_METRIC_TEXT = "Metric of the neighbor search: a name of scikit-learn or a function of two rows."

CHART_TEXT = (
    "Local coordinates: principal components corrected for curvature to arc length; principal components; or classical "
    "scaling of geodesic distances inside the patch."
)

TARGET_METRIC_TEXT = (
    "What ``y`` holds, if it is given: classes, or numbers whose differences matter. -1, NaN and None mark unknown "
    "targets."
)
TARGET_WEIGHT_TEXT = (
    "Weight w of ``y``, from 0, which ignores it, to 1. Points of different known classes count as "
    r":math:`\sqrt{d^2 + p^2}` apart, with p = h w / (1 - w) and h the median distance between neighbors; with 1 no "
    r"edge joins two classes. For numeric targets :math:`p^2` is multiplied by :math:`|t_i - t_j|^2` over its mean. "
    "Unknown targets are filled in along the graph. New points need no targets."
)

PARTICIPATION_TEXT = (
    "Minimum share of the points that must carry an eigenvector (its inverse participation ratio) for it to become a "
    "coordinate. Outliers and small clumps carry eigenvectors of their own, which are skipped. 0 skips none."
)
WEIGHT_REG_TEXT = (
    "Regularization of the weights that reconstruct a point from its neighbors, relative to the trace of the local "
    "Gram matrix."
)
TRUE_SCALE_TEXT = (
    "Whether to set the coordinates to the scale of the data where it is well determined; False leaves Y'Y = nI."
)
VARIANCE_TEXT = (
    "Share of the variance that a preceding PCA keeps; 1 removes only rounding errors. Columns of the embedding beyond "
    "the rank of the data are zero."
)
EDGE_WEIGHTS_TEXT = "Edge weights: those of the heat kernel, or 1 for all edges."
BANDWIDTH_TEXT = (
    r'Standard deviation s of the heat kernel. With "auto", :math:`2 s^2` is the median over the points of the mean '
    "squared distance to their neighbors; a point more than 1.5 times as far from its neighbors gets an s of its own."
)

KERNEL_TEXT = (
    r"Kernel: :math:`\exp(-\gamma \|x-y\|^2)`, :math:`(\gamma x^T y + c)^p`, :math:`x^T y`, "
    r":math:`\tanh(\gamma x^T y + c)` or the cosine of the angle; "
    '"precomputed": ``X`` holds kernel values, in `transform` those of new points to the fitted ones; '
    "or a function of two arrays of rows, (m, p) and (n, p), that returns the values (m, n)."
)
GAMMA_TEXT = (
    r'Coefficient of the rbf, poly and sigmoid kernels; "auto" and None are :math:`1/2b^2` for rbf, with b the median '
    "distance between distinct points, and 1 for the others."
)
DEGREE_TEXT = "Degree p of the poly kernel."
COEF0_TEXT = "Constant c of the poly and sigmoid kernels."
CONSTRAINTS_TEXT = 'Whether distances between neighbors are kept ("equal"), or only not exceeded ("at most").'
SLACK_TEXT = "Relative slack of the kept squared distances; a larger one makes the program faster to solve."
GAP_TEXT = (
    "Relative gap, proven by the dual, at which the optimization stops; the certificate states whether it was reached."
)
N_CLUSTERS_TEXT = "Number of clusters; there are fewer if fewer already leave no error."
STARTS_TEXT = "Number of random starts, of which the best is kept."
STEPS_TEXT = "Maximum number of iterations per start."
DECREASE_TEXT = (
    "A start ends when an iteration lowers the objective by at most this share of it; with 0, when no label changes."
)
MAX_ITER_TEXT = "Maximum number of iterations."

UMAP_NEIGHBORS_TEXT = (
    'Number of neighbors, not counting the point itself; "auto" is 15, or n - 1 for fewer points. (umap-learn counts '
    "the point itself, so it needs one more for the same result.)"
)
MIN_DIST_TEXT = "Distance in the layout up to which points count as neighbors; at most ``spread``."
SPREAD_TEXT = "Scale of the layout: the distance over which membership decays."
NEGATIVE_SAMPLES_TEXT = "Number of negative samples for each sample of an edge."
REPULSION_STRENGTH_TEXT = "Factor on the repulsion of the negative samples."
DOF_TEXT = (
    r"Degrees of freedom :math:`\nu` of the layout's kernel: below 1 clusters tighten and fine structure shows, above "
    "1 they spread; infinity would be `SymmetricSNE`."
)
ACTIVATION_TEXT = "Activation function of the hidden layers."
BATCH_SIZE_TEXT = "Number of points in a minibatch."
