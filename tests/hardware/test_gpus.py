"""Datasheets found by name, loaded, refused, derived, and made into ceilings."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.support import refused
from trtprof.base import plugins, units
from trtprof.base.errors import UsageError
from trtprof.base.records import GpuSpec
from trtprof.expected.features import device_of, rates
from trtprof.hardware import gpus, throughput

RTX_4090 = Path(gpus.__file__).with_name("specs") / "rtx-4090.toml"
TENSOR_EMPTY = "[tensor_tflops.bf16]"
OWN = len(list(RTX_4090.parent.glob("*.toml")))


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No datasheets of a test are left to the next."""
    monkeypatch.setattr(plugins, "LEFT_OUT", [])
    gpus._catalogue.cache_clear()
    yield
    gpus._catalogue.cache_clear()


def edited(folder: Path, *replacements: tuple[str, str], name: str = "my-gpu.toml") -> Path:
    """The datasheet of the RTX 4090, changed."""
    text = RTX_4090.read_text(encoding="utf-8")
    for old, new in replacements:
        assert text.count(old) >= 1, old
        text = text.replace(old, new)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# --- finding --------------------------------------------------------------------------------


NAMES = (
    ("rtx-4090", "rtx-4090"), ("RTX 4090", "rtx-4090"), ("rtx4090", "rtx-4090"), ("4090", "rtx-4090"),
    ("NVIDIA GeForce RTX 4090", "rtx-4090"), ("GeForce RTX 4090 D", "rtx-4090-d"), ("a100", "a100-sxm4-80gb"),
    ("NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"), ("H100", "h100-sxm5"), ("NVIDIA H100 80GB HBM3", "h100-sxm5"),
    ("NVIDIA GeForce RTX 3080", "rtx-3080"), ("rtx 3080 12GB", "rtx-3080-12gb"), ("NVIDIA A10G", "a10g"),
    ("NVIDIA A10", "a10"), ("gb200", "gb200"), ("Jetson Orin NX 16GB", "jetson-orin-nx-16gb"),
)  # fmt: skip


def test_a_gpu_goes_by_many_names() -> None:
    assert [(name, gpus.find(name).slug) for name, _ in NAMES] == list(NAMES)


@given(st.sampled_from(sorted(gpus.specs())), st.randoms(use_true_random=False), st.sampled_from(["", " ", "-", "_"]))
def test_case_spaces_and_dashes_of_a_slug_do_not_matter(slug: str, random: Random, dash: str) -> None:
    name = "".join(random.choice((char.upper(), char)) for char in slug).replace("-", dash)
    assert gpus.find(name).slug == slug


def test_an_unknown_name_lists_the_nearest() -> None:
    with pytest.raises(UsageError) as error:
        gpus.find("rtx-4095")
    assert "rtx-4090" in refused(error.value)
    with pytest.raises(UsageError) as error:
        gpus.find("radeon vii")
    assert "trtprof gpus" in refused(error.value)


def test_a_datasheet_of_ones_own_by_its_path(tmp_path: Path) -> None:
    path = edited(tmp_path, ('name = "RTX 4090"', 'name = "My GPU"'), ("value = 1008", "value = 2000"))
    spec = gpus.find(str(path))
    assert (spec.slug, spec.name, spec.dram_bytes_per_s.value) == ("my-gpu", "My GPU", 2e12)
    assert spec.origin == str(path)


# --- refusing -------------------------------------------------------------------------------


BROKEN: tuple[tuple[tuple[str, str], str], ...] = (
    (('class = "geforce"', 'class = "gaming"'), "$.class"),
    (('architecture = "Ada"', 'architecture = "Ada"\nvendor = "NVIDIA"'), "vendor"),
    (("sms = {", "cores = {"), "cores"),
    (('tdp_w = { value = 450, kind = "published", source = "table" }', ""), "tdp_w"),
    (("value = 450", "value = 0"), "$.figures.tdp_w.value"),
    (("value = 450", 'value = "450"'), "$.figures.tdp_w.value"),
    (('value = 450, kind = "published"', 'value = 450, kind = "guessed"'), "$.figures.tdp_w.kind"),
    (('value = 450, kind = "published", source = "table"', 'value = 450, kind = "published", source = "x"'), "tdp_w"),
    (("[tensor_tflops.bf16]", "[tensor_tflops.bfloat]"), "bfloat"),
    (('compute_capability = "8.9"', 'compute_capability = "ada"'), "compute_capability"),
    (("fp32 = { value = 82.6, kind", "fp31 = { value = 82.6, kind"), "fp31"),
    (("[figures]", "[figures"), "TOML"),
    (("value = 1008", "value = inf"), "figures.bandwidth_gbs"),
    (('name = "RTX 4090"', 'name = "\\u001b[31mRTX"'), "$.name"),
    (('name = "RTX 4090"', 'name = ""'), "$.name"),
    (
        ('[tensor_tflops.bf16]\nfp32 = { value = 165.2, kind = "published", source = "table" }', TENSOR_EMPTY),
        "an accumulator under tensor_tflops",
    ),
)  # fmt: skip


def test_a_broken_datasheet_is_refused_by_file_and_key(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for replacement, said in BROKEN:
        with subtests.test(replacement[1]):
            path = edited(tmp_path, replacement)
            with pytest.raises(UsageError) as error:
                gpus.find(str(path))
            message = refused(error.value)
            assert str(path) in message
            assert said in message


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        gpus.find(str(tmp_path / "none.toml"))
    assert "none.toml" in refused(error.value)


def test_an_architecture_of_tomorrow_needs_no_formula(tmp_path: Path) -> None:
    path = edited(tmp_path, ('compute_capability = "8.9"', 'compute_capability = "15.0"'))
    ceilings = gpus.ceilings(gpus.find(str(path)))
    assert ceilings.attainable.special_per_s == {}
    assert rates(device_of(gpus.find(str(path)), ceilings), "fp16")[3] == ceilings.attainable.vector_flops_per_s["fp16"]
    assert ceilings.attainable.tensor_flops_per_s["fp16"] == 330.3e12


# --- entry points ---------------------------------------------------------------------------


def announce(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    point = importlib.metadata.EntryPoint("mine", value, gpus.ENTRY_POINT_GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point] if group == point.group else [])


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None) -> Iterator[Path]:
    """A package with a datasheet, and a function that returns its path, on the import path."""
    package = tmp_path / "my_gpu_sheets"
    package.mkdir()
    nvml, aliases = 'nvml = ["NVIDIA GeForce RTX 4090"]', 'aliases = ["4090"]'
    names = (('name = "RTX 4090"', 'name = "My GPU"'), (nvml, 'nvml = ["My GPU v1"]'), (aliases, 'aliases = ["mine"]'))
    path = edited(package, *names)
    body = f"def sheets():\n    return [{str(path)!r}]\ndef broken():\n    raise OSError('no disk')\n"
    (package / "__init__.py").write_text(body, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield path
    sys.modules.pop("my_gpu_sheets", None)


@pytest.mark.parametrize("value", ["my_gpu_sheets", "my_gpu_sheets:sheets"])
def test_other_distributions_bring_datasheets(plugin: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    announce(monkeypatch, value)
    assert gpus.specs()["my-gpu"].name == "My GPU"
    assert gpus.find("mine").slug == gpus.find("My GPU v1").slug == "my-gpu"
    assert "rtx-4090" in gpus.specs()


def left_out() -> tuple[int, str]:
    """How many datasheets can be used, and the one thing that cannot."""
    usable = len(gpus.specs())
    (found,) = plugins.LEFT_OUT
    return usable, str(found)


def test_a_slug_that_is_taken_leaves_the_file_out(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = plugin.rename(plugin.with_name("rtx-4090.toml"))
    announce(monkeypatch, "my_gpu_sheets")
    usable, why = left_out()
    assert usable == OWN
    assert str(path) in why
    assert "twice" in why
    assert gpus.find("rtx-4090").name == "RTX 4090"


@pytest.mark.parametrize(
    ("old", "new", "owner"),
    [('aliases = ["mine"]', 'aliases = ["3080"]', "rtx-3080"), ('name = "My GPU"', "name = ", "Invalid value")],
)
def test_a_file_with_a_name_that_is_taken_is_left_out_whole(
    plugin: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, owner: str
) -> None:
    text = plugin.read_text(encoding="utf-8")
    plugin.write_text(text.replace(old, new), encoding="utf-8")
    announce(monkeypatch, "my_gpu_sheets")
    usable, why = left_out()
    assert usable == OWN
    assert owner in why
    assert "mend the file" in why
    assert gpus.find("RTX 3080").slug == "rtx-3080"
    for name in ("mine", "My GPU v1", "my-gpu"):
        with pytest.raises(UsageError, match="no GPU is called"):
            gpus.find(name)


@pytest.mark.parametrize("value", ["my_gpu_sheets:broken", "no_such_package"])
def test_an_entry_point_that_fails_is_named(plugin: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    announce(monkeypatch, value)
    usable, why = left_out()
    assert usable == OWN
    assert value in why


# --- deriving -------------------------------------------------------------------------------


def test_a_device_derived_from_its_properties_comes_close_to_its_datasheet() -> None:
    for known in gpus.specs().values():
        derived = gpus.derive(
            known.nvml_names[0] if known.nvml_names else known.name, known.compute_capability, known.product_class,
            int(known.sms.value), known.boost_mhz.value, int(known.memory_bytes.value), known.dram_bytes_per_s.value,
            int(known.l2_bytes.value), known.tdp_w.value,
        )  # fmt: skip
        assert derived.origin == "derived"
        assert derived.l2_bytes_per_s.value == pytest.approx(known.l2_bytes_per_s.value, rel=2e-3)
        assert not any(figure.kind == "published" for figure in derived.figures.values())
        assert set(derived.figures) == set(known.figures), known.slug
        for dtype, figure in known.vector_flops_per_s.items():
            assert derived.vector_flops_per_s[dtype].value == pytest.approx(figure.value, rel=0.02), known.slug


def test_what_a_device_does_not_tell_is_said() -> None:
    spec = gpus.derive("NVIDIA Foo-1", "8.9", "workstation", 10, 2000.0, 1 << 30, 1e11, 1 << 20, None)
    assert spec.slug == "nvidia-foo-1"
    assert spec.tdp_w.value == 0
    assert spec.tdp_w.kind == "weak"
    assert spec.tensor_flops_per_s["fp16"]["fp32"].value == pytest.approx(10 * 1024 * 2e9)
    assert "derived from the device's own properties" in gpus.ceilings(spec).source


def test_a_compute_capability_without_rates_is_refused() -> None:
    with pytest.raises(UsageError) as error:
        gpus.derive("NVIDIA Old", "3.5", "geforce", 10, 900.0, 1 << 30, 1e11, 1 << 20, 100.0)
    assert "3.5" in refused(error.value)


# --- ceilings -------------------------------------------------------------------------------


def test_the_roof_of_an_rtx_4090_by_hand() -> None:
    ceilings = gpus.ceilings(gpus.find("rtx-4090"))
    roof = ceilings.attainable
    assert (ceilings.origin, ceilings.call_ns, ceilings.cache_bytes) == ("datasheet", 0.0, 72 << 20)
    assert roof.tensor_flops_per_s["fp32"] == 82.6e12
    assert roof.tensor_flops_per_s["fp16"] == 330.3e12
    assert roof.fp32_accumulate_flops_per_s["fp16"] == 165.2e12
    assert ceilings.best.tensor_flops_per_s["fp16"] == 330.3e12
    assert roof.tensor_flops_per_s["int8"] == roof.tensor_flops_per_s["uint8"] == 660.6e12
    assert roof.fp32_accumulate_flops_per_s["fp8e4m3fn"] == roof.fp32_accumulate_flops_per_s["fp8e5m2"] == 330.3e12
    assert roof.tensor_flops_per_s["fp64"] == roof.vector_flops_per_s["fp64"] == 1.29e12
    assert roof.special_per_s["exp"] == pytest.approx(128 * 16 * 2.52e9)
    assert roof.special_per_s["pow"] == pytest.approx(128 * 16 * 2.52e9 / 2)
    assert ceilings.launch_ns == pytest.approx(940.0)
    for word in (
        "rtx-4090.toml",
        "fp32 multiplied as TF32",
        "accumulation as tactic or kernel say",
        "weak: L2 bandwidth",
    ):
        assert word in ceilings.source


def test_fp32_is_multiplied_as_tf32_only_where_asked() -> None:
    a100 = gpus.find("a100")
    assert gpus.ceilings(a100).attainable.tensor_flops_per_s["fp32"] == 156e12
    off = gpus.ceilings(a100, tf32=False)
    assert off.attainable.tensor_flops_per_s["fp32"] == off.best.tensor_flops_per_s["fp32"] == 19.5e12
    assert off.attainable.tensor_flops_per_s["tf32"] == 156e12
    assert "fp32 on the CUDA cores" in off.source
    assert "tf32" not in gpus.ceilings(gpus.find("t4")).attainable.tensor_flops_per_s


def test_the_accumulator_is_chosen_where_there_is_a_choice() -> None:
    spec = gpus.find("rtx-3090")
    fp16 = gpus.ceilings(spec, accumulate="fp16").attainable.tensor_flops_per_s
    fp32 = gpus.ceilings(spec, accumulate="fp32").attainable.tensor_flops_per_s
    assert gpus.ceilings(spec).attainable.tensor_flops_per_s == fp16
    assert gpus.ceilings(spec).attainable.fp32_accumulate_flops_per_s["fp16"] == fp32["fp16"]
    assert gpus.ceilings(gpus.find("a100")).attainable.fp32_accumulate_flops_per_s == {}
    assert fp16["fp16"] == pytest.approx(2 * fp32["fp16"], rel=0.01)
    assert {dtype: peak for dtype, peak in fp16.items() if dtype != "fp16"} == {
        dtype: peak for dtype, peak in fp32.items() if dtype != "fp16"
    }


def test_without_tensor_cores_the_cuda_cores_multiply() -> None:
    roof = gpus.ceilings(gpus.find("gtx-1660-ti")).attainable
    assert roof.tensor_flops_per_s == roof.vector_flops_per_s


SPEC = st.sampled_from(sorted(gpus.specs()))
Accumulator = Literal["fp32", "fp16"]
ACCUMULATOR: st.SearchStrategy[Accumulator] = st.sampled_from(("fp32", "fp16"))


@given(SPEC, st.booleans(), ACCUMULATOR, st.floats(100, 3000))
def test_the_clock_scales_arithmetic_and_l2_but_not_dram(
    slug: str, tf32: bool, accumulate: Accumulator, clock: float
) -> None:
    spec = gpus.find(slug)
    full = gpus.ceilings(spec, tf32=tf32, accumulate=accumulate)
    slow = gpus.ceilings(spec, tf32=tf32, accumulate=accumulate, clock_mhz=clock)
    ratio = clock / spec.boost_mhz.value
    for mine, other in ((slow.attainable, full.attainable), (slow.best, full.best)):
        for peaks, others in (
            (mine.tensor_flops_per_s, other.tensor_flops_per_s),
            (mine.vector_flops_per_s, other.vector_flops_per_s),
            (mine.special_per_s, other.special_per_s),
        ):
            assert peaks == pytest.approx({name: ratio * value for name, value in others.items()})
        assert mine.cache_bytes_per_s == pytest.approx(ratio * other.cache_bytes_per_s)
        assert mine.dram_bytes_per_s == other.dram_bytes_per_s
    assert slow.launch_ns == full.launch_ns


OVERRIDE = st.dictionaries(
    st.sampled_from(["fp64", "fp32", "fp16", "bf16", "int8", "fp8", "tf32", "dram", "l2", "launch"]),
    st.floats(1e3, 1e17),
)


@given(SPEC, st.booleans(), ACCUMULATOR, OVERRIDE)
def test_ideal_is_never_below_attainable(
    slug: str, tf32: bool, accumulate: Accumulator, overrides: dict[str, float]
) -> None:
    ceilings = gpus.ceilings(gpus.find(slug), tf32=tf32, accumulate=accumulate, overrides=overrides)
    best, attainable = ceilings.best, ceilings.attainable
    for better, peaks in (
        (best.tensor_flops_per_s, attainable.tensor_flops_per_s),
        (best.vector_flops_per_s, attainable.vector_flops_per_s),
    ):
        assert better.keys() == peaks.keys()
        assert all(better[dtype] >= peak > 0 for dtype, peak in peaks.items())
    assert best.dram_bytes_per_s >= attainable.dram_bytes_per_s
    assert best.cache_bytes_per_s >= attainable.cache_bytes_per_s


def test_ceilings_set_by_hand() -> None:
    """Those measured on the RTX 4090 of the story."""
    overrides = {"fp32": 78.65e12, "dram": 0.92e12, "l2": 4e12, "launch": 2e-6, "fp8": 5e14}
    ceilings = gpus.ceilings(gpus.find("rtx-4090"), overrides=overrides)
    roof = ceilings.attainable
    assert roof.tensor_flops_per_s["fp32"] == roof.vector_flops_per_s["fp32"] == 78.65e12
    assert roof.tensor_flops_per_s["fp8e4m3fn"] == roof.tensor_flops_per_s["fp8e5m2"] == 5e14
    assert (roof.dram_bytes_per_s, roof.cache_bytes_per_s) == (0.92e12, 4e12)
    assert ceilings.launch_ns == pytest.approx(2000.0)
    assert ceilings.best.dram_bytes_per_s == 1.008e12
    assert ceilings.best.vector_flops_per_s["fp32"] == 82.6e12
    assert "dram = 9.2e+11" in ceilings.source
    # 250,828,800 bytes of the batched gemv
    assert 250_828_800 / roof.dram_bytes_per_s == pytest.approx(0.273e-3, rel=2e-3)
    assert 250_828_800 / ceilings.best.dram_bytes_per_s == pytest.approx(0.248e-3, rel=5e-3)


def test_nonsense_is_refused() -> None:
    spec = gpus.find("rtx-4090")
    for overrides, said in (({"drma": 1e12}, "dram"), ({"fp32": 0.0}, "fp32"), ({"l2": float("nan")}, "l2")):
        with pytest.raises(UsageError, match=said):
            gpus.ceilings(spec, overrides=overrides)
    with pytest.raises(UsageError, match="0 MHz"):
        gpus.ceilings(spec, clock_mhz=0.0)


# --- rates ----------------------------------------------------------------------------------


def test_special_functions_are_those_that_work_counts() -> None:
    for spec in gpus.specs().values():
        rates = throughput.special_results(spec.compute_capability)
        assert set(rates) <= set(units.SPECIAL_FLOPS)
        assert {"exp", "log", "sqrt", "sin", "cos", "tan", "pow", "tanh"} <= set(rates)
    assert throughput.special_results("7.0")["tanh"] == throughput.special_results("7.5")["tanh"] / 2
    assert throughput.special_results("10.3")["exp"] == 2 * throughput.special_results("10.0")["exp"]
    assert throughput.special_results("9.0")["tan"] == pytest.approx(16 / 3)


def test_only_geforce_halves_and_only_with_an_fp32_accumulator() -> None:
    for cc in ("7.5", "8.6", "8.9", "12.0"):
        full, half = throughput.tensor_flops(cc, "workstation"), throughput.tensor_flops(cc, "geforce")
        for dtype, by in full.items():
            for accumulator, rate in by.items():
                halved = accumulator == "fp32" and dtype != "fp4"
                assert half[dtype][accumulator] == (rate // 2 if halved else rate)
    assert throughput.tensor_flops("8.0", "geforce") == throughput.tensor_flops("8.0", "datacenter")


def test_a_slug_is_found_without_reading_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    load = gpus.load

    def noted(path: Path) -> tuple[GpuSpec, tuple[str, ...]]:
        read.append(path.stem)
        return load(path)

    monkeypatch.setattr(gpus, "load", noted)
    assert gpus.find("rtx-4090").slug == "rtx-4090"
    assert read == ["rtx-4090"]
