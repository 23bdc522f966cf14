"""Rewrites with arithmetic of their own, over drawn shapes: what they fit keeps what it computes."""

from __future__ import annotations

import random as draw
from pathlib import Path

from tests.fakes.rewrites import RewriteCase, feeds_of, outputs_of, random, rewritten
from trtprof.capture.verify import check_outputs
from trtprof.rewrite import REWRITES


def _keeps(name: str, case: RewriteCase, folder: Path) -> bool:
    """Whether the rewrite fits; if so the outputs must be the same."""
    chosen = REWRITES.get(name)
    assert chosen is not None
    model = case.model()
    sites, changed = rewritten(chosen, model, folder)
    for feeds in feeds_of(model, case) if sites else ():
        expected, found = outputs_of(model, feeds), outputs_of(changed, feeds)
        checks = check_outputs(["y"], found, expected, tf32=False)
        assert all(check.matches for check in checks), (case.text, checks)
    return bool(sites)


def test_a_batch_folds_whichever_axes_a_side_lacks(tmp_path: Path) -> None:
    rng = draw.Random(0)
    fitting = 0
    for _ in range(30):
        batch = [rng.choice([2, 3, 4]) for _ in range(rng.randint(1, 4))]
        left = [rng.choice([1, size, size]) for size in batch]
        right = [size if own == 1 else rng.choice([1, size]) for own, size in zip(left, batch, strict=True)]
        left, right = left[rng.choice([0, 0, 1]) if left[0] == 1 else 0 :], right[0 if right[0] > 1 else 1 :]
        rows, columns = rng.choice([(1, 1), (1, 5), (5, 1)])
        a, b = [*left, rows, 8], [*right, 8, columns]
        rank = max(len(a), len(b)) - 2
        result = [*batch[len(batch) - rank :], rows, columns]
        text = f"g (float{a} a, float{b} b) => (float{result} y) {{ y = MatMul (a, b) }}"
        fitting += _keeps("gemv-fold-batch", RewriteCase("drawn", text), tmp_path)
    assert fitting


def test_a_transposed_convolution_is_one_at_any_steps_and_pads(tmp_path: Path) -> None:
    rng = draw.Random(0)
    fitting = 0
    for number in range(30):
        axes, step = rng.choice([1, 2]), rng.randint(2, 4)
        window = [rng.randint(1, 9) for _ in range(axes)]
        begins, ends = [[rng.randint(0, size - 1) for size in window] for _ in range(2)]
        added = [rng.randint(0, step - 1) for _ in range(axes)]
        sizes = [rng.randint(4, 7) for _ in range(axes)]
        results = [
            (size - 1) * step + more + width - begin - end
            for size, more, width, begin, end in zip(sizes, added, window, begins, ends, strict=True)
        ]
        if min(results) < 1:
            continue
        steps = f"strides = {[step] * axes}, pads = {[*begins, *ends]}, output_padding = {added}"
        inputs, outputs = [2, 3, *sizes], [2, 2, *results]
        text = f"g (float{inputs} x) => (float{outputs} y) {{ y = ConvTranspose <{steps}> (x, w, b) }}"
        weights = {"w": random(number, 3, 2, *window), "b": random(number, 2)}
        fitting += _keeps("convtranspose-as-conv", RewriteCase("drawn", text, weights=weights), tmp_path)
    assert fitting
