"""``trtprof doctor``: what can run here, and why not the rest."""

from __future__ import annotations

from trtprof.base.errors import MissingError
from trtprof.cli.options import ForceOption, command
from trtprof.cli.output import errors_shown
from trtprof.cli.output_files import FormatOption, OutputsOption, check_report, deliver, writable


@command
def doctor(output: OutputsOption = None, force: ForceOption = False, format_name: FormatOption = "text") -> None:
    """Say what can run here, and why not the rest."""
    with errors_shown():
        from trtprof.base.records import Machine

        check_report("doctor", format_name, Machine)
        paths = writable(output, Machine, force=force, example="doctor.html")
        from trtprof.flows.doctor import look

        found = look()
        deliver(found, format_name, paths)
        if not any(part.available for part in found.parts if part.kind == "backend"):
            raise MissingError("no backend can run here", fix="see the fixes above")
