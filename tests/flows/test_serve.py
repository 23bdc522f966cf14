"""The browser of runs: a real server on a free port, and real requests."""

from __future__ import annotations

import http.client
import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.fakes import report_factory as factory
from tests.fakes.support import refused
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.run_folder import RunFolder
from trtprof.flows.serve import Server, listing, server
from trtprof.report import index


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Server]:
    """A server of three runs of one model, one that cannot be read and one that did not finish."""
    run = factory.typical()
    for day, name in enumerate(("first", "second", "third", "damaged", "unfinished"), 1):
        (tmp_path / name).mkdir()
        (tmp_path / name / "request.json").write_text("{}")
        content = msgspec.json.encode(msgspec.structs.replace(run, created=f"2026-11-0{day}T10:00:00+00:00"))
        if name != "unfinished":
            (tmp_path / name / "report.json").write_bytes(content if name != "damaged" else b'{"model": ')
    RunFolder(tmp_path / "first").tag(["baseline"])
    (tmp_path / "notes").mkdir()
    with server(tmp_path) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.005,), daemon=True)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def ask(running: Server, path: str, method: str = "GET", host: str = "") -> tuple[int, http.client.HTTPMessage, str]:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
    connection.request(method, path, headers={"Host": host or f"127.0.0.1:{running.port}"})
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read().decode()


def rows(body: str) -> list[str]:
    return re.findall(r'class="model"><a href="/run/(\w+)/">', body)


def test_runs_are_listed_and_chosen(running: Server) -> None:
    status, headers, body = ask(running, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert rows(body) == ["third", "second", "first"]
    assert "the run did not finish" in body
    assert "report.json is damaged" in body
    assert "notes" not in body
    (trend,) = re.findall(r'<article class="trend">.*?</article>', body, re.DOTALL)
    assert trend.count('class="dot"') == 3
    for query, found in (("text=TINYNET+baseline", ["first"]), ("tag=base", []), ("sort=bogus", rows(body))):
        assert rows(ask(running, f"/?{query}")[2]) == found
    commands = re.findall(r"<code>(trtprof compare \S+ \S+)</code>", ask(running, "/?base=first")[2])
    assert [command.rsplit("/")[-1] for command in commands if "/first " in command] == ["third", "second"]
    RunFolder(running.reports / "third").tag(["release"])
    assert rows(ask(running, "/?tag=release")[2]) == ["third"]
    hostile = running.reports / "hostile"
    hostile.mkdir()
    (hostile / "report.json").write_bytes(msgspec.json.encode(factory.hostile()))
    assert "<script" not in ask(running, "/?text=%3Cscript%3E%22")[2]
    assert not {"\u202e", "\x1b"} & set(ask(running, "/")[2])


def test_a_page_is_served_from_its_folder_where_it_is_new(running: Server) -> None:
    folder = running.reports / "third"
    status, headers, made = ask(running, "/run/third/")
    assert (status, made[:15]) == (200, "<!doctype html>")
    assert "sandbox allow-scripts" in headers["Content-Security-Policy"]
    assert not (folder / "report.html").exists(), "nothing is written"
    (folder / "report.html").write_text("<p>kept</p>")
    assert ask(running, "/run/third/report.html")[2] == "<p>kept</p>"
    later = (folder / "report.html").stat().st_mtime_ns + 10**9
    os.utime(folder / "report.json", ns=(later, later))
    assert ask(running, "/run/third/")[2] == made
    assert json.loads(ask(running, "/run/third/report.json")[2])["model"]["name"] == "tinynet.onnx"
    status, headers, _ = ask(running, "/run/third")
    assert (status, headers["Location"]) == (301, "/run/third/")


def test_what_is_no_run_is_not_served(running: Server) -> None:
    (running.reports.parent / "secret").mkdir(exist_ok=True)
    for path in (
        "/nosuch",
        "/run/notes/",
        "/run/../secret/report.json",
        "/run/%2e%2e%2fsecret/",
        "/run/third/tags.json",
    ):
        assert ask(running, path)[0] == 404, path
    status, _, body = ask(running, "/run/damaged/")
    assert (status, "cannot be read" in body, "Traceback" in body) == (500, True, False)
    assert ask(running, "/", "POST")[0] == 501
    assert ask(running, "/", "HEAD")[2] == ""
    for host in ("example.com", f"example.com:{running.port}", "127.0.0.1"):
        assert ask(running, "/", host=host)[0] == 421, "the name of another host may point here"
    assert ask(running, "/", host=f"LOCALHOST:{running.port}")[0] == 200


def test_what_cannot_be_listened_on_is_said(running: Server, tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "example.com", ""):  # noqa: S104 - refused
        with pytest.raises(UsageError, match="is refused"), server(tmp_path, host):
            pytest.fail("it listens")
    with pytest.raises(MissingError, match="cannot listen") as caught, server(tmp_path, port=running.port):
        pytest.fail("it listens")
    assert "--port 0" in refused(caught.value)
    with pytest.raises(MissingError, match="there is no folder"), server(tmp_path / "none"):
        pytest.fail("it listens")
    (tmp_path / "empty").mkdir()
    assert "trtprof run model.onnx" in index.render(listing(tmp_path / "empty"))
