"""What the shell offers behind an option: GPUs, backends, codes of rules, run folders. It must answer at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import get_args, get_type_hints

BACKENDS = ("auto", "tensorrt", "tensorrt-rtx", "ort-cuda", "ort-cpu")
REPORTS = Path("reports")
"""Where `trtprof run` puts its folders."""
SEVERITIES = ("critical", "info", "warning")


def gpus(incomplete: str) -> list[str]:
    """Slugs of datasheets; of a list with commas its last name."""
    from trtprof.hardware.gpus import specs

    done, comma, begun = incomplete.rpartition(",")
    return [f"{done}{comma}{slug}" for slug in sorted(specs()) if slug.startswith(begun.lower())]


def rules(incomplete: str) -> list[str]:
    """Codes of rules."""
    from trtprof.diagnose import RULES

    return [code for code in sorted(RULES.keys()) if code.startswith(incomplete.upper())]


def findings(incomplete: str) -> list[str]:
    """What ``--fail-on`` takes: severities and codes of rules."""
    return [name for name in SEVERITIES if name.startswith(incomplete)] + rules(incomplete)


def runs(incomplete: str) -> list[str]:
    """Run folders: those under reports/, newest first, or beside what was begun; of a list with commas its last one."""
    done, comma, begun = incomplete.rpartition(",")
    from trtprof.base.run_folder import REPORT

    beside = Path(begun).parent if "/" in begun else REPORTS
    found = [file.parent for file in beside.glob(f"*/{REPORT}")] if beside.is_dir() else []
    found.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
    return [
        f"{done}{comma}{folder}"
        for folder in found
        if str(folder).startswith(begun) or ("/" not in begun and folder.name.startswith(begun))
    ]


def manifests(incomplete: str) -> list[str]:
    """Manifests of fleets: TOML files that name models and targets, and the folders on the way to some."""
    at = Path(incomplete if incomplete.endswith("/") else Path(incomplete).parent) if "/" in incomplete else Path()
    found = []
    for path in sorted(at.iterdir()) if at.is_dir() else ():
        if not str(path).startswith(incomplete) or path.name.startswith("."):
            continue
        if path.is_dir():
            found.append(f"{path}/")
        elif path.suffix == ".toml" and path.is_file() and b"[[targets]]" in path.read_bytes()[: 1 << 16]:
            found.append(str(path))
    return found


def among(known: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """What offers those of a list that begin so; the list is made when it is asked for."""

    def offer(incomplete: str) -> list[str]:
        return [name for name in known() if name.startswith(incomplete)]

    return offer


def _choice(field: str) -> Iterable[str]:
    """What a choice of `trtprof.report.ReportOptions` may be."""
    from trtprof.report import ReportOptions

    found: tuple[str, ...] = get_args(get_type_hints(ReportOptions)[field])
    return found


def _formats() -> Iterable[str]:
    """Those that every document has."""
    from trtprof.report import REPORTERS

    return [each.name for each in REPORTERS.values() if each.of is None]


def _precisions() -> Iterable[str]:
    from trtprof.cli.engine_options import PRECISIONS

    return "model", *PRECISIONS


def _steps() -> Iterable[str]:
    from trtprof.flows.plugin import STEPS

    return STEPS


def _tables() -> Iterable[str]:
    from trtprof.report.tables import TABLES

    return TABLES


def _topics() -> Iterable[str]:
    from trtprof.cli import manual
    from trtprof.report.terms import TERMS

    return [*(each.topic for each in manual.contents()), *TERMS]


def _ops() -> Iterable[str]:
    from trtprof.flows.op_sweep import ALIASES, FAMILIES

    return [*FAMILIES, *ALIASES]


def _session_options() -> Iterable[str]:
    from trtprof.runtime.session_tuning import KEYS

    return [f"{name}={value}" for name, key in KEYS.items() for value in key.values or ("",)]


def _levels() -> Iterable[str]:
    from trtprof.flows.predict.on_gpus import Level

    return get_args(Level)


by, figures = among(lambda: _choice("by")), among(lambda: _choice("figure"))
formats, tables, topics, ops, levels, session_options, precisions, plugin_steps = (
    among(each) for each in (_formats, _tables, _topics, _ops, _levels, _session_options, _precisions, _steps)
)
backends = among(lambda: BACKENDS)
builders = among(lambda: [name for name in BACKENDS if not name.startswith("ort-")])
collectors = among(lambda: ("auto", "cupti", "nsys"))
accumulators = among(lambda: ("auto", "fp16", "fp32"))
classes = among(lambda: ("datacenter", "geforce", "jetson", "workstation"))
