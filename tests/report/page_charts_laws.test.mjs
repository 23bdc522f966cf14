// Laws of the pure parts of the charts: node --test runs this on what esbuild made of layout.ts, merge.ts and modules.ts.
import assert from "node:assert/strict";
import test from "node:test";
import { pathToFileURL } from "node:url";

const { layOut, spread } = await import(pathToFileURL(`${process.env.CHARTS}/layout.mjs`));
const { barsOf, gapsOf, packed, spansOf, trackOf } = await import(pathToFileURL(`${process.env.CHARTS}/merge.mjs`));
const { modulesOf } = await import(pathToFileURL(`${process.env.CHARTS}/modules.mjs`));

/** Mulberry32: the same numbers from the same seed. */
function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const WIDTH = 100;
const chain = (n) => [...Array(Math.max(n - 1, 0)).keys()].map((at) => [at, at + 1]);

/** Graphs as models have them, and as nobody has them. */
function* graphs() {
  yield ["nothing", 0, []];
  yield ["one", 1, []];
  yield ["no edge", 40, []];
  yield ["chain", 150, chain(150)];
  yield ["residual", 300, [...chain(300), ...[...Array(74).keys()].map((at) => [4 * at, 4 * at + 4])]];
  yield ["star", 500, [...Array(499).keys()].map((at) => [0, at + 1])];
  yield ["funnel", 500, [...Array(499).keys()].map((at) => [at, 499])];
  yield ["nested skips", 400, [...chain(400), ...[...Array(199).keys()].map((at) => [at, 399 - at])]];
  yield ["mask for all", 600, [...chain(600), ...[...Array(59).keys()].map((at) => [0, 10 * at + 9])]];
  yield ["long skip", 5000, [...chain(5000), [0, 4999], [1, 4998], [2500, 4000]]];
  yield ["backwards", 60, chain(60).map(([from, to]) => [to, from])];
  yield ["ring", 30, [...chain(30), [29, 0]]];
  yield ["twice, itself, nowhere", 6, [[0, 1], [0, 1], [2, 2], [1, 99], [-1, 3], [3, 4], [0.5, 2]]];
  for (let seed = 1; seed <= 40; seed++) {
    const next = random(seed), n = 2 + Math.floor(next() * 120), edges = [];
    for (let at = 0; at < n * (0.5 + next() * 2); at++) {
      const from = Math.floor(next() * n), to = seed % 4 ? Math.min(n - 1, from + 1 + Math.floor(next() ** 3 * 30)) : Math.floor(next() * n);
      edges.push([from, to]);
    }
    yield [`seed ${seed}`, n, edges];
  }
}

const laidOut = (n, edges, aspect = 2) => {
  const heights = Array.from({ length: n }, (_, at) => 30 + (at % 3) * 17);
  return { heights, layout: layOut(n, { from: edges.map(([from]) => from), to: edges.map(([, to]) => to) }, { width: WIDTH, heights, aspect }) };
};
const valid = (n, [from, to]) => [from, to].every((at) => Number.isInteger(at) && at >= 0 && at < n) && from !== to;
const columnOf = (layout, row) => layout.columns.findIndex((column) => row >= column.first && row < column.end);

for (const [name, n, edges] of graphs()) {
  test(`layout of ${name}`, () => {
    const { heights, layout } = laidOut(n, edges);
    const back = new Set(layout.back), undrawn = new Set(layout.undrawn);

    // All layers are there, at places that are numbers.
    assert.equal(layout.x.length, n);
    assert.ok([...layout.x, ...layout.y].every(Number.isFinite));
    assert.ok([...layout.row].every((row) => row >= 0 && row < layout.rows));
    assert.equal(new Set(layout.row).size, layout.rows, "no row is empty");
    const covered = layout.columns.flatMap((column) => Array.from({ length: column.end - column.first }, (_, at) => column.first + at));
    assert.deepEqual(covered, [...Array(layout.rows).keys()], "columns hold each row once, in order");

    // No edge goes up; only in a graph with a cycle is one said to go back.
    edges.forEach((edge, at) => {
      if (!valid(n, edge) || back.has(at)) return;
      assert.ok(layout.row[edge[0]] < layout.row[edge[1]], `edge ${edge}`);
      const [above, below] = edge.map((layer) => columnOf(layout, layout.row[layer]));
      if (above === below) assert.ok(layout.y[edge[0]] + heights[edge[0]] <= layout.y[edge[1]]);
      else assert.ok(above < below);
    });
    if (!["ring"].includes(name) && edges.every(([from, to]) => from < to)) assert.equal(layout.back.length, 0);
    for (const at of layout.back) assert.ok(undrawn.has(at));

    // No boxes overlap, and all lie within the bounds.
    const order = [...Array(n).keys()].sort((a, b) => layout.x[a] - layout.x[b]);
    order.forEach((box, at) => {
      for (let next = at + 1; next < n && layout.x[order[next]] < layout.x[box] + WIDTH - 1e-6; next++) {
        const other = order[next];
        assert.ok(layout.y[box] + heights[box] <= layout.y[other] + 1e-6 || layout.y[other] + heights[other] <= layout.y[box] + 1e-6, `${box} over ${other}`);
      }
      assert.ok(layout.x[box] >= layout.bounds.left - 1e-6 && layout.x[box] + WIDTH <= layout.bounds.right + 1e-6);
      assert.ok(layout.y[box] >= layout.bounds.top - 1e-6 && layout.y[box] + heights[box] <= layout.bounds.bottom + 1e-6);
    });

    // The line of an edge that is drawn leads from its writer to its reader, and through no box in between.
    edges.forEach((edge, at) => {
      const path = layout.path(at);
      if (!valid(n, edge) || undrawn.has(at)) { assert.deepEqual(path, []); return; }
      const pieces = path.map((piece) => layout.pieces[piece]);
      assert.ok(pieces.every((piece) => piece.source === edge[0]));
      const points = pieces.flatMap((piece) => [[piece.points.slice(0, 2), piece.points.slice(-2)]]);
      assert.ok(points.some(([start]) => Math.abs(start[0] - layout.x[edge[0]] - WIDTH / 2) < 1e-6 && Math.abs(start[1] - layout.y[edge[0]] - heights[edge[0]]) < 1e-6), "it starts below its writer");
      assert.ok(points.some(([, end]) => Math.abs(end[0] - layout.x[edge[1]] - WIDTH / 2) < 1e-6 && Math.abs(end[1] - layout.y[edge[1]]) < 1e-6), "it ends on its reader");
      assert.equal(pieces.length, layout.row[edge[1]] - layout.row[edge[0]]);
    });
    const boxes = order.map((box) => [layout.x[box], layout.y[box], layout.x[box] + WIDTH, layout.y[box] + heights[box]]);
    if (n <= 600) for (const { points } of layout.pieces) for (let at = 2; at < points.length; at += 2) {
      // Straight ways down and along; curves stay between two rows, where no box is.
      const [x0, y0, x1, y1] = [points[at - 2], points[at - 1], points[at], points[at + 1]];
      const low = [Math.min(x0, x1) + 0.01, Math.min(y0, y1) + 0.01], high = [Math.max(x0, x1) - 0.01, Math.max(y0, y1) - 0.01];
      for (const [left, top, right, bottom] of boxes) {
        const inside = (x0 === x1 ? x0 > left && x0 < right : low[0] < right && high[0] > left) && (y0 === y1 ? y0 > top && y0 < bottom : low[1] < bottom && high[1] > top);
        assert.ok(!inside, `a line from ${[x0, y0]} to ${[x1, y1]} runs through a box`);
      }
    }
  });
}

test("the same graph gives the same layout", () => {
  const edges = [...chain(90), [3, 40], [40, 80]];
  assert.deepEqual([...laidOut(90, edges).layout.x], [...laidOut(90, edges).layout.x]);
});

test("what runs in a row stands in an upright, beside the lines that pass it", () => {
  const edges = [...chain(40), ...[0, 4, 8, 12].map((at) => [at, at + 4])];
  const { layout } = laidOut(40, edges, 0.01);
  assert.equal(layout.columns.length, 1);
  assert.ok(Math.max(...layout.x) - Math.min(...layout.x) < WIDTH / 2);
});

test("places across keep their order and distance, and move no more than they must", () => {
  const next = random(7);
  for (let round = 0; round < 200; round++) {
    const n = 1 + Math.floor(next() * 8);
    const wanted = Array.from({ length: n }, () => next() * 300), sizes = Array.from({ length: n }, () => 5 + next() * 60), weights = wanted.map(() => 1 + next() * 9);
    const found = spread(wanted, sizes, weights, 4);
    for (let at = 1; at < n; at++) assert.ok(found[at] - found[at - 1] >= (sizes[at] + sizes[at - 1]) / 2 + 4 - 1e-6);
    const cost = (centres) => centres.reduce((sum, x, at) => sum + weights[at] * (x - wanted[at]) ** 2, 0);
    // Least squares: no move of a tail or a head, which keeps the rule, is better.
    for (let at = 0; at < n; at++) for (const step of [0.5, -0.5]) {
      const moved = found.map((x, index) => (step > 0 ? index >= at : index <= at) ? x + step : x);
      assert.ok(cost(moved) >= cost(found) - 1e-6);
    }
  }
});

/** Events of a lane one after the other, some at once after another. */
function lane(seed, n) {
  const next = random(seed), start = [], dur = [];
  for (let at = 0, now = 0; at < n; at++) {
    now += next() < 0.5 ? 0 : Math.floor(next() ** 4 * 500);
    start.push(now);
    dur.push(Math.floor(next() ** 5 * 900));
    now += dur[at];
  }
  return { start, dur, end: n ? start[n - 1] + dur[n - 1] : 0 };
}

test("bars hide no event, do not overlap, and are no more than there are pixels", () => {
  for (let seed = 1; seed <= 60; seed++) {
    const { start, dur, end } = lane(seed, 1 + seed * 7);
    const track = trackOf(start.map((_, at) => at), start, dur);
    for (const [from, to] of [[0, end], [end * 0.3, end * 0.6], [end, end], [-50, 0]]) for (const pixels of [10, 200, 3000]) {
      const pixel = Math.max(to - from, 1) / pixels;
      for (const widest of [Infinity, pixel * 5]) {
        const bars = barsOf(track, from, to, pixel, widest);
        const seen = start.filter((at, index) => at <= to && at + dur[index] >= from);
        assert.equal(bars.reduce((sum, bar) => sum + bar.count, 0), seen.length);
        for (let at = 0; at < bars.length; at++) {
          const bar = bars[at];
          assert.ok(bar.busy <= bar.end - bar.start + 1e-9 && bar.start <= bar.end);
          if (at) assert.ok(bars[at - 1].end <= bar.start);
          if (bar.count > 1) assert.ok(bar.end - bar.start <= Math.max(widest, 0));
        }
        if (widest === Infinity) assert.ok(bars.length <= 2 * pixels + 2, `${bars.length} bars in ${pixels} pixels`);
        const busy = bars.reduce((sum, bar) => sum + bar.busy, 0);
        const truth = start.reduce((sum, at, index) => sum + (at <= to && at + dur[index] >= from ? dur[index] : 0), 0);
        assert.equal(busy, truth);
      }
    }
  }
});

test("gaps and work fill the time between them", () => {
  for (let seed = 1; seed <= 40; seed++) {
    const some = [lane(seed, 20), lane(seed + 100, 30)], end = Math.max(...some.map((one) => one.end)) + 25;
    const tracks = some.map(({ start, dur }) => trackOf(start.map((_, at) => at), start, dur));
    const gaps = gapsOf(tracks, 0, end);
    let idle = 0;
    // By brute force, ns by ns.
    const busy = new Uint8Array(end);
    for (const { start, dur } of some) start.forEach((at, index) => busy.fill(1, at, at + dur[index]));
    for (const one of busy) if (!one) idle++;
    assert.equal(gaps.start.reduce((sum, at, index) => sum + gaps.end[index] - at, 0), idle);
    gaps.start.forEach((at, index) => { if (index) assert.ok(gaps.end[index - 1] < at); });
  }
  assert.deepEqual(gapsOf([], 0, 10), { start: [0], end: [10] });
});

test("spans hold each event that has a layer once, and rows keep them apart where there is room", () => {
  const start = [0, 10, 20, 30, 40, 50], dur = [10, 5, 5, 10, 10, 5], layers = [1, 1, -1, 2, 1, 1];
  const spans = spansOf(trackOf([0, 1, 2, 3, 4, 5], start, dur), layers);
  assert.deepEqual(spans.map(({ layer, start, end, count, busy }) => [layer, start, end, count, busy]), [[1, 0, 15, 2, 15], [2, 30, 40, 1, 10], [1, 40, 55, 2, 15]]);
  const both = packed([...spans, { layer: 3, start: 12, end: 35, count: 1, busy: 23 }], 3);
  assert.equal(both.length, 2);
  for (const row of both) row.forEach((span, at) => { if (at) assert.ok(row[at - 1].end <= span.start); });
  assert.equal(packed(Array.from({ length: 9 }, () => ({ layer: 0, start: 0, end: 5, count: 1, busy: 5 })), 3).flat().length, 9);
});

// --- modules ------------------------------------------------------------------------------------

const encoder = (blocks) => [...Array(blocks).keys()].flatMap((at) => ["attention/MatMul", "attention/Softmax", "mlp/MatMul"].map((name) => `/model/layers.${at}/${name}`));

test("modules are runs that hold every layer once, in order, and no more than asked for", () => {
  const uneven = encoder(6).flatMap((name, at) => (at % 5 ? [name] : [name, `Cast_${at}`]));
  for (const names of [[], ["one"], encoder(4), encoder(90), uneven, [...Array(900).keys()].map((at) => `Conv_${at}`)]) {
    for (const most of [3, 10, 48]) {
      const runs = modulesOf(names, most);
      assert.ok(runs.length <= most, `${runs.length} > ${most}`);
      let next = 0;
      for (const run of runs) {
        assert.equal(run.first, next);
        assert.ok(run.end > run.first);
        next = run.end;
      }
      assert.equal(next, names.length);
    }
  }
});

test("a module is called by its scope, several by the first and the last, none where names tell none", () => {
  assert.deepEqual(modulesOf(encoder(6), 8).map((run) => run.name), [0, 1, 2, 3, 4, 5].map((at) => `model/layers.${at}`));
  assert.equal(modulesOf(encoder(6), 12)[1].name, "model/layers.0/mlp");
  assert.equal(modulesOf(encoder(90), 48)[1].name, "model/layers.2 \u2026 layers.3");
  assert.equal(modulesOf(["Conv_0", "Conv_1", "Conv_2", "Conv_3"], 2)[0].name, "");
});
