"""What the folder of a plugin tells those who go on with it: the sizes and the engine of what the brief is of."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.fakes.compiler import needs_nvrtc
from tests.fakes.trying import model_of
from trtprof.base import run_folder
from trtprof.base.run_folder import Request, RunFolder
from trtprof.engine.tensorrt import BuildOptions
from trtprof.flows.options import GpuOptions, changed_options, with_flags
from trtprof.flows.plugin import make
from trtprof.flows.plugin.options import PluginOptions
from trtprof.flows.report import engine_settings
from trtprof.plugin.folder import load
from trtprof.source.request import ModelRequest


@pytest.mark.parametrize(
    "given",
    [
        GpuOptions(),
        GpuOptions(build=BuildOptions(fp16=True, tf32=False, max_aux_streams=0, build_route="-a=b")),
        GpuOptions(cuda_graph=True, build=BuildOptions(builder_optimization_level=5, tactic_sources="+CUBLAS")),
        GpuOptions(cuda_graph=False),
    ],
)
def test_an_engine_is_built_as_that_of_the_run_was(given: GpuOptions) -> None:
    # As `flows.run` keeps them.
    options = {name.lstrip("-"): str(value) for name, value in changed_options(given).items()}
    request = Request(schema_version=1, created="", version="", model="", sha256="", options=options)
    assert with_flags(GpuOptions(), engine_settings(request)) == given


def test_open_dimensions_are_those_that_were_asked_for(tmp_path: Path) -> None:
    needs_nvrtc()
    model = model_of("g (float[n,8] a, float[n,8] b) => (float[n,8] y) { t = Add (a, b) y = Relu (t) }", tmp_path)
    # A name may hold what separates shapes.
    proto = onnx.load(model)
    proto.graph.input[0].name = proto.graph.node[0].input[0] = "a,0"
    onnx.save(proto, model)
    folder = tmp_path / "plugin"
    request = ModelRequest.of(model, batch=6)
    made = make(
        PluginOptions(
            what=str(model), request=request, layer="Add_0", gpu="rtx-4090", folder=str(folder),
            steps=("brief", "write", "insert"),
        )
    )  # fmt: skip
    assert made.variants
    found = load(folder)
    assert found.shapes == ("'a,0':6x8", "b:6x8")
    assert ModelRequest.of(model, found.shapes).shapes == {"a,0": (6, 8), "b": (6, 8)}
    assert {6} == set(found.dims.values())
    assert found.operand_shapes == ((6, 8), (6, 8))
    assert found.settings == {}
    assert not RunFolder(folder).has(run_folder.REQUEST)
