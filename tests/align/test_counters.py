"""Launches that ncu counted, led to the layers of a run."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.ncu_factory import counted, ncu_csv
from trtprof.align.counters import align_counters
from trtprof.base.kernel_counters import KernelCounters
from trtprof.base.records import LayerResult, Match
from trtprof.capture.ncu.csv import parse_counters


def layer(name: str, *kernels: tuple[str, int], blocks: int = 0, threads: int = 0) -> LayerResult:
    """A layer with kernels and how often each was captured."""
    return LayerResult(
        name=name, op_type="Conv", role="compute", nodes=(name,), measured_ns=1000, ideal_ns=None, attainable_ns=None,
        lost_ns=None, bound="unknown", flops=None, bytes=None,
        kernels=tuple(
            Match(layer=name, kernel=kernel, count=count, median_ns=10, total_ns=10 * count, confidence="exact",
                  reason="", blocks=blocks, threads=threads)
            for kernel, count in kernels
        ),
    )  # fmt: skip


def launches(*kernels: str, **fields: object) -> list[KernelCounters]:
    """One launch each, which read 1, 2, 3, ... bytes."""
    made = [counted(kernel, read=at, **fields) for at, kernel in enumerate(kernels, 1)]  # type: ignore[arg-type]
    return list(parse_counters(ncu_csv(made), "x.csv"))


def read(found: object) -> dict[str, float | None]:
    return {one.layer: one.dram_read for one in found}  # type: ignore[attr-defined]


def test_a_name_that_one_layer_runs_is_that_layers() -> None:
    led = align_counters(launches("a", "b", "a"), [layer("one", ("a", 1)), layer("two", ("b", 1))])
    # Two inferences of `a`: their mean stands for one.
    assert read(led.layers) == {"one": 2, "two": 2}
    assert [(one.launches, one.launched, one.confidence) for one in led.layers] == [(2, 1, "exact"), (1, 1, "exact")]
    assert led.ambiguous == led.unknown == ()


def test_what_an_inference_launches_several_times_is_summed() -> None:
    led = align_counters(launches("a", "a", "a"), [layer("one", ("a", 30), ("b", 10))], inferences=10)
    (one,) = led.layers
    assert (one.dram_read, one.launched, one.uncounted) == (6, 3, ("b",))


def test_names_are_one_however_they_are_printed(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str, str]] = [
        ("void at::f<int, 4>(float*, int)", "void at::f<int, 4>(float *, int)", "exact"),
        ("void at::f<int, 4>(float*)", "at::f<int,4>", "exact"),
        ("(anonymous namespace)::f(int)", "(anonymous namespace)::f(int)", "exact"),
        ("void at::f<int, 4>(float*)", "f", "inferred"),
        ("_Z1fPf", "f(float *)", "inferred"),
        ("sm80_xmma_gemm_f16f16", "sm80_xmma_gemm_f16f16_execute_kernel__5x", "inferred"),
    ]
    for captured, printed, confidence in rows:
        with subtests.test(captured=captured, printed=printed, confidence=confidence):
            led = align_counters(launches(printed), [layer("one", (captured, 1)), layer("two", ("another_kernel", 1))])
            assert [(one.layer, one.confidence) for one in led.layers] == [("one", confidence)]


def test_another_instance_of_a_template_is_not_taken_for_it() -> None:
    layers = [layer("one", ("void cutlass::Kernel2<A>(P)", 1), blocks=80, threads=256)]
    led = align_counters(launches("void cutlass::Kernel2<B>(P)", grid=(7, 1, 1)), layers)
    assert (led.layers, led.unknown) == ((), ("void cutlass::Kernel2<B>(P)",))


def test_blocks_and_threads_tell_layers_of_one_kernel_apart() -> None:
    layers = [layer("one", ("a", 1), blocks=80, threads=256), layer("two", ("a", 1), blocks=40, threads=256)]
    led = align_counters([*launches("a", grid=(40, 1, 1)), *launches("a", "a", grid=(20, 4, 1))], layers)
    assert read(led.layers) == {"one": 1.5, "two": 1}
    assert {one.reason for one in led.layers} == {"its name, its blocks and threads"}


def test_launches_are_dealt_out_in_execution_order() -> None:
    layers = [layer("last", ("a", 10)), layer("first", ("a", 20))]
    six = launches("a", "a", "a", "a", "a", "a")
    led = align_counters(six, layers, inferences=10, order=["first", "between", "last"])
    # first, first, last; first, first, last.
    assert read(led.layers) == {"first": (1 + 2 + 4 + 5) / 4 * 2, "last": 4.5}
    assert {one.confidence for one in led.layers} == {"inferred"}


@pytest.mark.parametrize(("number", "order"), [(3, ["one", "two"]), (2, []), (2, ["one"])])
def test_what_does_not_fit_is_said_and_not_guessed(number: int, order: list[str]) -> None:
    layers = [layer("one", ("a", 1)), layer("two", ("a", 1)), layer("three", ("b", 1))]
    led = align_counters(launches(*["a"] * number, "b", "c"), layers, order=order)
    assert [one.layer for one in led.layers] == ["three"]
    (said,) = led.ambiguous
    assert "one, two" in said
    assert ("fit whole inferences" if len(order) == 2 else "order") in said
    assert led.unknown == ("c",)


@given(names=st.lists(st.sampled_from("abc"), min_size=1, max_size=8), inferences=st.integers(1, 3))
def test_whole_inferences_are_led_to_the_layers_that_made_them(names: list[str], inferences: int) -> None:
    """Each layer launches one kernel; each launch reads as many bytes as its layer's place in the inference."""
    layers = [layer(f"layer {at}", (name, 1)) for at, name in enumerate(names)]
    made = [counted(name, read=at + 1) for _ in range(inferences) for at, name in enumerate(names)]
    led = align_counters(parse_counters(ncu_csv(made), "x"), layers, order=[one.name for one in layers])
    assert read(led.layers) == {one.name: at + 1 for at, one in enumerate(layers)}
    assert sum(one.launches for one in led.layers) == len(made)
    assert led.ambiguous == led.unknown == ()


def test_a_counter_that_one_launch_lacks_is_not_told() -> None:
    two = launches("a", "b")
    lacking = msgspec.structs.replace(two[1], counters={})
    (one,) = align_counters([two[0], lacking], [layer("one", ("a", 1), ("b", 1))]).layers
    assert (one.dram_read, one.duration_ns, one.tensor_cores) == (None, None, None)
