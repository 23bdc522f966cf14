"""An ncu that counts nothing: it runs the program as the real one does, prints a table, and fails as real ones do.

``--version``, ``--help``'s options and the exit codes are those of 2022.3, which was run without a GPU; the other
messages are quoted from public issues. The program takes its behaviour from the file ``behaviour.json`` beside it.
"""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.fakes.ncu_factory import Launch, ncu_csv
from trtprof.base.kernel_counters import METRICS

VERSION = """NVIDIA (R) Nsight Compute Command Line Profiler
Copyright (c) 2018-2022 NVIDIA Corporation
Version 2022.3.0.0 (build 31729285) (public-release)
"""
OPTIONS = (
    "--csv", "--page", "--print-units", "--log-file", "--metrics", "--kernel-name-base", "--kernel-name",
    "--launch-count", "--profile-from-start", "--target-processes", "--cache-control", "--clock-control",
    "--replay-mode",
)  # fmt: skip
"""Those of 2022.3 that are of use here."""

PROGRAM = r"""#!@python@ -IS
import json, os, subprocess, sys, time
here = os.path.dirname(os.path.realpath(__file__))
told = json.load(open(os.path.join(here, "behaviour.json")))
with open(os.path.join(here, "calls.txt"), "a") as calls:
    calls.write(json.dumps({"arguments": sys.argv[1:], "environment": dict(os.environ)}) + "\n")


def main(arguments):
    if arguments == ["--version"]:
        print(told["version"], end="")
        return told.get("version_code", 0)
    if arguments == ["--query-metrics"]:
        print(told["query"])
        return told.get("query_code", 0)
    if arguments[:1] == ["--import"]:
        print(told.get("said", "") + told["table"])
        return told.get("code", 0)
    options, rest = {}, list(arguments)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option not in told["options"]:
            print("unrecognised option '" + option + "'\n\nUse --help for further details.", file=sys.stderr)
            return 255
        options[option] = "" if option == "--csv" else rest.pop(0)
    if told.get("hang"):
        time.sleep(600)
    # The program has the stdin of ncu, as under 2022.3 (seen with strace: nothing is put in its place).
    code = subprocess.call(rest) if told.get("runs", True) else 1
    said = told.get("said", "")
    if code:
        said += "==ERROR== The application returned an error code (%d).\n" % code
    with open(options["--log-file"], "w") as log:
        log.write("==PROF== Connected to process 7 (python)\n" + said + told["table"])
    return told.get("code", 1 if code else 0)


sys.exit(main(sys.argv[1:]))
"""


class FakeNcu:
    """A folder with an ncu in it."""

    def __init__(self, folder: Path, launches: Sequence[Launch] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.path = folder / "ncu"
        self.path.write_text(PROGRAM.replace("@python@", sys.executable))
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)
        known = "\n".join(f"{metric.partition('.')[0]}   Counter   inst   # of" for metric in METRICS)
        self.behave(version=VERSION, options=OPTIONS, query=known, table="")
        if launches:
            self.counts(launches)

    def behave(self, **told: Any) -> None:
        """Change what it says and does; see the program."""
        file = self.folder / "behaviour.json"
        before = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps({**before, **told}))

    def counts(self, launches: Sequence[Launch]) -> None:
        """What it is to print."""
        self.behave(table=ncu_csv(launches, before=""))

    def calls(self) -> list[list[str]]:
        """The arguments of each call so far."""
        return [json.loads(line)["arguments"] for line in (self.folder / "calls.txt").read_text().splitlines()]

    def environment(self) -> dict[str, str]:
        """That of the last call."""
        last = (self.folder / "calls.txt").read_text().splitlines()[-1]
        return dict(json.loads(last)["environment"])
