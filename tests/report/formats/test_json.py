from __future__ import annotations

import json
import math
from pathlib import Path

import jsonschema
import msgspec
import pytest

import trtprof.report
from tests.fakes.report_factory import on_gpu, one_layer
from trtprof.base.errors import TrtprofError
from trtprof.base.records import Run
from trtprof.report import ReportOptions, get

SCHEMA_FILE = Path(trtprof.report.__file__).with_name("run.schema.json")


def document(run: Run) -> str:
    return get("json").render(run, ReportOptions())


def changed(run: Run, *, cv: float) -> Run:
    return msgspec.structs.replace(run, latency=msgspec.structs.replace(run.latency, cv=cv))


def test_clocks_travel_with_the_document_and_an_older_one_without_them_is_read() -> None:
    run = on_gpu()
    made = json.loads(document(run))
    validator().validate(made)
    assert made["clocks"]["sm_clock_mhz"] == {"min": 1395.0, "median": 1410.0, "max": 1740.0}
    assert msgspec.json.decode(document(run), type=Run) == run
    older = {name: value for name, value in made.items() if name not in ("clocks", "clocks_profiled")}
    validator().validate(older)
    assert msgspec.convert(older, Run) == msgspec.structs.replace(run, clocks=None, clocks_profiled=None)


def test_fields_keep_their_order_and_dict_keys_are_sorted() -> None:
    run = msgspec.structs.replace(one_layer(), versions={"b": "1", "a": "2"})
    made = json.loads(document(run))
    assert list(made) == list(run.__struct_fields__)
    assert list(made["versions"]) == ["a", "b"]
    assert made["findings"] == [] or "try" in made["findings"][0]
    same = msgspec.structs.replace(run, versions={"a": "2", "b": "1"})
    assert document(run) == document(same)


def test_a_number_that_json_lacks_is_one_clear_error(subtests: pytest.Subtests) -> None:
    for number in [math.nan, math.inf, -math.inf]:
        for format_ in ["json", "html"]:
            with subtests.test(number=number, format_=format_):
                with pytest.raises(TrtprofError, match=r"run\.latency\.cv") as caught:
                    get(format_).render(changed(one_layer(), cv=number), ReportOptions())
                assert caught.value.why
                assert caught.value.fix


def test_half_a_surrogate_pair_is_one_clear_error() -> None:
    run = msgspec.structs.replace(one_layer(), verdict="half \ud800 pair")
    with pytest.raises(TrtprofError, match=r"run\.verdict"):
        document(run)
    run = msgspec.structs.replace(one_layer(), versions={"\udfff": "1"})
    with pytest.raises(TrtprofError, match=r"a key of run\.versions"):
        document(run)


def validator() -> jsonschema.Draft202012Validator:
    loaded = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(loaded)
    return jsonschema.Draft202012Validator(loaded)
