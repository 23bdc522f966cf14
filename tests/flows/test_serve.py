"""The browser of runs: a real server on a free port, real requests, friendly and hostile."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from tests.fakes import report_factory as factory
from tests.fakes.run_factory import with_latency
from tests.fakes.support import ROOT, refused
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import Latency, Run
from trtprof.base.run_folder import RunFolder
from trtprof.flows.serve import Running, Runs, server
from trtprof.report import index

EXAMPLE = ROOT / "reports" / "example"


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: str


def save(reports: Path, name: str, run: Run, *tags: str, page: str = "") -> Path:
    folder = reports / name
    folder.mkdir()
    (folder / "request.json").write_text("{}")
    (folder / "report.json").write_bytes(msgspec.json.encode(run))
    if page:
        (folder / "report.html").write_text(page)
    if tags:
        RunFolder(folder).tag(tags)
    return folder


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """Three runs of one model, one of another, one that cannot be read, one that did not finish."""
    folder = tmp_path / "reports"
    folder.mkdir()
    run = factory.typical()
    for day, name in enumerate(("first", "second", "third"), 1):
        median = run.latency.median_ns + day * 100_000
        slower = with_latency(run, Latency(median_ns=median, p99_ns=median * 2, cv=0.01, n=400))
        tags = ("baseline",) if day == 1 else ()
        save(folder, name, msgspec.structs.replace(slower, created=f"2026-11-0{day}T10:00:00+00:00"), *tags)
    other = factory.one_layer()
    save(
        folder,
        "other",
        msgspec.structs.replace(other, model=msgspec.structs.replace(other.model, name="gemm", sha256="cd")),
    )
    (save(folder, "damaged", run) / "report.json").write_text('{"model": ')
    (save(folder, "unfinished", run) / "report.json").unlink()
    (folder / "notes").mkdir()
    (folder / "notes.txt").write_text("no run")
    return folder


@pytest.fixture
def running(reports: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr("trtprof.flows.serve._STOPS_WITHIN_S", 0.005)
    with server(reports) as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield found
        found.stop()
        thread.join()


def ask(
    running: Running, path: str, method: str = "GET", *, host: str | None = None, body: str | None = None
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        if host != "":
            connection.putheader("Host", host or f"127.0.0.1:{running.port}")
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body.encode() if body is not None else None)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read().decode())
    finally:
        connection.close()


def test_all_runs_are_listed(running: Running) -> None:
    answer = ask(running, "/")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    rows = re.findall(r'<tr>\s*<th scope="row" class="model"><a href="/run/(\w+)/">', answer.body)
    assert rows == ["other", "third", "second", "first"]
    for word in (
        "tinynet.onnx",
        "ort-cpu",
        "Example CPU",
        "baseline",
        "99.2 %",
        "The kernels reach 62 % of the roofline",
    ):
        assert word in answer.body
    assert "the run did not finish" in answer.body
    assert "report.json is damaged" in answer.body
    assert "notes" not in answer.body


def test_the_numbers_are_those_of_the_report(running: Running, reports: Path) -> None:
    from trtprof.base import units
    from trtprof.report._format import headline

    run = RunFolder(reports / "third").report()
    total = headline(run)
    assert total.attainable_ns is not None
    assert total.of_roof is not None
    row = re.search(r"<tr>(?:(?!</tr>).)*/run/third/.*?</tr>", ask(running, "/").body, re.DOTALL)
    assert row is not None
    for text in (
        units.format_ns(run.latency.median_ns), f"~{units.format_percent(total.of_roof)}",
        f"~{units.format_ns(run.latency.median_ns - total.attainable_ns)}",
    ):  # fmt: skip
        assert text in row[0]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("text=TINYNET", ["third", "second", "first"]),
        ("text=tinynet+baseline", ["first"]),
        ("tag=baseline", ["first"]),
        ("tag=base", []),
        ("text=no-such", []),
        ("sort=model", ["other", "third", "second", "first"]),
        ("sort=latency&text=tinynet", ["third", "second", "first"]),
        ("sort=bogus", ["other", "third", "second", "first"]),
        ("text=%00%ff", []),
        ("&&&=;text", ["other", "third", "second", "first"]),
    ],
)
def test_text_and_tag_choose_runs(running: Running, query: str, rows: list[str]) -> None:
    answer = ask(running, f"/?{query}")
    assert answer.status == 200
    assert re.findall(r'class="model"><a href="/run/(\w+)/">', answer.body) == rows


def test_a_model_that_ran_again_has_a_trend(running: Running) -> None:
    body = ask(running, "/").body
    (trend,) = re.findall(r'<article class="trend">.*?</article>', body, re.DOTALL)
    assert trend.count('class="dot"') == 3
    assert re.findall(r'href="/run/(\w+)/" class="(\w+)"', trend) == [
        ("first", "tagged"), ("second", "untagged"), ("third", "untagged")
    ]  # fmt: skip
    heights = [float(y) for y in re.findall(r'class="dot" cx="[\d.]+" cy="([\d.]+)"', trend)]
    assert heights == sorted(heights, reverse=True), "slower runs are higher up"
    assert re.search(r"trtprof compare \S+/second \S+/third", trend)


def test_runs_of_other_devices_or_shapes_are_no_trend() -> None:
    run = factory.typical()
    brief = msgspec.json.decode(msgspec.json.encode(run), type=index.Brief)
    one = index.summarised("a", brief)
    others = (
        one._replace(folder="b", device="another"), one._replace(folder="c", shapes="x 8x3x224x224 fp32"),
        one._replace(folder="d", backend="tensorrt"), one._replace(folder="e", sha256="ff"),
    )  # fmt: skip
    page = index.render(index.Listing("reports", (one, *others)))
    assert "Latency over runs" not in page
    assert "Latency over runs" in index.render(index.Listing("reports", (one, one._replace(folder="b"))))


def test_a_run_to_compare_with_gives_each_other_a_command(running: Running) -> None:
    body = ask(running, "/?base=first").body
    commands = re.findall(r"<code>(trtprof compare \S+ \S+)</code>", body)
    assert [command.rsplit("/")[-1] for command in commands if "/first " in command] == ["other", "third", "second"]


def test_new_runs_and_tags_show_when_the_page_is_loaded_again(running: Running, reports: Path) -> None:
    assert "fourth" not in ask(running, "/").body
    save(reports, "fourth", factory.typical(), "nightly")
    assert "/run/fourth/" in ask(running, "/?tag=nightly").body
    RunFolder(reports / "fourth").tag(["release"], ["nightly"])
    assert "/run/fourth/" in ask(running, "/?tag=release").body
    shutil.rmtree(reports / "fourth")
    assert "fourth" not in ask(running, "/").body


def test_what_did_not_change_is_not_read_again(reports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(reports)
    first = runs.listing()
    monkeypatch.setattr("trtprof.flows.serve._read", lambda *_: pytest.fail("read again"))
    assert runs.listing() == first


def test_a_page_is_served_from_its_folder_where_it_is_new(running: Running, reports: Path) -> None:
    save(reports, "paged", factory.typical(), page="<p>kept</p>")
    assert ask(running, "/run/paged/").body == "<p>kept</p>"
    report = reports / "paged" / "report.json"
    later = report.stat().st_mtime_ns + 10**9
    os.utime(report, ns=(later, later))
    answer = ask(running, "/run/paged/")
    assert "<p>kept</p>" not in answer.body
    assert "tinynet.onnx" in answer.body
    assert "sandbox allow-scripts" in answer.headers["Content-Security-Policy"]
    assert "allow-same-origin" not in answer.headers["Content-Security-Policy"]


def test_a_page_that_is_not_there_is_made(running: Running, reports: Path) -> None:
    answer = ask(running, "/run/third/")
    assert answer.status == 200
    assert answer.body.startswith("<!doctype html>")
    assert ask(running, "/run/third/report.html").body == answer.body
    assert not (reports / "third" / "report.html").exists(), "nothing is written"
    assert json.loads(ask(running, "/run/third/report.json").body)["model"]["name"] == "tinynet.onnx"


def test_a_run_without_its_slash_is_redirected(running: Running) -> None:
    answer = ask(running, "/run/third")
    assert (answer.status, answer.headers["Location"]) == (301, "/run/third/")


@pytest.mark.parametrize(
    "path",
    [
        "/run/../../etc/passwd",
        "/run/..%2f..%2fetc/",
        "/run/%2e%2e/",
        "/run/./",
        "/run//",
        "//evil.example/",
        "/run/third/..",
        "/run/third/request.json",
        "/run/third/../third/report.json/x",
        "/run/nosuch/",
        "/run/notes/",
        "/run/notes.txt/",
        "/run/%00/",
        "/etc/passwd",
        "/index.html",
        "/run/third/%2e%2e/other/report.json",
        "/run/.hidden/",
        "/run/link/",
        "/run/linked-report/",
        "/run/linked-report/report.json",
        "/run/unfinished/",
        "http://127.0.0.1/run/third/",
        "*",
        "/run/third%2freport.json",
        "/run\\third\\",
        "/run/damaged%00/",
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_no_path_leads_anywhere_else(running: Running, reports: Path, path: str, method: str) -> None:
    outside = reports.parent / "outside"
    outside.mkdir()
    (outside / "report.json").write_bytes(msgspec.json.encode(factory.one_layer()))
    (outside / "report.html").write_text("outside")
    (reports / "link").symlink_to(outside)
    (reports / "linked-report").mkdir()
    (reports / "linked-report" / "report.json").symlink_to(outside / "report.json")
    (reports / ".hidden").mkdir()
    shutil.copyfile(outside / "report.json", reports / ".hidden" / "report.json")
    answer = ask(running, path, method)
    assert answer.status in (404, 301)
    if answer.status == 301:
        assert answer.headers["Location"].startswith("/run/")
    assert "outside" not in answer.body
    assert "root:" not in answer.body
    assert "links out" not in answer.body


def test_a_redirect_never_leads_to_another_server(running: Running) -> None:
    for path in ("/run/%2f%2fevil.example", "//run/x", "/run/..%2f..%2fevil"):
        location = ask(running, path).headers.get("Location", "/")
        assert location.startswith("/")
        assert not location.startswith("//")


def test_links_out_of_the_folder_are_listed_as_such(running: Running, reports: Path) -> None:
    outside = save(reports.parent, "outside", factory.typical())
    (reports / "link").symlink_to(outside)
    body = ask(running, "/").body
    assert "it is a link to somewhere else" in body
    assert "/run/link/" not in body


def test_a_page_that_is_a_link_to_elsewhere_is_not_served(running: Running, reports: Path) -> None:
    secret = reports.parent / "secret.html"
    secret.write_text("secret")
    page = reports / "third" / "report.html"
    page.symlink_to(secret)
    later = (reports / "third" / "report.json").stat().st_mtime_ns + 10**9
    os.utime(secret, ns=(later, later))
    answer = ask(running, "/run/third/")
    assert answer.status == 200
    assert "secret" not in answer.body[:200]
    assert "tinynet" in answer.body


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}"]
)
def test_other_names_for_this_machine_are_refused(running: Running, host: str) -> None:
    answer = ask(running, "/", host=host.format(port=running.port))
    assert answer.status == 421
    assert "tinynet" not in answer.body


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_its_own_names_are_not(running: Running, host: str) -> None:
    assert ask(running, "/", host=host.format(port=running.port)).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_only_reading_is_possible(running: Running, method: str) -> None:
    answer = ask(running, "/", method, body="x=1" if method != "CONNECT" else None)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"


def test_an_unknown_method_is_refused(running: Running) -> None:
    assert ask(running, "/", "BREW").status == 501


def test_head_is_get_without_the_body(running: Running) -> None:
    got, head = ask(running, "/"), ask(running, "/", "HEAD")
    assert head.status == 200
    assert head.body == ""
    assert head.headers["Content-Length"] == got.headers["Content-Length"]


@pytest.mark.parametrize("path", ["/", "/run/third/", "/nosuch"])
def test_every_answer_is_locked_down(running: Running, path: str) -> None:
    headers = ask(running, path).headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Access-Control-Allow-Origin" not in headers
    assert headers["Server"].strip() == "trtprof"


def test_hostile_names_stay_text(running: Running, reports: Path) -> None:
    save(reports, "hostile", factory.hostile())
    save(reports, "<img src=x onerror=alert(1)>", factory.typical())
    body = ask(running, "/").body
    assert "<script" not in body
    assert "<img" not in body
    assert "\u202e" not in body
    assert "\x1b" not in body
    assert ask(running, "/?text=%3Cscript%3E%22").body.count("<script") == 0
    assert ask(running, "/run/%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E/").status == 200


def test_a_page_that_cannot_be_made_is_an_error_in_words(running: Running) -> None:
    answer = ask(running, "/run/damaged/")
    assert answer.status == 500
    assert "cannot be read" in answer.body
    assert "Traceback" not in answer.body


def test_an_empty_folder_says_what_makes_the_first_run(tmp_path: Path) -> None:
    assert "trtprof run model.onnx" in index.render(Runs(tmp_path).listing())


def test_the_example_is_listed() -> None:
    found = {run.folder: (run.model, run.backend) for run in Runs(EXAMPLE.parent).listing().runs}
    assert found["example"] == found["example-1-thread"] == ("resnet_tiny", "ort-cpu")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.com", ""])  # noqa: S104 - refused
def test_only_the_loopback_address_is_listened_on(reports: Path, host: str) -> None:
    with pytest.raises(UsageError, match="is refused") as caught, server(reports, host):
        pytest.fail("it listens")
    refused(caught.value)


def test_ipv6_has_a_loopback_address_too(reports: Path) -> None:
    if not socket.has_ipv6:
        pytest.skip("this Python has no IPv6")
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    with server(reports, "::1") as running:
        assert running.url == f"http://[::1]:{running.port}/"


def test_a_port_that_is_taken_is_said(reports: Path, running: Running) -> None:
    with pytest.raises(MissingError, match="cannot listen") as caught, server(reports, port=running.port):
        pytest.fail("it listens")
    assert "--port 0" in refused(caught.value)


def test_no_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="there is no folder") as caught, server(tmp_path / "none"):
        pytest.fail("it listens")
    refused(caught.value)


def test_many_runs_at_once_are_answered(running: Running) -> None:
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda path=path: answers.append(ask(running, path).status))
        for path in ["/", "/run/third/", "/run/other/", "/?tag=baseline"] * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 16


_ODD = {
    "deep": b"[" * 100_000,
    "deep_inside": b'{"model": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "latin_1": b'{"verdict": "\xe9"}',
    "utf_16": '{"verdict": "x"}'.encode("utf-16"),
    "a_list": b"[]",
    "empty": b"",
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such pipes")
def test_no_folder_takes_the_list_down(reports: Path, running: Running) -> None:
    for name, content in _ODD.items():
        (save(reports, name, factory.one_layer()) / "report.json").write_bytes(content)
    for name in ("pipe", "pages_pipe", "tags_pipe"):
        save(reports, name, factory.one_layer(), page="x")
    for path in ("pipe/report.json", "pages_pipe/report.html", "tags_pipe/tags.json"):
        (reports / path).unlink(missing_ok=True)
        os.mkfifo(reports / path)
    with (save(reports, "huge", factory.one_layer()) / "report.json").open("r+b") as file:
        file.truncate(1 << 30)
    edited = factory.one_layer()
    edited = msgspec.structs.replace(edited, ledger=(*edited.ledger, edited.ledger[0]))
    save(reports, "edited", edited)
    answer = ask(running, "/")
    assert answer.status == 200
    rows = re.findall(r'<tr>\s*<th scope="row" class="model"><a href="/run/(\w+)/">', answer.body)
    assert sorted(rows) == ["first", "other", "pages_pipe", "second", "tags_pipe", "third"]
    for name in (*_ODD, "pipe", "huge", "edited"):
        assert f"{name}" in answer.body
        assert ask(running, f"/run/{name}/").status == 500
    assert ask(running, "/run/pages_pipe/").status == 200


def test_a_run_that_was_replaced_is_listed_anew_whatever_its_time_and_size(reports: Path, running: Running) -> None:
    path = reports / "other" / "report.json"
    assert "gemm" in ask(running, "/").body
    found, content = path.stat(), path.read_bytes().replace(b'"gemm"', b'"mmeg"')
    path.write_bytes(content)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert "mmeg" in ask(running, "/").body
