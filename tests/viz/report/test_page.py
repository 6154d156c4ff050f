"""The page as text: what is packed can be unpacked, what comes from files stays text, same report, same bytes."""

import base64
import gzip
import hashlib
import html.parser
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from manifoldry.viz._report import page
from manifoldry.viz._report.contents import Report, ReportPanel
from report_samples import sample

ASSETS = Path(page.__file__).parent / "assets"
NASTY = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "{{meta}} ${window.hacked = 1} <!-- <script>",
    '"><svg onload="window.hacked=1">',
    "\u2028\ud800 ]]> &lt;b&gt; \x00",
]
"""Names and texts that would run code in a page that takes them for markup."""


class Reader(html.parser.HTMLParser):
    """Collects the elements of a page and the texts of its scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.inside = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.inside = dict(attrs).get("id", tag)
            self.scripts[self.inside] = ""

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self.inside = None

    def handle_data(self, data):
        if self.inside:
            self.scripts[self.inside] += data


def unpacked(contents, reference):
    raw = gzip.decompress(base64.b64decode(contents["blocks"][reference["block"]]))
    if reference["dtype"] == "text":
        return json.loads(raw)
    values = np.frombuffer(raw, dtype=np.dtype(reference["dtype"]).newbyteorder("<"))
    assert len(values) == reference["length"]
    return values


def test_everything_that_is_packed_can_be_unpacked():
    report = sample()
    contents = json.loads(json.dumps(page.payload(report), allow_nan=False))
    meta = contents["meta"]
    for panel, shown in zip(report.panels, meta["panels"], strict=True):
        Y = unpacked(contents, shown["data"]).reshape(-1, shown["dimension"])
        assert np.abs(Y).max() == 1.0
        np.testing.assert_allclose(
            Y * shown["scale"] + shown["center"],
            panel.coordinates,
            atol=1.1 * page.COORDINATE_GRID * shown["scale"],
        )
    columns = {column["name"]: column for column in meta["columns"]}
    assert [column["kind"] for column in columns.values()] == ["category", "number", "number", "text"]
    kinds = np.array(["", *columns["kind"]["categories"]])
    assert np.array_equal(kinds[unpacked(contents, columns["kind"]["data"])], report.columns["kind"])
    for name in ("amount", "count"):
        assert np.array_equal(unpacked(contents, columns[name]["data"]), report.columns[name], equal_nan=True)
    assert unpacked(contents, columns["said"]["data"]) == report.columns["said"].tolist()
    assert unpacked(contents, meta["ids"]["data"]) == report.ids.tolist()
    pictures = unpacked(contents, meta["thumbnails"]["data"])
    assert np.array_equal(pictures.reshape(report.thumbnails.shape), report.thumbnails)


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        (np.arange(3, 243), "range"),
        (np.arange(240)[::-1] * 7, "number"),
        (np.arange(240) + np.linspace(0, 1, 240), "number"),
        (np.arange(240)[::-1] + 2**60, "text"),
        (np.array([f"é{i}" for i in range(240)]), "text"),
    ],
)
def test_ids_of_every_kind(ids, kind):
    contents = page.payload(sample(ids=ids))
    entry = contents["meta"]["ids"]
    assert entry["kind"] == kind
    if kind == "range":
        assert entry["start"] == ids[0]
    else:
        expected = [str(value) for value in ids] if kind == "text" else ids.tolist()
        assert list(unpacked(contents, entry["data"])) == expected


def test_integers_are_names_in_a_label_and_amounts_elsewhere():
    columns = {"class": np.array([10, 2, 2, 1] * 60), "age": np.array([10, 2, 2, 1] * 60)}
    contents = page.payload(sample(columns=columns, label="class"))
    label, age = contents["meta"]["columns"]
    assert (label["kind"], label["categories"], age["kind"]) == ("category", ["1", "2", "10"], "number")
    assert unpacked(contents, label["data"])[:4].tolist() == [3, 2, 2, 1]


def test_many_categories_need_more_bytes_and_too_many_are_text():
    n = 4000
    values = np.array([f"c{i % 700:03d}" for i in range(n)])
    blocks = page.Blocks()
    found = page.encode_column("many", values, blocks, names=False, limit=100)
    assert (found["kind"], found["data"]["dtype"], len(found["categories"])) == ("category", "uint16", 700)
    names = np.array([f"c{i}" for i in range(n)])
    assert page.encode_column("names", names, blocks, names=False, limit=100)["kind"] == "text"


def test_long_text_is_cut_and_says_so():
    long = np.array([f"{i} " + "x" * 500 for i in range(240)])
    contents = page.payload(sample(columns={"long": long}, label=None))
    texts = unpacked(contents, contents["meta"]["columns"][0]["data"])
    assert {len(text) for text in texts} == {page.MAX_FIELD_CHARACTERS}
    assert all(text.endswith("…") for text in texts)
    assert "longer than 200 characters are cut" in contents["meta"]["sections"]["notes"]
    assert page.field_limit(500_000, 4) == page.MIN_FIELD_CHARACTERS
    assert "is cut" not in page.payload(sample())["meta"]["sections"]["notes"]


def test_pictures_that_are_too_many_become_smaller_or_are_left_out(monkeypatch):
    pictures = np.random.default_rng(0).integers(0, 256, (10, 30, 40, 3), dtype=np.uint8)
    monkeypatch.setattr(page, "MAX_THUMBNAIL_BYTES", 10 * 15 * 20 * 3)
    found, said = page.encode_thumbnails(pictures, blocks := page.Blocks())
    assert (found["height"], found["width"], found["channels"]) == (15, 20, 3)
    assert "1/2 of their size" in said
    shown = unpacked({"blocks": blocks.packed}, found["data"]).reshape(10, 15, 20, 3)
    means = pictures.reshape(10, 15, 2, 20, 2, 3).astype(float).mean(axis=(2, 4))
    assert np.abs(shown - means).max() <= 0.5
    monkeypatch.setattr(page, "MAX_THUMBNAIL_BYTES", 100)
    assert page.encode_thumbnails(pictures, blocks)[0] is None


def test_rows_without_a_place_and_panels_of_one_place():
    Y = np.array([[1.0, 2.0], [np.nan, 0.0], [3.0, 6.0]])
    panels = [
        ReportPanel("holes", Y),
        ReportPanel("point", np.ones((3, 2))),
        ReportPanel("none", np.full((3, 2), np.nan)),
    ]
    contents = page.payload(Report("t", panels, np.arange(3)))
    holes, point, none = (unpacked(contents, panel["data"]).reshape(3, 2) for panel in contents["meta"]["panels"])
    assert np.isnan(holes[1, 0])
    assert np.array_equal(holes[[0, 2]], [[-0.5, -1], [0.5, 1]])
    assert np.array_equal(point, np.zeros((3, 2)))
    assert np.isnan(none).all()


def test_an_array_of_several_panels_is_packed_once():
    density = np.random.default_rng(0).random(240)
    panels = [replace(panel, colors={"density": density}) for panel in sample().panels]
    contents = page.payload(sample(panels=panels))
    assert len({panel["colors"][0]["data"]["block"] for panel in contents["meta"]["panels"]}) == 1


def test_the_same_report_gives_the_same_bytes():
    assert page.render(sample()) == page.render(sample())


def test_text_from_files_stays_text():
    n = 240
    nasty = {name: np.array([*NASTY, *NASTY])[np.arange(n) % 10] for name in NASTY[:3]}
    figure = {**sample().quality[0], "name": NASTY[0], "meaning": NASTY[1], "values": {NASTY[1]: 1.0, NASTY[3]: 0.5}}
    finding = {"topic": NASTY[0], "sentence": NASTY[1], "value": 0.0, "advice": NASTY[3], "severity": "problem"}
    panel = ReportPanel(
        name=NASTY[1],
        coordinates=np.zeros((n, 2)),
        caption=NASTY[0],
        reading=(NASTY[3],),
        sentences=(NASTY[3],),
        parameters={NASTY[0]: NASTY[1]},
        colors={NASTY[0]: np.zeros(n)},
    )
    report = Report(
        title=NASTY[0],
        panels=[panel],
        ids=nasty[NASTY[0]],
        id_name=NASTY[1],
        columns=nasty,
        label=NASTY[0],
        quality=[figure],
        findings=[finding],
        record={NASTY[0]: NASTY[1]},
        notes=(NASTY[1],),
        summary=(NASTY[3],),
    )
    plain = Reader(page.render(sample(columns={"a": nasty[NASTY[0]]}, charts=())))
    read = Reader(page.render(report))
    allowed = {(tag, name) for tag, attrs in plain.elements for name in attrs}
    assert {tag for tag, _ in read.elements} <= {tag for tag, _ in plain.elements}
    assert {(tag, name) for tag, attrs in read.elements for name in attrs} <= allowed
    meta = json.loads(read.scripts["meta"])
    assert meta["title"] == NASTY[0]
    assert meta["panels"][0]["parameters"] == {NASTY[0]: NASTY[1]}
    assert [column["name"] for column in meta["columns"]] == NASTY[:3]
    page.render(report).encode("utf-8")  # also where a text has half a surrogate pair


@pytest.mark.parametrize("live", [None, "window.live = true;"])
def test_the_policy_names_what_the_page_may_do(live):
    read = Reader(page.render(sample(), live=live))
    policy = next(attrs["content"] for tag, attrs in read.elements if attrs.get("http-equiv"))
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules.get("connect-src") == ("'self'" if live else None)
    for kind, text in (("script-src", read.scripts["script"]), ("style-src", read.scripts["style"])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[kind] == f"'sha256-{digest}'"
    assert (live in read.scripts["script"]) if live else True
    sources = [value for _, attrs in read.elements for name, value in attrs.items() if name in ("src", "href")]
    assert sources
    assert all(value.startswith(("#", "data:")) for value in sources)


def test_quality_is_there_without_scripts():
    text = page.render(sample())
    rows = {found[0]: found[1] for found in re.findall(r"<tr><th scope='row'>(\w+)</th>(.*?)</tr>", text)}
    cells = {name: re.findall(r"<td( class='best')?>([\d.–]+)", row) for name, row in rows.items()}
    best = " class='best'"
    assert cells["trustworthiness"] == [("", "0.91"), (best, "0.95"), ("", "0.7")]
    assert cells["scaled_stress"] == [("", "0.3"), ("", "0.31"), ("", "–")]  # within the errors: none is best
    assert "problem</p><div><p><b>scales</b> One column rules." in text
    assert "<noscript>" in text
    assert "<h1>A sample</h1>" in text
    assert "sampled rows.</p>" in text


def test_meanings_of_a_wide_table_stand_below_the_names():
    report = sample()
    row = dict(report.quality[0], values={f"method {i}": 0.5 + i / 100 for i in range(8)})
    narrow, wide = page.render(report), page.render(replace(report, quality=(row,)))
    assert "<th scope='col'>meaning" in narrow
    assert "<th scope='col'>meaning" not in wide
    assert f"{row['name']}<span class='below'>{row['meaning']}" in wide


@pytest.mark.parametrize(
    ("date", "shown"),
    [
        ("2026-11-16T10:36:33+00:00", "2026-11-16 10:36 UTC"),
        ("2026-11-16T10:36", "2026-11-16 10:36"),
        ("2026-11-16", "2026-11-16"),
        ("last Monday", "last Monday"),
    ],
)
def test_dates_are_written_for_people(date, shown):
    assert f" · {shown} · " in page.render(replace(sample(), record={"date": date}))


def test_saved_once_and_overwritten_on_request(tmp_path):
    report, path = sample(), tmp_path / "report.html"
    report.save(path)
    assert path.read_bytes() == page.render(report).encode()
    with pytest.raises(FileExistsError, match="is not overwritten"):
        sample(title="other").save(path)
    sample(title="other").save(str(path), overwrite=True)
    assert "<title>other</title>" in path.read_text(encoding="utf-8")
    assert [found.name for found in tmp_path.iterdir()] == ["report.html"]


def test_a_notebook_gets_a_frame_or_a_sentence(monkeypatch):
    report = sample()
    frame = Reader(report._repr_html_()).elements
    assert [tag for tag, _ in frame] == ["iframe"]
    assert frame[0][1]["srcdoc"] == page.render(report)
    assert "allow-same-origin" not in frame[0][1]["sandbox"]
    monkeypatch.setattr(page, "MAX_FRAME_BYTES", 1000)
    assert "too large" in report._repr_html_()
    assert "iframe" not in report._repr_html_()


def lab(linear):
    xyz = linear @ np.array([[0.4124, 0.2126, 0.0193], [0.3576, 0.7152, 0.1192], [0.1805, 0.0722, 0.9505]])
    f = np.cbrt(xyz / [0.9505, 1.0, 1.0888])  # exact but for the darkest colors
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


DEUTAN = np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]])
PROTAN = np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]])


@pytest.mark.parametrize("vision", [np.eye(3), DEUTAN, PROTAN], ids=["normal", "deutan", "protan"])
def test_categories_can_be_told_apart(vision):
    source = (ASSETS / "palettes.js").read_text(encoding="utf-8")
    colors = re.findall(r'"#(\w{6})"', source.split("CATEGORIES = [")[1].split("]")[0])
    assert len(colors) == len(set(colors)) == 20
    for ink in ("333333", "e8e8e8"):
        shown = [ink if color == "333333" else color for color in colors]
        srgb = np.array([[int(color[i : i + 2], 16) / 255 for i in (0, 2, 4)] for color in shown])
        linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
        seen = lab(np.clip(linear @ vision.T, 0, 1))
        apart = np.linalg.norm(seen[:, None] - seen[None], axis=2)[np.triu_indices(20, 1)]
        assert apart.min() > 13.5


def test_every_script_and_style_is_in_the_page_or_in_the_widget():
    of_widget = {"widget.js", "widget.css"}
    assert {path.name for path in ASSETS.iterdir()} == {*page.SCRIPTS, *page.STYLES, "page.html"} | of_widget


@pytest.mark.parametrize("path", sorted(ASSETS.glob("*.js")), ids=lambda path: path.name)
def test_scripts_are_short_and_run_no_text(path):
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) < 350
    assert not re.search(r"\beval\(|new Function|insertAdjacentHTML|document\.write|https?://(?!www\.w3\.org)", source)
    assert source.count("innerHTML") == (path.name == "page.js")  # of sections, which Python has escaped
    assert "</script" not in source
    assert "<!--" not in source
