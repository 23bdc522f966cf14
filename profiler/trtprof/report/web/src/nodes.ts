// The table of the model's nodes: what became of each.
import { bdi, el, name } from "./dom";
import { elided, formatBytes, formatFlops, known, visible } from "./text";
import { facts } from "./layers";
import { mountTable, type Table } from "./table";
import type { Node } from "./page";
import type { Store } from "./store";

export function mountNodes(root: HTMLElement, store: Store): Table {
  const { page } = store;
  return mountTable<Node>(root, {
    store, id: "node", noun: "node", label: "Nodes", hint: "Filter by name, op, fate \u2026", rows: page.nodes, order: null,
    onPick: (place) => {
      const layer = page.nodes[place]!.layers[0];
      if (layer !== undefined) store.select(layer, "nodes");
    },
    words: (node) => [node.name, node.op_type, node.graph, node.fate, ...node.layer_names, node.reason, ...node.attributes.flat()],
    columns: [
      { id: "rank", label: "#", width: 66, key: (node) => node.place, cell: () => null },
      { id: "node", label: "Node", key: (node) => node.name, css: () => "name", cell: (node) => name(elided(node.name, 400), { title: elided(node.name, 400) }) },
      { id: "op", label: "Op", width: 150, key: (node) => node.op_type, cell: (node) => bdi(elided(node.op_type, 40)) },
      { id: "fate", label: "Fate", width: 100, term: "fate", key: (node) => node.fate, css: (node) => (node.fate === "lost" ? "bad" : ""), cell: (node) => visible(node.fate) },
      { id: "layers", label: "Layers", width: 340, key: (node) => node.layer_names.join(" "), css: () => "name", cell: (node) => name(elided(node.layer_names.join(", "), 90)) },
      { id: "work", label: "Work", width: 110, num: true, term: "work", key: (node) => node.flops, css: () => "est", cell: (node) => known(node.flops, formatFlops) },
      { id: "bytes", label: "Bytes", width: 100, num: true, term: "bytes", key: (node) => node.bytes, css: () => "est", cell: (node) => known(node.bytes, formatBytes) },
    ],
    detail: (node) => el("div", { class: "detail-grid two" },
      el("div", null, el("h3", null, "Node"), el("div", { class: "full" }, bdi(node.name)),
        node.graph ? [el("h3", null, "Graph"), el("div", { class: "full" }, bdi(node.graph))] : null,
        node.attributes.length ? [el("h3", null, "Attributes"), facts(node.attributes)] : null,
        el("h3", null, "Reason"), el("div", null, bdi(node.reason || "no reason was recorded"))),
      el("div", null, el("h3", null, "Layers"), el("div", { class: "full" }, node.layer_names.length ? node.layer_names.map((name) => {
        const place = page.layerAt(name);
        return el("div", null, place === undefined ? bdi(name) : el("a", { href: `#layer-${place + 1}` }, bdi(name)));
      }) : "none"))),
  });
}
