"""The errors a user sees: what went wrong, why, how to mend it, and the exit code.

Everything that is not one of these is a bug and keeps its traceback.

Exit codes: 0 done, 1 findings or a regression (only when asked for), 2 usage,
3 something is missing here, 4 build failed, 5 capture or alignment failed, 130 Ctrl-C.
"""

from __future__ import annotations


class TrtprofError(Exception):
    """Base of every error that is shown without a traceback."""

    exit_code = 2

    def __init__(self, what: str, *, why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The error as the lines to print, without the leading ``error:``."""
        lines = [self.what]
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return lines


class UsageError(TrtprofError):
    """The command line, an option's value or an input file is not usable as given."""

    exit_code = 2


class ModelError(UsageError):
    """The ONNX file cannot be read, fails the checker, or does not fit the shapes asked for."""


class MissingError(TrtprofError):
    """Something is missing on this machine: a file, a package, a driver, a GPU, a permission."""

    exit_code = 3


class BuildError(TrtprofError):
    """The backend could not make an engine of the model."""

    exit_code = 4


class CaptureError(TrtprofError):
    """The run, the profile or the alignment failed after the engine was built.

    Attributes:
        resumable: Whether the same command might do better another time.
    """

    exit_code = 5
    resumable = True
