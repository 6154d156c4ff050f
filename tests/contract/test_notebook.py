"""What a notebook shows: of fitted estimators a picture and figures, of others scikit-learn's diagram; all escaped."""

from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers import bent_sheet, in_new_process
from manifoldry import IPA, LDLC, PCA, TSNE, ClassicalMDS, Isomap, KMeans, PrincipalCurve, compare, diagnose, score
from manifoldry._core.markup import MAX_PICTURE_POINTS, dots, page_part, table
from manifoldry._numerics.ranks import rank_measures

X = bent_sheet(200)
MODELS = [
    PCA(n_components=2),
    Isomap(n_neighbors=8),
    IPA(n_patches=6),
    TSNE(max_iter=30, early_exaggeration_iter=10),
    PrincipalCurve(),
    KMeans(n_clusters=3),
    LDLC(n_clusters=3, n_components=1),
]


def print_nothing(progress):
    return False


class Reader(HTMLParser):
    """Collects text and attributes, and holds every tag to its end."""

    def __init__(self, html):
        super().__init__()
        self.open, self.text, self.found = [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.found.append((tag, dict(attrs)))

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def all_of(self, tag):
        return [attrs for name, attrs in self.found if name == tag]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_fitted_estimator_shows_what_it_did_in_little_space(model):
    html = model.fit(X)._repr_html_()
    read = Reader(html)
    words = "".join(read.text)
    assert type(model).__name__ in words
    assert "200 × 4 → " in words
    assert len(read.all_of("svg")) == 1
    assert len(html) < 60_000
    assert model._repr_mimebundle_()["text/html"] == html
    for sentence in model.diagnostics_.get("advice", ()):
        assert sentence in words


def test_the_figures_are_those_of_the_score_and_stand_beside_those_of_pca():
    model = Isomap(n_neighbors=8).fit(X)
    figures = model.diagnostics_["figures"]
    assert figures["n_compared"] == figures["n_among"] / 2 == 100
    whole = rank_measures(X, model.embedding_, n_neighbors=15)  # a sample of a hundred is near to all
    assert figures["trustworthiness"] == pytest.approx(whole.trustworthiness, abs=0.02)
    assert figures["continuity"] == pytest.approx(whole.continuity, abs=0.02)
    assert figures["knn_kept"] == pytest.approx(whole.knn_kept, abs=0.06)
    assert figures["pca"]["trustworthiness"] < figures["trustworthiness"]
    words = "".join(Reader(model._repr_html_()).text)
    assert f"{figures['knn_kept']:.2f}{figures['pca']['knn_kept']:.2f}" in words.replace(" ", "")


def test_changed_parameters_are_told_and_defaults_are_not():
    words = "".join(Reader(Isomap(n_neighbors=8, random_state=3).fit(X)._repr_html_()).text)
    assert "n_neighbors=8" in words
    assert "random_state=3" in words
    assert "n_components" not in words


def test_distances_are_called_pairs_and_have_no_components_beside_them():
    D = np.linalg.norm(X[:, None] - X, axis=2)
    words = "".join(Reader(ClassicalMDS(metric="precomputed").fit(D)._repr_html_()).text)
    assert "200 points by pairs → 200 × 2" in words
    assert "PCA" not in words


def test_what_is_not_fitted_keeps_the_diagram_of_scikit_learn():
    for model in (Isomap(), PCA(), KMeans()):
        html = model._repr_html_()
        assert "sk-" in html
        assert "mfy" not in html
    assert "sk-" in make_pipeline(StandardScaler(), PCA(n_components=2)).fit(X)._repr_html_()


def test_text_display_turns_it_off():
    with config_context(display="text"):
        assert not hasattr(PCA(n_components=2).fit(X), "_repr_html_")


def test_everything_is_escaped():
    evil = "<script>alert(1)</script>"
    model = Isomap(n_neighbors=8, callback=print_nothing).fit(X)
    model.diagnostics_["advice"] = (evil,)
    read = Reader(model._repr_html_())
    assert not read.all_of("script")
    assert evil in read.text
    assert "callback=<function" in "".join(read.text)
    assert not Reader(page_part(table([evil], [[evil], [evil, evil]]), dots(np.ones((3, 2)), evil))).all_of("script")


def test_pictures_hold_every_point_in_true_proportion():
    Y = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 5.0], [0.0, 5.0]])
    path = Reader(dots(Y)).all_of("path")[0]["d"]
    spots = np.array([[int(v) for v in spot.removesuffix("h0").split()] for spot in path.split("M")[1:]])
    assert len(spots) == 4
    assert np.ptp(spots[:, 0]) == pytest.approx(2 * np.ptp(spots[:, 1]), abs=1)
    many = np.random.default_rng(0).normal(size=(10_000, 2))
    assert Reader(dots(many)).all_of("path")[0]["d"].count("M") <= MAX_PICTURE_POINTS
    stray = np.concatenate([many[:1000], [[1e6, 0.0]]])
    assert Reader(dots(stray)).all_of("path")[0]["d"].count("M") > 900  # one far point does not hide the others


def test_points_without_a_place_and_single_places_are_no_trouble():
    assert dots(np.full((5, 2), np.nan)) == ""
    assert Reader(dots(np.zeros((5, 2)))).all_of("path")[0]["d"].count("M") == 1


def test_scores_comparisons_and_diagnoses_are_tables():
    scored = score(X, X[:, :2], figures=["trustworthiness", "pearson"])
    words = "".join(Reader(scored._repr_html_()).text)
    assert f"{scored['trustworthiness']:.4f}" in words
    assert f"{scored.pca['pearson']:.4f}" in words
    found = compare(X, purpose="keep distances", methods=["Isomap"])
    read = Reader(found._repr_html_())
    assert len(read.all_of("svg")) == len(found.ranking) == 2
    assert found.best.reasons[0] in "".join(read.text)
    looked = diagnose(X)
    words = "".join(Reader(looked._repr_html_()).text)
    assert all(finding.sentence in words and finding.topic in words for finding in looked)


def test_no_plotting_library_is_loaded():
    script = """
import sys, warnings
warnings.simplefilter("ignore")
import manifoldry
html = manifoldry.PCA(n_components=2).fit(manifoldry.datasets.swiss_roll(100).X)._repr_html_()
print("<svg" in html, "matplotlib" in sys.modules)
"""
    assert in_new_process(script) == "True False"
