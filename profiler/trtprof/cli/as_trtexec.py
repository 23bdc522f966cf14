"""What `trtprof run` prints and writes as trtexec does: percentiles, times of layers, files that its tools read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from trtprof.base.errors import UsageError
from trtprof.base.output_file import write_file
from trtprof.cli.declared import opt
from trtprof.cli.output import result, say

if TYPE_CHECKING:
    from trtprof.base.records import Run
    from trtprof.base.run_folder import RunFolder
    from trtprof.flows.trtexec_files import LayerFile


class Told(NamedTuple):
    """What trtexec prints and writes of a run."""

    percentile: Annotated[
        list[str] | None,
        opt("--percentile", "Print these percentiles of the latency, such as 90,95,99.", metavar="P,..."),
    ] = None
    avg_runs: Annotated[
        int | None, opt("--avgRuns --avg-runs", "Print the mean latency of every N inferences.", metavar="N", min=1)
    ] = None
    dump_profile: Annotated[
        bool, opt("--dumpProfile --dump-profile", "Print the time of every layer, in their order.")
    ] = False
    dump_layer_info: Annotated[
        bool, opt("--dumpLayerInfo --dump-layer-info", "Print the layers as the backend has them.")
    ] = False
    export_times: Annotated[
        str, opt("--exportTimes --export-times", "Write the time of every inference as JSON.", metavar="FILE")
    ] = ""
    export_profile: Annotated[
        str, opt("--exportProfile --export-profile", "Write the time of every layer as JSON.", metavar="FILE")
    ] = ""

    @property
    def files(self) -> tuple[str, ...]:
        """What is written."""
        return tuple(filter(None, (self.export_times, self.export_profile)))

    def percentiles(self) -> list[float]:
        """Those asked for, in the order asked for."""
        found = []
        for text in [part.strip() for value in self.percentile or () for part in value.split(",")]:
            try:
                number = float(text)
            except ValueError:
                number = -1.0
            if not 0 <= number <= 100:
                raise UsageError(
                    f"--percentile {text!r} is not possible",
                    why="it is a number from 0 to 100",
                    fix="--percentile 90,95,99",
                )
            found.append(number)
        return found

    def check(self, format_name: str, *, quiet: bool) -> None:
        """Refuse what cannot be printed, before anything runs."""
        self.percentiles()
        printed = {
            "--percentile": self.percentile, "--avgRuns": self.avg_runs, "--dumpProfile": self.dump_profile,
            "--dumpLayerInfo": self.dump_layer_info,
        }  # fmt: skip
        asked = [name for name, value in printed.items() if value]
        if asked and (quiet or format_name != "text"):
            raise UsageError(
                f"{asked[0]} prints text, beside {'--quiet' if quiet else f'--format {format_name}'}",
                why="stdout holds one document",
                fix="--format text -o report.json; --exportTimes, --exportProfile and --exportLayerInfo write files",
            )


def tell(folder: RunFolder, run: Run, told: Told, layer_info: str) -> None:
    """Print and write what was asked for."""
    from trtprof.base.latency import percentile_ns
    from trtprof.engine import profile_files
    from trtprof.flows import trtexec_files

    if told.percentile or told.avg_runs:
        times_ns = trtexec_files.times_of(folder).latency_ns
        for percent in told.percentiles():
            at_ms = percentile_ns(times_ns, percent) / 1e6
            result(f"latency: percentile({percent:g}%) = {at_ms:.6g} ms of {len(times_ns)} inferences")
        size = told.avg_runs or len(times_ns)
        if told.avg_runs:
            # The rest that is no whole group is left out, as trtexec leaves it out.
            for start in range(0, len(times_ns) - size + 1, size):
                mean_ms = sum(times_ns[start : start + size]) / size / 1e6
                result(f"latency: mean of inferences {start + 1} to {start + size} = {mean_ms:.6g} ms")
            if size > len(times_ns):
                say(f"--avgRuns {size}: only {len(times_ns)} inferences were timed; --iterations {size} times as many")
    if told.dump_profile:
        result(profile_files.profile_table(trtexec_files.profile_of(run)))
    if told.dump_layer_info:
        result(trtexec_files.layer_text(folder))
    if told.export_times:
        _write(told.export_times, profile_files.times_json(trtexec_files.times_of(folder)))
    if told.export_profile:
        _write(told.export_profile, profile_files.profile_json(trtexec_files.profile_of(run)))
    if layer_info:
        write_layers(layer_info, lambda path: trtexec_files.layers_of_run(folder, path))


def write_layers(name: str, layers: Callable[[Path], LayerFile]) -> None:
    """Write what ``--exportLayerInfo`` asks for, and say what it is."""
    found = layers(Path(name))
    write_file(Path(name), found.content.encode())
    say(f"wrote {name}: {found.what}")


def _write(name: str, text: str) -> None:
    write_file(Path(name), text.encode())
    say(f"wrote {name}")
