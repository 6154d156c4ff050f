"""A user's file, as `mypy --strict` sees it: lines marked with the start of an error must give it, the others none."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline, make_pipeline

from manifoldry import (
    EAT,
    IPA,
    LDLC,
    LPP,
    MDS,
    PCA,
    TSNE,
    UMAP,
    Isomap,
    KMeans,
    NeighborGraph,
    datasets,
    metrics,
)
from manifoldry._core.run import Progress
from manifoldry._core.values import Certificate, Spectrum, Trace

X: NDArray[np.float64] = np.random.default_rng(0).standard_normal((100, 5))

# Parameters
UMAP(n_neighbors=3, metric="cosine", random_state=np.random.default_rng(0), n_jobs=-1, verbose=True)
TSNE(perplexity=[5, 50], init=np.zeros((100, 2)), learning_rate="auto")
IPA(chart="flat", n_patches="auto")
LDLC(n_clusters=3)
UMAP(n_neigbors=3)  # E: Unexpected keyword argument "n_neigbors" for "UMAP"
UMAP(2, 3)  # E: Too many positional arguments for "UMAP"
IPA(chart="flatt")  # E: Argument "chart" to "IPA" has incompatible type "Literal['flatt']"
Isomap(disconnected="join")  # E: Argument "disconnected" to "Isomap" has incompatible type
MDS(max_iter="many")  # E: Argument "max_iter" to "MDS" has incompatible type "str"
TSNE(learning_rate="fast")  # E: Argument "learning_rate" to "TSNE" has incompatible type
KMeans(clusters=3)  # E: Unexpected keyword argument "clusters" for "KMeans"
UMAP(embedding_=X)  # E: Unexpected keyword argument "embedding_" for "UMAP"
UMAP(a_=1.0)  # E: Unexpected keyword argument "a_" for "UMAP"


def told(progress: Progress) -> bool:
    """Return whether to stop."""
    return progress.seconds > 10


# What is fitted
model = UMAP(n_neighbors=5, callback=told).fit(X)
Y: NDArray[np.float64] = model.embedding_
again: NDArray[np.float64] = UMAP().fit_transform(X)
placed: NDArray[np.float64] = model.transform(X)
back: NDArray[np.float64] = IPA().fit(X).inverse_transform(Y)
notes: dict[str, Any] = model.diagnostics_
graph: NeighborGraph = model.graph_
lengths: NDArray[np.float64] = graph.lengths
a: float = model.a_
n_features: int = model.n_features_in_
names: NDArray[Any] = model.get_feature_names_out()
parameters: dict[str, Any] = model.get_params()
certificate: Certificate = IPA().fit(X).certificate_
spectrum: Spectrum = Isomap().fit(X).spectrum_
values: NDArray[np.float64] = spectrum.values
trace: Trace = TSNE().fit(X).trace_
components: NDArray[np.float64] = LPP().fit(X).components_
error: float = EAT().fit(X).error_
labels: NDArray[np.int64] = LDLC(n_clusters=3).fit_predict(X)
scores: NDArray[np.float64] = PCA(n_components=2).fit(X).embedding_
roll: NDArray[np.float64] = datasets.swiss_roll(100).X
figures: dict[str, float] = metrics.score(X, Y)
errors: dict[str, float] = metrics.score(X, Y, sample=50).errors
displacements: NDArray[np.float64] = metrics.agreement(X, Y).displacements
wrong: str = model.embedding_  # E: Incompatible types in assignment
missing = model.embeding_  # E: "UMAP" has no attribute "embeding_"
none = Isomap().fit(X).a_  # E: "Isomap" has no attribute "a_"

# With scikit-learn, which has no types
framed: UMAP = UMAP().set_output(transform="pandas")
UMAP().set_output(transform="table")  # E: Argument "transform" to "set_output" of "TransformerMixin" has incompatible
changed: UMAP = UMAP().set_params(n_neighbors=7)
pipe: Pipeline = make_pipeline(PCA(n_components=3), UMAP(n_neighbors=5), KMeans(n_clusters=3))
found: NDArray[np.int64] = pipe.fit_predict(X)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
