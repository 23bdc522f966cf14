"""The content of ``--exportLayerInfo`` of a run: what TensorRT said of its layers, in the form that was asked for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trtprof.base.errors import MissingError
from trtprof.flows import trtexec_files

INSPECTED = '{"Layers": []}'
PRINTED = "Layer(kgen): product"


def folder(tmp_path: Path, said: str) -> Any:
    """A run folder of TensorRT whose engine said this of its layers."""
    (tmp_path / "layers").write_text(said)
    plan = SimpleNamespace(layers_file="layers", engine="e.plan")
    return SimpleNamespace(has=lambda _: True, read=lambda *_: plan, file=lambda name: tmp_path / name)


@pytest.mark.parametrize(
    ("said", "kept", "name", "content"),
    [
        (INSPECTED, "", "l.json", INSPECTED),
        (PRINTED, "", "l.txt", PRINTED),
        (PRINTED, INSPECTED, "l.json", INSPECTED),
        (PRINTED, "", "l.json", "TensorRT's inspector did not tell them"),
        (INSPECTED, "", "l.txt", "an engine prints its plan only while it is built"),
    ],
)
def test_the_suffix_says_the_form(
    said: str, kept: str, name: str, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trtexec_files, "kept_layer_info", lambda _: kept)
    run = folder(tmp_path, said)
    if content in (INSPECTED, PRINTED):
        assert trtexec_files.layers_of_run(run, Path(name)).content == content
    else:
        with pytest.raises(MissingError) as caught:
            trtexec_files.layers_of_run(run, Path(name))
        assert caught.value.why == content
        assert caught.value.fix == f"--exportLayerInfo=layers{'.txt' if name.endswith('json') else '.json'}"
