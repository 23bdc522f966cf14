/* Where the boxes and lines of an engine's graph go. Pure: numbers in, numbers out.

   Layering is by longest path with at most `across` boxes in a row (list scheduling, after E. G. Coffman and
   R. L. Graham, Optimal scheduling for two-processor systems, Acta Informatica 1, 1972). A line that passes rows keeps
   a lane of its own in each of them, so that it crosses no box; all lines of one source share its lane. Rows are
   ordered by barycentres (K. Sugiyama, S. Tagawa and M. Toda, Methods for visual understanding of hierarchical system
   structures, IEEE Trans. SMC 11(2), 1981); places across are a least-squares fit to that of the neighbours under
   "no overlap" (pool adjacent violators). Engines are long and thin, so rows fold into columns, as text does in a
   newspaper, at rows that few lines cross. All of it takes O(V + E) steps but for sorting. */

export interface Edges {
  /** Places of the layers that write. */
  from: ArrayLike<number>;
  /** Places of those that read, one an edge. */
  to: ArrayLike<number>;
}

export interface Options {
  /** Width of each box, in units of the drawing. */
  width: number;
  /** Height of each box. */
  heights: ArrayLike<number>;
  /** Width over height of the room that all is to fit in. */
  aspect: number;
  /** Most boxes side by side. */
  across?: number;
}

/** Rows `first` to `end` (not included), drawn from `left` to `right`, down to `bottom`. */
export interface Column {
  first: number;
  end: number;
  left: number;
  right: number;
  bottom: number;
}

export interface Layout {
  /** Left and top of each box. */
  x: Float64Array;
  y: Float64Array;
  width: number;
  heights: ArrayLike<number>;
  /** Row of each box, from 0. */
  row: Int32Array;
  rows: number;
  columns: Column[];
  /** Lines as pieces, each from one row to the next or along one row; `source` is the layer that writes. */
  pieces: Piece[];
  /** Edges that no line is drawn for, as they reach over too many rows or go back: their places in the input. */
  undrawn: number[];
  /** Edges that go against the order of execution. */
  back: number[];
  /** Pieces of the line of an edge, by the edge's place in the input. */
  path(edge: number): number[];
  bounds: { left: number; top: number; right: number; bottom: number };
}

/** x and y by turns: two points are a curve from row to row or a straight line down, more a line around the columns. */
export interface Piece {
  source: number;
  points: number[];
}

export const LANE = 14;
const GAP_ACROSS = 22;
const GAP_DOWN = 26;
const GUTTER = 44;
const TRACK = 6;

/** Lay out `count` boxes in order of execution. Edges to places that do not exist, or from a box to itself, are left out. */
export function layOut(count: number, edges: Edges, options: Options): Layout {
  const { width, heights } = options;
  const across = Math.max(1, options.across ?? 8);
  const all = Math.min(edges.from.length, edges.to.length);
  const order = executionOrder(count, edges, all);
  const at = new Int32Array(count);
  order.forEach((layer, place) => (at[layer] = place));

  // Edges that can go down, once for each pair.
  const back: number[] = [];
  const forward: number[] = [];
  const pairs = new Map<number, number>();
  const twin = new Int32Array(all).fill(-1);
  for (let edge = 0; edge < all; edge++) {
    const from = edges.from[edge]!, to = edges.to[edge]!;
    if (!inside(from, count) || !inside(to, count) || from === to) continue;
    if (at[from]! > at[to]!) { back.push(edge); continue; }
    const key = from * count + to;
    const first = pairs.get(key);
    if (first === undefined) { pairs.set(key, edge); forward.push(edge); twin[edge] = edge; } else twin[edge] = first;
  }
  const into = adjacency(count, forward, edges.to);
  const outOf = adjacency(count, forward, edges.from);

  const row = rank(count, order, into, outOf, edges, across);
  let rows = 0;
  for (let layer = 0; layer < count; layer++) rows = Math.max(rows, row[layer]! + 1);

  // Lines over more rows than there is a budget for are not drawn.
  const reach = longestDrawn(forward, edges, row, 2 * (count + forward.length) + 2_000);
  const undrawn = [...back];
  const drawn = new Uint8Array(all);
  const laneEnd = Int32Array.from(row);
  for (const edge of forward) {
    const from = edges.from[edge]!, down = row[edges.to[edge]!]!;
    if (down - row[from]! > reach) continue;
    drawn[edge] = 1;
    laneEnd[from] = Math.max(laneEnd[from]!, down - 1);
  }
  for (let edge = 0; edge < all; edge++) if (twin[edge]! >= 0 && !drawn[twin[edge]!]) undrawn.push(edge);
  undrawn.sort((a, b) => a - b);

  // Slots: the boxes first, then the lanes of each box, one a row.
  const laneOf = new Int32Array(count);
  let slots = count;
  for (const layer of order) { laneOf[layer] = slots; slots += laneEnd[layer]! - row[layer]!; }
  const slotRow = new Int32Array(slots);
  const slotSource = new Int32Array(slots);
  for (let layer = 0; layer < count; layer++) {
    slotRow[layer] = row[layer]!;
    slotSource[layer] = layer;
    for (let down = row[layer]! + 1; down <= laneEnd[layer]!; down++) {
      const slot = laneOf[layer]! + down - row[layer]! - 1;
      slotRow[slot] = down;
      slotSource[slot] = layer;
    }
  }
  /** The slot that the lines of `layer` pass in row `down`. */
  const slotAt = (layer: number, down: number): number => (down === row[layer]! ? layer : laneOf[layer]! + down - row[layer]! - 1);

  // Links from row to row.
  const linkUp: number[] = [], linkDown: number[] = [];
  for (let slot = count; slot < slots; slot++) {
    linkUp.push(slotAt(slotSource[slot]!, slotRow[slot]! - 1));
    linkDown.push(slot);
  }
  const lastLink = new Int32Array(all).fill(-1);
  for (const edge of forward) {
    if (!drawn[edge]) continue;
    lastLink[edge] = linkUp.length;
    linkUp.push(slotAt(edges.from[edge]!, row[edges.to[edge]!]! - 1));
    linkDown.push(edges.to[edge]!);
  }
  const links = linkUp.map((_, link) => link);
  const above = adjacency(slots, links, linkDown);
  const below = adjacency(slots, links, linkUp);
  const over = (slot: number): number[] => neighbours(above, slot, linkUp);
  const under = (slot: number): number[] => neighbours(below, slot, linkDown);

  // Order in each row, then places across.
  const inRow: number[][] = Array.from({ length: rows }, () => []);
  for (const layer of order) inRow[row[layer]!]!.push(layer);
  for (let slot = count; slot < slots; slot++) inRow[slotRow[slot]!]!.push(slot);
  const place = new Float64Array(slots);
  const number = (line: number[]): void => line.forEach((slot, index) => (place[slot] = index - (line.length - 1) / 2));
  inRow.forEach(number);
  const arrange = (line: number[], near: (slot: number) => number[]): void => {
    if (line.length < 2) return;
    const key = new Map(line.map((slot) => [slot, mean(near(slot), place) ?? place[slot]!]));
    line.sort((a, b) => key.get(a)! - key.get(b)! || place[a]! - place[b]! || a - b);
    number(line);
  };
  for (let pass = 0; pass < 2; pass++) {
    for (let down = 1; down < rows; down++) arrange(inRow[down]!, over);
    for (let down = rows - 2; down >= 0; down--) arrange(inRow[down]!, under);
  }
  for (let down = 1; down < rows; down++) arrange(inRow[down]!, over);
  const centre = new Float64Array(slots);
  const sizes = (slot: number): number => (slot < count ? width : LANE);
  // A box stands under boxes rather than between a box and a line that comes from far: what runs in a row is one upright.
  const middleOf = (slots: number[]): number | null => {
    let sum = 0, weight = 0;
    for (const slot of slots) { const own = slot < count ? 1 : 0.01; sum += own * centre[slot]!; weight += own; }
    return weight ? sum / weight : null;
  };
  // Blocks that lean to one side, over and over, are led back to the middle.
  const upright = (x: number): number => (Math.abs(x) <= 1.5 * width ? x : x - Math.sign(x) * (Math.abs(x) - 1.5 * width) * 0.35);
  const settle = (line: number[], near: (slot: number) => number[]): void => {
    const wanted = line.map((slot) => upright(middleOf(near(slot)) ?? centre[slot]!));
    // A lane yields to the boxes beside it where it begins or ends, and holds its course in between.
    const weights = line.map((slot) => (slot < count ? 1 : near(slot).some((other) => other < count) ? 0.1 : 30));
    spread(wanted, line.map(sizes), weights, GAP_ACROSS).forEach((x, index) => (centre[line[index]!] = x));
  };
  for (let down = 0; down < rows; down++) settle(inRow[down]!, over);
  for (let down = rows - 2; down >= 0; down--) settle(inRow[down]!, under);
  for (let down = 1; down < rows; down++) settle(inRow[down]!, over);

  // Rows fold into columns.
  const tall = new Float64Array(rows), left = new Float64Array(rows), right = new Float64Array(rows);
  for (let down = 0; down < rows; down++) {
    left[down] = Infinity;
    right[down] = -Infinity;
    for (const slot of inRow[down]!) {
      if (slot < count) tall[down] = Math.max(tall[down]!, heights[slot]!);
      left[down] = Math.min(left[down]!, centre[slot]! - sizes(slot) / 2);
      right[down] = Math.max(right[down]!, centre[slot]! + sizes(slot) / 2);
    }
  }
  const crossing = new Int32Array(rows + 1);
  for (const up of linkUp) crossing[slotRow[up]! + 1]!++;
  const columns = fold(tall, left, right, crossing, options.aspect);

  const shift = new Float64Array(rows), top = new Float64Array(rows), columnOf = new Int32Array(rows);
  columns.forEach((column, index) => {
    let low = Infinity, y = 0;
    for (let down = column.first; down < column.end; down++) low = Math.min(low, left[down]!);
    for (let down = column.first; down < column.end; down++) {
      shift[down] = column.left - low;
      top[down] = y;
      columnOf[down] = index;
      y += tall[down]! + GAP_DOWN;
    }
  });
  const x = new Float64Array(count), y = new Float64Array(count);
  for (let layer = 0; layer < count; layer++) {
    x[layer] = centre[layer]! - width / 2 + shift[row[layer]!]!;
    y[layer] = top[row[layer]!]!;
  }

  // Lines, piece by piece.
  const pieces: Piece[] = [];
  const tracks = new Map<number, number>();
  const middle = (slot: number): number => centre[slot]! + shift[slotRow[slot]!]!;
  for (const link of links) {
    const up = linkUp[link]!, down = linkDown[link]!;
    const rowUp = slotRow[up]!, rowDown = slotRow[down]!;
    const from = middle(up), to = middle(down), y0 = top[rowUp]! + tall[rowUp]!, y1 = top[rowDown]!;
    const points: number[] = [];
    // Down along the row that the piece starts in: the rest of it below a box, or all of it in a lane.
    points.push(from, up < count ? y[up]! + heights[up]! : top[rowUp]!, from, y0);
    const column = columnOf[rowUp]!;
    if (column === columnOf[rowDown]!) points.push(to, y1);
    else {
      const track = tracks.get(column) ?? 0;
      tracks.set(column, track + 1);
      const low = columns[column]!.bottom + TRACK * (track + 1), high = -TRACK * (track + 2);
      const gutter = columns[column]!.right + GUTTER / 2 + TRACK * track;
      points.push(from, low, gutter, low, gutter, high, to, high, to, y1);
    }
    pieces.push({ source: slotSource[up]!, points });
  }
  const bounds = { left: 0, top: 0, right: 0, bottom: 0 };
  for (const column of columns) { bounds.right = Math.max(bounds.right, column.right); bounds.bottom = Math.max(bounds.bottom, column.bottom); }
  for (const { points } of pieces) for (let at = 1; at < points.length; at += 2) { bounds.top = Math.min(bounds.top, points[at]!); bounds.bottom = Math.max(bounds.bottom, points[at]!); }

  const path = (edge: number): number[] => {
    const own = twin[edge]! >= 0 ? lastLink[twin[edge]!]! : -1;
    if (own < 0) return [];
    const found = [own], from = edges.from[edge]!;
    const start = laneOf[from]! - count;
    for (let lane = 0; lane < row[edges.to[edge]!]! - row[from]! - 1; lane++) found.push(start + lane);
    return found;
  };
  return { x, y, width, heights, row, rows, columns, pieces, undrawn, back, path, bounds };
}

const inside = (place: number, count: number): boolean => Number.isInteger(place) && place >= 0 && place < count;

/** Who is next to whom: `items[starts[v]]` to `items[starts[v + 1]]` (not included) are the edges at `v`. */
interface Adjacency {
  starts: Int32Array;
  items: Int32Array;
}

function adjacency(count: number, edges: ArrayLike<number>, end: ArrayLike<number>): Adjacency {
  const starts = new Int32Array(count + 1);
  for (let index = 0; index < edges.length; index++) starts[end[edges[index]!]! + 1]!++;
  for (let at = 0; at < count; at++) starts[at + 1]! += starts[at]!;
  const next = starts.slice(), items = new Int32Array(edges.length);
  for (let index = 0; index < edges.length; index++) items[next[end[edges[index]!]!]!++] = edges[index]!;
  return { starts, items };
}

const neighbours = (around: Adjacency, at: number, other: ArrayLike<number>): number[] => {
  const found: number[] = [];
  for (let index = around.starts[at]!; index < around.starts[at + 1]!; index++) found.push(other[around.items[index]!]!);
  return found;
};

function mean(slots: number[], values: Float64Array): number | null {
  if (!slots.length) return null;
  let sum = 0;
  for (const slot of slots) sum += values[slot]!;
  return sum / slots.length;
}

/** The given order where every edge goes forward in it, else a topological one; in a cycle the first in order leads. */
function executionOrder(count: number, edges: Edges, all: number): number[] {
  const given = Array.from({ length: count }, (_, layer) => layer);
  const valid: number[] = [];
  let forward = true;
  for (let edge = 0; edge < all; edge++) {
    const from = edges.from[edge]!, to = edges.to[edge]!;
    if (!inside(from, count) || !inside(to, count) || from === to) continue;
    valid.push(edge);
    if (from > to) forward = false;
  }
  if (forward) return given;
  const outOf = adjacency(count, valid, edges.from);
  const waiting = new Int32Array(count), done = new Uint8Array(count);
  for (const edge of valid) waiting[edges.to[edge]!]!++;
  const order: number[] = [];
  const ready = given.filter((layer) => !waiting[layer]);
  let next = 0, first = 0;
  while (order.length < count) {
    if (next === ready.length) {
      while (done[first]) first++;
      ready.push(first);
    }
    const layer = ready[next++]!;
    if (done[layer]) continue;
    done[layer] = 1;
    order.push(layer);
    for (const reader of neighbours(outOf, layer, edges.to)) if (!--waiting[reader]! && !done[reader]) ready.push(reader);
  }
  return order;
}

function rank(count: number, order: number[], into: Adjacency, outOf: Adjacency, edges: Edges, across: number): Int32Array {
  const row = new Int32Array(count);
  const used: number[] = [];
  const full: number[] = [];
  /** The first row from `down` on that has room; what lies between is remembered. */
  const room = (down: number): number => {
    let found = down;
    while (full[found] !== undefined) found = full[found]!;
    for (let at = down; full[at] !== undefined;) { const step = full[at]!; full[at] = found; at = step; }
    return found;
  };
  const take = (down: number): void => {
    used[down] = (used[down] ?? 0) + 1;
    if (used[down]! >= across) full[down] = down + 1;
  };
  let before = -1;
  const loose = (layer: number): boolean => into.starts[layer] === into.starts[layer + 1] && outOf.starts[layer] === outOf.starts[layer + 1];
  for (const layer of order) {
    let least = 0;
    for (const writer of neighbours(into, layer, edges.from)) least = Math.max(least, row[writer]! + 1);
    // What has no edge at all stands where it runs: below what ran before it.
    if (loose(layer) && before >= 0) least = row[before]! + 1;
    row[layer] = room(least);
    take(row[layer]!);
    before = layer;
  }
  // What reads nothing stands right above its first reader, not at the top.
  for (let index = order.length - 1; index >= 0; index--) {
    const layer = order[index]!;
    if (into.starts[layer] !== into.starts[layer + 1] || loose(layer)) continue;
    let most = Infinity;
    for (const reader of neighbours(outOf, layer, edges.to)) most = Math.min(most, row[reader]! - 1);
    for (let down = most; down > row[layer]! && down > most - 8; down--) {
      if ((used[down] ?? 0) >= across) continue;
      used[row[layer]!]!--;
      row[layer] = down;
      used[down] = (used[down] ?? 0) + 1;
      break;
    }
  }
  // Rows that were left empty go.
  const kept: number[] = [];
  let rows = 0;
  for (let down = 0; down < used.length; down++) kept.push(used[down] ? rows++ : rows);
  for (let layer = 0; layer < count; layer++) row[layer] = kept[row[layer]!]!;
  return row;
}

/** Rows that a line may pass so that all lanes together are no more than `budget`. */
function longestDrawn(forward: number[], edges: Edges, row: Int32Array, budget: number): number {
  const spans = forward.map((edge) => row[edges.to[edge]!]! - row[edges.from[edge]!]!).sort((a, b) => a - b);
  let sum = 0, reach = 1;
  for (const span of spans) {
    sum += span - 1;
    if (sum > budget) break;
    reach = span;
  }
  return reach;
}

/** Centres nearest to `wanted` (weighted least squares) in this order, without overlap: pool adjacent violators. */
export function spread(wanted: number[], sizes: number[], weights: number[], gap: number): number[] {
  const offsets: number[] = [];
  let offset = 0;
  for (let index = 0; index < wanted.length; index++) {
    if (index) offset += (sizes[index - 1]! + sizes[index]!) / 2 + gap;
    offsets.push(offset);
  }
  const blocks: { sum: number; weight: number; count: number }[] = [];
  for (let index = 0; index < wanted.length; index++) {
    let block = { sum: (wanted[index]! - offsets[index]!) * weights[index]!, weight: weights[index]!, count: 1 };
    while (blocks.length && blocks[blocks.length - 1]!.sum / blocks[blocks.length - 1]!.weight > block.sum / block.weight) {
      const last = blocks.pop()!;
      block = { sum: last.sum + block.sum, weight: last.weight + block.weight, count: last.count + block.count };
    }
    blocks.push(block);
  }
  const found: number[] = [];
  for (const block of blocks) for (let index = 0; index < block.count; index++) found.push(block.sum / block.weight + offsets[found.length]!);
  return found;
}

/** Cut the rows into columns so that all of it is as large as can be in a room of the shape `aspect`. */
function fold(tall: Float64Array, left: Float64Array, right: Float64Array, crossing: Int32Array, aspect: number): Column[] {
  const rows = tall.length;
  if (!rows) return [];
  let total = 0, wide = 0;
  for (let down = 0; down < rows; down++) { total += tall[down]! + GAP_DOWN; wide += right[down]! - left[down]!; }
  const guess = Math.sqrt((total * aspect) / (wide / rows + GUTTER));
  let best: Column[] = [], bestScale = -1;
  for (const share of [0, 0.35, 0.5, 0.62, 0.72, 0.82, 0.9, 1, 1.1, 1.2, 1.35, 1.6]) {
    const wanted = Math.max(1, Math.round(guess * share));
    const columns = cut(total / wanted, wanted, tall, left, right, crossing);
    const across = columns[columns.length - 1]!.right;
    const height = columns.reduce((most, column) => Math.max(most, column.bottom), 1);
    const scale = Math.min(aspect / across, 1 / height);
    if (scale > bestScale * 1.001) { best = columns; bestScale = scale; }
  }
  return best;
}

function cut(height: number, wanted: number, tall: Float64Array, left: Float64Array, right: Float64Array, crossing: Int32Array): Column[] {
  const rows = tall.length, columns: Column[] = [];
  let first = 0, x = 0;
  while (first < rows) {
    // Up to a tenth longer or shorter, where fewer lines have to go around.
    let end = rows, sum = 0, fewest = Infinity;
    if (columns.length + 1 < wanted) {
      for (let down = first; down < rows; down++) {
        sum += tall[down]! + GAP_DOWN;
        if (sum > height * 1.1 && down > first) break;
        const cost = down + 1 < rows ? crossing[down + 1]! : 0;
        if (sum >= height * 0.9 && cost <= fewest) { fewest = cost; end = down + 1; }
        else if (fewest === Infinity) end = down + 1;
      }
    }
    let low = Infinity, high = -Infinity, bottom = -GAP_DOWN;
    for (let down = first; down < end; down++) { low = Math.min(low, left[down]!); high = Math.max(high, right[down]!); bottom += tall[down]! + GAP_DOWN; }
    columns.push({ first, end, left: x, right: x + high - low, bottom });
    x += high - low + GUTTER + TRACK * (end < rows ? crossing[end]! : 0);
    first = end;
  }
  return columns;
}
