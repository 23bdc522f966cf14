"""Kernels compiled for each architecture, and the bandwidth that is predicted of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.fakes.kernel_tasks import batched_gemv, node, task
from trtprof.base.errors import UsageError
from trtprof.hardware import gpus
from trtprof.plugin import build
from trtprof.plugin.kernel import Extra, Kernel
from trtprof.plugin.sizes import dim, number
from trtprof.plugin.task import Task
from trtprof.plugin.templates.gemv import gemv

# GB/s that a reader of 8 bytes a thread draws at so many resident threads, of the whole GPU: te42kyfo/gpu-benches
# at 1c36d50, gpu-stream/<gpu>.txt, column "read". Behind the name: compute capability, and the most that any of its
# kernels draws.
MEASURED: Mapping[str, tuple[str, float, Mapping[int, float]]] = {
    "A100 80 GB": ("8.0", 1880, {6912: 167, 13824: 325, 27648: 619, 55296: 1122, 82944: 1490, 110592: 1769}),
    "A40": ("8.6", 679, {2688: 82, 5376: 160, 10752: 304, 21504: 552, 32256: 676, 64512: 679}),
    "L40": ("8.9", 846, {4544: 163, 9088: 320, 18176: 615, 27264: 822, 54528: 844, 109056: 844}),
    "H100 PCIe": ("9.0", 2016, {7296: 189, 14592: 368, 29184: 702, 58368: 1261, 87552: 1680, 116736: 1942}),
    "H200": ("9.0", 3898, {8448: 244, 16896: 485, 33792: 935, 67584: 1707, 101376: 2297, 135168: 2756}),
    "V100": ("7.0", 895, {5120: 139, 10240: 262, 20480: 490, 40960: 746, 61440: 822, 81920: 866}),
}


def test_the_bandwidth_over_what_is_under_way_is_as_measured(subtests: pytest.Subtests) -> None:
    for name, (capability, most, curve) in MEASURED.items():
        with subtests.test(name):
            for threads, measured in curve.items():
                found = build.drawn(8 * threads, build.LATENCIES[capability].ns, most * 1e9) / 1e9
                assert found == pytest.approx(measured, rel=0.16), threads


def copy_kernel(source: str = "", **changes: object) -> tuple[Task, Kernel]:
    """A copy of floats, with one extra."""
    asked = task([node("Identity", "x", "y")], {"x": ("fp32", ["n"])}, {"y": ("fp32", ["n"])})
    text = """
    extern "C" __global__ void __launch_bounds__(128, 1) copy_it(const float *__restrict__ x, int n, float *y) {
        const int i = blockIdx.x * 128 + threadIdx.x;
        if (i < n) y[i] = x[i];
    }
    """
    kernel = Kernel(
        template="copy", tactic=1, label="one", entry="copy_it", source=source or text, inputs=("x",), outputs=("y",),
        grid=(dim(0, 0), number(1), number(1)), block=(128, 1, 1), why="", in_flight=4,
        extras=(Extra("n", dim(0, 0)),),
    )  # fmt: skip
    return asked, replace(kernel, **changes)  # type: ignore[arg-type]


def test_a_kernel_that_takes_what_is_declared_is_compiled_for_every_architecture() -> None:
    asked, kernel = copy_kernel()
    (found,) = build.build(asked, [kernel], [(1000,)])
    assert [one.architecture for one in found.builds] == list(build.ARCHITECTURES)
    assert list(found.ptx) == list(build.ARCHITECTURES)
    for one in found.builds:
        assert one.registers > 0
        assert one.spill_bytes == 0
        assert one.occupancy == 1
        assert one.bandwidth is None
    assert found.variant.builds == found.builds


def test_parameters_that_are_not_those_declared_are_an_error(subtests: pytest.Subtests) -> None:
    for change, words in (
        (
            ("const float *__restrict__ x, int n, float *y", "const float *x, float *y, int n"),
            "takes (const float *x, fl",
        ),
        (("const float *__restrict__ x, int n, float *y", "float *y, int n, const float *x"), "takes (float *y"),
        (("int n, float *y", "float *y"), "takes (const float *x, float *y)"),
        (("int n", "long long n"), "long long n"),
        (("const float *__restrict__ x", "const unsigned short *x"), "takes (const unsigned short *x"),
        (("copy_it", "copy_that"), "no kernel copy_it"),
    ):
        with subtests.test(words):
            asked, kernel = copy_kernel()
            text = kernel.source.replace(*change)
            with pytest.raises(UsageError) as caught:
                build.build(asked, [replace(kernel, source=text)], [(1000,)], architectures=["sm_89"])
            assert words in str(caught.value)


def test_a_variant_that_spills_is_dropped_and_said() -> None:
    asked, kernel = copy_kernel()
    greedy = kernel.source.replace("(128, 1)", "(128, 12)").replace(
        "if (i < n) y[i] = x[i];",
        """float v[96];
        for (int j = 0; j < 96; ++j) v[j] = x[i + j * n];
        for (int k = 0; k < 8; ++k)
            for (int j = 0; j < 96; ++j) v[j] = v[(j * 5 + 1) % 96] * v[j] + v[(j * 7 + 3) % 96];
        for (int j = 0; j < 96; ++j) y[i + j * n] = v[j];""",
    )
    (found,) = build.build(asked, [replace(kernel, source=greedy)], [(1000,)], architectures=["sm_89"])
    assert found.builds[0].spill_bytes > 0
    assert found.builds[0].dropped == f"it spills {found.builds[0].spill_bytes} bytes a thread"
    assert found.ptx == {}


def test_an_architecture_below_what_a_kernel_is_for_is_left_out() -> None:
    asked, kernel = copy_kernel(least=(8, 0))
    (found,) = build.build(asked, [kernel], [(1000,)])
    assert [one.architecture for one in found.builds] == [one for one in build.ARCHITECTURES if one != "sm_75"]


# -- the version of PTX


def test_ptx_has_the_lowest_version_that_has_all_of_it() -> None:
    asked = batched_gemv(dtype="bf16")
    (found,) = build.build(asked, gemv(asked)[:1], asked.shapes({}))
    versions = {name: re.search(r"^\.version (.*)$", text, re.MULTILINE) for name, text in found.ptx.items()}
    assert {name: one[1] for name, one in versions.items() if one} == {
        "sm_75": "6.3", "sm_80": "7.0", "sm_86": "7.1", "sm_89": "7.8", "sm_90": "7.8", "sm_100": "8.6",
        "sm_120": "8.7",
    }  # fmt: skip


def test_the_version_follows_the_instructions(subtests: pytest.Subtests) -> None:
    for line, version in (
        ("add.f32 %f1, %f2, %f3;", "6.3"),
        ("@%p1 max.NaN.f32 %f1, %f2, %f3;", "7.2"),
        ("ld.global.L2::128B.f32 %f1, [%rd1];", "7.4"),
        ("tanh.approx.f32 %f1, %f2;", "7.0"),
        ("frobnicate.f32 %f1, %f2;", "9.5"),
        (".frobnicated 4", "9.5"),
    ):
        with subtests.test(f"{line} {version}"):
            text = f".version 9.5\n.target sm_75\n.address_size 64\n.visible .entry k()\n{{\n\t{line}\n\tret;\n}}\n"
            assert build.portable(text).splitlines()[0] == f".version {version}"


# -- the share of the bandwidth


def test_the_story_draws_what_an_rtx_4090_gives() -> None:
    asked = batched_gemv()
    shapes = asked.shapes({})
    (found,) = build.build(asked, gemv(asked)[:1], shapes, [gpus.find("rtx-4090")], ["sm_80", "sm_89"])
    assert build.dram_bytes(asked, found.kernel, shapes) == 250_828_800
    a100, rtx = found.builds
    assert a100.bandwidth is None
    assert rtx.bandwidth == pytest.approx(0.917, abs=0.003)
    assert rtx.basis.startswith("RTX 4090: ")
    assert "under way on an SM" in rtx.basis
    assert "15000 blocks on" in rtx.basis
