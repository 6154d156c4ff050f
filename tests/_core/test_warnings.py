"""Every warning leads to the paragraph of the documentation that explains it."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from manifoldry import PCA, EmbeddingWarning
from manifoldry._core.warnings import DOCUMENTATION, EXPLAINED, issue, pointer
from manifoldry.evaluation.diagnosis._fitted import TOPICS_OF_ADVICE

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "reference" / "warnings.md").read_text(encoding="utf-8")
SOURCE = {path: path.read_text(encoding="utf-8") for path in (ROOT / "src" / "manifoldry").rglob("*.py")}


def test_every_kind_of_warning_has_a_paragraph_and_every_paragraph_a_kind():
    titles = re.findall(r"^### (.+)$", PAGE[: PAGE.index("## Diagnosis")], flags=re.MULTILINE)
    slugs = [title.lower().replace(" ", "-") for title in titles]
    assert sorted(slugs) == sorted(EXPLAINED)


@pytest.mark.parametrize("kind", EXPLAINED)
def test_the_words_of_a_kind_are_in_a_message(kind):
    other = [text for path, text in SOURCE.items() if path.name != "warnings.py"]
    texts = [re.sub(r'"\s+f?"', "", text) for text in other]  # a message is written as adjacent strings
    for words in EXPLAINED[kind]:
        pattern = re.escape(words).replace("of\\ ax", r"of\ ({which}|ax)")
        assert any(re.search(pattern, text) for text in texts), words


def test_a_warning_ends_with_the_address_of_its_paragraph():
    X = np.random.default_rng(0).normal(size=(60, 4)) * [1000, 1, 1, 1]
    with pytest.warns(EmbeddingWarning) as caught:
        PCA(n_components=2).fit(X)
    (only,) = caught
    page = f"{DOCUMENTATION}reference/warnings.html"
    assert str(only.message).endswith(f" [see {page}#dominating-columns]")
    assert pointer("Something else.") == f" [see {page}]"


def test_a_message_is_issued_with_its_pointer():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        issue("The kernel is indefinite: so.", EmbeddingWarning)
    assert [str(each.message) for each in caught] == [
        f"The kernel is indefinite: so. [see {DOCUMENTATION}reference/warnings.html#kernels]"
    ]


def test_every_topic_of_a_diagnosis_has_an_anchor():
    calls = re.compile(r"\b(?:Finding|note|problem)\(\s*\"([^\"]+)\"")
    folder = ROOT / "src" / "manifoldry" / "evaluation" / "diagnosis"
    topics = {topic for path, text in SOURCE.items() if path.parent == folder for topic in calls.findall(text)}
    topics |= {topic for _, topic in TOPICS_OF_ADVICE} | {"advice", "certificate", "error certificate"}
    assert len(topics) > 30
    anchors = re.findall(r"<a id=\"finding-([^\"]+)\"></a>", PAGE)
    assert {topic.replace(" ", "-") for topic in topics} == set(anchors)
    assert len(anchors) == len(set(anchors))
