"""Each verb in each odd environment: streams that break, limits, locales, clocks, places that are not there.

    python scripts/fuzz/environments.py [--verbs run,inspect] [--environments "dumb,..."] [--quick] [--out FOLDER]

Wrong is a traceback, a hang, death by a signal, an exit code that is none of ours, a failure without an error where
stderr can be read, a warning of Python, a process or a temporary file that is left, and another answer than as usual
of a verb that measures nothing. Exit code 1 if any is. Some need root: they make mounts of their own, which no other
process sees.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fakes.every_verb import EVERY_VERB, command, environment, fill

LIMIT_S = 120
KEPT = ("sitecustomize.py", "é名", f"trtprof-fleet-{os.getuid()}")
"""In the temporary folder: what was put there, and where the workers of a node share models."""
OURS = (0, 2, 3, 4, 5)
BACK = """
import itertools, time
_real, _steps = time.time_ns, itertools.count()
time.time_ns = lambda: _real() - next(_steps) * 3_600_000_000_000
time.time = lambda: time.time_ns() / 1e9
"""
"""A clock that goes back an hour each time that it is read (monotonic ones do not)."""


class Odd(NamedTuple):
    """An environment.

    Attributes:
        before: What a shell does before the command.
        after: Its redirections.
        within: What the command is given to.
        variables: Of the environment; None takes one away.
        mute: Whether its errors cannot be read.
        shown: Whether it changes how an answer is shown, or what it is.
    """

    before: str = ""
    after: str = ""
    within: str = ""
    variables: tuple[tuple[str, str | None], ...] = ()
    mute: bool = False
    shown: bool = False


MOUNTED = "unshare --mount --propagation private bash -c '%s; exec \"$@\"' bash"
"""What runs a command where something else is mounted."""
BOUND = "setpriv --bounding-set=-dac_override,-dac_read_search"
"""What takes from root what others do not have: to read and write everything."""
SLOW = ("run", "try", "plugin", "export", "fleet-run", "calibrate")

MEASURED = {
    *("run", "try", "export", "fleet-run", "fleet-plan", "build", "calibrate", "calibrate-show", "doctor"),
    *("plugin", "report-tag", "report-png", "completion"),
}
"""Verbs whose answers are of the machine and the moment, or hold a picture or the names of temporary files."""

ENVIRONMENTS = {
    "as usual": Odd(),
    "full stdout": Odd(after="> /dev/full"),
    "full stderr": Odd(after="2> /dev/full", mute=True),
    "no stdin": Odd(after="<&-"),
    "no stdout": Odd(after=">&-"),
    "no stderr": Odd(after="2>&-", mute=True),
    "no streams": Odd(after="<&- >&- 2>&-", mute=True),
    "stdin without end": Odd(after="< /dev/zero"),
    "ASCII": Odd(variables=(("LC_ALL", "C"), ("PYTHONUTF8", "0"), ("PYTHONCOERCECLOCALE", "0"))),
    "no such locale": Odd(variables=(("LC_ALL", "xx_YY.KOI8-R"), ("LANG", "nonsense"))),
    "16 files": Odd("ulimit -n 16"),
    "32 files": Odd("ulimit -n 32"),
    "64 files": Odd("ulimit -n 64"),
    **{f"memory {size} MB": Odd(f"ulimit -v {size * 1024}") for size in (300, 500, 700, 1000, 1500, 2000, 3000, 4000)},
    "files of 100 kB": Odd("ulimit -f 100"),
    "stack of 256 kB": Odd("ulimit -s 256"),
    "one CPU": Odd("taskset -pc 0 $$ > /dev/null"),
    "no home": Odd(variables=(("HOME", None),)),
    "home is nowhere": Odd(variables=(("HOME", "/proc/nowhere"), ("XDG_CACHE_HOME", "/proc/nowhere"))),
    "home is no UTF-8": Odd('export HOME="$HOME/$(printf "h\\377")"; mkdir -p "$HOME"'),
    "no cache": Odd(variables=(("TRTPROF_CACHE_DIR", "/dev/null/cache"),)),
    "no temporary folder": Odd(variables=(("TMPDIR", "/nonexistent"),)),
    "no folder": Odd('mkdir -p "$TMPDIR/gone"; cd "$TMPDIR/gone"; rmdir "$TMPDIR/gone"'),
    "folder is no UTF-8": Odd('here=$(printf "f\\377"); rm -rf "$here"; mkdir "$here"; cp -r [!f]* fleet.toml "$here"; '
                              'cd "$here"'),
    "odd time zone": Odd(variables=(("TZ", "XXX+99:99:99"),)),
    "no time zone": Odd(variables=(("TZ", ":/etc/passwd"),)),
    "clock goes back": Odd('printf "%s" "$BACK" > "$TMPDIR/sitecustomize.py"; export PYTHONPATH="$PYTHONPATH:$TMPDIR"',
                           variables=(("BACK", BACK),)),
    "columns 0": Odd(variables=(("COLUMNS", "0"), ("LINES", "-1")), shown=True),
    "columns 10^9": Odd(variables=(("COLUMNS", "1000000000"), ("TERM", "dumb"), ("FORCE_COLOR", "1")), shown=True),
    "nothing but a PATH": Odd(variables=tuple((name, None) for name in ("HOME", "LANG", "COLUMNS", "TMPDIR")),
                              shown=True),
    "columns 20": Odd(variables=(("COLUMNS", "20"),), shown=True),
    "columns are no number": Odd(variables=(("COLUMNS", "wide"), ("TERM", ""), ("NO_COLOR", "1")), shown=True),
    "dumb": Odd(variables=(("TERM", "dumb"), ("NO_COLOR", "1"))),
    "reader goes away": Odd(after="> >(exec 0<&-)", shown=True),
    "reader reads one byte": Odd(after="> >(head -c 1 > /dev/null)", shown=True),
    "stdin is a closed pipe": Odd(after="< <(exec 1>&-)"),
    "names beyond ASCII": Odd('export TMPDIR="$TMPDIR/é名"; mkdir -p "$TMPDIR"; export HOME="$HOME/é名"; '
                              'mkdir -p "$HOME"; here=../é名; rm -rf "$here"; cp -r . "$here"; cd "$here"',
                              variables=(("LC_ALL", "C"), ("PYTHONUTF8", "0"), ("PYTHONCOERCECLOCALE", "0"))),
    "warnings are errors": Odd(variables=(("PYTHONWARNINGS", "error"),)),
    "warnings are shown": Odd(variables=(("PYTHONWARNINGS", "always"), ("PYTHONDEVMODE", "1"))),
    "hashes of seed 1": Odd(variables=(("PYTHONHASHSEED", "1"),)),
    "hashes of seed 4294967295": Odd(variables=(("PYTHONHASHSEED", "4294967295"),)),
    "optimised": Odd(variables=(("PYTHONOPTIMIZE", "2"),)),
    "far time zone": Odd(variables=(("TZ", "Pacific/Kiritimati"),)),
    "umask 0777": Odd("umask 0777"),
    "umask 0777 of others": Odd("umask 0777", within=BOUND),
    "folder is read only": Odd(within=MOUNTED % 'mount --bind . . && mount -o remount,ro,bind . && cd "$PWD"'),
    "folder may not be written": Odd("chmod 555 .", within=BOUND),
    "cache is read only": Odd(
        'mkdir -p "$HOME/.cache"',
        within=MOUNTED % 'mount --bind "$HOME" "$HOME" && mount -o remount,ro,bind "$HOME"'),
    "cache may not be read": Odd('mkdir -p "$TMPDIR/../shut"; chmod 000 "$TMPDIR/../shut"; '
                                 'export TRTPROF_CACHE_DIR="$TMPDIR/../shut"', within=BOUND),
    "home may not be written": Odd('mkdir -p "$TMPDIR/../still"; chmod 555 "$TMPDIR/../still"; '
                                   'export HOME="$TMPDIR/../still"', within=BOUND),
    "temporary folder is full": Odd(within=MOUNTED % 'mount -t tmpfs -o size=16k none "$TMPDIR"'),
    "temporary folder is read only": Odd(within=MOUNTED % 'mount -t tmpfs -o ro none "$TMPDIR"'),
    "nothing in /proc": Odd(within=MOUNTED % "mount -t tmpfs none /proc"),
    "nothing in /sys": Odd(within=MOUNTED % "mount -t tmpfs none /sys"),
    "no shared memory": Odd(within=MOUNTED % "mount -t tmpfs -o ro none /dev/shm"),
    "no network": Odd(within="unshare --net"),
    "8 processes": Odd("ulimit -u 8", within="setpriv --bounding-set=-sys_admin,-sys_resource"),
    "stack without end": Odd("ulimit -s unlimited"),
    "stack of 64 kB": Odd("ulimit -s 64"),
    "files of 1 kB": Odd("ulimit -f 1"),
    "no locked memory": Odd("ulimit -l 0"),
    "idle priority": Odd(within="nice -n 19 chrt --idle 0"),
}  # fmt: skip


class Asked(NamedTuple):
    """What came of a verb in an environment: its exit code, what it wrote and said, and what is wrong."""

    code: int
    out: bytes
    said: str
    wrong: list[str]


def asked(verb: str, name: str, folder: Path, home: Path, temporary: Path) -> Asked:
    """Ask a verb in an environment."""
    odd = ENVIRONMENTS[name]
    given: dict[str, str] = environment(home, temporary)
    for variable, value in odd.variables:
        given.pop(variable, None)
        if value is not None:
            given[variable] = value
    line = f'{odd.before}\nexec {odd.within} "$@" {odd.after}'
    process = subprocess.Popen(
        ["bash", "-c", line, "bash", *command(*EVERY_VERB[verb])], cwd=folder, env=given, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    wrong = []
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        wrong.append(f"hang: more than {LIMIT_S} s")
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
    said = err.decode(errors="replace")
    if "Traceback (most recent call last)" in said:
        wrong.append("traceback: " + [row for row in said.splitlines() if row and not row[0].isspace()][-1][:150])
    if process.returncode not in OURS:
        wrong.append(f"exit code {process.returncode}")
    elif process.returncode and "error:" not in said.lower() and not odd.mute:
        wrong.append(f"silent: exit code {process.returncode}")
    if found := re.search(r"\w+Warning: .*|Exception ignored.*|Fatal Python.*|OpenBLAS.*", said):
        wrong.append("said: " + found.group()[:150])
    if process.returncode == 0 and not out and not odd.after and "-o" not in EVERY_VERB[verb]:
        wrong.append("nothing was answered")
    if left := _left(process.pid):
        wrong.append("left running: " + left[0][:100])
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    wrong += [
        f"left: {path.name}" for path in (*temporary.glob("*"), *temporary.glob("é名/*")) if path.name not in KEPT
    ]
    return Asked(process.returncode, out, said, wrong)


def _left(session: int) -> list[str]:
    """Processes of a session that are there two seconds after its first has ended."""
    until = time.monotonic() + 2
    while True:
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                state, _, _, each = (place / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(each) == session and state != "Z":
                    found.append((place / "cmdline").read_text().replace("\0", " "))
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.05)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verbs", default=",".join(EVERY_VERB))
    parser.add_argument("--environments", default=",".join(ENVIRONMENTS))
    parser.add_argument("--out", type=Path, help="what was said where something is wrong goes there")
    parser.add_argument("--quick", action="store_true", help="leave out " + ", ".join(SLOW))
    options = parser.parse_args()
    verbs, names = options.verbs.split(","), options.environments.split(",")
    if options.quick:
        verbs = [verb for verb in verbs if verb not in SLOW]
    wrong: Counter[str] = Counter()
    usual: dict[str, bytes] = {}
    total = 0
    with tempfile.TemporaryDirectory(prefix="environments-") as scratch:
        fresh, home = Path(scratch) / "fresh", Path(scratch) / "home"
        fresh.mkdir()
        home.mkdir()
        fill(fresh)
        subprocess.run(command(*EVERY_VERB["fleet-run"][:-3], "answered"), cwd=fresh, check=True, capture_output=True,
                       env=environment(home, Path(scratch)))  # fmt: skip
        subprocess.run(command(*EVERY_VERB["plugin"][:-1], "written", "--only", "write"), cwd=fresh, check=True,
                       capture_output=True, env=environment(home, Path(scratch)))  # fmt: skip
        # What is the same as usual is only known once that was asked.
        for name in dict.fromkeys(("as usual", *names)):
            codes: Counter[int] = Counter()
            began = time.monotonic()
            bad = 0
            for verb in verbs:
                folder, temporary = Path(scratch) / "work", Path(scratch) / "tmp"
                for each in (folder, temporary):
                    shutil.rmtree(each, ignore_errors=True)
                shutil.copytree(fresh, folder)
                temporary.mkdir()
                code, out, said, found = asked(verb, name, folder, home, temporary)
                codes[code] += 1
                total += 1
                if verb not in MEASURED and code == 0 and out and not ENVIRONMENTS[name].shown:
                    before = usual.setdefault(verb, out)
                    if out != before:
                        found.append("other: another answer than as usual")
                bad += bool(found)
                for what in found:
                    wrong[what.partition(":")[0]] += 1
                    print(f"    {verb}: {what}", flush=True)
                if options.out and (found or code):
                    options.out.mkdir(parents=True, exist_ok=True)
                    (options.out / f"{name} {verb}.txt".replace("/", "_")).write_text(f"{code} {found}\n{said}")
            ended = ", ".join(f"{code}: {count}" for code, count in sorted(codes.items()))
            print(
                f"{name:<22} {len(verbs):>3} verbs {bad:>3} wrong   {time.monotonic() - began:>4.0f} s   {ended}",
                flush=True,
            )
    print(f"{total} commands, wrong: {dict(wrong) or 0}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
