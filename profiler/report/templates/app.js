/* The page's own script: formats numbers, draws the roofline, builds the tables.
   Text from the run only ever becomes a text node, a title or a number; never markup. */
(() => {
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const FIRST_ROWS = 100;
const MORE_ROWS = 500;

// --- text and numbers: the same words and digits as the other reports -----------------------

const digits = (value) => {
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return "-";
  return value.toFixed(Math.min(Math.max(2 - Math.floor(Math.log10(Math.abs(value))), 0), 6));
};
const scaled = (value, steps) => {
  const [factor, unit] = steps.find(([least]) => Math.abs(value) >= least) || steps[steps.length - 1];
  return `${digits(value / factor)} ${unit}`;
};
const si = (unit) => [[1e12, `T${unit}`], [1e9, `G${unit}`], [1e6, `M${unit}`], [1e3, `k${unit}`], [1, unit]];
const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
const ns = (value) => scaled(value, TIMES);
const bytes = (value) => scaled(value, si("B"));
const flop = (value) => scaled(value, si("FLOP"));
const percent = (value) => `${(100 * value).toFixed(1)} %`;
const whole = (value) => value.toLocaleString("en-US");
const known = (value, show, mark = "") => (value === null || value === undefined ? "" : mark + show(value));
const plural = (n, noun) => `${whole(n)} ${noun}${n === 1 ? "" : "s"}`;

const HIDDEN = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const escaped = (char) => {
  const hex = char.codePointAt(0).toString(16);
  return SHORT[char] || (hex.length <= 2 ? `\\x${hex.padStart(2, "0")}` : hex.length <= 4 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`);
};
const visible = (text) => String(text).replace(HIDDEN, escaped);
const elided = (text, most) => {
  const shown = visible(text);
  if (shown.length <= most) return shown;
  const half = (most - 1) >> 1;
  return `${shown.slice(0, half)}\u2026${shown.slice(shown.length - half)}`;
};

// --- elements -------------------------------------------------------------------------------

const fill = (node, attributes, children) => {
  for (const [key, value] of Object.entries(attributes || {})) if (value !== null && value !== undefined) node.setAttribute(key, value);
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
};
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const bdi = (text, attributes) => el("bdi", attributes, visible(text));
const facts = (pairs) => el("dl", { class: "facts" }, pairs.filter(([, value]) => value !== "").map(([key, value]) => [el("dt", null, key), el("dd", null, bdi(value))]));
const bar = (kind, share) => {
  const node = el("span", { class: kind });
  node.style.width = `${Math.min(Math.max(100 * share, 0), 100)}%`;
  return node;
};

// --- table: sort, filter, unfold, and no more rows at once than a browser likes --------------

function table(root, { noun, hint, rows, columns, detail, text, id, label, onOpen }) {
  const entries = rows.map((item, index) => ({ item, index, words: null }));
  const words = (entry) => (entry.words ??= text(entry.item).map(visible).join("\n").toLowerCase());
  const open = new Set();
  let order = entries;
  let sorted = { column: columns.findIndex((column) => column.first), down: true };
  let limit = FIRST_ROWS;

  const status = el("span", { class: "status", role: "status" });
  const filter = el("input", { type: "search", placeholder: hint, "aria-label": `Filter ${noun}s`, autocomplete: "off", spellcheck: "false" });
  const body = el("tbody");
  const more = el("div", { class: "more" });
  const heads = columns.map((column, at) => {
    const button = el("button", { type: "button", title: column.title }, column.label);
    button.addEventListener("click", () => sort(at));
    return el("th", { scope: "col", class: column.num ? "num" : null }, button);
  });
  const widths = columns.map((column) => {
    const col = el("col");
    if (column.width) col.style.width = `${column.width}px`;
    return col;
  });
  root.append(
    el("div", { class: "tools" }, filter, status),
    el("div", { class: "table-scroll" }, el("table", { class: "data", "aria-label": label }, el("colgroup", null, widths), el("thead", null, el("tr", null, heads)), body)),
    more,
  );

  function sort(at) {
    sorted = { column: at, down: sorted.column === at ? !sorted.down : Boolean(columns[at].num) };
    arrange();
  }

  function arrange() {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    order = entries.filter((entry) => wanted.every((word) => words(entry).includes(word)));
    const column = columns[sorted.column];
    if (column) {
      const sign = sorted.down ? -1 : 1;
      const keys = new Map(order.map((entry) => [entry, column.key(entry.item, entry.index)]));
      const missing = (key) => key === null || key === undefined || key === "";
      order.sort((a, b) => {
        const [x, y] = [keys.get(a), keys.get(b)];
        if (missing(x) || missing(y)) return missing(x) - missing(y) || a.index - b.index;
        return sign * (typeof x === "string" ? (x < y ? -1 : x > y ? 1 : 0) : x - y) || a.index - b.index;
      });
    }
    heads.forEach((head, at) => {
      if (at === sorted.column) head.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    draw();
  }

  function draw() {
    body.replaceChildren(...order.slice(0, limit).flatMap(rowsOf));
    foot();
  }

  function foot() {
    const shown = Math.min(limit, order.length);
    const hits = order.length === entries.length ? "" : ` (filtered from ${whole(entries.length)})`;
    status.textContent = shown < order.length ? `showing ${whole(shown)} of ${plural(order.length, noun)}${hits}` : `${plural(order.length, noun)}${hits}`;
    more.replaceChildren();
    if (shown < order.length) {
      const step = el("button", { type: "button" }, `Show ${whole(Math.min(MORE_ROWS, order.length - shown))} more`);
      const all = el("button", { type: "button", class: "all" }, `Show all ${whole(order.length)}`);
      step.addEventListener("click", () => { limit += MORE_ROWS; draw(); });
      all.addEventListener("click", () => { limit = Infinity; draw(); });
      more.append(step, all, el("span", null, `${whole(shown)} of ${whole(order.length)} are on the page; sorting and filtering see them all`));
    }
  }

  function rowsOf(entry) {
    const cells = columns.map((column) => el("td", { class: [column.num ? "num" : "", column.css ? column.css(entry.item) : ""].join(" ").trim() || null }, column.cell ? column.cell(entry.item, entry.index) : ""));
    const isOpen = open.has(entry.index);
    const button = el("button", { type: "button", class: "unfold", "aria-expanded": String(isOpen), "aria-label": `Details of ${noun} ${entry.index + 1}` }, whole(entry.index + 1));
    cells[0].replaceChildren(button);
    const row = el("tr", { class: isOpen ? "row open" : "row", id: `${id}-${entry.index + 1}` }, cells);
    row.addEventListener("click", () => { if (!String(getSelection())) toggle(entry, row); });
    return isOpen ? [row, detailRow(entry)] : [row];
  }

  const detailRow = (entry) => el("tr", { class: "detail" }, el("td", { colspan: columns.length }, detail(entry.item)));

  function toggle(entry, row) {
    const opened = !open.has(entry.index);
    if (opened) { open.add(entry.index); row.after(detailRow(entry)); } else { open.delete(entry.index); row.nextElementSibling.remove(); }
    row.classList.toggle("open", opened);
    row.querySelector(".unfold").setAttribute("aria-expanded", String(opened));
    if (onOpen) onOpen(entry.index, opened);
  }

  let waiting = 0;
  filter.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(() => { limit = FIRST_ROWS; arrange(); }, 90); });
  filter.addEventListener("keydown", (event) => { if (event.key === "Escape") { filter.value = ""; arrange(); } });
  arrange();

  return {
    filter,
    /* Bring the row of an item onto the page, unfold it and scroll to it. */
    reveal(index) {
      const entry = entries[index];
      if (!entry) return;
      if (!order.includes(entry)) { filter.value = ""; arrange(); }
      const at = order.indexOf(entry);
      const isNew = !open.has(index);
      open.add(index);
      limit = Math.max(limit, at + 20);
      draw();
      if (isNew && onOpen) onOpen(index, true);
      document.getElementById(`${id}-${index + 1}`).scrollIntoView({ block: "center" });
    },
  };
}

// --- layers ---------------------------------------------------------------------------------

const layers = data.layers;
const nodesByName = new Map(data.nodes.map((node) => [node.name, node]));
const most = layers.reduce((top, layer) => Math.max(top, Math.abs(layer.lost_ns || 0)), 1);
const efficiency = (layer) => (layer.attainable_ns === null || !layer.measured_ns ? null : layer.attainable_ns / layer.measured_ns);
const dots = new Map();

const layerColumns = [
  { label: "#", width: 64, key: (layer, index) => index, num: false },
  { label: "Lost", width: 92, num: true, first: true, title: "Measured less attainable", key: (layer) => layer.lost_ns, css: () => "est",
    cell: (layer) => [known(layer.lost_ns, ns, "~"), layer.lost_ns === null ? null : bar(layer.lost_ns < 0 ? "lossbar gain" : "lossbar", Math.abs(layer.lost_ns) / most)] },
  { label: "Measured", width: 94, num: true, title: "Median over iterations", key: (layer) => layer.measured_ns, cell: (layer) => ns(layer.measured_ns) },
  { label: "Allowed", width: 86, num: true, title: "Attainable by the ceilings of this run", key: (layer) => layer.attainable_ns, css: () => "est", cell: (layer) => known(layer.attainable_ns, ns, "~") },
  { label: "Roof", width: 68, num: true, title: "Attainable over measured", key: efficiency, css: () => "est", cell: (layer) => known(efficiency(layer), (value) => `${(100 * value).toFixed(0)} %`, "~") },
  { label: "Layer", key: (layer) => layer.name, css: () => "name",
    cell: (layer) => [bdi(elided(layer.name, 70), { title: elided(layer.name, 400) }), layer.role === "compute" ? null : el("span", { class: "role" }, visible(layer.role)), layer.constant ? el("span", { class: "role" }, "constant") : null] },
  { label: "Op", width: 138, key: (layer) => layer.op_type, cell: (layer) => bdi(elided(layer.op_type, 40)) },
  { label: "Bound", width: 100, key: (layer) => layer.bound, cell: (layer) => el("span", { class: `tag b-${layer.bound}`, title: meaningOf(layer) }, boundName(layer.bound)) },
  { label: "Work", width: 102, num: true, title: "1 multiply-accumulate = 2 FLOP", key: (layer) => layer.flops, css: () => "est", cell: (layer) => known(layer.flops, flop) },
  { label: "Bytes", width: 84, num: true, title: "Distinct bytes read and written", key: (layer) => layer.bytes, css: () => "est", cell: (layer) => known(layer.bytes, bytes) },
  { label: "Type", width: 62, key: (layer) => layer.dtype, cell: (layer) => visible(layer.dtype) },
  { label: "Match", width: 78, title: "How surely the layer was led back to its nodes", key: (layer) => layer.match, css: (layer) => `match-${layer.match}`, cell: (layer) => layer.match },
];

function kernelTable(kernels) {
  const head = ["Kernel", "Launches", "Median", "Total", "Match", "Evidence"].map((name, at) => el("th", { scope: "col", class: at > 0 && at < 4 ? "num" : null }, name));
  const rows = kernels.slice(0, 200).map((kernel) => el("tr", null,
    el("td", { class: "name" }, bdi(elided(kernel.name, 300))), el("td", { class: "num" }, whole(kernel.count)), el("td", { class: "num" }, ns(kernel.median_ns)),
    el("td", { class: "num" }, ns(kernel.total_ns)), el("td", { class: `match-${kernel.confidence}` }, kernel.confidence), el("td", null, bdi(kernel.reason))));
  return el("div", { class: "kernels" }, el("h5", null, kernels.length > 200 ? `Kernels (200 of ${whole(kernels.length)})` : "Kernels"),
    el("table", { class: "plain" }, el("thead", null, el("tr", null, head)), el("tbody", null, rows)));
}

const BOUNDS = {
  tensor: "multiply-accumulates", vector: "all other arithmetic", sfu: "special functions: exp, erf, sqrt, ...",
  dram: "bytes that cross to DRAM", l2: "all bytes, through the last-level cache", launch: "an empty kernel",
};
// The last-level cache of a GPU is its L2; that of a CPU is not.
const boundName = (bound) => (bound === "l2" && data.device.kind === "cpu" ? "llc" : visible(bound));
const meaningOf = (layer) => [BOUNDS[layer.bound], BOUNDS[layer.runner_up] ? `next: ${boundName(layer.runner_up)}` : null].filter(Boolean).join("; ");

function termTable(layer) {
  const terms = Object.entries(layer.terms).sort((a, b) => b[1] - a[1]);
  const top = Math.max(layer.measured_ns, ...terms.map(([, value]) => value), 1);
  const rows = [["measured", layer.measured_ns, "t m", ""], ...terms.map(([name, value]) => [name, value, "t", "~"])].map(([name, value, css, mark], at) =>
    el("tr", { class: at === 1 ? "wins" : null, title: BOUNDS[name] }, el("td", null, bdi(boundName(name))), el("td", null, bar(css, value / top)), el("td", { class: mark ? "num est" : "num" }, mark + ns(value))));
  return el("table", { class: "terms" }, el("tbody", null, rows));
}

function layerDetail(layer) {
  const work = layer.work;
  const nodes = layer.nodes.slice(0, 200).map((name) => {
    const node = nodesByName.get(name);
    return el("li", null, node ? `${elided(node.op_type, 60)} ` : null, bdi(name, { class: "name" }));
  });
  return el("div", { class: "detail-grid" },
    el("div", null,
      el("h5", null, "Layer"), el("div", { class: "full" }, bdi(layer.name)),
      layer.shapes ? el("div", { class: "full" }, bdi(layer.shapes)) : null,
      el("h5", null, layer.nodes.length > 200 ? `ONNX nodes (200 of ${whole(layer.nodes.length)})` : "ONNX nodes"),
      nodes.length ? el("ul", null, nodes) : el("div", null, "none"),
      el("h5", null, `Match: ${layer.match}`), el("div", { class: "reason" }, bdi(layer.reason || "no reason was recorded"))),
    el("div", null, el("h5", null, "Times that competed"), termTable(layer), facts([["ideal", known(layer.ideal_ns, ns, "~")], ["attainable", known(layer.attainable_ns, ns, "~")], ["lost", known(layer.lost_ns, ns, "~")]])),
    el("div", null, el("h5", null, "Work"), work ? facts([
      ["tensor", flop(work.tensor_flops)], ["vector", flop(work.vector_flops)], ["special functions", Object.entries(work.special).map(([name, count]) => `${whole(count)} ${name}`).join(", ")],
      ["read", bytes(work.bytes_read)], ["of it parameters", bytes(work.bytes_parameters)], ["written", bytes(work.bytes_written)],
      ["intensity", work.bytes_read + work.bytes_written ? `${digits(layer.flops / (work.bytes_read + work.bytes_written))} FLOP/B` : ""],
      ["counts are", work.bound], ["note", work.note]]) : el("div", null, "unknown: the op has no cost function or a shape is unknown")),
    kernelTable(layer.kernels));
}

const layerTable = table(document.getElementById("layers-table"), {
  noun: "layer", hint: "Filter layers by name, op, bound, kernel \u2026", id: "layer", label: "Layers", rows: layers, columns: layerColumns, detail: layerDetail,
  text: (layer) => [layer.name, layer.op_type, boundName(layer.bound), layer.dtype, layer.role, layer.match, ...layer.nodes, ...layer.kernels.map((kernel) => kernel.name)],
  onOpen: (index, opened) => dots.get(index)?.classList.toggle("picked", opened),
});

// --- nodes ----------------------------------------------------------------------------------

table(document.getElementById("nodes-table"), {
  noun: "node", hint: "Filter nodes by name, op, fate \u2026", id: "node", label: "Nodes", rows: data.nodes,
  text: (node) => [node.name, node.op_type, node.graph, node.fate, ...node.layers, node.reason],
  columns: [
    { label: "#", width: 64, key: (node, index) => index },
    { label: "Node", key: (node) => node.name, css: () => "name", cell: (node) => bdi(elided(node.name, 80), { title: elided(node.name, 400) }) },
    { label: "Op", width: 150, key: (node) => node.op_type, cell: (node) => bdi(elided(node.op_type, 40)) },
    { label: "Fate", width: 96, key: (node) => node.fate, css: (node) => (node.fate === "lost" ? "bad" : ""), cell: (node) => visible(node.fate) },
    { label: "Layers", width: 250, key: (node) => node.layers.join(" "), css: () => "name", cell: (node) => bdi(elided(node.layers.join(", "), 60)) },
    { label: "Work", width: 104, num: true, key: (node) => node.flops, css: () => "est", cell: (node) => known(node.flops, flop) },
    { label: "Bytes", width: 88, num: true, key: (node) => node.bytes, css: () => "est", cell: (node) => known(node.bytes, bytes) },
  ],
  detail: (node) => el("div", null, el("h5", null, "Node"), el("div", { class: "full" }, bdi(node.name)),
    node.graph ? [el("h5", null, "Graph"), el("div", { class: "full" }, bdi(node.graph))] : null,
    el("h5", null, "Layers"), el("div", { class: "full" }, node.layers.length ? node.layers.map((name) => el("div", null, bdi(name))) : "none"),
    el("h5", null, "Reason"), el("div", null, bdi(node.reason || "no reason was recorded"))),
});

const kernelRoot = document.getElementById("kernels-table");
if (kernelRoot) kernelRoot.append(kernelTable([...data.kernels_unattributed].sort((a, b) => b.total_ns - a.total_ns)));

// --- roofline -------------------------------------------------------------------------------

const tip = document.getElementById("tip");

function showTip(event, layer) {
  tip.replaceChildren(el("b", null, bdi(elided(layer.name, 160))), bdi(`${elided(layer.op_type, 60)}${layer.nodes.length ? ` \u00b7 ${elided(layer.nodes.join(", "), 160)}` : ""}`),
    facts([["measured", ns(layer.measured_ns)], ["allowed", known(layer.attainable_ns, ns, "~")], ["lost", known(layer.lost_ns, ns, "~")], ["bound", boundName(layer.bound)], ["next", BOUNDS[layer.runner_up] ? boundName(layer.runner_up) : "-"],
      ["intensity", `${digits(layer.flops / layer.bytes)} FLOP/B`], ["achieved", scaled(layer.flops / layer.measured_ns * 1e9, si("FLOP/s"))]]));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${Math.max(8, event.clientY + 14 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 14)}px`;
}

function scatter(root) {
  const points = layers.map((layer, index) => ({ layer, index })).filter(({ layer }) => layer.flops > 0 && layer.bytes > 0 && layer.measured_ns > 0)
    .map(({ layer, index }) => ({ layer, index, x: layer.flops / layer.bytes, y: layer.flops / layer.measured_ns * 1e9 }))
    .sort((a, b) => b.layer.measured_ns - a.layer.measured_ns);
  const { attainable, best } = data.ceilings;
  const used = new Set(layers.map((layer) => layer.dtype));
  const priced = Object.keys(attainable.tensor_flops_per_s).filter((dtype) => attainable.tensor_flops_per_s[dtype] > 0);
  const dtypes = priced.some((dtype) => used.has(dtype)) ? priced.filter((dtype) => used.has(dtype)) : priced;
  const levels = [["DRAM", "dram_bytes_per_s"], ["cache", "cache_bytes_per_s"]].filter(([, key]) => attainable[key] > 0);
  const peaks = dtypes.flatMap((dtype) => [attainable.tensor_flops_per_s[dtype], best.tensor_flops_per_s[dtype] || 0]);
  const bands = levels.flatMap(([, key]) => [attainable[key], best[key] || 0]);
  const spanOf = (values, pad) => {
    const logs = values.filter((value) => value > 0 && Number.isFinite(value)).map(Math.log10);
    let low = 0, high = 1;
    if (logs.length) { low = logs.reduce((a, b) => Math.min(a, b)); high = logs.reduce((a, b) => Math.max(a, b)); }
    return [low - pad, Math.max(high, low + 1) + pad];
  };
  const ridges = levels.flatMap(([, key]) => dtypes.map((dtype) => attainable.tensor_flops_per_s[dtype] / attainable[key]));
  const [x0, x1] = spanOf([...points.map((point) => point.x), ...ridges], 0.45);
  const [y0, y1] = spanOf([...points.map((point) => point.y), ...peaks], 0.28);
  const W = Math.max(root.clientWidth, 320), H = Math.max(320, Math.min(540, W * 0.46));
  const left = 90, right = 14, top = 22, bottom = 44;
  const X = (log) => left + (log - x0) / (x1 - x0) * (W - left - right);
  const Y = (log) => H - bottom - (log - y0) / (y1 - y0) * (H - top - bottom);
  const L = Math.log10;
  const plot = svg("svg", { viewBox: `0 0 ${W} ${H}`, height: H, role: "img", "aria-label": `Roofline of ${plural(points.length, "layer")}; the same numbers are in the layer table` });

  const step = (low, high, room) => Math.max(1, Math.ceil((high - low) / room));
  const xs = step(x0, x1, W / 70), ys = step(y0, y1, H / 40);
  for (let log = Math.ceil(x0); log <= x1; log += xs) plot.append(svg("line", { class: "grid", x1: X(log), x2: X(log), y1: top, y2: H - bottom }), svg("text", { x: X(log), y: H - bottom + 16, "text-anchor": "middle" }, log >= 4 ? `1e${log}` : String(Number((10 ** log).toPrecision(1)))));
  for (let log = Math.ceil(y0); log <= y1; log += ys) plot.append(svg("line", { class: "grid", x1: left, x2: W - right, y1: Y(log), y2: Y(log) }), svg("text", { x: left - 8, y: Y(log) + 4, "text-anchor": "end" }, scaled(10 ** log * 1.0000001, si("FLOP/s")).replace(/\.0+ /, " ")));
  plot.append(svg("text", { class: "axis", x: (left + W - right) / 2, y: H - 6, "text-anchor": "middle" }, "arithmetic intensity, FLOP per byte"));

  const labels = svg("g");
  const peakOf = (roof) => Math.max(...dtypes.map((dtype) => roof.tensor_flops_per_s[dtype] || 0));
  const bandOf = (roof) => Math.max(...levels.map(([, key]) => roof[key] || 0));
  const slope = Math.atan2(-(Y(1) - Y(0)), X(1) - X(0)) * -180 / Math.PI;
  const draw = (roof, css) => {
    if (!dtypes.length || !levels.length) return;
    for (const [, key] of levels) if (roof[key] > 0) {
      const from = Math.max(x0, y0 - L(roof[key])), to = Math.min(x1, L(peakOf(roof) / roof[key]));
      if (to > from) plot.append(svg("line", { class: css, x1: X(from), y1: Y(from + L(roof[key])), x2: X(to), y2: Y(to + L(roof[key])) }));
    }
    for (const dtype of dtypes) if (roof.tensor_flops_per_s[dtype] > 0) {
      const y = Y(L(roof.tensor_flops_per_s[dtype]));
      plot.append(svg("line", { class: css, x1: X(Math.max(x0, L(roof.tensor_flops_per_s[dtype] / bandOf(roof)))), y1: y, x2: W - right, y2: y }));
    }
  };
  const alsoBest = (now, then, show) => (W >= 620 && then > 0 && Math.abs(then / now - 1) > 0.01 ? ` (best ${show(then)})` : "");
  for (const [at, [name, key]] of levels.entries()) {
    const from = Math.max(x0, y0 - L(attainable[key])), to = Math.min(x1, L(peakOf(attainable) / attainable[key]));
    if (!dtypes.length || to <= from) continue;
    const log = from + (to - from) * (at ? 0.2 : 0.32), rate = (value) => scaled(value, si("B/s"));
    labels.append(svg("text", { class: "roof-label", transform: `translate(${X(log)} ${Y(log + L(Math.max(attainable[key], best[key] || 0)))}) rotate(${slope}) translate(0 -6)` }, `${name} ${rate(attainable[key])}${alsoBest(attainable[key], best[key], rate)}`));
  }
  const placed = [];
  for (const dtype of [...dtypes].sort((a, b) => attainable.tensor_flops_per_s[b] - attainable.tensor_flops_per_s[a])) {
    const value = attainable.tensor_flops_per_s[dtype], rate = (one) => scaled(one, si("FLOP/s")), y = Y(L(Math.max(value, best.tensor_flops_per_s[dtype] || 0)));
    const near = placed.filter((other) => Math.abs(other - y) < 15).length;
    placed.push(y);
    labels.append(svg("text", { class: "roof-label", x: W - right - 4 - near * 230, y: y - 6, "text-anchor": "end" }, `${visible(dtype)} ${rate(value)}${alsoBest(value, best.tensor_flops_per_s[dtype], rate)}`));
  }

  const longest = points.length ? points[0].layer.measured_ns : 1;
  const largest = 22 * Math.min(1, W / 800) * Math.min(1, (200 / Math.max(points.length, 1)) ** 0.25);
  dots.clear();
  for (const point of points) {
    const dot = svg("circle", { class: `dot b-${point.layer.bound}`, cx: X(L(point.x)).toFixed(1), cy: Y(L(point.y)).toFixed(1), r: Math.max(2, largest * Math.sqrt(point.layer.measured_ns / longest)).toFixed(2), "data-layer": point.index });
    dots.set(point.index, dot);
    plot.append(dot);
  }
  draw(best, "roof best");
  draw(attainable, "roof");
  plot.append(labels);
  if (!points.length) plot.append(svg("text", { x: W / 2, y: H / 2, "text-anchor": "middle", class: "roof-label" }, "no layer has both work and bytes to draw"));
  const layerOf = (event) => (event.target.classList.contains("dot") ? Number(event.target.dataset.layer) : null);
  plot.addEventListener("pointermove", (event) => { const at = layerOf(event); if (at === null) tip.hidden = true; else showTip(event, layers[at]); });
  plot.addEventListener("pointerleave", () => { tip.hidden = true; });
  plot.addEventListener("click", (event) => { const at = layerOf(event); if (at !== null) { tip.hidden = true; layerTable.reveal(at); } });

  const counts = new Map();
  for (const { layer } of points) counts.set(layer.bound, (counts.get(layer.bound) || 0) + 1);
  const absent = layers.length - points.length;
  const absentNs = layers.reduce((sum, layer) => sum + layer.measured_ns, 0) - points.reduce((sum, point) => sum + point.layer.measured_ns, 0);
  const legend = el("div", { class: "bounds" },
    [...counts].sort((a, b) => b[1] - a[1]).map(([bound, n]) => el("span", { class: `b-${bound}` }, `bound by ${boundName(bound)}: ${whole(n)}`)),
    points.length ? el("span", null, `largest dot: ${ns(longest)}`) : null,
    absent ? el("span", null, `not drawn: ${plural(absent, "layer")} without arithmetic or without known work, ${ns(absentNs)}`) : null);
  root.replaceChildren(plot, legend);
}

const scatterRoot = document.getElementById("scatter");
scatter(scatterRoot);
let drawnAt = scatterRoot.clientWidth, resizing = 0;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => { if (scatterRoot.clientWidth !== drawnAt) { drawnAt = scatterRoot.clientWidth; scatter(scatterRoot); } }, 150); });

// --- links and keys -------------------------------------------------------------------------

function follow() {
  const found = /^#layer-(\d+)$/.exec(location.hash);
  if (found) layerTable.reveal(Number(found[1]) - 1);
}
addEventListener("hashchange", follow);
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#layer-"]');
  if (link && link.hash === location.hash) follow();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) { event.preventDefault(); layerTable.filter.focus(); }
});
follow();
})();
