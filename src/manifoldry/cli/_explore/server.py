"""The server of the live page: who may ask, what may be asked, and how it is answered.

It listens on 127.0.0.1 unless told otherwise. Other programs and other pages on the machine can reach that address too,
so every request must carry the random token of the address, name this host (a page of another name that resolves to
127.0.0.1 does not), and, if it changes something, come from this page itself.
"""

from __future__ import annotations

import gzip
import json
import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from manifoldry.cli._errors import ASKED_WRONGLY, bug_text, error_text, is_bug
from manifoldry.cli._explore.session import Session

LOOPBACK = "127.0.0.1"
MAX_BODY_BYTES = 64_000_000
"""A list of 5,000,000 selected rows as text; longer bodies are refused unread."""

MIN_COMPRESSED_BYTES = 10_000
"""Shorter answers are sent as they are."""

MAX_SECONDS_SILENT = 30
"""How long a connection may say nothing before it is closed."""

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

Answer = tuple[HTTPStatus, str, bytes]
"""Status, content type and body."""


class ExploreServer(ThreadingHTTPServer):
    """Serves one session to whoever knows the address.

    Parameters
    ----------
    session : Session
        The data and the embeddings.
    host : str
        Address to listen on.
    port : int
        Port; 0 takes a free one.

    Attributes
    ----------
    url : str
        The address of the page, with its token.
    """

    daemon_threads = True

    def __init__(self, session: Session, host: str = LOOPBACK, port: int = 0) -> None:
        super().__init__((host, port), ExploreHandler)
        self.session = session
        self.token = secrets.token_urlsafe(24)
        own = {LOOPBACK, "localhost"} if host == LOOPBACK else {host}
        self.hosts = None if host in ("0.0.0.0", "") else {f"{name}:{self.server_port}" for name in own}
        self.url = f"http://{host or '0.0.0.0'}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about a browser that has gone away."""


class ExploreHandler(BaseHTTPRequestHandler):
    """Answers one request."""

    server_version = "manifoldry"
    sys_version = ""
    timeout = MAX_SECONDS_SILENT

    def do_GET(self) -> None:
        """Answer a request that changes nothing."""
        self._answer_by(GET)

    def do_POST(self) -> None:
        """Answer a request to embed, stop, remove or save."""
        self._answer_by(POST)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal for the user."""

    def _answer_by(self, routes: dict[str, Callable[[Session, Any], Answer]]) -> None:
        refusal = self._refusal()
        if refusal is not None:
            self._send(_as_json({"error": refusal[1]}, refusal[0]))
            return
        route = routes.get(self._path())
        if route is None:
            self._send(_as_json({"error": "There is nothing here."}, HTTPStatus.NOT_FOUND))
            return
        try:
            self._send(route(self._session, self._body()))
        except ConnectionError:
            raise  # the browser has gone away
        except Exception as error:
            asked_wrongly = isinstance(error, ASKED_WRONGLY) and not is_bug(error)
            status = HTTPStatus.BAD_REQUEST if asked_wrongly else HTTPStatus.INTERNAL_SERVER_ERROR
            self._send(_as_json({"error": bug_text(error) if is_bug(error) else error_text(error)}, status))

    @property
    def _server(self) -> ExploreServer:
        return cast(ExploreServer, self.server)

    @property
    def _session(self) -> Session:
        return self._server.session

    def _path(self) -> str:
        """Return what follows the token."""
        return self.path.partition("?")[0].split("/", 2)[-1]

    def _refusal(self) -> tuple[HTTPStatus, str] | None:
        """Return why a request is not answered at all."""
        token, slash, _ = self.path.partition("?")[0].removeprefix("/").partition("/")
        if not slash or not secrets.compare_digest(token.encode(), self._server.token.encode()):
            return HTTPStatus.FORBIDDEN, "The address needs the token that the terminal shows."
        hosts, host = self._server.hosts, self.headers.get("Host", "")
        if hosts is not None and host not in hosts:
            return HTTPStatus.FORBIDDEN, "The page is served under its own address only."
        if self.command == "POST":
            if self.headers.get("Origin", f"http://{host}") != f"http://{host}":
                return HTTPStatus.FORBIDDEN, "Another page may not ask for this."
            if self.headers.get("Content-Type", "").partition(";")[0] != "application/json":
                return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "A request is a JSON document."
            if not self.headers.get("Content-Length", "").isdigit():
                return HTTPStatus.LENGTH_REQUIRED, "A request must tell its length."
            if int(self.headers["Content-Length"]) > MAX_BODY_BYTES:
                return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The request is too long."
        return None

    def _body(self) -> Any:
        if self.command != "POST":
            return None
        try:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        except (ValueError, RecursionError):
            raise ValueError("The request is no JSON document.") from None
        if not isinstance(body, dict):
            raise ValueError("A request is a JSON object.")
        return body

    def _send(self, answer: Answer) -> None:
        status, kind, body = answer
        packed = len(body) >= MIN_COMPRESSED_BYTES and "gzip" in self.headers.get("Accept-Encoding", "")
        if packed:
            body = gzip.compress(body, 1, mtime=0)
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _as_json(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    return status, "application/json", json.dumps(value, allow_nan=False).encode()


def _page(session: Session, _: Any) -> Answer:
    return HTTPStatus.OK, "text/html; charset=utf-8", session.page().encode()


GET: dict[str, Callable[[Session, Any], Answer]] = {
    "": _page,
    "payload": lambda session, _: _as_json(session.payload()),
    "progress": lambda session, _: _as_json(session.progress()),
}
POST: dict[str, Callable[[Session, Any], Answer]] = {
    "embed": lambda session, body: _as_json(session.embed(body), HTTPStatus.ACCEPTED),
    "stop": lambda session, _: _as_json(session.stop()),
    "remove": lambda session, body: _as_json(session.remove(body)),
    "save": lambda session, body: _as_json(session.save(body)),
}
"""What may be asked, by the path behind the token."""
