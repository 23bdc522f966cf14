// The data of the page: how it lies in the JSON block (profiler/trtprof/report/html.py, `_page_data`), and how the script sees it.
// Fields have the names of profiler/records.py.

export type Bound = "tensor" | "vector" | "sfu" | "dram" | "l2" | "launch" | "none" | "unknown";
export type Match = "exact" | "inferred" | "none";
export type Kind = "fact" | "estimate" | "remainder";

export interface Kernel {
  name: string;
  count: number;
  median_ns: number;
  total_ns: number;
  confidence: Match;
  reason: string;
}

export interface Work {
  tensor_flops: number;
  vector_flops: number;
  special: Record<string, number>;
  bytes_read: number;
  bytes_written: number;
  bytes_parameters: number;
  bound: string;
  note: string;
}

/** `records.LayerResult`. */
export interface Layer {
  /** Its place in `Page.layers`, which is its rank by time lost less one. */
  place: number;
  name: string;
  op_type: string;
  role: string;
  /** Places in `Page.nodes` of those that are there, and the names of all. */
  nodes: number[];
  node_names: string[];
  kernels: Kernel[];
  measured_ns: number;
  ideal_ns: number | null;
  attainable_ns: number | null;
  lost_ns: number | null;
  /** What good library kernels take: median, fastest and slowest tenth; all null where nothing like it was measured. */
  expected_ns: number | null;
  expected_p10_ns: number | null;
  expected_p90_ns: number | null;
  /** Whether a verdict may rest on the expectation. */
  firm: boolean;
  expected_reason: string;
  bound: Bound;
  runner_up: Bound;
  flops: number | null;
  bytes: number | null;
  dtype: string;
  match: Match;
  reason: string;
  shapes: string;
  terms: [string, number][];
  work: Work | null;
  constant: boolean;
  /** Place of the first layer that does the same: op, shapes, dtype, work and kernels; -1 where no other does. */
  alike: number;
  /** Of a row that stands for layers that are alike: those, by time lost. Its times and work are their sums. */
  joined?: Layer[];
}

/** `records.NodeResult`. */
export interface Node {
  place: number;
  name: string;
  op_type: string;
  graph: string;
  fate: string;
  /** Places in `Page.layers` of those that are there, and the names of all. */
  layers: number[];
  layer_names: string[];
  flops: number | null;
  bytes: number | null;
  reason: string;
  attributes: [string, string][];
}

export interface Roof {
  tensor_flops_per_s: Record<string, number>;
  vector_flops_per_s: Record<string, number>;
  dram_bytes_per_s: number;
  cache_bytes_per_s: number;
}

export interface Ceilings {
  origin: "measured" | "datasheet";
  best: Roof;
  attainable: Roof;
  cache_bytes: number;
  threads: number;
  launch_ns: number;
}

export interface LedgerRow {
  cause: string;
  ns: number;
  kind: Kind;
  meaning: string;
}

export interface Finding {
  code: string;
  title: string;
  kind: "hypothesis" | "trust";
  lost_ns: number;
  /** Places in `Page.layers`. */
  layers: number[];
}

export interface Lane {
  name: string;
  kind: "kernels" | "copies" | "host";
  depth: number;
}

/** `records.Timeline`: columns of one table of events, by `start_ns`. */
export interface Timeline {
  iteration: number;
  duration_ns: number;
  lanes: Lane[];
  /** Place in `lanes`, place in `Page.layers` or -1, place in `names`. */
  lane: number[];
  layer: number[];
  name: number[];
  names: string[];
  start_ns: number[];
  dur_ns: number[];
  note: string;
}

/** `records.RunGraph`. */
export interface Graph {
  /** In execution order; `place` is that in `Page.layers`, -1 of a layer that took no time. */
  layers: { name: string; place: number }[];
  /** Columns of the edges: places in `layers`, the tensor, its bytes or -1. */
  layer_from: number[];
  layer_to: number[];
  tensor: string[];
  nbytes: number[];
  /** Their types in the engine; empty in runs of earlier versions. */
  dtype: string[];
  /** Columns of the edges between nodes: places in `Page.nodes`. */
  node_from: number[];
  node_to: number[];
}

/** `records.RunMemory`: columns of one table, a row a tensor. */
export interface Memory {
  /** Bytes that are alive while each layer of the graph runs, and where they are most. */
  live: number[];
  peak_at: number;
  tensor: string[];
  nbytes: number[];
  first: number[];
  last: number[];
  unknown: number;
}

export interface Page {
  device: { kind: "cpu" | "gpu" };
  /** By bound: a word, and a phrase for a sentence. */
  bounds: Record<string, [string, string]>;
  /** Whether the layers are those of a TensorRT engine. */
  engine: boolean;
  ceilings: Ceilings;
  /** Median of the measured latency. */
  latency_ns: number;
  /** Whether that is the latency of an inference, and no sum of layers. */
  end_to_end: boolean;
  ledger: LedgerRow[];
  /** By time lost, most first. */
  layers: Layer[];
  nodes: Node[];
  findings: Finding[];
  unattributed: Kernel[];
  timeline: Timeline | null;
  graph: Graph | null;
  memory: Memory | null;
  /** Layer by name: its place. */
  layerAt(name: string): number | undefined;
}

// --- how it lies in the page ------------------------------------------------------------------

/** A column: one value a row, or `{ all }` where they are all the same. Text is a place in the table of texts. */
type Column<T> = T[] | { all: T };
type Columns = Record<string, Column<unknown>>;

interface Wire {
  text: string[];
  rows: { layers: number; nodes: number; kernels: number; unattributed: number };
  device: Page["device"];
  bounds: Page["bounds"];
  engine: boolean;
  ceilings: Ceilings;
  latency_ns: number;
  end_to_end: boolean;
  ledger: LedgerRow[];
  layers: Columns;
  terms: Record<string, Column<number | null>>;
  work: Columns;
  kernels: Columns;
  unattributed: Columns;
  nodes: Columns;
  findings: Finding[];
  timeline: (Omit<Timeline, "names" | "lane" | "layer" | "name"> & { names: number[]; lane: Column<number>; layer: Column<number>; name: Column<number> }) | null;
  graph: {
    layers: number[]; places: number[]; layer_from: number[]; layer_to: number[]; tensor: number[]; nbytes: number[];
    node_from: number[]; node_to: number[]; dtype: Column<number>;
  } | null;
  memory: (Omit<Memory, "tensor"> & { tensor: number[] }) | null;
}

/** The data of the page from its JSON block. */
export function readPage(json: string): Page {
  const wire = JSON.parse(json) as Wire;
  const text = (place: number): string => wire.text[place] ?? "";

  function reader<T>(columns: Columns, name: string): (row: number) => T {
    const column = columns[name] as Column<T>;
    if (Array.isArray(column)) return (row) => column[row]!;
    const { all } = column;
    return () => all;
  }
  const texts = (columns: Columns, name: string): ((row: number) => string) => {
    const place = reader<number>(columns, name);
    return (row) => text(place(row));
  };
  const number = (columns: Columns, name: string) => reader<number>(columns, name);
  const unsure = (columns: Columns, name: string) => reader<number | null>(columns, name);
  const all = <T>(column: Column<T>, rows: number): T[] => (Array.isArray(column) ? column : new Array<T>(rows).fill(column.all));

  function kernelsOf(columns: Columns, rows: number): Kernel[] {
    const name = texts(columns, "name"), reason = texts(columns, "reason"), confidence = texts(columns, "confidence");
    const count = number(columns, "count"), median = number(columns, "median_ns"), total = number(columns, "total_ns");
    return Array.from({ length: rows }, (_, row) => ({
      name: name(row), count: count(row), median_ns: median(row), total_ns: total(row), confidence: confidence(row) as Match, reason: reason(row),
    }));
  }

  // A reference is a place, or, of what is not there, the complement of the place of its name in the table of texts.
  const found = (refs: number[]): number[] => refs.filter((ref) => ref >= 0);
  const kernels = kernelsOf(wire.kernels, wire.rows.kernels);

  const L = wire.layers, N = wire.nodes, W = wire.work;
  const nodeName = texts(N, "name"), layerName = texts(L, "name");
  const namesOf = (refs: number[], name: (row: number) => string): string[] => refs.map((ref) => (ref >= 0 ? name(ref) : text(~ref)));

  const op = texts(L, "op_type"), role = texts(L, "role"), bound = texts(L, "bound"), next = texts(L, "runner_up"), dtype = texts(L, "dtype");
  const match = texts(L, "match"), reason = texts(L, "reason"), shapes = texts(L, "shapes"), constant = reader<boolean>(L, "constant"), firm = reader<boolean>(L, "firm");
  const measured = number(L, "measured_ns"), ideal = unsure(L, "ideal_ns"), attainable = unsure(L, "attainable_ns"), lost = unsure(L, "lost_ns");
  const expected = unsure(L, "expected_ns"), fast = unsure(L, "expected_p10_ns"), slow = unsure(L, "expected_p90_ns"), unexpected = texts(L, "expected_reason");
  const flops = unsure(L, "flops"), bytes = unsure(L, "bytes"), nodeRefs = reader<number[]>(L, "nodes"), kernelCount = number(L, "kernels");
  const priced = reader<boolean>(W, "known");
  const workOf = ["tensor_flops", "vector_flops", "bytes_read", "bytes_written", "bytes_parameters"].map((name) => number(W, name));
  const special = reader<Record<string, number> | null>(W, "special"), workBound = texts(W, "bound"), note = texts(W, "note");
  const alike = number(L, "alike");
  const terms = Object.keys(wire.terms).map((name) => [name, unsure(wire.terms, name)] as const);

  let kernelFrom = 0;
  const layers: Layer[] = Array.from({ length: wire.rows.layers }, (_, row) => {
    const refs = nodeRefs(row), from = kernelFrom;
    kernelFrom += kernelCount(row);
    return {
      place: row, name: layerName(row), op_type: op(row), role: role(row), nodes: found(refs), node_names: namesOf(refs, nodeName),
      kernels: kernels.slice(from, kernelFrom), measured_ns: measured(row), ideal_ns: ideal(row), attainable_ns: attainable(row), lost_ns: lost(row),
      expected_ns: expected(row), expected_p10_ns: fast(row), expected_p90_ns: slow(row), firm: firm(row), expected_reason: unexpected(row),
      bound: bound(row) as Bound, runner_up: next(row) as Bound, flops: flops(row), bytes: bytes(row), dtype: dtype(row), match: match(row) as Match,
      reason: reason(row), shapes: shapes(row), constant: constant(row), alike: alike(row),
      terms: terms.flatMap(([name, at]): [string, number][] => { const ns = at(row); return ns === null ? [] : [[name, ns]]; }),
      work: priced(row) ? {
        tensor_flops: workOf[0]!(row), vector_flops: workOf[1]!(row), bytes_read: workOf[2]!(row), bytes_written: workOf[3]!(row), bytes_parameters: workOf[4]!(row),
        special: special(row) ?? {}, bound: workBound(row), note: note(row),
      } : null,
    };
  });

  const nodeOp = texts(N, "op_type"), graphOf = texts(N, "graph"), fate = texts(N, "fate"), nodeReason = texts(N, "reason"), attributes = texts(N, "attributes");
  const layerRefs = reader<number[]>(N, "layers"), nodeFlops = unsure(N, "flops"), nodeBytes = unsure(N, "bytes");
  const nodes: Node[] = Array.from({ length: wire.rows.nodes }, (_, row) => ({
    place: row, name: nodeName(row), op_type: nodeOp(row), graph: graphOf(row), fate: fate(row), layers: found(layerRefs(row)),
    layer_names: namesOf(layerRefs(row), layerName), flops: nodeFlops(row), bytes: nodeBytes(row), reason: nodeReason(row),
    attributes: attributes(row).split("\n").filter(Boolean).map((line): [string, string] => [line.slice(0, line.indexOf(" ")), line.slice(line.indexOf(" ") + 1)]),
  }));

  const T = wire.timeline, G = wire.graph;
  let timeline: Timeline | null = null;
  if (T) {
    const rows = T.dur_ns.length;
    let now = 0;
    timeline = {
      ...T, names: T.names.map(text), lane: all(T.lane, rows), layer: all(T.layer, rows), name: all(T.name, rows),
      // Starts are written as steps from one event to the next, which are shorter.
      start_ns: T.start_ns.map((step) => (now += step)),
    };
  }
  const graph: Graph | null = G && { ...G, layers: G.layers.map((name, at) => ({ name: text(name), place: G.places[at]! })), tensor: G.tensor.map(text), dtype: all(G.dtype, G.tensor.length).map(text) };
  const memory: Memory | null = wire.memory && { ...wire.memory, tensor: wire.memory.tensor.map(text) };

  const places = new Map<string, number>();
  for (const layer of layers) if (!places.has(layer.name)) places.set(layer.name, layer.place);
  return {
    device: wire.device, bounds: wire.bounds, engine: wire.engine, ceilings: wire.ceilings, latency_ns: wire.latency_ns, end_to_end: wire.end_to_end, ledger: wire.ledger,
    layers, nodes, findings: wire.findings, unattributed: kernelsOf(wire.unattributed, wire.rows.unattributed), timeline, graph, memory,
    layerAt: (name) => places.get(name),
  };
}

/** What bounds a layer, in a word (`records.bound_name`). */
export const boundName = (bound: string, page: Page): string => page.bounds[bound]?.[0] ?? bound;

/** The same for a sentence: bound by ... */
export const boundPhrase = (bound: string, page: Page): string => page.bounds[bound]?.[1] ?? bound;
