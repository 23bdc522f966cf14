"""The sample models: what they are made of, and that making them again gives the same bytes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest
from onnx.reference import ReferenceEvaluator

from tests.fakes.support import load_script

FOLDER = Path(__file__).resolve().parents[2] / "sample_models"
SCRIPT = FOLDER / "generate.py"

Array = npt.NDArray[Any]
Feeds = dict[str, Array]


generate = load_script(SCRIPT, "sample_models_generate")
COMMITTED: dict[str, str] = {command: sample.file_name for command, sample in generate.COMMITTED.items()}
FILES = sorted(COMMITTED.values())


def _session(model: bytes, level: str = "ORT_ENABLE_ALL", optimised: Path | None = None) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    if optimised is not None:
        options.optimized_model_filepath = str(optimised)
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _run(model: bytes, feeds: Feeds) -> Array:
    (output,) = _session(model).run(None, feeds)
    return np.asarray(output)


def _reference(model: bytes, feeds: Feeds) -> Array:
    (output,) = ReferenceEvaluator(onnx.load_model_from_string(model)).run(None, feeds)
    return np.asarray(output)


def _optimised_ops(file: str, tmp_path: Path) -> Counter[str]:
    path = tmp_path / "optimised.onnx"
    _session((FOLDER / file).read_bytes(), optimised=path)
    return Counter(node.op_type for node in onnx.load(path).graph.node)


def _feeds(file: str, batch: int, sequence: int) -> Feeds:
    rng = np.random.default_rng([batch, sequence])

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape, dtype=np.float32)

    if file == "resnet_tiny.onnx":
        return {"image": normal(batch, 3, 64, 64)}
    if file == "mobilenet_tiny.onnx":
        return {"image": normal(batch, 3, 96, 96)}
    if file == "lstm.onnx":
        return {"features": normal(sequence, batch, 64)}
    if file == "qdq_cnn.onnx":
        return {"image": generate.sample_images(batch, seed=sequence)}
    mask = np.ones((batch, sequence), dtype=np.int64)
    mask[-1, sequence // 2 + 1 :] = 0
    return {"input_ids": rng.integers(0, 1000, (batch, sequence)), "attention_mask": mask}


# The committed files


def test_the_default_command_writes_the_committed_files_byte_for_byte(tmp_path: Path) -> None:
    assert generate.main(["--output", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    differ = [name for name in FILES if (tmp_path / name).read_bytes() != (FOLDER / name).read_bytes()]
    assert not differ, f"{differ}: run sample_models/generate.py --force and commit"


def test_every_onnx_file_of_the_folder_is_made_by_the_generator() -> None:
    present = sorted(path.name for path in FOLDER.glob("*.onnx") if not path.name.endswith(".generated.onnx"))
    assert present == FILES


def test_readme_states_every_committed_file_with_its_size() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    stated = {
        name: int(size.replace(",", ""))
        for name, size in re.findall(r"^\| `(\S+\.onnx)` .*\| ([\d,]+) B, committed", readme, re.M)
    }
    assert stated == {name: (FOLDER / name).stat().st_size for name in FILES}


@pytest.mark.parametrize("file", FILES)
def test_committed_file_is_small_valid_and_says_what_it_is(file: str) -> None:
    path = FOLDER / file
    assert path.stat().st_size < (1_000 if file == "gemv.onnx" else 1_000_000)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert model.producer_name == "trtprof sample_models"
    assert [opset.version for opset in model.opset_import] == [17]

    command = next(command for command, name in COMMITTED.items() if name == file)
    assert model.doc_string.endswith(f"Made by: python sample_models/generate.py {command}")

    names = [node.name for node in model.graph.node]
    assert all(names)
    assert len(set(names)) == len(names)
    outputs = [output for node in model.graph.node for output in node.output]
    assert len(set(outputs)) == len(outputs)
    unused = {tensor.name for tensor in model.graph.initializer} - {i for node in model.graph.node for i in node.input}
    assert not unused


@pytest.mark.parametrize(
    ("file", "inputs", "output"),
    [
        ("gemv.onnx", {"a": [600, 200, 8, 1, 64], "b": [600, 1, 8, 64, 1]}, [600, 200, 8, 1, 1]),
        ("resnet_tiny.onnx", {"image": ["batch", 3, 64, 64]}, ["batch", 10]),
        ("mobilenet_tiny.onnx", {"image": ["batch", 3, 96, 96]}, ["batch", 10]),
        (
            "transformer_block.onnx",
            {"input_ids": ["batch", "sequence"], "attention_mask": ["batch", "sequence"]},
            ["batch", "sequence", 64],
        ),
        ("lstm.onnx", {"features": ["sequence", "batch", 64]}, ["batch", 10]),
        ("qdq_cnn.onnx", {"image": ["batch", 3, 32, 32]}, ["batch", 10]),
    ],
)
def test_shapes(file: str, inputs: dict[str, list[Any]], output: list[Any]) -> None:
    session = _session((FOLDER / file).read_bytes())
    assert {value.name: value.shape for value in session.get_inputs()} == inputs
    assert [value.shape for value in session.get_outputs()] == [output]


# What they compute


def test_gemv_is_numpy_matmul() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((600, 200, 8, 1, 64), dtype=np.float32)
    b = rng.standard_normal((600, 1, 8, 64, 1), dtype=np.float32)
    y = _run((FOLDER / "gemv.onnx").read_bytes(), {"a": a, "b": b})
    np.testing.assert_allclose(y, np.matmul(a, b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("batch", "sequence"), [(1, 5), (3, 17)])
@pytest.mark.parametrize("file", [name for name in FILES if name not in {"gemv.onnx", "qdq_cnn.onnx"}])
def test_runtime_matches_the_reference(file: str, batch: int, sequence: int) -> None:
    model = (FOLDER / file).read_bytes()
    feeds = _feeds(file, batch, sequence)
    output = _run(model, feeds)
    assert np.isfinite(output).all()
    # Against a network whose output does not depend on its input, any two runtimes agree.
    assert output.std() > 1e-3
    np.testing.assert_allclose(output, _reference(model, feeds), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("file", ["resnet_tiny.onnx", "mobilenet_tiny.onnx"])
def test_classifier_output_depends_on_the_image(file: str) -> None:
    feeds = _feeds(file, 4, 1)
    # Noise looks alike to a classifier; contrast does not.
    feeds["image"] *= np.array([0.1, 0.5, 1.0, 3.0], dtype=np.float32).reshape(4, 1, 1, 1)
    probabilities = _run((FOLDER / file).read_bytes(), feeds)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)
    assert probabilities.max() < 0.99
    assert np.max(probabilities.std(axis=0)) > 1e-3


def test_attention_ignores_masked_tokens() -> None:
    model = (FOLDER / "transformer_block.onnx").read_bytes()
    ids = np.arange(12, dtype=np.int64).reshape(1, 12)
    mask = np.ones_like(ids)
    other = ids.copy()
    other[0, 8:] = 999
    unmasked = [_run(model, {"input_ids": i, "attention_mask": mask})[:, :8] for i in (ids, other)]
    assert np.abs(unmasked[0] - unmasked[1]).max() > 1e-2
    mask[0, 8:] = 0
    masked = [_run(model, {"input_ids": i, "attention_mask": mask})[:, :8] for i in (ids, other)]
    np.testing.assert_allclose(masked[0], masked[1], rtol=1e-4, atol=1e-5)
    alone = _run(model, {"input_ids": ids[:, :8], "attention_mask": mask[:, :8]})
    np.testing.assert_allclose(masked[0], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 4])
def test_small_convolution_matches_the_reference(batch: int) -> None:
    model = generate.conv(spatial=8).SerializeToString()
    x = np.random.default_rng(batch).standard_normal((batch, 512, 8, 8), dtype=np.float32)
    np.testing.assert_allclose(_run(model, {"x": x}), _reference(model, {"x": x}), rtol=1e-3, atol=1e-3)


# The quantised model


@pytest.mark.parametrize("batch", [1, 8])
def test_qdq_runtime_matches_the_reference_within_quantisation_steps(batch: int) -> None:
    model = (FOLDER / "qdq_cnn.onnx").read_bytes()
    feeds = {"image": generate.sample_images(batch, seed=batch)}
    output = _run(model, feeds)
    assert np.isfinite(output).all()
    # The reference evaluator knows these two ops from opset 19 on; 19 changed nothing for the types used here.
    proto = onnx.load_model_from_string(model)
    proto.opset_import[0].version = 19
    onnx.checker.check_model(proto, full_check=True)
    expected = _reference(proto.SerializeToString(), feeds)
    # Rounding a tie the other way moves a value by one step of its tensor.
    (scale,) = (t for t in proto.graph.initializer if t.name == "/pool/GlobalAveragePool_output_0_scale")
    np.testing.assert_allclose(output, expected, rtol=0, atol=2 * float(onnx.numpy_helper.to_array(scale)))
    assert output.std() > 20 * float(onnx.numpy_helper.to_array(scale))


def test_qdq_output_is_close_to_the_fp32_model_on_images_not_calibrated_on() -> None:
    images = {"image": generate.sample_images(64, seed=1234)}
    exact = _run(generate.float_cnn().SerializeToString(), images).astype(np.float64)
    quantised = _run((FOLDER / "qdq_cnn.onnx").read_bytes(), images).astype(np.float64)

    def cosine(a: Array, b: Array) -> Array:
        return np.asarray((a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1))

    assert cosine(exact, quantised).min() > 0.99
    # The same for what tells one image from another, without the part that all outputs share.
    mean = exact.mean(axis=0)
    assert cosine((exact - mean).ravel(), (quantised - mean).ravel()) > 0.99


def test_qdq_model_runs_on_integers_in_onnx_runtime(tmp_path: Path) -> None:
    ops = _optimised_ops("qdq_cnn.onnx", tmp_path)
    assert ops["QLinearConv"] == 9
    assert ops["QLinearAdd"] == 3
    assert ops["QLinearGlobalAveragePool"] == 1
    assert ops["QGemm"] == 1
    assert ops["QuantizeLinear"] == 1
    assert not {"Conv", "FusedConv", "Add", "Relu", "Gemm", "DequantizeLinear"} & ops.keys()


def test_calibrated_ranges_are_clear_of_a_rounding_step() -> None:
    # Else another machine's arithmetic could round a range to the next step and change the file.
    ranges = generate.calibrate(generate.float_cnn(), generate.sample_images(32, seed=7))
    for name, (low, high) in ranges.items():
        for factor in (1 - 1e-5, 1 + 1e-5):
            assert generate.round_range(low * factor, high * factor) == generate.round_range(low, high), name


@pytest.mark.parametrize(
    ("given", "rounded"),
    [((-1.2341, 5.0), (-1.24, 5.0)), ((0.5, 0.123401), (0.0, 0.124)), ((-98.76, -1.0), (-98.8, 0.0))],
)
def test_round_range_widens(given: tuple[float, float], rounded: tuple[float, float]) -> None:
    assert generate.round_range(*given) == rounded


# What the runtime has to fuse


def test_batch_normalisation_is_in_the_file_and_folded_by_the_runtime(tmp_path: Path) -> None:
    ops = Counter(node.op_type for node in onnx.load(FOLDER / "resnet_tiny.onnx").graph.node)
    assert ops["BatchNormalization"] == ops["Conv"] == 15
    assert _optimised_ops("resnet_tiny.onnx", tmp_path)["BatchNormalization"] == 0


def test_mobilenet_has_depthwise_convolutions_and_relu6() -> None:
    graph = onnx.load(FOLDER / "mobilenet_tiny.onnx").graph
    groups = [a.i for node in graph.node if node.op_type == "Conv" for a in node.attribute if a.name == "group"]
    assert sum(group > 1 for group in groups) == 8
    assert sum(node.op_type == "Clip" for node in graph.node) == 17
    assert sum(node.op_type == "Add" for node in graph.node) == 4


def test_gelu_is_in_the_file_as_erf_and_fused_by_the_runtime(tmp_path: Path) -> None:
    ops = Counter(node.op_type for node in onnx.load(FOLDER / "transformer_block.onnx").graph.node)
    assert ops["Erf"] == 2
    assert ops["LayerNormalization"] == 5
    optimised = _optimised_ops("transformer_block.onnx", tmp_path)
    assert optimised["Erf"] == 0
    assert optimised["Gelu"] + optimised["BiasGelu"] == 2


# The command line


@pytest.mark.parametrize("external", [False, True])
def test_convolution_file(external: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.onnx"
    arguments = ["conv", "--spatial", "8", "-o", str(path)] + ["--external-data"] * external
    assert generate.main(arguments) == 0
    data = tmp_path / "x.onnx.data"
    assert data.exists() == external
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()] == [str(path)] + [str(data)] * external
    weights = data if external else path
    assert 512 * 512 * 25 * 4 <= weights.stat().st_size < 512 * 512 * 25 * 4 + 5_000
    onnx.checker.check_model(str(path), full_check=True)
    shape = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).get_outputs()[0].shape
    assert shape == ["batch", 512, 8, 8]

    # Written again it is the same file, not a longer one.
    before = weights.read_bytes()
    assert generate.main([*arguments, "--force"]) == 0
    assert weights.read_bytes() == before


def test_convolution_goes_to_an_ignored_file_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "HERE", tmp_path)
    assert generate.main(["conv", "--spatial", "16"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["conv_512_5x5_16.generated.onnx"]


def test_nothing_is_overwritten_without_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lstm.onnx").write_bytes(b"mine")
    with pytest.raises(SystemExit) as caught:
        generate.main(["all", "-o", str(tmp_path)])
    assert caught.value.code == 2
    assert "lstm.onnx; pass --force" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["lstm.onnx"]
    assert (tmp_path / "lstm.onnx").read_bytes() == b"mine"

    assert generate.main(["lstm", "-o", str(tmp_path / "lstm.onnx"), "--force"]) == 0
    assert (tmp_path / "lstm.onnx").read_bytes() == (FOLDER / "lstm.onnx").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vgg"], "invalid choice: 'vgg'"),
        (["conv", "--spatial", "0"], "between 1 and"),
        (["conv", "--spatial", "99999999999999999999"], "between 1 and"),
        (["conv", "--spatial", "wide"], "invalid int value"),
        (["gemv", "--spatial", "8"], "belong to 'conv'"),
        (["--external-data"], "belong to 'conv'"),
        (["gemv", "-o", "{tmp}"], "is a folder"),
        (["gemv", "-o", "{tmp}/none/gemv.onnx"], "make it first"),
        (["all", "-o", "{tmp}/none"], "make it first"),
        (["gemv", "-o", "{tmp}/" + "x" * 300], "cannot write"),
    ],
)
def test_bad_usage_is_one_message_and_exit_code_2(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        generate.main([argument.replace("{tmp}", str(tmp_path)) for argument in arguments])
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert not captured.out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("spatial", [0, 2**31])
def test_convolution_refuses_an_impossible_size(spatial: int) -> None:
    with pytest.raises(ValueError, match=r"between 1 and"):
        generate.conv(spatial)


@pytest.mark.process
def test_script_runs_from_any_folder(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "gemv", "-o", "g.onnx"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "g.onnx").read_bytes() == (FOLDER / "gemv.onnx").read_bytes()
