"""The server of the live page.

It listens on 127.0.0.1 by default, which other programs and pages on the machine reach too. So every request needs the
random token in its path and this host in its header, and a request that changes something must come from this page.
"""

from __future__ import annotations

import gzip
import json
import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from manifoldry.cli._explore.session import Session
from manifoldry.cli._text import USER_ERRORS, bug_text, error_text, is_bug

LOOPBACK = "127.0.0.1"
MAX_BODY_BYTES = 64_000_000  # enough for 5,000,000 selected rows as text; longer bodies are rejected unread

MIN_COMPRESSED_BYTES = 10_000  # shorter responses are not compressed

MAX_SECONDS_SILENT = 30  # idle seconds after which a connection is closed

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address contains the token
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

Response = tuple[HTTPStatus, str, bytes]
"""Status, content type and body."""

Routes = dict[str, Callable[[Session, Any], Response]]
"""What answers a request, by the path after the token."""


class ExploreServer(ThreadingHTTPServer):
    """Serves one session at ``url``, to anyone who knows the token in it; port 0 is a free one."""

    daemon_threads = True

    def __init__(self, session: Session, host: str = LOOPBACK, port: int = 0) -> None:
        super().__init__((host, port), ExploreHandler)
        self.session = session
        self.token = secrets.token_urlsafe(24)
        names = {LOOPBACK, "localhost"} if host == LOOPBACK else {host}
        self.hosts = None if host in ("0.0.0.0", "") else {f"{name}:{self.server_port}" for name in names}
        self.url = f"http://{host or '0.0.0.0'}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that has closed the connection."""


class ExploreHandler(BaseHTTPRequestHandler):
    """Handles one request."""

    server_version = "manifoldry"
    sys_version = ""
    timeout = MAX_SECONDS_SILENT

    def do_GET(self) -> None:
        """Handle a request that changes nothing."""
        self._respond(GET)

    def do_POST(self) -> None:
        """Handle a request to embed, stop, remove or save."""
        self._respond(POST)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal for the user."""

    def _respond(self, routes: Routes) -> None:
        rejection = self._rejection()
        if rejection is not None:
            self._send(_as_json({"error": rejection[1]}, rejection[0]))
            return
        route = routes.get(self.path.partition("?")[0].split("/", 2)[-1])  # the path after the token
        if route is None:
            self._send(_as_json({"error": "Not found."}, HTTPStatus.NOT_FOUND))
            return
        try:
            self._send(route(self._server.session, self._body()))
        except ConnectionError:
            raise  # the browser has closed the connection
        except Exception as error:
            bug = is_bug(error)
            user_error = isinstance(error, USER_ERRORS) and not bug
            status = HTTPStatus.BAD_REQUEST if user_error else HTTPStatus.INTERNAL_SERVER_ERROR
            self._send(_as_json({"error": bug_text(error) if bug else error_text(error)}, status))

    @property
    def _server(self) -> ExploreServer:
        return cast(ExploreServer, self.server)

    def _rejection(self) -> tuple[HTTPStatus, str] | None:
        """Return status and message for a request that is not allowed, otherwise None."""
        token, slash, _ = self.path.partition("?")[0].removeprefix("/").partition("/")
        if not slash or not secrets.compare_digest(token.encode(), self._server.token.encode()):
            return HTTPStatus.FORBIDDEN, "The address needs the token shown in the terminal."
        hosts, host = self._server.hosts, self.headers.get("Host", "")
        if hosts is not None and host not in hosts:
            return HTTPStatus.FORBIDDEN, "The page is served only at its own address."
        if self.command == "POST":
            if self.headers.get("Origin", f"http://{host}") != f"http://{host}":
                return HTTPStatus.FORBIDDEN, "Requests from other pages are not allowed."
            if self.headers.get("Content-Type", "").partition(";")[0] != "application/json":
                return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The request must be JSON."
            if not self.headers.get("Content-Length", "").isdigit():
                return HTTPStatus.LENGTH_REQUIRED, "The request needs a Content-Length."
            if int(self.headers["Content-Length"]) > MAX_BODY_BYTES:
                return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The request is too long."
        return None

    def _body(self) -> Any:
        if self.command != "POST":
            return None
        try:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        except (ValueError, RecursionError):
            raise ValueError("The request is not valid JSON.") from None
        if not isinstance(body, dict):
            raise ValueError("The request must be a JSON object.")
        return body

    def _send(self, response: Response) -> None:
        status, kind, body = response
        compressed = len(body) >= MIN_COMPRESSED_BYTES and "gzip" in self.headers.get("Accept-Encoding", "")
        if compressed:
            body = gzip.compress(body, 1, mtime=0)
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if compressed:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _as_json(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return status, "application/json", json.dumps(value, allow_nan=False).encode()


GET: Routes = {
    "": lambda session, _: (HTTPStatus.OK, "text/html; charset=utf-8", session.page().encode()),
    "payload": lambda session, _: _as_json(session.payload()),
    "progress": lambda session, _: _as_json(session.progress()),
}
POST: Routes = {
    "embed": lambda session, body: _as_json(session.embed(body), HTTPStatus.ACCEPTED),
    "stop": lambda session, _: _as_json(session.stop()),
    "remove": lambda session, body: _as_json(session.remove(body)),
    "save": lambda session, body: _as_json(session.save(body)),
}
