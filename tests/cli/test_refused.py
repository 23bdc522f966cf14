"""What each verb refuses, in one error with its reason and what to do, before anything is read or run."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from tests.fakes.command_line import refused, trtprof
from tests.fakes.support import ROOT, SAMPLES, hide_modules
from trtprof.engine.inspector import read_layer_info

# Exit code, what is typed behind trtprof, and words of the error. All runs in a folder with the files of `place`.
REFUSED = """
2 | analyze | no file is named
2 | analyze plan.log profile.json | which GPU ran it?
2 | analyze plan.log profile.json --gpu rtx-4909 | rtx-4090
2 | analyze plan.log profile.json --gpu rtx-4090,l4 | one GPU must be named
2 | analyze plan.log profile.json --gpu l4 --format pdf | no report format 'pdf'
2 | analyze plan.log profile.json --gpu l4 --ceiling drum=3e12 | 'drum'
2 | analyze plan.log profile.json --gpu l4 --accumulate int32 | fp32 or fp16
2 | analyze profile.json --gpu l4 | no layer information among the files
2 | analyze plan.log profile.json profile.json --gpu l4 | are both times of layers
2 | analyze some.plan --gpu l4 | an engine itself cannot be read
2 | analyze --layers some.plan --gpu l4 | may be an engine itself
2 | analyze --layers profile.json --gpu l4 | it holds times
2 | analyze plan.log --profile plan.log --gpu l4 | holds no profile
2 | analyze plan.log profile.json --onnx gemv.onnx --gpu l4 | not the model that this engine was built from
2 | analyze plan.log profile.json --batch 2 --gpu l4 | of no use without the ONNX model
2 | analyze plan.log --fail-on RL999 | --fail-on RL10
2 | build a.onnx --dry-run --format junit | has no format
2 | build resnet.onnx --dry-run --minShapes=image:1x3x64x64 --optShapes=other:1x3x64x64 | does not name the same inputs
2 | build resnet.onnx --dry-run --minShapes=image:4x3x64x64 --optShapes=image:1x3x64x64 | not in order
2 | build resnet.onnx --dry-run --optShapes=imago:1x3x64x64 | which is not an input of this model
2 | build resnet.onnx --dry-run --optShapes=image:axb | --optShapes 'image:axb' cannot be read
2 | build resnet.onnx --dry-run --profile=0 | --profile is given without shapes
2 | build resnet.onnx --dry-run --profile=1 --optShapes=image:1x3x64x64 | the profiles are numbered 1
2 | build resnet.onnx --dry-run --batch=2 --optShapes=image:1x3x64x64 | --batch and profiles are both given
2 | build resnet.onnx --dry-run --memPoolSize=dlaSRAM:1 | known pools: workspace
2 | build resnet.onnx --dry-run --memPoolSize=workspace:1 --workspace=1 | given twice
2 | build resnet.onnx --dry-run --builderOptimizationLevel=9 | levels are 0 to 5
2 | build resnet.onnx --dry-run --backend=ort-cpu | builds no TensorRT engine
2 | build resnet.onnx --dry-run --loadEngine=x.engine | --dry-run and --loadEngine
2 | build nets:small --dry-run | fix: trtprof export nets:small, first
3 | build gemv.onnx | pip install 'trtprof[rtx]'
3 | build gemv.onnx --backend tensorrt | pip install 'trtprof[tensorrt]'
3 | build --loadEngine nowhere.engine | check the path of --loadEngine
2 | calibrate --device tpu | there is no device 'tpu'
2 | calibrate --device gpu:x | there is no device 'gpu:x'
2 | calibrate --show --seconds 3 | --show and --seconds
2 | compare | no run is named
2 | compare a1 | one run is named
3 | compare a1,nowhere a2 | nowhere is not there
2 | compare a1, a2 | names no run
2 | compare a1,a1 a2 | named twice on one side
2 | compare a1 a2 --gate latency | the shell takes > for itself
2 | compare a1 a2 --gate 'latncy>3%' | --gate 'latency>3%'
2 | compare a1 a2 --inconclusive maybe | --inconclusive fail
3 | compare a1 empty | report.json
2 | compare a1 plan.log | is a file, not a run folder
2 | export gemv.onnx | names no PyTorch module
2 | export nets.py | nets.py:<factory>
2 | export nets:made --fp16 --bf16 | one precision is possible here, not fp16 and bf16
2 | export nets:made --dtype tf32 | chosen where the model runs
2 | export nets:made --shapes x:a | --shapes
2 | export nets:made --dtypes x | --dtypes
2 | export nets:made --dynamic batch | --dynamic
2 | export nets:made --factory-arg width | --factory-arg
3 | export nets:made --shapes x:1x8 | pip install 'trtprof[export]'
2 | gpus --arch Fermi | Ada, Ampere
2 | gpus --cc 3.5 | no GPU has --cc 3.5
2 | gpus --class gaming | datacenter, geforce
2 | gpus --dtype fp7 | tf32
2 | gpus nonesuch | no GPU is called 'nonesuch'
2 | gpus l4 --class geforce | named and filtered
2 | inspect gemv.onnx --fp16 | --engine --dtype fp16 shows such an engine
2 | inspect gemv.onnx --dynamic 0=batch | --dynamic is not for
2 | inspect nowhere/model.onnx | no such file
3 | inspect gemv.onnx --engine | pip install 'trtprof[rtx]'
2 | kernel '' | no name of a kernel
2 | plugin gemv.onnx | a model or run and a layer are required
2 | plugin gemv.onnx MatMul --only nonsense | is not a step
2 | plugin gemv.onnx MatMul --gpu rtx-4090,l4 | names 2 GPUs
2 | plugin bench | bench needs a folder
2 | plugin gemv.onnx MatMul --device 1 | --device 1 is for bench
2 | predict gemv.onnx --gpu rtx-4909 | rtx-4090
2 | predict gemv.onnx --gpu l4 --dtype fp4 | known: model, fp32, tf32
2 | predict gemv.onnx --gpu l4 --level tensors | known: auto, layers, groups, nodes
2 | predict gemv.onnx --gpu l4 --clock -5 | positive
2 | predict gemv.onnx --gpu l4 --format junit | known: csv, html, json
2 | predict gemv.onnx --gpu l4 --ceiling dram=1us | wrong unit
2 | predict gemv.onnx --gpu l4 --ceiling dram=1,dram=2 | names 'dram' twice
2 | predict gemv.onnx --gpu l4 --engine --level groups | --engine and --level groups
3 | predict gemv.onnx --gpu l4 --level layers | pip install 'trtprof[rtx]'
3 | report nowhere | has no report.json
2 | report a1 -o folder/ | no suffix tells the format
2 | report a1 --format json -o folder/ | only a format of tables
2 | report a1 --table nope --format csv | --table nope is not known
2 | report a1 --figure pie -o x.png | --figure pie is not known
2 | report a1 --by colour | known: layer, node, type, kernel
2 | report a1 -o x.docx | x.docx says no format
2 | report a1 -o x.csv -o x.csv | names the same file twice
2 | report a1 --redact-map m.json | --redact-map without --redact
2 | report a1 --redact --explain KN701 /stem/conv/Conv | not for --explain
2 | report a1 --untag nope | has no tag
2 | report a1 --tag 'two words' | is no tag
2 | report --serve --format json | --format is of no use with --serve
2 | report --serve --host 192.168.0.1 | is refused
2 | rules RL1 | trtprof rules RL101
2 | rules XX999 | no rule
2 | run | no model is named
2 | run a.onnx --onnx b.onnx | named twice
3 | run resnet.onnx --backend tensorrt | cannot run here
2 | run resnet.onnx --backend cuda | no backend
2 | run resnet.onnx --resume | needs the folder
2 | run gemv.onnx --factory-arg a=1 | --factory-arg is not for
2 | run no-such.onnx --fail-on warnings | --fail-on warning
2 | run no-such.onnx --fail-on lost-ms=much | no time in milliseconds
2 | run no-such.onnx --fail-on lost=1 | only lost-ms takes a number
2 | sweep convolution | there is no op 'convolution' to sweep
2 | sweep conv --heads 8 | conv has no parameter --heads
2 | sweep conv --kernel 1..x | --kernel '1..x' cannot be read
2 | sweep conv --groups 7 | cin 64 is not divisible by groups 7
2 | sweep conv -o never.svg | a picture needs two points
2 | sweep conv --device gpu | --device gpu is not known
2 | sweep conv --clock 1000 | --ceiling and --clock need a GPU
2 | try gemv.onnx --options-only --rewrites-only | leave nothing to try
2 | try gemv.onnx --only KN999 | there is no such rule
2 | try gemv.onnx --gpu l4,t4 --dry-run | is for a dry run on one GPU
2 | try gemv.onnx --budget soon | is no time
2 | try gemv.onnx -o a.onnx -o b.onnx | names 2 models
"""
ROWS = [line.split(" | ", 2) for line in REFUSED.strip().split("\n")]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with models, files of an engine and two runs; no TensorRT and no PyTorch is installed."""
    hide_modules(monkeypatch, "tensorrt", "tensorrt_rtx", "torch")
    monkeypatch.setattr("trtprof.hardware.nvml.gpus", lambda: ((), "no driver is installed here"))
    monkeypatch.chdir(tmp_path)
    for name, copy in (("gemv", "gemv"), ("resnet_tiny", "resnet")):
        shutil.copy(SAMPLES / f"{name}.onnx", f"{copy}.onnx")
    shutil.copy(ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log", "plan.log")
    names = [layer.name for layer in read_layer_info(Path("plan.log")).layers]
    layers = [{"name": name, "averageMs": 0.02, "medianMs": 0.02} for name in names]
    Path("profile.json").write_text(json.dumps([{"count": 100}, *layers]))
    Path("some.plan").write_bytes(b"ftrt" + bytes(100))
    for run, example in (("a1", "example"), ("a2", "example-1-thread")):
        Path(run).symlink_to(ROOT / "reports" / example)
    Path("empty").mkdir()
    Path("nets.py").write_text("def made(): ...\n")
    return tmp_path


@pytest.mark.parametrize("verb", dict.fromkeys(words.split()[0] for _, words, _ in ROWS))
def test_what_is_refused_is_one_error(verb: str, place: Path, subtests: pytest.Subtests) -> None:
    before = sorted(path.name for path in place.iterdir())
    for code, words, said in ROWS:
        if words.split()[0] == verb:
            with subtests.test(words):
                assert said in refused(trtprof(*shlex.split(words)), int(code))
    assert sorted(path.name for path in place.iterdir()) == before
