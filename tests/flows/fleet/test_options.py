"""Options of a manifest: what each becomes of the verbs that take it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.fakes.fleets import cells
from trtprof.base.errors import UsageError
from trtprof.engine.tensorrt import BuildOptions
from trtprof.flows.fleet.options import OPTIONS, build_options_of, read, run_options_of, settings_of, taken
from trtprof.flows.options import RunOptions
from trtprof.flows.predict.on_gpus import Settings
from trtprof.source.request import ModelRequest

MODEL = ModelRequest("model.onnx")
CELL = next(cells())

PREDICTED: dict[str, tuple[Any, dict[str, Any]]] = {
    "level": ("nodes", {"level": "nodes"}),
    "accumulate": ("fp32", {"accumulate": "fp32"}),
    "clock": (1410, {"clock_mhz": 1410.0}),
    "cold": (True, {"cold": True}),
}
BUILT: dict[str, tuple[Any, dict[str, Any]]] = {
    "backend": ("tensorrt-rtx", {"backend": "tensorrt-rtx"}),
    "builder-optimization-level": (5, {"builder_optimization_level": 5}),
    "max-aux-streams": (0, {"max_aux_streams": 0}),
    "tactic-sources": ("-CUBLAS", {"tactic_sources": "-CUBLAS"}),
    "set-build-route": ("-peep:max=2", {"build_route": "-peep:max=2"}),
    "strongly-typed": (True, {"strongly_typed": True}),
    "workspace": (1.5, {"workspace_bytes": 3 << 19}),
}
RUN: dict[str, tuple[Any, dict[str, Any]]] = {
    "threads": (2, {"threads": 2}),
    "seed": (3, {"seed": 3}),
    "iterations": (4, {"iterations": 4}),
    "warmup": (0.5, {"warmup_ms": 0.5}),
    "duration": (0, {"duration_s": 0.0}),
    "profile-iterations": (5, {"profile_iterations": 5}),
    "session-option": (
        ["execution_mode=parallel", "session.set_denormal_as_zero=1"],
        {"tuning.texts": ("execution_mode=parallel", "session.set_denormal_as_zero=1")},
    ),
    "collector": ("cupti", {"gpu.collector": "cupti"}),
    "device": (1, {"gpu.device": 1}),
    "cuda-graph": (False, {"gpu.cuda_graph": False}),
    "cold-l2": (True, {"gpu.cold_l2": True}),
    "verify": (True, {"gpu.verify": True}),
    "confirm": (2, {"gpu.confirm": 2}),
}


def asked(verb: Any, options: dict[str, Any], precision: str = "model") -> Any:
    """What the verb is asked of a cell with such options."""
    texts = taken(verb, {name: read(name, value) for name, value in options.items()})
    cell = msgspec.structs.replace(CELL, verb=verb, options=texts, precision=precision)
    if verb == "predict":
        return settings_of(cell)
    return build_options_of(cell) if verb == "build" else run_options_of(cell, MODEL)


def at(found: Any, path: str) -> Any:
    for name in path.split("."):
        found = getattr(found, name)
    return found


def test_every_option_is_tried_here() -> None:
    assert {*PREDICTED, *BUILT, *RUN} == set(OPTIONS)


def test_an_option_changes_what_it_says_and_nothing_else(subtests: pytest.Subtests) -> None:
    for verb, table in (("predict", PREDICTED), ("build", BUILT), ("run", RUN)):
        usual = asked(verb, {})
        for name, (value, want) in table.items():
            with subtests.test(f"{verb} {name}"):
                found = asked(verb, {name: value})
                for path, expected in want.items():
                    assert at(found, path) == expected != at(usual, path)
                top = {path.partition(".")[0] for path in want}
                assert msgspec.structs.replace(found, **{field: getattr(usual, field) for field in top}) == usual


def test_without_options_the_verbs_do_what_they_do_by_default() -> None:
    assert asked("predict", {}) == Settings(level="auto")
    assert asked("build", {}) == BuildOptions(backend="auto")
    assert asked("run", {}) == RunOptions(model=MODEL)
    for name, option in OPTIONS.items():
        if option.default and name != "backend":
            value: Any = {"true": True, "false": False}.get(option.default, option.default)
            number = value.isdigit() if isinstance(value, str) else False
            assert read(name, int(value) if number else value) == option.default


def test_what_an_option_does_not_take_is_refused(subtests: pytest.Subtests) -> None:
    for name, value in (
        ("duration", True), ("duration", -0.1), ("iterations", 1.0), ("clock", 0), ("level", "layer"), ("cold", 1),
        ("builder-optimization-level", 6), ("tactic-sources", ""), ("session-option", ["x"]), ("measured", "x.csv"),
    ):  # fmt: skip
        with subtests.test(f"{name} {value}"), pytest.raises(UsageError):
            read(name, value)
