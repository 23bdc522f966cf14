"""An nsys that does not profile: it starts the program as the real one does, and fails as real ones were seen to.

Messages and exit codes are those of 2022.4.2 and 2023.4.4, unless a test says whose they are. The program that is
written takes its behaviour from the file ``behaviour.json`` beside it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sqlite3
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.in_process import call_telling
from trtprof.capture.nsys import _find, _process, record
from trtprof.runtime import installed_tool

HELP = """usage: nsys profile [<args>] [application] [<application args>]
\t-c, --capture-range=
\t--capture-range-end=
\t--cuda-graph-trace=<granularity>[:<launch origin>]
\t-t, --trace=
\t   Possible values are 'cuda', 'nvtx', 'osrt' or 'none'.
"""

PROGRAM = r'''#!{python} -IS
import json, os, shutil, signal, subprocess, sys, tempfile, time
here = os.path.dirname(os.path.realpath(__file__))
told = json.load(open(os.path.join(here, "behaviour.json")))
with open(os.path.join(here, "calls.txt"), "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\n")
fails = told.get("fails", "")


def say(*lines, to=sys.stdout):
    for line in lines:
        print(line, file=to, flush=True)


def stay():
    """A process of its own session that outlives this one, as nsys' agent does."""
    code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    subprocess.Popen(
        [sys.executable, "-IS", "-c", code, os.path.join(here, "agent.pid")], start_new_session=True,
        stdin=subprocess.DEVNULL,
    )
    while not os.path.exists(os.path.join(here, "agent.pid")) or not open(os.path.join(here, "agent.pid")).read():
        time.sleep(0.01)


def profile(options, app):
    known = told["help"]
    for option in options:
        if option.startswith("--") and option.partition("=")[0] not in known and option != "--cpuctxsw=none":
            say("unrecognised option '" + option + "'", "", "usage: nsys profile [<args>]", to=sys.stderr)
            return 1
    output = options[options.index("-o") + 1].replace("%%", "%")
    say(*told.get("first", []), to=sys.stderr)
    if fails == "refuse":
        say(*told["message"], to=sys.stderr)
        return 1
    if fails == "agent":
        stay()
    ours = tempfile.NamedTemporaryFile(prefix="nsys-report-", suffix=".qdstrm", delete=False)
    ours.write(b"U3w[END]" + told["version"].replace("version", "Stream").encode() + b"!recorded")
    ours.close()
    environment = {{**os.environ, "NSYS_PROFILING_SESSION_ID": str(os.getpid())}}
    worker = subprocess.Popen(app, env=environment, start_new_session=True)
    if fails == "killed":
        while not (os.path.exists(told["after"]) and open(told["after"]).read()):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)

    def obey(*_):
        """As the real one: SIGTERM ends the program and leaves a report of what there is."""
        worker.terminate()
        os.unlink(ours.name)
        open(output + ".nsys-rep", "w").write("what there is")
        os._exit(143)

    signal.signal(signal.SIGTERM, signal.SIG_IGN if fails == "deaf" else obey)
    code = worker.wait()
    code = 128 - code if code < 0 else code
    if fails in ("hang", "deaf", "agent"):
        say("Generating '" + ours.name + "'")
        time.sleep(600)
    if fails == "nothing":
        say("Generated:")
        return code
    say("Generating '" + ours.name + "'")
    if fails == "nospace":
        say("Failed to create '" + output + ".qdstrm': No space left on device.", to=sys.stderr)
        return code
    if fails == "qdstrm":
        say("Importer error status: The importer binary and its dependencies were not found.",
            "Unable to retrieve the importer version: skipping importation of the QDSTRM file.", to=sys.stderr)
        shutil.move(ours.name, output + ".qdstrm")
        say("Generated:", "    " + output + ".qdstrm")
        return code
    os.unlink(ours.name)
    open(output + ".nsys-rep", "w").write("report")
    sys.stdout.write("\r[1/1] [======50%     ] r\r[1/1] [=====100%] r\n")
    say("Generated:", "    " + output + ".nsys-rep")
    return code


def export(options):
    output, report = options[options.index("-o") + 1], options[-1]
    if fails == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fails == "hang":
        time.sleep(600)
    if fails == "refuse":
        open(output, "w").write("half")
        say(*told["message"], to=sys.stderr)
        return 1
    shutil.copy(os.path.join(here, "export.sqlite"), output)
    if "cut" in told:
        os.truncate(output, told["cut"])
    return 0


def main(arguments):
    if arguments[:1] == ["--version"]:
        say(told["version"])
        return told.get("version_code", 0)
    if arguments[:2] == ["profile", "--help"]:
        say(told["help"])
        return 0
    if arguments[0] == "export":
        return export(arguments[1:])
    options, rest = [], arguments[1:]
    while rest and rest[0].startswith("-"):
        options.append(rest.pop(0))
        if not options[-1].startswith("--"):
            options.append(rest.pop(0))
    return profile(options, rest)


sys.exit(main(sys.argv[1:]))
'''

IMPORTER = r"""#!{python} -IS
import json, os, sys
here = os.path.dirname(os.path.realpath(__file__))
told = json.load(open(os.path.join(here, "behaviour.json")))
calls = os.path.join(here, "calls.txt")
open(calls, "a").write("call\n")
if told.get("message") and len(open(calls).readlines()) <= told.get("failures", 99):
    print(*told["message"], sep="\n", file=sys.stderr)
    sys.exit(told["code"])
arguments = sys.argv[1:]
assert open(arguments[arguments.index("-i") + 1], "rb").read().endswith(b"!recorded")
open(arguments[arguments.index("-i") + 1], "ab").write(b"imported")
print("Processing [===50%    ]", end="\r")
open(arguments[arguments.index("-o") + 1], "w").write("imported")
"""


class FakeNsys:
    """A folder laid out as NVIDIA's packages are, with the programs in it."""

    def __init__(self, folder: Path, version: str = "NVIDIA Nsight Systems version 2023.4.4.54-234433681190v0") -> None:
        self.folder = folder / "target-linux-x64"
        self.folder.mkdir(parents=True)
        self.path = self.folder / "nsys"
        _program(self.path, PROGRAM)
        self.behave(version=version)

    def behave(self, **told: Any) -> None:
        """Change what it says and does; see the program."""
        file = self.folder / "behaviour.json"
        before = json.loads(file.read_text()) if file.exists() else {"help": HELP}
        file.write_text(json.dumps({**before, **told}))

    def importer(self, folder: Path | None = None, **told: Any) -> Path:
        """Install the importer, by default where nsys looks for it."""
        place = folder or self.folder.parent / "host-linux-x64"
        place.mkdir(parents=True)
        path = place / "QdstrmImporter"
        _program(path, IMPORTER)
        (place / "behaviour.json").write_text(json.dumps(told))
        return path

    def exports(self, *tables: str) -> Path:
        """What the export is to give: a database with these tables."""
        path = self.folder / "export.sqlite"
        database = sqlite3.connect(path)
        database.execute("PRAGMA synchronous = OFF")
        for table in tables:
            database.execute(f"CREATE TABLE {table} (name TEXT, value TEXT)")
        database.commit()
        database.close()
        return path

    def calls(self) -> list[list[str]]:
        """The arguments of each call so far."""
        return [json.loads(line) for line in (self.folder / "calls.txt").read_text().splitlines()]

    def agent(self) -> int:
        """The process that it left behind."""
        return int((self.folder / "agent.pid").read_text())


def play(patch: pytest.MonkeyPatch, dies: Callable[[str], bool] = lambda _worker: False) -> None:
    """Fakes answer and export, and call the worker, without being started; not where somebody is to hang or to die."""
    start = _process.run

    def answer(command: Sequence[str]) -> tuple[str, str]:
        told = _told(command[0])
        said = told["help" if "--help" in command else "version"]
        return said, said if told.get("version_code") else ""

    def run(
        command: Sequence[str], *, log: Path, environment: Mapping[str, str], timeout_s: float,
        on_line: Callable[[str], None],
    ) -> _process.Ended:  # fmt: skip
        told, place = _told(command[0]), Path(command[0]).parent
        fails, at = told.get("fails", ""), command.index("-o") + 1
        output, app = (
            command[at].replace("%%", "%"),
            command[command.index(sys.executable) :] if "-P" in command else [],
        )
        if fails in {"hang", "deaf", "agent", "killed"} or (app and dies(app[-1])):
            return start(command, log=log, environment=environment, timeout_s=timeout_s, on_line=on_line)
        with (place / "calls.txt").open("a") as calls:
            calls.write(json.dumps(command[1:]) + "\n")
        log.write_text(f"$ {shlex.join(command)}\n")
        errors: list[str] = list(told.get("first", []) if app else [])
        code = int(fails == "refuse")
        if code:
            errors = told["message"]
        elif not app:
            shutil.copy(place / "export.sqlite", output)
            os.truncate(output, told.get("cut", os.path.getsize(output)))
        else:
            lines = log.with_name(".errors")
            code = call_telling(app, lines, on_line, {**environment, "NSYS_PROFILING_SESSION_ID": "1"})
            errors += lines.read_text().splitlines()
            lines.unlink()
            on_line(f"Generating '{output}'")
            if fails == "nospace":
                errors.append(f"Failed to create '{output}.qdstrm': No space left on device.")
            elif fails != "nothing":
                Path(output + (".qdstrm" if fails == "qdstrm" else ".nsys-rep")).write_text("report")
        return _process.Ended(code, False, None, tuple(errors), tuple(errors))

    patch.setattr(installed_tool, "answer", answer)
    patch.setattr(_find, "answer", answer)
    patch.setattr(record, "run", run)


def _told(program: str) -> dict[str, Any]:
    return dict(json.loads(Path(program).resolve().with_name("behaviour.json").read_text()))


def _program(path: Path, text: str) -> None:
    path.write_text(text.replace("{python}", sys.executable).replace("{{", "{").replace("}}", "}"), encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


NVTX_WORKER = '''"""NVTX ranges without a package, as the headers of NVTX 3 make them: the tool fills in a table.


nsys up to 2023.4 does not record those of the Python package nvtx from 0.2.13 on.
"""
import ctypes, os, time
slots = {module: (ctypes.c_void_p * 16)() for module in range(1, 7)}
tables = {}
for module, places in slots.items():
    step = ctypes.sizeof(ctypes.c_void_p)
    tables[module] = (ctypes.c_void_p * 17)(*(ctypes.addressof(places) + index * step for index in range(16)))

@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint))
def table_of(module, table, size):
    table[0], size[0] = ctypes.addressof(tables[module]), 16
    return 1

class Callbacks(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("table_of", type(table_of))]

class Version(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("version", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("note", ctypes.CFUNCTYPE(None, ctypes.c_uint32))]

note = ctypes.CFUNCTYPE(None, ctypes.c_uint32)(lambda version: None)
callbacks = Callbacks(ctypes.sizeof(Callbacks), table_of)
version = Version(ctypes.sizeof(Version), 3, 0, note)

@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
def export_table(which):
    return {1: ctypes.addressof(callbacks), 3: ctypes.addressof(version)}.get(which)

tool = ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"])
assert tool.InitializeInjectionNvtx2(export_table)
push = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(slots[1][9])
pop = ctypes.CFUNCTYPE(ctypes.c_int)(slots[1][11])
print("ready", flush=True)
for iteration in range(5):
    push(b"iteration")
    push(b"layer %d" % iteration)
    time.sleep(0.002)
    pop()
    pop()
'''
