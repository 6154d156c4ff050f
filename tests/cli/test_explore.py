"""The live page's server: who may ask, what it does, and what it refuses."""

import csv
import http.client
import json
import os
import re
import stat
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np
import pytest
from scipy.sparse import csr_array

from live_pages import N, made_table, served
from manifoldry.cli._commands import main
from manifoldry.cli._explore.server import ExploreServer
from manifoldry.cli._explore.session import Session
from manifoldry.data._tables import Table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module")
def server(folder):
    with served(Session(made_table(), folder=folder)) as server:
        yield server


def ask(server, path, body=None, *, token=None, **headers):
    """Return status, headers and body of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    sent = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    method, text = (
        ("GET", None) if body is None else ("POST", body if isinstance(body, (str, bytes)) else json.dumps(body))
    )
    connection.request(method, f"/{server.token if token is None else token}/{path}", text, sent)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    return answer.status, answer.headers, said


def as_json(answer):
    return json.loads(answer[2])


def embed(server, method, n_components=2, **parameters):
    status, _, said = ask(server, "embed", {"method": method, "n_components": n_components, "parameters": parameters})
    assert status == 202, said
    server.session.wait(60)
    return as_json(ask(server, "progress"))


def test_it_listens_on_this_machine_only(server):
    assert server.server_address[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_port}/{server.token}/"
    assert len(server.token) >= 32


def test_tokens_are_random():
    session = object()
    with ExploreServer(session) as one, ExploreServer(session) as other:
        assert one.token != other.token


@pytest.mark.parametrize("path", ["", "payload", "progress"])
@pytest.mark.parametrize("token", ["", "x", "A" * 32])
def test_without_the_token_nothing_is_told(server, path, token):
    status, _, said = ask(server, path, token=token)
    assert status == 403
    assert b"token" in said
    assert b"cells" not in said
    assert server.token.encode() not in said


def test_a_page_of_another_name_is_refused(server):
    status, _, said = ask(server, "payload", Host="evil.example:80")
    assert status == 403
    assert b"own address" in said


def test_a_request_of_another_page_is_refused(server):
    for headers, status in [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
    ]:
        assert ask(server, "stop", {}, **headers)[0] == status
    own = f"http://127.0.0.1:{server.server_port}"
    assert ask(server, "stop", {}, Origin=own)[0] == 200


@pytest.mark.parametrize("body", ["", "{", "[]", "1", "nul", "[" * 100_000, b"\xff\xfe"])
@pytest.mark.parametrize("path", ["embed", "save", "remove"])
def test_broken_requests_get_a_sentence(server, path, body):
    status, _, said = ask(server, path, body)
    assert status == 400
    assert json.loads(said)["error"].endswith(".")


def test_answers_forbid_what_a_page_could_do_with_them(server):
    headers = ask(server, "")[1]
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Server" not in headers or "Python" not in headers["Server"]


def test_unknown_places_and_verbs_are_refused(server):
    assert ask(server, "../../etc/passwd")[0] == 404
    assert ask(server, "embed")[0] == 404
    assert ask(server, "payload", {})[0] == 404


def test_the_page_begins_with_principal_components_and_embeds_again(server):
    page = ask(server, "")[2].decode()
    assert "<title>cells.csv</title>" in page
    assert "<i>c</i>" not in page
    before = as_json(ask(server, "progress"))
    assert before["panels"] == ["PCA"]
    told = embed(server, "isomap", n_neighbors="9")
    assert (told["running"], told["error"]) == (False, "")
    assert told["panels"] == ["Isomap (n_neighbors=9)", "PCA"]
    assert told["version"] == before["version"] + 1
    shown = as_json(ask(server, "payload"))
    assert shown["version"] == told["version"]
    assert [panel["name"] for panel in shown["meta"]["panels"]] == told["panels"]
    np.testing.assert_array_equal(
        server.session.models["Isomap (n_neighbors=9)"].embedding_,
        type(server.session.models["Isomap (n_neighbors=9)"])(n_neighbors=9).fit_transform(made_table().X),
    )


def test_three_dimensions_make_a_panel_in_space(server):
    told = embed(server, "PCA", n_components=3)
    assert told["panels"][0] == "PCA (3-D)"
    assert as_json(ask(server, "payload"))["meta"]["panels"][0]["dimension"] == 3
    assert as_json(ask(server, "remove", {"panel": "PCA (3-D)"}))["panels"] == [
        name for name in told["panels"] if name != "PCA (3-D)"
    ]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"method": "isomp"}, "did you mean Isomap"),
        ({"method": 3}, "needs a text 'method'"),
        ({"method": "UMAP", "n_components": 7}, "must be 2 or 3"),
        ({"method": "UMAP", "n_components": True}, "must be 2 or 3"),
        ({"method": "UMAP", "parameters": {"n_neighbors": "many"}}, "n_neighbors must be"),
        ({"method": "UMAP", "parameters": {"callback": "print"}}, "has no parameter 'callback'"),
        ({"method": "UMAP", "parameters": [1]}, "must map names"),
        ({"method": "KMeans"}, "is a clustering"),
    ],
)
def test_what_cannot_be_embedded_is_refused_at_once(server, body, said):
    status, _, answer = ask(server, "embed", body)
    assert status == 400
    assert said in json.loads(answer)["error"]


def test_what_goes_wrong_in_a_fit_is_told_and_the_page_stays(server):
    before = as_json(ask(server, "progress"))
    told = embed(server, "Isomap", n_neighbors=str(N + 1))
    assert "n_neighbors" in told["error"]
    assert told["version"] == before["version"]
    assert told["panels"] == before["panels"]


def test_a_second_embedding_waits_and_the_first_can_be_stopped():
    with served(Session(made_table())) as server:
        assert ask(server, "embed", {"method": "TSNE", "parameters": {"max_iter": "1000000", "tol": "0"}})[0] == 202
        status, _, said = ask(server, "embed", {"method": "PCA"})
        assert status == 400
        assert b"still running" in said
        assert as_json(ask(server, "progress"))["running"]
        ask(server, "stop", {})
        server.session.wait(60)
        told = as_json(ask(server, "progress"))
        assert (told["running"], told["error"]) == (False, "")
        assert server.session.models[told["panels"][0]].diagnostics_["stopped"]


def test_selected_rows_are_saved_to_a_new_file_each_time(server, folder):
    saved = as_json(ask(server, "save", {"rows": [5, 2, 50, 5]}))
    assert saved == {"path": str(folder / "cells_selection_1.csv"), "rows": 3}
    assert as_json(ask(server, "save", {"rows": [1]}))["path"] == str(folder / "cells_selection_2.csv")
    with (folder / "cells_selection_1.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    table, panel = made_table(), server.session.report.panels[-1]
    assert [row["name"] for row in rows] == ["row 2", "row 5", "row 50"]
    assert [row["kind"] for row in rows] == table.columns["kind"][[2, 5, 50]].tolist()
    assert [float(row["weight"]) for row in rows] == table.columns["weight"][[2, 5, 50]].tolist()
    assert [float(row[f"{panel.name} 1"]) for row in rows] == panel.coordinates[[2, 5, 50], 0].tolist()
    features = [[float(row[name]) for name in table.features] for row in rows]
    np.testing.assert_array_equal(features, table.X[[2, 5, 50]])  # as they were read, not as they were prepared


def test_saved_features_are_the_values_of_the_file_with_gaps_and_names_that_occur_twice(folder):
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    gaps = X.copy()
    gaps[3, 1] = np.nan
    table = Table(gaps, ("a", "PCA 1", "b"), np.arange(40), source="gaps.csv")
    session = Session(table, np.nan_to_num(gaps) * 100, folder=folder)
    with open(session.save({"rows": [2, 3]})["path"], newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["row", "a", "PCA 1", "b", "PCA 1.1", "PCA 2"]
    assert [row[1] for row in rows] == [str(X[2, 0]), str(X[3, 0])]
    assert rows[1][2] == ""


def test_saved_sparse_rows_have_their_zeros(folder):
    X = csr_array(np.random.default_rng(0).poisson(0.5, size=(40, 4)).astype(float))
    session = Session(Table(X, tuple("abcd"), np.arange(40), source="counts.mtx"), folder=folder)
    with open(session.save({"rows": list(range(40))})["path"], newline="") as file:
        rows = [[float(row[name]) for name in "abcd"] for row in csv.DictReader(file)]
    np.testing.assert_array_equal(rows, X.toarray())


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (RuntimeError("lost"), "This is a bug in manifoldry; please report it: RuntimeError: lost"),
        (KeyError("a"), "This is a bug in manifoldry; please report it: KeyError: 'a'"),
        (ImportError("No module named 'x'"), "No module named 'x'"),
        (MemoryError(), "Not enough memory; use fewer rows or another method."),
        (ZeroDivisionError("by 0"), "This is a bug in manifoldry; please report it: ZeroDivisionError: by 0"),
        (np.linalg.LinAlgError("SVD did not converge"), "SVD did not converge"),
    ],
)
@pytest.mark.parametrize("stage", ["fit", "report"])
def test_any_error_of_a_fit_ends_it_and_the_page_goes_on(server, monkeypatch, problem, said, stage):
    def fail(*_, **__):
        raise problem

    with monkeypatch.context() as patched:
        if stage == "fit":
            patched.setattr("manifoldry.methods.geodesic._isomap.Isomap.fit", fail)
        else:
            patched.setattr("manifoldry.cli._explore.session.build_report", fail)
        told = embed(server, "Isomap")
    assert (told["running"], told["error"]) == (False, said)
    assert embed(server, "PCA")["error"] == ""


def test_an_error_of_a_request_is_answered(server, monkeypatch):
    def fail(*_, **__):
        raise KeyError("lost")

    monkeypatch.setattr("manifoldry.cli._explore.session.write_selection", fail)
    status, _, said = ask(server, "save", {"rows": [1]})
    assert status == 500
    assert b"please report it: KeyError" in said


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_the_token_is_no_argument_of_the_browser(tmp_path, monkeypatch, capsys):
    opened = []

    def open_page(address):
        page = Path(url2pathname(urlsplit(address).path))
        opened.append((address, page, page.read_text(encoding="utf-8")))
        assert stat.S_IMODE(page.stat().st_mode) & 0o077 == 0
        assert stat.S_IMODE(page.parent.stat().st_mode) & 0o077 == 0
        raise KeyboardInterrupt  # as Ctrl-C once the page is open

    monkeypatch.setattr("webbrowser.open", open_page)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(40, 3)))
    assert main(["explore", str(tmp_path / "x.npy")]) == 130
    ((address, page, text),) = opened
    url = re.search(r"http://[\d.]+:\d+/\S+/", capsys.readouterr().out)[0]
    assert address.startswith("file:")
    assert urlsplit(url).path.strip("/") not in address
    assert f'content="0; url={url}"' in text
    assert not page.parent.exists()


@pytest.mark.parametrize("rows", [None, [], [-1], [N], [True], ["1"], [1.5], {"0": 1}])
def test_rows_that_are_none_are_not_saved(server, folder, rows):
    before = sorted(folder.iterdir())
    status, _, said = ask(server, "save", {"rows": rows, "path": "elsewhere.csv"})
    assert status == 400
    assert b"list of rows" in said
    assert sorted(folder.iterdir()) == before
