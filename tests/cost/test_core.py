"""What most of a work is: dimensions by hand, and that they give the work that was counted."""

from __future__ import annotations

import msgspec
import pytest

from tests.fakes.core_law import keeps_the_law
from tests.fakes.counting import work
from tests.fakes.op_cases import record, x
from tests.fakes.support import SAMPLES
from trtprof.analysis.work import scaled
from trtprof.base.records import Attribute, Core, Op, Tensor, Work
from trtprof.cost._core import matrices
from trtprof.cost.fused import total, work_of_group
from trtprof.flows.predict.groups import Settings, predict_source
from trtprof.hardware import gpus
from trtprof.source.load import load_model, source_of

FUSED = "com.microsoft"


def product(m: int, n: int, k: int, batch: int = 1) -> Core:
    return Core(kind="product", batch=batch, m=m, n=n, k=k)


def rows(kind: str, m: int, n: int = 1) -> Core:
    return msgspec.convert({"kind": kind, "m": m, "n": n}, Core)


def tensors(*shapes: tuple[int, ...] | None) -> list[Tensor | None]:
    return [None if dims is None else x(*dims, name=f"in{at}") for at, dims in enumerate(shapes)]


def made(
    op_type: str,
    *shapes: tuple[int, ...] | None,
    out: tuple[int, ...],
    domain: str = "",
    opset: int = 21,
    **attributes: Attribute,
) -> Op:
    return record(op_type, *tensors(*shapes), out=[x(*out, name="out")], domain=domain, opset=opset, **attributes)


IMAGE, SMALLER = (8, 64, 56, 56), (8, 128, 28, 28)
PLACES = 8 * 28 * 28


DIMENSIONS: list[tuple[Op, Core | None]] = [
    (made("MatMul", (600, 200, 8, 1, 64), (600, 1, 8, 64, 1), out=(600, 200, 8, 1, 1)), product(1, 1, 64, 960_000)),
    (made("MatMul", (12, 16, 64), (12, 64, 32), out=(12, 16, 32)), product(16, 32, 64, 12)),
    # One matrix multiplies the rows of all: what libraries do of a linear layer of several sequences.
    (made("MatMul", (8, 1, 64), (64, 32), out=(8, 1, 32)), product(8, 32, 64)),
    (made("MatMul", (2, 8, 16, 64), (1, 1, 64, 32), out=(2, 8, 16, 32)), product(256, 32, 64)),
    (made("MatMul", (64,), (64, 32), out=(32,)), product(1, 32, 64)),
    (made("MatMul", (16, 64), (64,), out=(16,)), product(16, 1, 64)),
    (made("Gemm", (64, 16), (32, 64), out=(16, 32), transA=1, transB=1), product(16, 32, 64)),
    (made("QLinearMatMul", (4, 8), (), (), (8, 5), (), (), (), (), out=(4, 5)), product(4, 5, 8)),
    (made("Conv", IMAGE, (128, 64, 3, 3), out=SMALLER, strides=(2, 2), pads=(1, 1, 1, 1)),
     Core(kind="convolution", m=PLACES, n=128, k=576, window=9, stride=4)),
    (made("Conv", IMAGE, (128, 16, 1, 1), out=(8, 128, 56, 56), group=4),
     Core(kind="convolution", batch=4, m=4 * PLACES, n=32, k=16)),
    (made("Conv", IMAGE, (64, 1, 3, 3), out=IMAGE, group=64, kernel_shape=(3, 3), pads=(1, 1, 1, 1)),
     Core(kind="convolution", batch=64, m=4 * PLACES, n=1, k=9, window=9)),
    (made("NhwcConv", (8, 56, 56, 64), (128, 3, 3, 64), out=(8, 28, 28, 128), domain=FUSED, strides=(2, 2)),
     Core(kind="convolution", m=PLACES, n=128, k=576, window=9, stride=4)),
    (made("QLinearConv", IMAGE, (), (), (128, 64, 1, 1), (), (), (), (), out=(8, 128, 56, 56)),
     Core(kind="convolution", m=4 * PLACES, n=128, k=64)),
    (made("Attention", (2, 8, 16, 32), (2, 2, 48, 32), (2, 2, 48, 32), out=(2, 8, 16, 32), opset=23),
     Core(kind="attention", batch=16, m=16, n=48, k=32, shared=4)),
    (made("Attention", (2, 16, 256), (2, 16, 64), (2, 16, 64), out=(2, 16, 256), opset=23,
          q_num_heads=8, kv_num_heads=2, is_causal=1),
     Core(kind="attention", batch=16, m=16, n=16, k=32, shared=4, causal=True)),
    (made("Attention", (2, 8, 16, 32), (2, 8, 16, 32), (2, 8, 16, 64), out=(2, 8, 16, 64), opset=23), None),
    (made("MultiHeadAttention", (2, 16, 256), (2, 48, 256), (2, 48, 256), out=(2, 16, 256), domain=FUSED, num_heads=8),
     Core(kind="attention", batch=16, m=16, n=48, k=32)),
    # A decoder: one query to the past and itself.
    (made("GroupQueryAttention", (2, 1, 256), (2, 1, 64), (2, 1, 64), (2, 2, 47, 32), (2, 2, 47, 32), out=(2, 1, 256),
          domain=FUSED, num_heads=8, kv_num_heads=2),
     Core(kind="attention", batch=16, m=1, n=48, k=32, shared=4)),
    (made("GroupQueryAttention", (2, 1, 256), (2, 1, 64), (2, 1, 64), (2, 2, 47, 32), (2, 2, 47, 32), out=(2, 1, 256),
          domain=FUSED, num_heads=8, kv_num_heads=2, local_window_size=16),
     Core(kind="attention", batch=16, m=1, n=16, k=32, shared=4)),
    (made("GroupQueryAttention", (2, 64, 256), (2, 64, 64), (2, 64, 64), out=(2, 64, 256),
          domain=FUSED, num_heads=8, kv_num_heads=2, local_window_size=16), None),
    # With its projections: they are 99 % of its products, or 2 %, or neither is most.
    (made("Attention", (1, 16, 768), (768, 2304), out=(1, 16, 768), domain=FUSED, num_heads=12),
     product(16, 2304, 768)),
    (made("Attention", (1, 4096, 64), (64, 192), out=(1, 4096, 64), domain=FUSED, num_heads=2),
     Core(kind="attention", batch=2, m=4096, n=4096, k=32)),
    (made("Attention", (1, 768, 768), (768, 2304), out=(1, 768, 768), domain=FUSED, num_heads=12), None),
    (made("Softmax", (2, 12, 16, 48), out=(2, 12, 16, 48), axis=-1), rows("softmax", 384, 48)),
    (made("Softmax", (2, 12, 16, 48), out=(2, 12, 16, 48), axis=1, opset=11), rows("softmax", 2, 9216)),
    (made("LayerNormalization", (2, 16, 64), (64,), (64,), out=(2, 16, 64), axis=-1), rows("normalisation", 32, 64)),
    (made("InstanceNormalization", (2, 3, 8, 8), (3,), (3,), out=(2, 3, 8, 8)), rows("normalisation", 6, 64)),
    (made("Add", (2, 1, 64), (16, 1), out=(2, 16, 64)), rows("pointwise", 2048)),
    (made("BatchNormalization", IMAGE, (64,), (64,), (64,), (64,), out=IMAGE), rows("pointwise", 8 * 64 * 56 * 56)),
    (made("QuantizeLinear", (4, 8), (), out=(4, 8)), rows("pointwise", 32)),
    (made("DynamicQuantizeLinear", (4, 8), out=(4, 8)), None),
    (made("ReduceMean", (4, 8), out=(4, 1)), None),
    (made("Transpose", (4, 8), out=(8, 4), perm=(1, 0)), None),
    (made("Reshape", (4, 8), (1,), out=(32,)), None),
    (made("ConvTranspose", (1, 8, 4, 4), (8, 4, 2, 2), out=(1, 4, 8, 8), strides=(2, 2)), None),
    (made("Relu", (0, 8), out=(0, 8)), None),
    # The first dimension stands among the rows.
    (made("FusedMatMul", (8, 3, 4), (3, 4, 5), out=(3, 8, 5), domain=FUSED, transBatchA=1), None),
    # A result that the operands do not have: what is counted is not what they tell.
    (made("MatMul", (4, 8), (8, 5), out=(4, 6)), None),
]  # fmt: skip


def test_dimensions_by_hand(subtests: pytest.Subtests) -> None:
    for op, expected in DIMENSIONS:
        with subtests.test(f"{op.op_type} {op.inputs[0] and op.inputs[0].shape}"):
            found = work(op)
            assert found.core == expected
            assert keeps_the_law(found)


def test_a_matrix_may_be_listed_as_it_lies() -> None:
    assert matrices((128, 512), (256, 512)) == matrices((128, 512), (512, 256)) == product(128, 256, 512)
    assert matrices((128, 512), (256, 500)) is None


# --- groups -------------------------------------------------------------------------------------


def step(op_type: str, reads: str, writes: str, **attributes: Attribute) -> Op:
    """A node from texts such as ``"q:2x8x16x32 k:2x8x32x48"``."""

    def tensors_of(text: str) -> tuple[Tensor, ...]:
        pairs = [part.split(":") for part in text.split()]
        return tuple(x(*[int(dim) for dim in dims.split("x") if dim], name=name) for name, dims in pairs)

    return Op(op_type=op_type, opset=21, attributes=attributes, inputs=tensors_of(reads), outputs=tensors_of(writes))


SCORES = "16x48"
ATTENTION = (
    step("Transpose", "kt:2x8x48x32", "k:2x8x32x48", perm=(0, 1, 3, 2)),
    step("MatMul", "q:2x8x16x32 k:2x8x32x48", f"s:2x8x{SCORES}"),
    step("Mul", f"s:2x8x{SCORES} scale:", f"t:2x8x{SCORES}"),
    step("Add", f"t:2x8x{SCORES} mask:1x1x1x48", f"u:2x8x{SCORES}"),
    step("Softmax", f"u:2x8x{SCORES}", f"p:2x8x{SCORES}", axis=-1),
    step("MatMul", f"p:2x8x{SCORES} v:2x8x48x32", "o:2x8x16x32"),
    step("Transpose", "o:2x8x16x32", "y:2x16x8x32", perm=(0, 2, 1, 3)),
)


def of_group(*ops: Op) -> Work:
    found = work_of_group(ops)
    assert found is not None
    assert keeps_the_law(found), found.core
    return found


def test_two_products_with_a_softmax_between_them_are_an_attention() -> None:
    assert of_group(*ATTENTION).core == Core(kind="attention", batch=16, m=16, n=48, k=32)


@pytest.mark.parametrize(
    ("place", "instead"),
    [
        (4, step("Relu", f"u:2x8x{SCORES}", f"p:2x8x{SCORES}")),
        (4, step("Softmax", f"u:2x8x{SCORES}", f"p:2x8x{SCORES}", axis=1)),
        # The softmax reads, or the second product, what the first one did not make.
        (4, step("Softmax", f"other:2x8x{SCORES}", f"p:2x8x{SCORES}", axis=-1)),
        (5, step("MatMul", f"other:2x8x{SCORES} v:2x8x48x32", "o:2x8x16x32")),
        (5, step("MatMul", f"p:2x8x{SCORES} v:2x8x48x34", "o:2x8x16x34")),
    ],
)
def test_what_is_wired_otherwise_is_none(place: int, instead: Op) -> None:
    ops = list(ATTENTION[:-1])
    ops[place] = instead
    assert of_group(*ops).core is None


def test_a_group_is_what_nine_tenths_of_its_products_are() -> None:
    large, small = step("MatMul", "a:64x64 b:64x64", "c:64x64"), step("MatMul", "c:64x64 d:64x7", "e:64x7")
    assert of_group(large, step("Relu", "c:64x64", "f:64x64"), small).core == product(64, 64, 64)
    assert of_group(large, step("MatMul", "c:64x64 d:64x8", "e:64x8")).core is None
    assert of_group(large, step("MatMul", "c:64x64 d:64x64", "e:64x64")).core is None


def test_of_quantised_values_it_is_the_product() -> None:
    image, weights = "8x16x9x9", "32x16x3x3"
    found = of_group(
        step("DequantizeLinear", f"x:{image} sx:", f"xd:{image}"),
        step("DequantizeLinear", f"w:{weights} sw:", f"wd:{weights}"),
        step("Conv", f"xd:{image} wd:{weights}", "c:8x32x7x7"),
        step("QuantizeLinear", "c:8x32x7x7 sy:", "y:8x32x7x7"),
    )
    assert found.core == Core(kind="convolution", m=8 * 49, n=32, k=144, window=9)


def test_without_products_it_is_what_is_not_pointwise() -> None:
    add, cast = step("Add", "a:4x8 b:4x8", "c:4x8"), step("Cast", "c:4x8", "d:4x8")
    view = step("Reshape", "d:4x8 to:1", "e:32")
    softmax = step("Softmax", "c:4x8", "p:4x8", axis=-1)
    assert of_group(add, cast, view).core == rows("pointwise", 32)
    assert of_group(add, softmax, step("Relu", "p:4x8", "q:4x8")).core == rows("softmax", 4, 8)
    assert of_group(add, softmax, step("Softmax", "p:4x8", "q:4x8", axis=-1)).core is None
    assert of_group(add, step("ReduceSum", "c:4x8", "r:4x1")).core is None
    assert of_group(add, step("Transpose", "c:4x8", "r:8x4")).core is None
    assert of_group(view).core is None


@pytest.mark.parametrize("level", ["groups", "nodes"])
def test_the_layers_of_whole_models_keep_the_law(level: str) -> None:
    how = Settings(level=msgspec.convert(level, object))
    for path in SAMPLES.glob("*.onnx"):
        source = source_of(load_model(path), {}, feed=False)
        (gpu,) = predict_source(source, [gpus.find("rtx-4090")], how).gpus
        works = [layer.work for layer in gpu.layers if layer.work is not None]
        assert works
        assert all(keeps_the_law(found) for found in works), path
        multiplying = [found for found in works if found.tensor_flops]
        # A recurrent op is many products.
        assert any(found.core is not None for found in multiplying) or path.stem == "lstm"


# --- what becomes of it -------------------------------------------------------------------------


def test_a_sum_has_no_core_and_what_is_repeated_has_that_of_one_run() -> None:
    once = work(made("MatMul", (4, 8), (8, 5), out=(4, 5)))
    assert total([once, once]).core is None
    assert scaled(once, 3).core == once.core
    assert keeps_the_law(scaled(once, 3))


def test_a_work_without_one_is_read_and_one_with_it_comes_back() -> None:
    assert msgspec.json.decode(b'{"tensor_flops": 2}', type=Work) == Work(tensor_flops=2)
    found = work(made("MatMul", (4, 8), (8, 5), out=(4, 5)))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Work) == found
