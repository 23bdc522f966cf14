"""The browser of runs: a small web server, for this machine alone, that lists the run folders of a folder.

It answers on the loopback address only, and only to requests that name that address: a page by somebody else cannot
have its own name point here and read along (DNS rebinding). It reads and never writes; names in a request are looked
up among the folders that are there, so no path is ever made of what somebody sent.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from trtprof.base import run_folder
from trtprof.base.errors import MissingError, TrtprofError, UsageError
from trtprof.base.input_file import read_file
from trtprof.base.record_file import decoded
from trtprof.base.run_folder import RunFolder
from trtprof.report import ReportOptions, get
from trtprof.report.index import SORTS, Brief, Broken, Listing, Query, RunSummary, render, summarised

__all__ = ["LOOPBACK", "Running", "Runs", "server"]

LOOPBACK = ("127.0.0.1", "::1")
"""Addresses that only this machine can reach."""

MAX_QUERY = 4096
"""Characters of a query that are read."""

MAX_LISTED = 1 << 26
"""Bytes of a result that the list reads: every folder costs a bounded time, whatever lies in it."""

TIMEOUT_S = 30
"""After which a connection on which nothing comes is closed."""

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
# A page of a run may come from somebody else's folder: in a sandbox it runs, and can read nothing of this server.
_REPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts allow-downloads allow-modals allow-popups"
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class _Stamp(NamedTuple):
    """What tells that a file is another one than before."""

    mtime_ns: int
    ctime_ns: int
    inode: int
    size: int


class _Kept(NamedTuple):
    report: _Stamp
    tags: _Stamp | None
    found: RunSummary | Broken


class Runs:
    """The run folders of a folder, each read once as long as it does not change. Threads may share it."""

    def __init__(self, reports: Path) -> None:
        self.reports = reports
        self._root = reports.resolve()
        self._kept: dict[str, _Kept] = {}
        self._pages: dict[str, tuple[_Stamp, bytes]] = {}
        self._lock = threading.Lock()

    def listing(self) -> Listing:
        """All runs that are there now."""
        runs, broken = [], []
        for name in self._names():
            found = self._look(name)
            if isinstance(found, RunSummary):
                runs.append(found)
            elif found is not None:
                broken.append(found)
        return Listing(str(self.reports), tuple(runs), tuple(broken))

    def page(self, name: str) -> bytes | None:
        """The page of a run: the one in its folder where it is as new as the result, else a new one.

        Returns:
            The page, or None where there is no such run.
        """
        folder = self._folder(name)
        if folder is None:
            return None
        report, page = folder.file(run_folder.REPORT), folder.file(run_folder.PAGE)
        stamp = _stamp(report)
        if stamp is None or not self._inside(report):
            return None
        kept = _stamp(page)
        if kept is not None and kept.mtime_ns >= stamp.mtime_ns and self._inside(page):
            try:
                return read_file(page)
            except (OSError, UsageError):
                pass  # rendered instead
        with self._lock:
            made = self._pages.get(name)
        if made is not None and made[0] == stamp:
            return made[1]
        content = get("html").encode(folder.report(), ReportOptions(file=str(folder.path)))
        with self._lock:
            self._pages[name] = (stamp, content)
        return content

    def document(self, name: str) -> bytes | None:
        """The ``report.json`` of a run, or None where there is none."""
        folder = self._folder(name)
        if folder is None or not self._inside(folder.file(run_folder.REPORT)):
            return None
        try:
            return read_file(folder.file(run_folder.REPORT))
        except (OSError, UsageError):
            return None

    def _names(self) -> list[str]:
        try:
            return sorted(each.name for each in self.reports.iterdir() if not each.name.startswith("."))
        except OSError as error:
            raise MissingError(
                f"{self.reports} cannot be read", why=error.strerror or str(error), fix="trtprof report --serve FOLDER"
            ) from None

    def _folder(self, name: str) -> RunFolder | None:
        """A run folder by its name, where there is one and it is really in here."""
        if name not in self._names() or not self._inside(self.reports / name):
            return None
        return RunFolder(self.reports / name)

    def _inside(self, path: Path) -> bool:
        """Whether a path is in the folder after all links in it were followed."""
        try:
            return path.resolve(strict=True).is_relative_to(self._root)
        except (OSError, RuntimeError):
            return False

    def _look(self, name: str) -> RunSummary | Broken | None:
        """A run, or why it cannot be shown; None where it is no run folder."""
        folder = RunFolder(self.reports / name)
        if not folder.path.is_dir():
            return None
        report = folder.file(run_folder.REPORT)
        stamp = _stamp(report)
        if stamp is None:
            return Broken(name, "the run did not finish") if folder.has(run_folder.REQUEST) else None
        if not self._inside(report):
            return Broken(name, "it is a link to somewhere else")
        tagged = _stamp(folder.file(run_folder.TAGS))
        with self._lock:
            kept = self._kept.get(name)
        if kept is not None and (kept.report, kept.tags) == (stamp, tagged):
            return kept.found
        found = _read(name, folder)
        with self._lock:
            self._kept[name] = _Kept(stamp, tagged, found)
        return found


def _read(name: str, folder: RunFolder) -> RunSummary | Broken:
    try:
        data = read_file(folder.file(run_folder.REPORT), most=MAX_LISTED, what="the list")
        brief = decoded(data, Brief)
        if brief.ledger and sum(row.ns for row in brief.ledger) != brief.latency.median_ns:
            return Broken(name, f"{run_folder.REPORT} was changed: its ledger does not sum to its latency")
        return summarised(name, brief, folder.tags())
    except (ValueError, ArithmeticError) as error:
        return Broken(name, f"{run_folder.REPORT} is damaged, or of a version that cannot be read: {error}")
    except OSError as error:
        return Broken(name, f"{run_folder.REPORT} cannot be read: {error.strerror or error}")
    except TrtprofError as error:
        return Broken(name, f"{error.what}: {error.why}")


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return _Stamp(found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Another program must not be able to take the port over while this one listens.
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], runs: Runs) -> None:
        self.runs = runs
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)
        port = self.server_address[1]
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}

    def server_bind(self) -> None:
        # The one of HTTPServer asks for the name of the host, which may take seconds and is not used.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "trtprof"
    sys_version = ""
    timeout = TIMEOUT_S

    def do_GET(self) -> None:
        """A page."""
        if (self.headers.get("Host") or "").lower() not in self.server.hosts or len(
            self.headers.get_all("Host", [])
        ) != 1:
            self._send(HTTPStatus.MISDIRECTED_REQUEST, b"this server answers to its own address only\n", close=True)
            return
        if self.headers.get("Content-Length", "0") != "0" or self.headers.get("Transfer-Encoding"):
            self._send(HTTPStatus.BAD_REQUEST, b"a request for a page has no body\n", close=True)
            return
        try:
            self._answer()
        except TrtprofError as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, f"{error}\n".encode(errors="backslashreplace"))
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, b"this run cannot be shown: its result makes no sense\n")

    do_HEAD = do_GET  # noqa: N815 - as http.server calls it

    def _refuse(self) -> None:
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n", {"Allow": "GET, HEAD"}, close=True)

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _refuse  # noqa: N815

    def _answer(self) -> None:
        if not self.path.startswith("/"):
            self._not_found()
            return
        target = urlsplit("http://here" + self.path)
        parts = [unquote(part) for part in target.path.split("/")[1:]]
        runs = self.server.runs
        if parts == [""]:
            page = render(runs.listing(), _query(target.query[:MAX_QUERY]))
            self._send(HTTPStatus.OK, page.encode(), {"Content-Type": "text/html; charset=utf-8"}, policy=_POLICY)
            return
        if len(parts) == 2 and parts[0] == "run":
            self._send(HTTPStatus.MOVED_PERMANENTLY, b"", {"Location": target.path.replace("//", "/") + "/"})
            return
        if len(parts) == 3 and parts[0] == "run":
            content, kind = None, ""
            if parts[2] in ("", run_folder.PAGE):
                content, kind = runs.page(parts[1]), "text/html; charset=utf-8"
            elif parts[2] == run_folder.REPORT:
                content, kind = runs.document(parts[1]), "application/json"
            if content is not None:
                self._send(HTTPStatus.OK, content, {"Content-Type": kind}, policy=_REPORT_POLICY)
                return
        self._not_found()

    def _not_found(self) -> None:
        self._send(HTTPStatus.NOT_FOUND, b"there is no such run\n")

    def _send(
        self,
        status: HTTPStatus,
        content: bytes,
        headers: dict[str, str] | None = None,
        *,
        policy: str = "default-src 'none'; frame-ancestors 'none'",
        close: bool = False,
    ) -> None:
        self.send_response(status)
        fields = {"Content-Type": "text/plain; charset=utf-8", **_HEADERS, **(headers or {})}
        fields |= {"Content-Security-Policy": policy, "Content-Length": str(len(content))}
        for name, value in fields.items():
            self.send_header(name, value)
        if close:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as http.server calls it
        """Nothing: stderr is for people."""


def _query(text: str) -> Query:
    try:
        given = parse_qs(text, max_num_fields=16)
    except ValueError:
        return Query()
    first = {name: values[0] for name, values in given.items()}
    sort = first.get("sort", "created")
    return Query(
        text=first.get("text", ""),
        tag=first.get("tag", ""),
        sort=sort if sort in SORTS else "created",
        base=first.get("base", ""),
    )


_STOPS_WITHIN_S = 0.2
"""How often a server that waits for requests looks whether it was stopped."""


class Running:
    """A server that listens; `serve_forever` answers until it is interrupted or `stop` is called."""

    def __init__(self, listening: _Server, host: str) -> None:
        self._server = listening
        self.port = int(listening.server_address[1])
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def serve_forever(self) -> None:
        """Answer requests."""
        self._server.serve_forever(poll_interval=_STOPS_WITHIN_S)

    def stop(self) -> None:
        """End `serve_forever`, which runs in another thread."""
        self._server.shutdown()


@contextmanager
def server(reports: Path, host: str = "127.0.0.1", port: int = 0) -> Iterator[Running]:
    """Listen for requests about the runs of a folder.

    Args:
        host: One of `LOOPBACK`, or ``localhost``.
        port: Where to listen; 0 takes a free one.
    """
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
        listening = _Server((host, port), Runs(reports))
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise MissingError(
            f"cannot listen on {host} port {port}",
            why="another program does" if taken else error.strerror or str(error),
            fix="--port 0 takes a free one",
        ) from None
    try:
        yield Running(listening, host)
    finally:
        listening.server_close()
