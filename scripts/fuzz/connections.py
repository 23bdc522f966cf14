"""What each verb says to other machines, and what it leaves on this one: both are to be nothing.

    python scripts/fuzz/connections.py [--only run,inspect] [--longer 15]

Each verb of the command line runs under strace, with all of its children, in folders of its own. Counted are sockets
that leave the machine (AF_INET and AF_INET6 beyond loopback: look-ups of names among them) and, apart, those that do
not; files that are made outside of its working folder, its cache and its temporary folder; and what is left in the
temporary folder and in the home when it has ended. Exit code 1 if there is any.
"""

from __future__ import annotations

import argparse
import ipaddress
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fakes.every_verb import EVERY_VERB, command, environment, fill

LIMIT_S = 300
_CALLS = (
    "connect,sendto,sendmsg,sendmmsg,bind,openat,open,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink"
)
_ADDRESS = re.compile(r'inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)"')
_MADE = re.compile(r'^\d+ +(open|openat|creat|mkdir|mkdirat)\((?:(?:AT_FDCWD|\d+)<([^>]*)>)?,? ?"([^"]+)"(.*)= \d')
_NO_FILES = ("/dev", "/proc")
"""Semaphores of a process are kept in /dev/shm, and gone when it ends."""
_CACHES = (".cache/trtprof", ".cache/matplotlib", ".config/matplotlib")
"""In a home: ours, and the fonts that matplotlib finds on the machine and keeps."""


class Traced(NamedTuple):
    """What a command did beside its work.

    Attributes:
        code: Its exit code.
        away: Addresses beyond this machine that it connected or sent to, with how often.
        loopback: Sockets to this machine by address.
        local: Sockets of the system (AF_UNIX).
        outside: Files that it made elsewhere than it may.
        left: What stayed in its temporary folder and its home, the cache apart.
    """

    code: int
    away: Counter[str]
    loopback: int
    local: int
    outside: Counter[str]
    left: list[str]


def traced(words: Sequence[str], folder: Path, home: Path, temporary: Path, **more: str) -> Traced:
    """Run a command of `every_verb.command` or any other under strace.

    Args:
        words: All of it.
        folder: Where it works.
        home: Its home.
        temporary: Its folder for temporary files.
        more: Variables beside those of `every_verb.environment`.
    """
    with tempfile.TemporaryDirectory(prefix="connections-") as scratch:
        log = Path(scratch) / "log"
        done = subprocess.run(
            ["strace", "-f", "-y", "--seccomp-bpf", "-s", "4096", "-o", str(log), "-e", f"trace={_CALLS}", *words],
            cwd=folder, env=environment(home, temporary, **more), stdin=subprocess.DEVNULL, capture_output=True,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
        lines = log.read_text(errors="replace").splitlines()
    away, loopback, local = _sockets(lines)
    caches = [home / each for each in _CACHES]
    left = [str(path) for path in (*temporary.rglob("*"), *home.rglob("*")) if path.is_file() and not _in(path, caches)]
    return Traced(done.returncode, away, loopback, local, _outside(lines, folder, (folder, temporary, *caches)), left)


def _in(path: Path, places: Iterable[Path]) -> bool:
    return any(path.is_relative_to(place) for place in places)


def _sockets(lines: Iterable[str]) -> tuple[Counter[str], int, int]:
    away: Counter[str] = Counter()
    loopback = local = 0
    for line in lines:
        if "AF_UNIX" in line:
            local += 1
        for match in _ADDRESS.finditer(line):
            address = match[1] or match[2]
            if ipaddress.ip_address(address).is_loopback or " bind(" in line:
                loopback += 1
            else:
                away[address] += 1
    return away, loopback, local


def _outside(lines: Iterable[str], folder: Path, allowed: Sequence[Path]) -> Counter[str]:
    """Files that were opened to be made, beside those that are allowed, and folders, beside those that lead there."""
    found: Counter[str] = Counter()
    for line in lines:
        match = _MADE.match(line)
        if match is None or (match[1].startswith("open") and "O_CREAT" not in match[4]):
            continue
        path = (Path(match[2] or folder) / match[3]).resolve()
        if not _in(path, (*allowed, *map(Path, _NO_FILES))) and not any(_in(each, (path,)) for each in allowed):
            found[str(path)] += 1
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of commands, with commas: " + ", ".join(EVERY_VERB))
    parser.add_argument("--longer", type=float, default=0, help="seconds that run measures for: uploads come late")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(EVERY_VERB)
    with tempfile.TemporaryDirectory(prefix="connections-") as name:
        folder, home, temporary = (Path(name) / each for each in ("work", "home", "tmp"))
        for each in (folder, home, temporary):
            each.mkdir()
        fill(folder)
        wrong = 0
        row = "{:<16}{:>5}{:>17}{:>10}{:>7}{:>17}{:>6}"
        print(row.format("verb", "exit", "off the machine", "loopback", "local", "files elsewhere", "left"))
        for verb in names:
            words = EVERY_VERB[verb]
            if verb == "run" and options.longer:
                words = (*words, "--duration", str(options.longer))
            found = traced(command(*words), folder, home, temporary)
            if verb == "fleet-run":
                (folder / "fleet").rename(folder / "answered")
            numbers = (found.away.total(), found.loopback, found.local, found.outside.total(), len(found.left))
            print(row.format(verb, found.code, *numbers), flush=True)
            for what in (*found.away, *found.outside, *found.left):
                print(f"    {what}")
            wrong += bool(found.away or found.outside or found.left)
    print(f"{len(names)} commands: {wrong} with anything off the machine, or left on it")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
