"""The runs of a folder in a browser.

The server answers on the loopback address only, and only to requests that name that address: a page by somebody else
cannot have its own name point here and read along (DNS rebinding). It reads and never writes; names in a request are
looked up among the folders that are there.
"""

from __future__ import annotations

import errno
import functools
import socket
import socketserver
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from trtprof.base import run_folder
from trtprof.base.errors import MissingError, TrtprofError, UsageError
from trtprof.base.input_file import read_file
from trtprof.base.record_file import decoded
from trtprof.base.run_folder import RunFolder
from trtprof.report import ReportOptions, get
from trtprof.report.index import SORTS, Brief, Broken, Listing, Query, RunSummary, render, summarised

LOOPBACK = ("127.0.0.1", "::1")
"""Addresses that only this machine can reach."""

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
# A page of a run may come from somebody else's folder: in a sandbox it runs, and can read nothing of this server.
_REPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts allow-downloads allow-modals allow-popups"
)
_HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
_HTML = "text/html; charset=utf-8"


def listing(reports: Path) -> Listing:
    """All runs that are in a folder now."""
    found = [_look(reports / name) for name in _names(reports)]
    runs = tuple(each for each in found if isinstance(each, RunSummary))
    return Listing(str(reports), runs, tuple(each for each in found if isinstance(each, Broken)))


def page(folder: RunFolder) -> bytes:
    """The page of a run: the one in its folder where it is as new as the result, else a new one."""
    report, kept = folder.file(run_folder.REPORT), folder.file(run_folder.PAGE)
    if folder.has(run_folder.PAGE) and kept.stat().st_mtime_ns >= report.stat().st_mtime_ns:
        return read_file(kept)
    return get("html").encode(folder.report(), ReportOptions(file=str(folder.path)))


def _names(reports: Path) -> list[str]:
    try:
        return sorted(each.name for each in reports.iterdir() if each.is_dir() and not each.name.startswith("."))
    except OSError as error:
        raise MissingError(
            f"{reports} cannot be read", why=error.strerror or str(error), fix="trtprof report --serve FOLDER"
        ) from None


def _look(path: Path) -> RunSummary | Broken | None:
    """A run, or why it cannot be shown; None where it is no run folder."""
    folder = RunFolder(path)
    if not folder.has(run_folder.REPORT):
        return Broken(path.name, "the run did not finish") if folder.has(run_folder.REQUEST) else None
    stamps = [file.stat() for name in (run_folder.REPORT, run_folder.TAGS) if (file := folder.file(name)).is_file()]
    return _read(path, tuple((stamp.st_mtime_ns, stamp.st_ino, stamp.st_size) for stamp in stamps))


@functools.lru_cache(10_000)
def _read(path: Path, stamps: tuple[tuple[int, ...], ...]) -> RunSummary | Broken:  # noqa: ARG001 - of the cache
    folder = RunFolder(path)
    try:
        brief = decoded(read_file(folder.file(run_folder.REPORT), what="the list"), Brief)
        return summarised(path.name, brief, folder.tags())
    except ValueError as error:
        return Broken(path.name, f"{run_folder.REPORT} is damaged, or of a version that cannot be read: {error}")
    except OSError as error:
        return Broken(path.name, f"{run_folder.REPORT} cannot be read: {error.strerror or error}")
    except TrtprofError as error:
        return Broken(path.name, f"{error.what}: {error.why}")


class Server(ThreadingHTTPServer):
    """A server that listens; `serve_forever` answers until it is interrupted or `shutdown` is called."""

    daemon_threads = True
    # That of HTTPServer asks for the name of the host, which may take seconds and is not used.
    server_bind = socketserver.TCPServer.server_bind

    def __init__(self, address: tuple[str, int], reports: Path) -> None:
        self.reports = reports
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)
        self.port = int(self.server_address[1])
        self.hosts = {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self.url = f"http://{f'[{address[0]}]' if ':' in address[0] else address[0]}:{self.port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "trtprof"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        if (self.headers.get("Host") or "").lower() not in self.server.hosts:
            self._send(HTTPStatus.MISDIRECTED_REQUEST, b"this server answers to its own address only\n")
            return
        try:
            self._answer()
        except (TrtprofError, OSError) as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, f"{error}\n".encode(errors="backslashreplace"))

    do_HEAD = do_GET  # noqa: N815 - as http.server calls it

    def _answer(self) -> None:
        path, _, query = self.path.partition("?")
        reports = self.server.reports
        parts = [unquote(part) for part in path.split("/")[1:]]
        if parts == [""]:
            self._send(HTTPStatus.OK, render(listing(reports), _query(query)).encode(), _HTML, policy=_POLICY)
            return
        if len(parts) in (2, 3) and parts[0] == "run" and parts[1] in _names(reports):
            folder = RunFolder(reports / parts[1])
            if len(parts) == 2:
                self._send(HTTPStatus.MOVED_PERMANENTLY, b"", to=f"/run/{quote(parts[1])}/")
                return
            if folder.has(run_folder.REPORT) and parts[2] in ("", run_folder.PAGE):
                self._send(HTTPStatus.OK, page(folder), _HTML, policy=_REPORT_POLICY)
                return
            if folder.has(run_folder.REPORT) and parts[2] == run_folder.REPORT:
                self._send(HTTPStatus.OK, read_file(folder.file(parts[2])), "application/json")
                return
        self._send(HTTPStatus.NOT_FOUND, b"there is no such run\n")

    def _send(
        self,
        status: HTTPStatus,
        content: bytes,
        kind: str = "text/plain; charset=utf-8",
        *,
        policy: str = "default-src 'none'; frame-ancestors 'none'",
        to: str = "",
    ) -> None:
        self.send_response(status)
        fields = {"Content-Type": kind, **_HEADERS, "Content-Security-Policy": policy}
        for name, value in (fields | ({"Location": to} if to else {})).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as http.server calls it
        """Nothing: stderr is for people."""


def _query(text: str) -> Query:
    first = {name: values[0] for name, values in parse_qs(text).items()}
    sort = first.get("sort", "created")
    return Query(
        first.get("text", ""), first.get("tag", ""), sort if sort in SORTS else "created", first.get("base", "")
    )


@contextmanager
def server(reports: Path, host: str = "127.0.0.1", port: int = 0) -> Iterator[Server]:
    """Listen for requests about the runs of a folder, on a host of `LOOPBACK` or ``localhost``; port 0: a free one."""
    host = "127.0.0.1" if host == "localhost" else host
    if host not in LOOPBACK:
        raise UsageError(
            f"--host {host} is refused",
            why="reports tell much of a model, and whoever reaches the address could read them all",
            fix="--host 127.0.0.1; from another machine: ssh -L 8323:127.0.0.1:8323 HERE",
        )
    if not reports.is_dir():
        raise MissingError(
            f"there is no folder {reports}",
            why="runs are kept in reports/ unless `trtprof run -o` says another place",
            fix="trtprof run model.onnx, or trtprof report --serve FOLDER",
        )
    try:
        listening = Server((host, port), reports)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise MissingError(
            f"cannot listen on {host} port {port}",
            why="another program does" if taken else error.strerror or str(error),
            fix="--port 0 takes a free one",
        ) from None
    with listening:
        yield listening
