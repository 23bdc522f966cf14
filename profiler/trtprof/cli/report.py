"""``trtprof report``: a finished run again, in any format, in the browser, or with all the others of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from trtprof.base.errors import MissingError, UsageError
from trtprof.base.output_file import write_file
from trtprof.cli import app, completion, process
from trtprof.cli import run_view as v
from trtprof.cli.completion import REPORTS
from trtprof.cli.declared import opt
from trtprof.cli.options import ExplainOption, FailOnOption, ForceOption, TopOption
from trtprof.cli.output import encoded, errors_shown, refuse_binary, result, say, send
from trtprof.cli.output_files import (
    ENGINE_SUFFIXES,
    WIDTH,
    FormatOrNoneOption,
    next_step,
    refuse_existing,
    suffix_format,
)
from trtprof.cli.run_view import check_views, refuse_explained, with_model

if TYPE_CHECKING:
    from trtprof.base.records import Record, Run
    from trtprof.base.run_folder import RunFolder
    from trtprof.cli.output import View
    from trtprof.report import Reporter


@app.command()
def report(
    run_folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUN]", autocompletion=completion.runs,
            help="A run folder; default: the newest under reports/. With --serve the folder of all runs.",
            show_default=False,
        ),
    ] = None,
    format_name: FormatOrNoneOption = None,
    output: Annotated[
        list[str] | None,
        opt(
            "--output -o",
            "Write there, as its suffix says, and print nothing unless --format is given; - is stdout; a folder "
            "takes all tables (--format csv or parquet); may be repeated.", metavar="FILE",
        ),
    ] = None,
    force: ForceOption = False,
    top: TopOption = None,
    by: v.ByOption = "layer",
    table: v.TableOption = None,
    figure: v.FigureOption = "roofline",
    ledger: v.LedgerOption = False,
    redact: v.RedactOption = False,
    redact_map: Annotated[
        str, opt("--redact-map", "With --redact: keep which word stands for which name.", metavar="FILE")
    ] = "",
    weights: Annotated[
        bool, opt("--weights/--no-weights", "Of an annotated .onnx: whether it keeps large weights.")
    ] = True,
    open_page: Annotated[bool, opt("--open", "Open the page in a browser.")] = False,
    tag: Annotated[list[str] | None, opt("--tag", "Call the run so; may be repeated.", metavar="NAME")] = None,
    untag: Annotated[list[str] | None, opt("--untag", "Call it so no more; may be repeated.", metavar="NAME")] = None,
    serve: Annotated[bool, opt("--serve", "Browse all runs of a folder, on this machine alone, until Ctrl-C.")] = False,
    port: Annotated[int, opt("--port", "With --serve; 0 takes any free one.", metavar="N", min=0, max=65535)] = 8323,
    host: Annotated[str, opt("--host", "With --serve: 127.0.0.1 or ::1, no other.", metavar="ADDRESS")] = "127.0.0.1",
    fail_on: FailOnOption = None,
    explain: ExplainOption = None,
) -> None:  # fmt: skip
    """Show a finished run again, in any format or in the browser, or say why a rule was silent on a layer of it.

    Ctrl-C ends it, with exit code 0.
    """
    with errors_shown():
        if serve:
            _refuse_beside_serve(
                {
                    "--format": format_name, "-o": output, "--redact": redact, "--redact-map": redact_map, "--tag": tag,
                    "--untag": untag, "--fail-on": fail_on, "--explain": explain, "--table": table, "--top": top,
                }
            )  # fmt: skip
            _serve(run_folder or REPORTS, host, port, open_page=open_page)
            return
        from trtprof.base import run_folder as folders
        from trtprof.base.records import Explanation
        from trtprof.base.records import Run as FinishedRun
        from trtprof.cli import fail_on as failing

        asked = failing.criteria(fail_on)
        view = check_views(top=top, by=by, table=table, figure=figure, ledger=ledger)._replace(weights=weights)
        if redact_map and not redact:
            raise UsageError("--redact-map without --redact", why="nothing is replaced", fix="say --redact too")
        if run_folder is None:
            folder = folders.newest(REPORTS)
            say(f"{folder.path}: the newest run")
        else:
            folder = folders.RunFolder(run_folder.parent if run_folder.name == folders.REPORT else run_folder)
        targets = _targets(output, format_name, table, Explanation if explain else FinishedRun, force=force)
        if redact_map:
            refuse_existing(Path(redact_map), force=force)
        if tag or untag:
            folder.report()  # a folder that holds no run gets no tags
            tags = folder.tag(tag or (), untag or ())
            if output is None and format_name is None and explain is None and not open_page and not asked:
                result(" ".join(tags))
                return
            say(f"tags: {' '.join(tags) or 'none'}")
        run = None
        if explain is not None:
            refuse_explained(redact=redact)
            _explain(folder, explain, _printed(output, format_name, targets), targets)
        else:
            opens = open_page and not output and format_name in (None, "html")
            name = "" if opens else _printed(output, format_name, targets)
            run = _show(folder, targets, name, view, redact=redact, redact_map=redact_map, open_page=open_page)
        if asked:
            failing.check((run or folder.report()).findings, asked)


class _Target(NamedTuple):
    """A file to write."""

    path: Path  # Where
    format: str  # In which format
    table: str | None = None  # Of a format of one table which
    in_folder: bool = False  # Whether it goes to a folder of tables
    by_format: bool = False  # Whether ``--format`` says its format, not its suffix


def _printed(output: Sequence[str] | None, format_name: str | None, targets: Sequence[_Target]) -> str:
    """The format to print; empty where files are all that is asked for."""
    asked = format_name is not None and not any(target.by_format for target in targets)
    return (format_name or "text") if asked or not targets or "-" in (output or ()) else ""


def _targets(
    output: Sequence[str] | None, format_name: str | None, table: str | None, record: type[Record], *, force: bool
) -> list[_Target]:
    """The files of ``-o``, before anything is read or written; none where the result goes to stdout."""
    from trtprof import report as formats

    names = [name for name in output or ("-",) if name != "-"]
    asked = formats.get(format_name, record) if format_name else None
    found: list[_Target] = []
    for name in names:
        if name.endswith(("/", "\\")) or Path(name).is_dir():
            found += _of_folder(name, asked, table)
        else:
            path = Path(name)
            says = any(name.lower().endswith(each.suffix) for each in formats.formats_of(record))
            by_format = asked is not None and not says and path.suffix.lower() not in ENGINE_SUFFIXES
            reporter = asked if asked and by_format else suffix_format(path, record, "report.html")
            found.append(_Target(path, reporter.name, table, by_format=by_format))
    for target in found:
        if not (target.in_folder and not target.path.exists()):  # its folder is made
            refuse_existing(target.path, force=force)
    if len({target.path for target in found}) < len(found):
        raise UsageError("-o names the same file twice", why="one would replace the other", fix="leave one away")
    return found


def _of_folder(name: str, asked: Reporter | None, table: str | None) -> list[_Target]:
    """All tables, a file each."""
    from trtprof.report.tables import TABLES

    if asked is None or not asked.tables:
        raise UsageError(
            f"-o {name} is a folder",
            why="only a format of tables fills one" if asked else "no suffix tells the format",
            fix=f"--format csv -o {name}, or -o {Path(name) / 'report.html'}",
        )
    tables = [table] if table else list(TABLES)
    return [
        _Target(Path(name) / f"{each}{asked.suffix}", asked.name, each, in_folder=True, by_format=True)
        for each in tables
    ]


def _show(
    folder: RunFolder,
    targets: Sequence[_Target],
    to_stdout: str,
    view: View,
    *,
    redact: bool,
    redact_map: str,
    open_page: bool,
) -> Run:
    """Write the files, print the run in the format ``to_stdout`` (none where it is empty), open its page."""
    if to_stdout:
        refuse_binary(to_stdout)
    run = folder.report()
    file = str(folder.path)
    if redact:
        run, file = _redacted(run, redact_map), ""
        if redact_map and not targets:
            say(f"wrote {redact_map}")
    view = with_model(view._replace(file=file), run, [to_stdout, *(each.format for each in targets)], redact=redact)
    if to_stdout:
        send(run, to_stdout, **view._asdict())
    contents = [
        (target, encoded(run, target.format, view._replace(table=target.table or view.table))) for target in targets
    ]
    for target, content in contents:
        if target.in_folder:
            _make_folder(target.path.parent)
        write_file(target.path, content)
    if targets:
        names = [str(target.path) for target in targets if not target.in_folder]
        for parent in dict.fromkeys(target.path.parent for target in targets if target.in_folder):
            number = sum(target.in_folder and target.path.parent == parent for target in targets)
            names.append(f"{parent}/ ({number} table{'' if number == 1 else 's'})")
        if redact_map and redact:
            names.append(redact_map)
        say(f"wrote {', '.join(names)}" + next_step(targets[0].format))
    if open_page:
        page = next((target.path for target in targets if target.format == "html"), None)
        _open(page or _page(folder, run, view, redact=redact))
    return run


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MissingError(f"{path} cannot be made", why=error.strerror or "", fix="choose another folder") from None


def _redacted(run: Run, map_file: str) -> Run:
    """The run without names; which word stands for which goes to a file where one is named."""
    import json

    from trtprof.cli.run_view import private_names
    from trtprof.report.redact import redaction

    found = redaction(run, private_names())
    if map_file:
        write_file(Path(map_file), (json.dumps(found.names, ensure_ascii=False, indent=1) + "\n").encode())
    return found.run


def _page(folder: RunFolder, run: Run, view: View, *, redact: bool) -> Path:
    """The page of a run: that of its folder where it is there and as new as the result, else one for the moment."""
    import tempfile

    from trtprof.base import run_folder

    kept, report_json = folder.file(run_folder.PAGE), folder.file(run_folder.REPORT)
    if not redact and kept.is_file() and kept.stat().st_mtime_ns >= report_json.stat().st_mtime_ns:
        return kept
    content = encoded(run, "html", view)
    with tempfile.NamedTemporaryFile(prefix="trtprof-", suffix=".html", delete=False) as file:
        file.write(content)
    return Path(file.name)


def _open(page: Path) -> None:
    from trtprof.cli.browser import open_in_browser

    result(str(page))
    why_not = open_in_browser(page.resolve().as_uri())
    say(f"open it yourself: {why_not}" if why_not else "opened in the browser")


def _explain(folder: RunFolder, explain: tuple[str, str], printed: str, targets: Sequence[_Target]) -> None:
    """What a rule says of a layer of a finished run, on stdout in a format (none where it is empty) and in files."""
    from trtprof import report as formats
    from trtprof.diagnose.explain import explain as explain_layer
    from trtprof.diagnose.explain import rule_of
    from trtprof.flows.report import case_of

    rule_of(explain[0])
    found = explain_layer(case_of(folder), *explain)
    if printed:
        send(found, printed)
    for target in targets:
        write_file(target.path, formats.encode(found, target.format, width=WIDTH))
        say(f"wrote {target.path}")


def _refuse_beside_serve(given: dict[str, object]) -> None:
    for flag, value in given.items():
        if value:
            raise UsageError(
                f"{flag} is of no use with --serve", why="--serve shows all runs of a folder", fix=f"leave {flag} away"
            )


def _serve(reports: Path, host: str, port: int, *, open_page: bool) -> None:
    """Serve the folder until Ctrl-C, which is how it is meant to end."""
    from trtprof.cli.browser import open_in_browser
    from trtprof.flows.serve import server

    with server(reports, host, port) as running:
        result(running.url)
        say(f"browsing {reports}; Ctrl-C ends it")
        if open_page:
            why_not = open_in_browser(running.url)
            if why_not:
                say(f"open it yourself: {why_not}")
        try:
            running.serve_forever()
        except KeyboardInterrupt:
            say(f"ended by {process.ended_by()}")
