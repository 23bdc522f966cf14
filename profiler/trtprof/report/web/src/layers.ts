// The table of layers, and what unfolds under each.
import { el, bdi, name } from "./dom";
import { boundName, boundPhrase, type Kernel, type Layer, type Page } from "./page";
import { digits, elided, formatBand, formatBytes, formatFlops, formatNs, formatPercent, formatWhole, known, visible } from "./text";
import { mountTable, type Table } from "./table";
import type { Store } from "./store";

export const efficiency = (layer: Layer): number | null => (layer.attainable_ns === null || !layer.measured_ns ? null : layer.attainable_ns / layer.measured_ns);

/** Expected over measured time: over 1 the layer is faster than good library kernels are in the median. */
export const ofExpected = (layer: Layer): number | null => (layer.expected_ns === null || !layer.measured_ns ? null : layer.expected_ns / layer.measured_ns);

/** What good library kernels take, with its band; empty where nothing like it was measured. */
export const expectedWords = (layer: Layer): string =>
  layer.expected_ns === null || layer.expected_p10_ns === null || layer.expected_p90_ns === null ? "" : formatBand(layer.expected_ns, layer.expected_p10_ns, layer.expected_p90_ns);

const praise = (layer: Layer): string =>
  layer.expected_p10_ns !== null && layer.firm && layer.measured_ns < layer.expected_p10_ns && layer.measured_ns >= (layer.ideal_ns ?? 0) ? "faster than nine of ten library kernels" : "";

export function bar(kind: string, share: number): HTMLElement {
  const node = el("span", { class: kind, "aria-hidden": "true" });
  node.style.width = `${Math.min(Math.max(100 * share, 0), 100)}%`;
  return node;
}

export const facts = (pairs: [string, string][]): HTMLElement =>
  el("dl", { class: "facts" }, pairs.filter(([, value]) => value !== "").map(([key, value]) => [el("dt", null, key), el("dd", null, bdi(value))]));

const SHOWN = 200;

export function kernelTable(kernels: Kernel[]): HTMLElement {
  const head = ["Kernel", "Launches", "Median", "Total", "Match", "Evidence"].map((name, at) => el("th", { scope: "col", class: at > 0 && at < 4 ? "num" : null }, name));
  const rows = kernels.slice(0, SHOWN).map((kernel) => el("tr", null,
    el("td", { class: "name" }, bdi(elided(kernel.name, 300))), el("td", { class: "num" }, formatWhole(kernel.count)), el("td", { class: "num" }, formatNs(kernel.median_ns)),
    el("td", { class: "num" }, formatNs(kernel.total_ns)), el("td", { class: `match-${kernel.confidence}` }, kernel.confidence), el("td", null, bdi(kernel.reason))));
  return el("div", { class: "kernels" }, el("h3", null, kernels.length > SHOWN ? `Kernels (${SHOWN} of ${formatWhole(kernels.length)})` : "Kernels"),
    kernels.length ? el("table", { class: "plain" }, el("thead", null, el("tr", null, head)), el("tbody", null, rows)) : el("p", null, "none was captured"));
}

function termTable(page: Page, layer: Layer): HTMLElement {
  const terms = [...layer.terms].sort((a, b) => b[1] - a[1]);
  const top = Math.max(layer.measured_ns, ...terms.map(([, value]) => value), 1);
  const row = (name: string, ns: number, css: string, mark: string, wins: boolean): HTMLElement =>
    el("tr", { class: wins ? "wins" : null, title: page.bounds[name]?.[1] ?? null }, el("td", null, bdi(boundName(name, page))), el("td", null, bar(css, ns / top)), el("td", { class: mark ? "num est" : "num" }, mark + formatNs(ns)));
  return el("table", { class: "terms" }, el("tbody", null, row("measured", layer.measured_ns, "t m", "", false), terms.map(([name, ns], at) => row(name, ns, "t", "~", at === 0))));
}

function detail(page: Page, layer: Layer): HTMLElement {
  const work = layer.work;
  const byName = new Map(layer.nodes.map((place) => [page.nodes[place]!.name, page.nodes[place]!]));
  const nodes = layer.node_names.slice(0, SHOWN).map((name) => {
    const node = byName.get(name);
    return el("li", null, node ? `${elided(node.op_type, 60)} ` : null, bdi(name, { class: "name" }));
  });
  return el("div", { class: "detail-grid" },
    el("div", null,
      el("h3", null, "Layer"), el("div", { class: "full" }, bdi(layer.name)),
      layer.shapes ? el("div", { class: "full" }, bdi(layer.shapes)) : null,
      el("h3", null, layer.node_names.length > SHOWN ? `ONNX nodes (${SHOWN} of ${formatWhole(layer.node_names.length)})` : "ONNX nodes"),
      nodes.length ? el("ul", null, nodes) : el("div", null, "none"),
      el("h3", null, `Match: ${layer.match}`), el("div", { class: "reason" }, bdi(layer.reason || "no reason was recorded"))),
    el("div", null, el("h3", null, "Times that competed", el("button", { type: "button", class: "q", popovertarget: "term-terms", "aria-label": "Definition: times that competed" }, "?")),
      termTable(page, layer), facts([["ideal", known(layer.ideal_ns, formatNs, "~")], ["allowed", known(layer.attainable_ns, formatNs, "~")], ["lost", known(layer.lost_ns, formatNs, "~")],
        ...(page.device.kind === "gpu" ? [["good kernels", expectedWords(layer) || "unknown"], [expectedWords(layer) ? "note" : "because", [praise(layer), layer.expected_reason].filter(Boolean).join("; ")]] as [string, string][] : [])])),
    el("div", null, el("h3", null, "Work"), work ? facts([
      ["multiply-accumulates", formatFlops(work.tensor_flops)], ["other arithmetic", formatFlops(work.vector_flops)],
      ["special functions", Object.entries(work.special).map(([name, count]) => `${formatWhole(count)} ${name}`).join(", ")],
      ["read", formatBytes(work.bytes_read)], ["of it parameters", formatBytes(work.bytes_parameters)], ["written", formatBytes(work.bytes_written)],
      ["intensity", work.bytes_read + work.bytes_written && layer.flops !== null ? `${digits(layer.flops / (work.bytes_read + work.bytes_written))} FLOP/B` : ""],
      ["counts are", work.bound], ["note", work.note]]) : el("div", null, "unknown: the op has no cost function or a shape is unknown")),
    kernelTable(layer.kernels));
}

/** Layers that are alike as one: sums, and what they have in common. */
function together(layers: Layer[]): Layer {
  const sum = (of: (layer: Layer) => number | null): number | null => (layers.some((layer) => of(layer) === null) ? null : layers.reduce((all, layer) => all + of(layer)!, 0));
  return {
    ...layers[0]!, joined: layers, measured_ns: sum((layer) => layer.measured_ns)!, ideal_ns: sum((layer) => layer.ideal_ns), attainable_ns: sum((layer) => layer.attainable_ns),
    lost_ns: sum((layer) => layer.lost_ns), expected_ns: sum((layer) => layer.expected_ns), expected_p10_ns: sum((layer) => layer.expected_p10_ns), expected_p90_ns: sum((layer) => layer.expected_p90_ns), flops: sum((layer) => layer.flops), bytes: sum((layer) => layer.bytes),
  };
}

export function mountLayers(root: HTMLElement, store: Store): Table {
  const { page } = store;
  const { layers } = page;
  const total = layers.reduce((sum, layer) => sum + layer.measured_ns, 0) || 1;

  const like = new Map<number, Layer[]>();
  for (const layer of layers) if (layer.alike >= 0) (like.get(layer.alike) ?? like.set(layer.alike, []).get(layer.alike)!).push(layer);
  const groups = [...like.values()].map((alike) => ({ members: alike.map((layer) => layer.place), item: together(alike) }));
  const all = [...layers, ...groups.map(({ item }) => item)];
  const most = all.reduce((top, layer) => Math.max(top, Math.abs(layer.lost_ns ?? 0)), 1);
  const longest = all.reduce((top, layer) => Math.max(top, layer.measured_ns), 1);
  const meaning = (layer: Layer): string =>
    [`bound by ${boundPhrase(layer.bound, page)}`, layer.runner_up === "none" ? null : `next: ${boundName(layer.runner_up, page)}`].filter(Boolean).join("; ");
  const table = mountTable<Layer>(root, {
    store, id: "layer", noun: "layer", label: "Layers", hint: "Filter by name, op, bound, kernel \u2026", rows: layers, groups, order: { column: "lost", down: true },
    onPick: (place) => store.select(place, "layers"),
    detail: (layer) => detail(page, layer),
    words: (layer) => [layer.name, layer.op_type, boundName(layer.bound, page), layer.dtype, layer.role, layer.match, ...layer.node_names, ...layer.kernels.map((kernel) => kernel.name)],
    columns: [
      { id: "rank", label: "#", width: 66, key: (layer) => layer.place, cell: () => null },
      { id: "layer", label: "Layer", key: (layer) => layer.name, css: () => "name",
        cell: (layer) => el("span", { class: "one-line" }, layer.joined ? el("span", { class: "times", title: `${layer.joined.length} layers with this op, these shapes and these kernels; their times and work are added up` }, `${formatWhole(layer.joined.length)}\u00d7`) : null, name(elided(layer.name, 400), { title: elided(layer.name, 400) }), layer.role === "compute" ? null : el("span", { class: "role" }, visible(layer.role)), layer.constant ? el("span", { class: "role" }, "constant") : null) },
      { id: "lost", label: "Lost", width: 96, num: true, term: "lost", key: (layer) => layer.lost_ns, css: () => "est barred",
        cell: (layer) => [known(layer.lost_ns, formatNs, "~"), layer.lost_ns === null ? null : bar(layer.lost_ns < 0 ? "cellbar est gain" : "cellbar est", Math.abs(layer.lost_ns) / most)] },
      { id: "measured", label: "Measured", width: 112, num: true, term: "measured", key: (layer) => layer.measured_ns, css: () => "barred",
        cell: (layer) => [formatNs(layer.measured_ns), bar("cellbar", layer.measured_ns / longest)] },
      { id: "share", label: "Share", width: 78, num: true, term: "share", key: (layer) => layer.measured_ns / total, cell: (layer) => formatPercent(layer.measured_ns / total) },
      { id: "allowed", label: "Allowed", width: 98, num: true, term: "attainable", key: (layer) => layer.attainable_ns, css: () => "est", cell: (layer) => known(layer.attainable_ns, formatNs, "~") },
      { id: "roof", label: "Roofline", width: 96, num: true, term: "of-roof", key: efficiency, css: () => "est", cell: (layer) => known(efficiency(layer), (value) => `${(100 * value).toFixed(0)} %`, "~") },
      ...(layers.some((layer) => layer.expected_ns !== null) ? [
        { id: "expected", label: "Good kernels", width: 196, num: true, term: "expected", key: (layer: Layer) => layer.expected_ns, css: () => "est", cell: (layer: Layer) => el("span", { title: [praise(layer), layer.expected_reason].filter(Boolean).join("; ") || null }, expectedWords(layer)) },
        { id: "of-expected", label: "Of expected", width: 108, num: true, term: "of-expected", key: ofExpected, css: () => "est", cell: (layer: Layer) => known(ofExpected(layer), (value) => `${(100 * value).toFixed(0)} %`, "~") },
      ] : []),
      { id: "op", label: "Op", width: 132, key: (layer) => layer.op_type, cell: (layer) => bdi(elided(layer.op_type, 40)) },
      { id: "bound", label: "Bound", width: 96, term: "bound", key: (layer) => boundName(layer.bound, page), cell: (layer) => el("span", { class: `tag b-${layer.bound}`, title: meaning(layer) }, boundName(layer.bound, page)) },
      { id: "work", label: "Work", width: 106, num: true, term: "work", key: (layer) => layer.flops, css: () => "est", cell: (layer) => known(layer.flops, formatFlops) },
      { id: "bytes", label: "Bytes", width: 92, num: true, term: "bytes", key: (layer) => layer.bytes, css: () => "est", cell: (layer) => known(layer.bytes, formatBytes) },
      { id: "type", label: "Type", width: 74, term: "dtype", key: (layer) => layer.dtype, cell: (layer) => visible(layer.dtype) },
      { id: "match", label: "Match", width: 92, term: "match", key: (layer) => layer.match, css: (layer) => `match-${layer.match}`, cell: (layer) => layer.match },
    ],
  });
  return table;
}
