"""Tables of ncu in every form, unit and locale, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.ncu_factory import LOCALES, Form, Launch, counted, ncu_csv
from tests.fakes.support import refused
from trtprof.base.errors import CaptureError, MissingError, TrtprofError, UsageError
from trtprof.base.kernel_counters import Counter
from trtprof.capture.ncu.csv import is_counters, parse_counters, read_counters

TWO = (
    counted("void conv(float*, int)", read=25_170_048, written=23_673_216, ns=239_008, tensor=0, occupancy=0.7445),
    counted("gemm_kernel", read=1_048_576, written=4_096, ns=1_299, tensor=65_536, grid=(12, 3, 1), block=(128, 1, 1)),
)
FORMS: tuple[Form, ...] = ("raw", "long")


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scaled", [False, True])
def test_every_form_locale_and_unit_gives_the_same_counters(locale: str, form: Form, scaled: bool) -> None:
    found = parse_counters(ncu_csv(TWO, form=form, locale=locale, scaled=scaled, rules=form == "long"), "x.csv")
    assert [launch.kernel for launch in found] == ["void conv(float*, int)", "gemm_kernel"]
    conv, gemm = found
    assert conv.dram_read == pytest.approx(25_170_048)
    assert conv.dram_written == pytest.approx(23_673_216)
    assert conv.dram_bytes == pytest.approx(48_843_264)
    assert conv.duration_ns == pytest.approx(239_008)
    assert conv.occupancy == pytest.approx(0.7445)
    assert conv.tensor_cores is False
    assert gemm.tensor_cores is True
    assert (gemm.grid, gemm.block) == ((12, 3, 1), (128, 1, 1))
    assert (gemm.blocks, gemm.threads, gemm.capability, gemm.process) == (36, 128, "8.9", 111)
    # A percentage is a share, whatever else stands in the file.
    assert conv.counters["sm__warps_active.avg.pct_of_peak_sustained_active"].unit == "1"


@given(
    values=st.lists(st.integers(0, 10**12), min_size=1, max_size=5),
    share=st.integers(1, 9999).filter(lambda hundredths: hundredths % 10),
    locale=st.sampled_from(sorted(LOCALES)),
    form=st.sampled_from(FORMS),
)
def test_whole_numbers_survive_every_locale(values: list[int], share: int, locale: str, form: Form) -> None:
    """Where one number has two decimals, as each file of ncu has, all others are read without doubt."""
    busy = {"sm__throughput.avg.pct_of_peak_sustained_elapsed": (share / 100, "%")}
    launches = [Launch("k", {"dram__bytes.sum": (value, "byte"), **busy}) for value in values]
    found = parse_counters(ncu_csv(launches, form=form, locale=locale), "x.csv")
    assert [launch.dram_bytes for launch in found] == values


def test_a_sum_in_whole_units_tells_the_locale_by_itself() -> None:
    """117.344 ns were 117,344 ns: a published file of a German Windows, whose kernel took 117 us by CUDA's events."""
    text = ncu_csv(
        [Launch("sgemm", {"gpu__time_duration.sum": ("117.344", "ns"), "dram__bytes.sum": ("27.595.520", "byte")})]
    )
    (launch,) = parse_counters(text, "x.csv")
    assert launch.duration_ns == 117_344
    assert launch.dram_bytes == 27_595_520
    (alone,) = parse_counters(ncu_csv([Launch("sgemm", {"gpu__time_duration.sum": ("117.344", "ns")})]), "x.csv")
    assert alone.duration_ns == 117_344


def test_numbers_of_two_locales_are_refused() -> None:
    text = ncu_csv([Launch("k", {"a.avg": ("1,5", "%"), "b.avg": ("2.25", "%")})])
    with pytest.raises(UsageError, match="mixes locales") as caught:
        parse_counters(text, "x.csv")
    assert "LC_ALL=C" in refused(caught.value)


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("Kbyte", 2.5, Counter(2500, "byte")),
        ("Gbyte/second", 1.5, Counter(1.5e9, "byte/s")),
        ("byte/nsecond", 2, Counter(2e9, "byte/s")),
        ("usecond", 3, Counter(3000, "ns")),
        ("us", 3, Counter(3000, "ns")),
        ("ms", 3, Counter(3e6, "ns")),
        ("second", 4e-05, Counter(40_000, "ns")),
        ("cycle/nsecond", 1.5, Counter(1.5e9, "Hz")),
        ("Ghz", 1.5, Counter(1.5e9, "Hz")),
        ("hz", 7, Counter(7, "Hz")),
        ("sectors", 8, Counter(8, "sector")),
        ("register/thread", 32, Counter(32, "register/thread")),
        ("Kbyte/block", 1.5, Counter(1500, "byte/block")),
        ("inst/cycle", 0.25, Counter(0.25, "inst/cycle")),
        ("", 12, Counter(12, "")),
        ("furlong", 3, Counter(3, "furlong")),
    ],
)
def test_units_become_base_units(unit: str, value: float, expected: Counter) -> None:
    (launch,) = parse_counters(ncu_csv([Launch("k", {"x.avg": (f"{value:g}", unit)})]), "x.csv")
    found = launch.counters["x.avg"]
    assert found.unit == expected.unit
    assert found.value == pytest.approx(expected.value)


@pytest.mark.parametrize("nothing", ["n/a", "(!) n/a", "", "nan", "inf"])
def test_what_could_not_be_counted_is_not_there(nothing: str) -> None:
    launch = Launch("k", {"dram__bytes_read.sum": (nothing, "byte"), "gpu__time_duration.sum": (5, "nsecond")})
    (found,) = parse_counters(ncu_csv([launch]), "x.csv")
    assert list(found.counters) == ["gpu__time_duration.sum"]
    assert found.dram_bytes is None


@pytest.mark.parametrize("huge", ["9" * 5000, "9" * 400, "1e300"])
def test_numbers_that_no_launch_has_are_not_there(huge: str) -> None:
    (launch,) = parse_counters(ncu_csv([Launch("k", {"gpu__time_duration.sum": (5, "nsecond")})]), "x.csv")
    text = ncu_csv([Launch("k", {"gpu__time_duration.sum": (5, "nsecond")}, grid=(0, 0, 0), process=7, device=3)])
    text = text.replace("(0, 0, 0)", f"({huge}, 1, 1)").replace('"7"', f'"{huge}"').replace('"3"', f'"{huge}"')
    (found,) = parse_counters(text, "x.csv")
    assert (found.grid, found.process, found.device) == (None, 0, 0)
    assert found.counters == launch.counters


def test_before_2023_the_geometry_is_in_metrics() -> None:
    dims = {f"launch__{of}_dim_{axis}": (size, "") for of, sizes in (("grid", (7, 2, 1)), ("block", (64, 4, 1)))
            for axis, size in zip("xyz", sizes, strict=True)}  # fmt: skip
    plain = Launch("k", {"gpu__time_duration.sum": (5, "nsecond")})
    (found,) = parse_counters(ncu_csv([plain._replace(metrics={**plain.metrics, **dims})], columns=False), "x.csv")
    assert (found.grid, found.block, found.capability) == ((7, 2, 1), (64, 4, 1), "")
    (bare,) = parse_counters(ncu_csv([plain], columns=False), "x.csv")
    assert (bare.grid, bare.blocks) == (None, 0)


def test_labels_of_sections_are_led_back_to_metrics() -> None:
    labelled = {"Duration": (12.5, "usecond"), "Achieved Occupancy": (50.25, "%"), "Memory Throughput": (9.5, "%")}
    (found,) = parse_counters(ncu_csv([Launch("k", labelled)], form="long", rules=True, columns=False), "x.csv")
    assert found.duration_ns == 12_500
    assert found.occupancy == pytest.approx(0.5025)


def test_several_processes_devices_and_tables_are_kept_apart() -> None:
    one = counted("a", read=1)
    first = ncu_csv([one, one._replace(process=222), one._replace(device=1)])
    found = parse_counters(first + "the program prints\n1,2,3\n" + ncu_csv([counted("b", read=2)]), "x.csv")
    assert [(launch.kernel, launch.process, launch.device) for launch in found] == [
        ("a", 111, 0), ("a", 222, 0), ("a", 111, 1), ("b", 111, 0),
    ]  # fmt: skip


def test_a_kernel_name_may_hold_quotes_commas_and_brackets() -> None:
    name = 'void f<"a,b", (int)4>(char const*, at::Tensor&)::{lambda()#1}'
    (found,) = parse_counters(ncu_csv([counted(name, read=3)]), "x.csv")
    assert found.kernel == name


def test_a_file_that_is_cut_short_gives_what_is_whole(tmp_path: Path) -> None:
    text = ncu_csv(TWO, form="long")
    path = tmp_path / "cut.csv"
    path.write_text(text[: text.rindex('"sm__inst') + 30])
    found = read_counters(path)
    assert [launch.kernel for launch in found] == [launch.kernel for launch in TWO]
    assert found[1].tensor_cores is None


def test_what_powershell_redirects_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(ncu_csv(TWO).encode("utf-16"))
    assert len(read_counters(path)) == 2
    path.write_bytes(b"\xef\xbb\xbf" + ncu_csv(TWO, before="").encode())
    assert len(read_counters(path)) == 2


SAID = {
    "permission": (
        """==PROF== Connected to process 7
==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target
==WARNING== No kernels were profiled.
""",
        MissingError,
        "NVreg_RestrictProfilingToAdminUsers=0",
    ),
    "another tool": (
        """==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool (like
==ERROR== Failed to profile "k" in process 7
""",
        MissingError,
        "dcgmi profile --pause",
    ),
    "driver": ("==ERROR== Cuda driver is not compatible with Nsight Compute.\n", MissingError, "TRTPROF_NCU"),
    "new GPU": (
        "==ERROR== Profiling is not supported on device 0. To find out supported GPUs refer --list-chips option.\n",
        MissingError,
        "newer Nsight Compute",
    ),
    "other names": (
        "==WARNING== No kernels were profiled.\nAvailable Kernels:\n1. one_kernel\n2. two_kernel\n",
        CaptureError,
        "it saw 1. one_kernel, 2. two_kernel",
    ),
    "no kernels": (
        "==PROF== Connected to process 7\n==WARNING== No kernels were profiled.\n",
        CaptureError,
        "no kernel",
    ),
    "unheard of": ("==PROF== Connected to process 7\n==ERROR== Something new\n", CaptureError, "Something new"),
}
"""Messages of 2022.3 to 2026.1 as users quoted them, and what they come to."""


@pytest.mark.parametrize(("said", "kind", "words"), SAID.values(), ids=SAID)
def test_what_ncu_says_in_place_of_a_table_is_explained(said: str, kind: type[Exception], words: str) -> None:
    assert is_counters(said)
    with pytest.raises(kind) as caught:
        parse_counters(said, "x.csv")
    assert isinstance(caught.value, TrtprofError)
    assert words in refused(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"NCU\0\0\0\1\2", "binary"),
        (b"a,b\n1,2\n", "no header"),
        (b'"ID","Process ID","Kernel Name"\n', "no counters"),
        (b'"ID","Kernel Name"\n==\n\xffID","Process ID"\n1,2,3\n', "no counters"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises((UsageError, CaptureError)) as caught:
        read_counters(path)
    assert words in refused(caught.value)
    with pytest.raises(MissingError):
        read_counters(tmp_path / "none.csv")


def test_a_table_of_nsys_is_none_of_ncu() -> None:
    assert not is_counters('Time (%),Total Time (ns),Instances,Name\n1.0,2,3,"a"\n')
    assert is_counters(ncu_csv(TWO))
    assert is_counters(ncu_csv(TWO, before=""))
