/* The engine's graph: layers as boxes in the order in which they run, coloured by the time they lose. */
import { el } from "../dom";
import { boundName } from "../page";
import type { Layer, Node } from "../page";
import type { Store } from "../store";
import { elided, formatBytes, formatNs, formatWhole, plural, visible } from "../text";
import { FONT, HOW, Heat, boxes, clipped, color, drawing, fit, frame, instead, layerTip, numbers, pattern, shortly, tail, whenNear, widthOf, wires, words } from "./common";
import type { Frame, Shape } from "./common";
import { layOut } from "./layout";
import type { Layout } from "./layout";

const WIDTH = 190, HEAD = 34, CHIP = 17, PAD = 7, MOST_CHIP_ROWS = 3, CHIP_FONT = 10;
const MOST_APART = 200;

interface Chip { text: string; x: number; row: number; width: number }
interface Box {
  name: string;
  layer: Layer | null;
  chips: Chip[];
  heat: number;
}

export function mount(panel: HTMLElement, store: Store): void {
  const { graph, layers, nodes, device } = store.page;
  if (!graph) { instead(panel, "There is no graph: neither a plan of the engine nor a model tells who reads what from whom."); return; }
  const count = graph.layers.length;
  if (!count) { instead(panel, "The graph has no layer."); return; }
  const most = Math.round(Math.max(420, Math.min(720, innerHeight * 0.72)));
  const height = count < 6 ? 300 : most;

  whenNear(panel, height + 150, () => {
    const heat = new Heat(layers);
    const all: Box[] = graph.layers.map(({ name, place }) => {
      const layer = layers[place] ?? null;
      return { name, layer, chips: chipsOf(layer, nodes), heat: layer ? heat.of(layer) : -2 };
    });
    const heights = all.map((box) => HEAD + (box.chips.length ? (Math.max(...box.chips.map((chip) => chip.row)) + 1) * CHIP + PAD : 4));
    const layout: Layout = layOut(count, { from: graph.layer_from, to: graph.layer_to }, { width: WIDTH, heights, aspect: (panel.clientWidth || 1200) / height });
    const boxOf = new Map<number, number>();
    all.forEach((box, at) => { if (box.layer && !boxOf.has(box.layer.place)) boxOf.set(box.layer.place, at); });
    const incident: number[][] = all.map(() => []);
    for (let edge = 0; edge < graph.layer_from.length; edge++) {
      incident[graph.layer_from[edge]!]?.push(edge);
      if (graph.layer_to[edge] !== graph.layer_from[edge]) incident[graph.layer_to[edge]!]?.push(edge);
    }
    // The rows of each column, for what is seen and what is hit.
    const byRow: number[][] = Array.from({ length: layout.rows }, () => []);
    for (let at = 0; at < count; at++) byRow[layout.row[at]!]!.push(at);

    let made: Frame;
    let scale = 0, panX = 0, panY = 0;
    let found: number[] = [], foundAt = -1, picked = store.selected === null ? -1 : (boxOf.get(store.selected) ?? -1);
    const MARGIN = 16;
    const { bounds } = layout;
    const wide = bounds.right - bounds.left, tall = bounds.bottom - bounds.top;

    const whole = (): number => Math.min((made.width() - 2 * MARGIN) / wide, (made.height() - 2 * MARGIN) / tall, 1.4);
    const showAll = (): void => {
      scale = whole();
      panX = (made.width() - wide * scale) / 2 - bounds.left * scale;
      panY = (made.height() - tall * scale) / 2 - bounds.top * scale;
    };
    const restore = (): void => {
      const stored = numbers(store.view("graph"), 3);
      // Kept as the place in the drawing that is in the middle, and the scale: so it holds in a window of another size.
      if (stored && stored[0]! > 0 && stored[0]! < 50) {
        scale = stored[0]!;
        panX = made.width() / 2 - stored[1]! * scale;
        panY = made.height() / 2 - stored[2]! * scale;
      } else showAll();
    };
    const keep = (): void => {
      const middle = [(made.width() / 2 - panX) / scale, (made.height() / 2 - panY) / scale];
      store.setView("graph", Math.abs(scale / whole() - 1) < 1e-3 && Math.abs(middle[0]! - wide / 2 - bounds.left) * scale < 2 && Math.abs(middle[1]! - tall / 2 - bounds.top) * scale < 2 ? null : shortly([scale, ...middle]));
      redraw();
    };
    const hold = (): void => {
      // Some of the drawing stays in sight.
      const { left, right, top, bottom } = bounds, rim = 80;
      panX = Math.min(made.width() - rim - left * scale, Math.max(rim - right * scale, panX));
      panY = Math.min(made.height() - rim - top * scale, Math.max(rim - bottom * scale, panY));
    };

    /** Boxes that reach into a rectangle of the drawing. */
    const within = (x0: number, y0: number, x1: number, y1: number): number[] => {
      const seen: number[] = [];
      for (const column of layout.columns) {
        if (column.right < x0 || column.left > x1) continue;
        for (let row = column.first; row < column.end; row++) {
          for (const at of byRow[row]!) {
            if (layout.y[at]! > y1) break;
            if (layout.y[at]! + heights[at]! >= y0 && layout.x[at]! <= x1 && layout.x[at]! + WIDTH >= x0) seen.push(at);
          }
        }
      }
      return seen;
    };

    const shapes = (): Shape[] => {
      const w = made.width(), h = made.height(), font = FONT(), ink = color("ink"), ground = color("bg"), accent = color("accent"), rest = color("rest");
      const fills: unknown[] = Heat.colors(), inks = Heat.ink(), unknown = pattern("hatch", color("rest-ground"), color("rest"));
      const out: Shape[] = [{ type: "rect", shape: { x: 0, y: 0, width: w, height: h }, style: { fill: ground, stroke: color("line"), lineWidth: 1 }, silent: true, z2: 0 }];
      const x0 = -panX / scale, y0 = -panY / scale, x1 = (w - panX) / scale, y1 = (h - panY) / scale;
      const seen = within(x0, y0, x1, y1);
      const X = (x: number): number => x * scale + panX, Y = (y: number): number => y * scale + panY;
      const screen = (points: number[]): number[] => points.map((value, at) => (at % 2 ? Y(value) : X(value)));
      // Lines.
      const near = (points: number[]): boolean => {
        let low = Infinity, high = -Infinity, top = Infinity, bottom = -Infinity;
        for (let at = 0; at < points.length; at += 2) { low = Math.min(low, points[at]!); high = Math.max(high, points[at]!); top = Math.min(top, points[at + 1]!); bottom = Math.max(bottom, points[at + 1]!); }
        return high >= x0 && low <= x1 && bottom >= y0 && top <= y1;
      };
      const boxTall = HEAD * scale;
      if (boxTall > 2.2) {
        const lines: number[][] = [];
        for (const piece of layout.pieces) if (near(piece.points)) lines.push(screen(piece.points));
        out.push(wires(lines, { stroke: rest, lineWidth: Math.max(0.5, Math.min(1.3, scale * 1.6)), opacity: boxTall < 8 ? 0.55 : 0.85 }, 1, true));
      }
      if (picked >= 0) {
        const drawn: number[][] = [], straight: number[][] = [];
        for (const edge of incident[picked]!) {
          const path = layout.path(edge);
          for (const piece of path) drawn.push(screen(layout.pieces[piece]!.points));
          if (!path.length) {
            const from = graph.layer_from[edge]!, to = graph.layer_to[edge]!;
            straight.push(screen([layout.x[from]! + WIDTH / 2, layout.y[from]! + heights[from]!, layout.x[to]! + WIDTH / 2, layout.y[to]!]));
          }
        }
        out.push(wires(drawn, { stroke: accent, lineWidth: 2.4 }, 3, true), wires(straight.slice(0, 400), { stroke: accent, lineWidth: 1.4, lineDash: [5, 4] }, 3));
      }
      // Boxes, one shape for each look.
      const looks = new Map<number, number[]>();
      for (const at of seen) {
        const quad = [X(layout.x[at]!), Y(layout.y[at]!), Math.max(WIDTH * scale, 1), Math.max(heights[at]! * scale, 1)];
        const look = looks.get(all[at]!.heat);
        if (look) look.push(...quad);
        else looks.set(all[at]!.heat, quad);
      }
      const stroke = boxTall > 5 ? { stroke: rest, lineWidth: boxTall > 14 ? 1 : 0.5 } : {};
      for (const [heatOf, quads] of looks) {
        out.push(boxes(quads, heatOf === -2 ? { fill: ground, stroke: rest, lineWidth: 1, lineDash: [3, 2] } : { fill: heatOf < 0 ? unknown : fills[heatOf], ...stroke }, 2));
      }
      const marks: number[] = [];
      for (const at of found) if (at !== picked) marks.push(X(layout.x[at]!) - 2, Y(layout.y[at]!) - 2, WIDTH * scale + 4, heights[at]! * scale + 4);
      if (marks.length) out.push(boxes(marks, { fill: "none", stroke: accent, lineWidth: 2 }, 4));
      // Text, as much as there is room for.
      if (WIDTH * scale > 42 && boxTall > 9) for (const at of seen) {
        const box = all[at]!, x = X(layout.x[at]!), y = Y(layout.y[at]!), room = WIDTH * scale - 10, high = heights[at]! * scale;
        const on = box.heat >= 0 ? inks[box.heat]! : ink, halo = box.heat === -1 ? { stroke: color("rest-ground"), lineWidth: 3 } : {};
        const time = box.layer ? formatNs(box.layer.measured_ns) : "";
        const size = Math.max(9.5, Math.min(12, 12 * scale)), timeWidth = widthOf(time, size - 0.5);
        const title = box.layer?.op_type ?? tail(box.name);
        const two = boxTall > 24;
        const line1 = y + (two ? (HEAD * Math.min(scale, 1)) * 0.3 + 1 : high / 2);
        const showTime = time && (room > timeWidth + 70 || widthOf(elided(title, 60), size, 620) + timeWidth + 3 <= room);
        const shown = fit(elided(title, 60), room - (showTime ? timeWidth + 3 : 0), size, 620);
        out.push(words(shown, x + 5, line1, { fill: on, font: `620 ${size}px ${font}`, verticalAlign: "middle", ...halo }, 5));
        if (showTime) out.push(words(time, x + WIDTH * scale - 5, line1, { fill: on, font: `${size - 0.5}px ${font}`, align: "right", verticalAlign: "middle", ...halo }, 5));
        if (!two) continue;
        const lost = !box.layer ? "took no time" : box.layer.lost_ns === null ? "" : `~${formatNs(box.layer.lost_ns)} lost`;
        const sub = size - 1.5, lostWidth = widthOf(lost, sub), showLost = lost && room > lostWidth + 50;
        const line2 = y + HEAD * scale * 0.73;
        out.push(words(fit(elided(tail(box.name), 80), room - (showLost ? lostWidth + 8 : 0), sub), x + 5, line2, { fill: on, font: `${sub}px ${font}`, verticalAlign: "middle", ...halo }, 5));
        if (showLost) out.push(words(lost, x + WIDTH * scale - 5, line2, { fill: on, font: `italic ${sub}px ${font}`, align: "right", verticalAlign: "middle", ...halo }, 5));
        if (scale < 0.82 || !box.chips.length) continue;
        for (const chip of box.chips) {
          const cx = x + (5 + chip.x) * scale, cy = y + (HEAD + chip.row * CHIP) * scale;
          out.push({ type: "rect", shape: { x: cx, y: cy, width: chip.width * scale, height: (CHIP - 3) * scale, r: 3 }, style: { fill: ground, stroke: rest, lineWidth: 0.8 }, silent: true, z2: 4 });
          out.push(words(chip.text, cx + (chip.width * scale) / 2, cy + ((CHIP - 3) * scale) / 2 + 0.5, { fill: ink, font: `${CHIP_FONT * Math.min(scale, 1.15)}px ${font}`, align: "center", verticalAlign: "middle" }, 5));
        }
      }
      if (picked >= 0) {
        const x = X(layout.x[picked]!), y = Y(layout.y[picked]!), bw = Math.max(WIDTH * scale, 6), bh = Math.max(heights[picked]! * scale, 6);
        out.push({ type: "rect", shape: { x: x - 4, y: y - 4, width: bw + 8, height: bh + 8 }, style: { fill: "none", stroke: ground, lineWidth: 3 }, silent: true, z2: 6 });
        out.push({ type: "rect", shape: { x: x - 3, y: y - 3, width: bw + 6, height: bh + 6 }, style: { fill: "none", stroke: ink, lineWidth: 2.6 }, silent: true, z2: 7 });
      }
      return [clipped(0, 0, w, h, out)];
    };

    const draw = (frame_: Frame): void => {
      made = frame_;
      if (!scale) restore();
      made.chart.setOption({ animation: false, series: [drawing("graph", shapes)] });
    };
    const redraw = (): void => made.redraw();

    const hit = (x: number, y: number): number => {
      const wx = (x - panX) / scale, wy = (y - panY) / scale, reach = 3 / scale;
      return within(wx - reach, wy - reach, wx + reach, wy + reach)[0] ?? -1;
    };
    const centre = (at: number, closer: boolean): void => {
      if (closer) scale = Math.max(scale, 0.9);
      panX = made.width() / 2 - (layout.x[at]! + WIDTH / 2) * scale;
      panY = made.height() / 2 - (layout.y[at]! + heights[at]! / 2) * scale;
      keep();
    };
    const inSight = (at: number): boolean => {
      const x = layout.x[at]! * scale + panX, y = layout.y[at]! * scale + panY;
      return x >= 0 && y >= 0 && x + WIDTH * scale <= made.width() && y + heights[at]! * scale <= made.height();
    };
    const around = (at: number): [string, string][] => {
      const reads: string[] = [], writes: string[] = [];
      for (const edge of incident[at]!) {
        const bytes = graph.nbytes[edge]!, size = bytes >= 0 ? ` (${formatBytes(bytes)})` : "";
        if (graph.layer_to[edge] === at) reads.push(tail(all[graph.layer_from[edge]!]!.name) + size);
        else writes.push(tail(all[graph.layer_to[edge]!]!.name) + size);
      }
      const list = (some: string[]): string => some.slice(0, 4).join(", ") + (some.length > 4 ? ` and ${some.length - 4} more` : "");
      return [["reads from", list(reads) || "no layer"], ["is read by", list(writes) || "no layer"]];
    };
    const pick = (at: number): void => {
      const box = all[at];
      if (!box) return;
      picked = at;
      if (box.layer) store.select(box.layer.place, "graph");
      else { store.select(null, "graph"); picked = at; say(at); redraw(); }
    };
    const say = (at: number): void => {
      const box = all[at]!;
      made.say(`Selected: ${elided(box.name, 200)}, ${box.layer ? `${formatNs(box.layer.measured_ns)}, ${box.layer.lost_ns === null ? "loss not known" : `~${formatNs(box.layer.lost_ns)} lost`}` : "took no time"}; ${around(at).map(([key, value]) => `${key} ${elided(value, 300)}`).join("; ")}.`);
    };

    const timeless = all.filter((box) => !box.layer).length;
    const worst = all.filter((box) => box.layer?.lost_ns).sort((a, b) => b.layer!.lost_ns! - a.layer!.lost_ns!).slice(0, 3);
    const label = `Graph of ${plural(count, "layer")} and ${plural(graph.layer_from.length, "edge")} in order of execution.${worst.length ? ` Most time is lost in ${worst.map((box) => `${elided(box.name, 60)} (~${formatNs(box.layer!.lost_ns!)})`).join(", ")}.` : ""}`;
    made = frame(panel, store, label, height, {
      zoom: (factor, x, y) => {
        const next = Math.min(6, Math.max(Math.min(whole(), 1) * 0.5, scale * factor)), share = next / scale;
        panX = x - (x - panX) * share;
        panY = y - (y - panY) * share;
        scale = next;
        hold();
        keep();
      },
      pan: (dx, dy) => { panX += dx; panY += dy; hold(); keep(); },
      reset: () => { showAll(); keep(); },
      step: (by) => {
        const next = Math.max(0, Math.min(count - 1, picked < 0 ? (by > 0 ? 0 : count - 1) : picked + by));
        pick(next);
        if (!inSight(next)) centre(next, false);
      },
      hover: (x, y, clientX, clientY) => {
        const at = hit(x, y), box = all[at];
        made.host.style.cursor = box ? "pointer" : "";
        if (!box) { store.tip(null, 0, 0); return; }
        store.tip([...(box.layer ? layerTip(box.layer, boundName(box.layer.bound, device)) : [["time", "none was measured"] as [string, string]]), ...around(at)], clientX, clientY, box.name);
      },
      click: (x, y) => { const at = hit(x, y); if (at >= 0) pick(at); else { picked = -1; store.select(null, "graph"); } },
    }, draw);

    const search = el("input", { type: "search", class: "chart-search", placeholder: "Find a layer or node; Enter for the next", "aria-label": "Find a layer or node in the graph", autocomplete: "off", spellcheck: "false" });
    const hits = el("span", { role: "status" });
    const texts = all.map((box) => `${box.name}\n${box.layer?.op_type ?? ""}\n${box.layer?.node_names.join("\n") ?? ""}`.toLowerCase());
    let waiting = 0;
    const look = (): void => {
      const wanted = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
      found = wanted.length ? texts.flatMap((text, at) => (wanted.every((word) => text.includes(word)) ? [at] : [])) : [];
      foundAt = -1;
      hits.textContent = wanted.length ? `${formatWhole(found.length)} found` : "";
      redraw();
    };
    search.addEventListener("input", () => { clearTimeout(waiting); waiting = window.setTimeout(look, 90); });
    search.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { search.value = ""; look(); return; }
      if (event.key !== "Enter") return;
      event.preventDefault();
      clearTimeout(waiting);
      const last = foundAt;
      look();
      if (!found.length) return;
      foundAt = (last + (event.shiftKey ? -1 : 1) + found.length) % found.length;
      hits.textContent = `${formatWhole(foundAt + 1)} of ${formatWhole(found.length)}`;
      pick(found[foundAt]!);
      centre(found[foundAt]!, true);
    });
    made.tools.prepend(heat.legend(), ...(timeless ? [el("span", { class: "swatch" }, el("i", { class: "key-none", "aria-hidden": "true" }), "took no time")] : []), search, hits);

    const lines = [`${plural(count, "layer")}${count > 1 ? " from top to bottom" : ""}${layout.columns.length > 1 ? `, then on in the next of ${formatWhole(layout.columns.length)} columns` : ""}. Zoomed in, a box holds the ONNX nodes that became this layer as chips.`];
    if (!graph.layer_from.length && count > 1) lines.push("No edge is known: the boxes stand in order of execution.");
    if (layout.undrawn.length) lines.push(`${plural(layout.undrawn.length, "line")} that reach${layout.undrawn.length === 1 ? "es" : ""} over many rows or back ${layout.undrawn.length === 1 ? "is" : "are"} drawn only for the layer that is selected.`);
    made.words.replaceChildren(lines.join(" "), " ", el("span", { class: "chart-how" }, HOW));
    const apart = apartOf(nodes);
    if (apart) panel.append(apart);

    if (picked >= 0) say(picked);
    store.onSelect((place, by) => {
      const at = place === null ? -1 : (boxOf.get(place) ?? -1);
      if (by !== "graph" || place !== null) picked = place !== null && picked >= 0 && all[picked]!.layer?.place === place ? picked : at;
      if (picked >= 0) {
        say(picked);
        if (by !== "graph" && !inSight(picked)) centre(picked, false);
      } else made.say(place === null ? "" : `Selected: ${elided(layers[place]!.name, 200)}, which is not in the graph`);
      redraw();
    });
    store.onView(() => { restore(); redraw(); });
  });
}

/** Op types of a layer's nodes as chips in rows, with how many did not fit. */
function chipsOf(layer: Layer | null, nodes: Node[]): Chip[] {
  if (!layer?.node_names.length) return [];
  const room = WIDTH - 10, chips: Chip[] = [];
  const known = layer.nodes.map((place) => nodes[place]).filter((node) => node !== undefined);
  const texts = known.length === layer.node_names.length ? known.map((node) => node.op_type) : layer.node_names.map(tail);
  let x = 0, row = 0;
  for (let at = 0; at < texts.length; at++) {
    const text = fit(elided(texts[at]!, 30), room - 12, CHIP_FONT) || "\u2026", width = Math.min(room, widthOf(text, CHIP_FONT) + 10);
    // The last row keeps room for the count of the others.
    const more = texts.length - at - 1, spare = row === MOST_CHIP_ROWS - 1 && more ? 40 : 0;
    if (x && x + width > room - spare) {
      if (row === MOST_CHIP_ROWS - 1) {
        const rest = `+${texts.length - at}`;
        chips.push({ text: rest, x, row, width: widthOf(rest, CHIP_FONT) + 10 });
        break;
      }
      x = 0;
      row++;
    }
    chips.push({ text, x, row, width });
    x += width + 4;
  }
  return chips;
}

/** Nodes that are in no layer, by what became of them. */
function apartOf(nodes: Node[]): HTMLElement | null {
  const fates = new Map<string, Node[]>();
  for (const node of nodes) if (node.fate !== "layer") (fates.get(node.fate) ?? fates.set(node.fate, []).get(node.fate)!).push(node);
  if (!fates.size) return null;
  const total = [...fates.values()].reduce((sum, some) => sum + some.length, 0);
  const parts = [...fates].sort((a, b) => b[1].length - a[1].length);
  return el("details", { class: "chart-apart" },
    el("summary", null, `${plural(total, "ONNX node")} ${total === 1 ? "is" : "are"} in no layer: ${parts.map(([fate, some]) => `${formatWhole(some.length)} ${visible(fate)}`).join(", ")}`),
    parts.map(([fate, some]) => [
      el("p", null, `${visible(fate)}${some.length > MOST_APART ? `, the first ${MOST_APART} of ${formatWhole(some.length)}` : ""}:`),
      el("ul", null, some.slice(0, MOST_APART).map((node) => el("li", { title: elided(node.reason, 200) }, el("bdi", null, `${elided(node.op_type, 40)} ${elided(tail(node.name), 60)}`)))),
    ]));
}
