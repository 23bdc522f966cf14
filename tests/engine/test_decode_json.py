"""JSON and text by others: what cannot be meant is one error with the file and the place, or is not known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.support import refused
from tests.fakes.trtexec_files import layers_document, profile_document, summary_document
from trtprof.base.errors import UsageError
from trtprof.engine._decode_json import decode_value
from trtprof.engine.inspector import read_layer_info, read_profile, read_times

LAYERS = json.dumps(layers_document(2))
PROFILE = json.dumps(profile_document(layers_document(2)))
LONG = "9" * 5000


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "given.json"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "what", "why"),
    [
        (LAYERS.replace("[32, 64", f"[\n{LONG}, 64", 1), "thousands of digits", "in line 2"),
        (LAYERS.replace("[3, 3]", "[3, 18446744073709551616]", 1), "beyond 64 bits", "at Layers[0].Kernel[1]"),
        (LAYERS.replace("[3, 3]", "[3, 1e999]", 1), "has inf for a number", "at Layers[0].Kernel[1]"),
        (LAYERS.replace("[3, 3]", "[" * 100 + "]" * 100, 1), "broken JSON", "nest too deep"),
        (LAYERS.replace("[3, 3]", "[" * 100_000 + "]" * 100_000, 1), "broken JSON", "nest too deep"),
        ('{"Layers": ' * 100_000, "broken JSON", "nest too deep"),
    ],
)
def test_what_no_program_can_mean_is_one_error_with_its_place(text: str, what: str, why: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_layer_info(path)
    assert str(path) in refused(caught.value)
    assert what in caught.value.what
    assert why in caught.value.why


@pytest.mark.parametrize("text", [LONG, "[" * 2000, "1e999", "18446744073709551616", "[1, 2"])
def test_such_a_value_in_a_line_of_text_stays_text(text: str) -> None:
    assert decode_value(text) == text


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("averageMs", 10**400, "beyond 64 bits"),
        ("averageMs", 1e308, "under a day"),
        ("averageMs", True, "under a day"),
        ("timeMs", -1, "not negative"),
        ("timeMs", "NaN", "not negative"),
        ("medianMs", [1], "a time is a number"),
        ("percentage", 5000, "0 to 100 %"),
    ],
)
def test_a_number_of_a_profile_that_cannot_be_right_is_refused(
    key: str, value: object, why: str, tmp_path: Path
) -> None:
    rows: list[Any] = json.loads(PROFILE)
    rows[2][key] = value
    with pytest.raises(UsageError) as caught:
        read_profile(written(tmp_path, json.dumps(rows)))
    assert why in refused(caught.value)
    assert "given.json" in caught.value.what


@pytest.mark.parametrize("count", [10**60 % 2**64, -1, 0.5, "many", True, None])
def test_a_number_of_inferences_that_is_none_is_not_known(count: object, tmp_path: Path) -> None:
    rows: list[Any] = json.loads(PROFILE)
    rows[0]["count"] = count
    assert read_profile(written(tmp_path, json.dumps(rows))).iterations == 0


@pytest.mark.parametrize("throughput", [1e300, -1, "many"])
def test_a_summary_of_more_inferences_than_can_be_is_of_one(throughput: object, tmp_path: Path) -> None:
    document = summary_document(layers_document(2))
    document["performance_summary"]["Throughput"] = throughput
    times = read_times(written(tmp_path, json.dumps(document)))
    assert times.summary is not None
    assert times.summary.n == 1


@pytest.mark.parametrize("dims", [[2**62, 2**62], [2**60] * 500, [1.5e300, 1], [2**63, 1], [None], "many"])
def test_dimensions_of_more_than_memory_can_hold_are_not_known(dims: object, tmp_path: Path) -> None:
    document = layers_document(2)
    document["Layers"][0]["Inputs"][0]["Dimensions"] = dims
    plan = read_layer_info(written(tmp_path, json.dumps(document)))
    assert plan.layers[0].inputs[0].dims is None
    assert any("have no dimensions" in note for note in plan.notes)
