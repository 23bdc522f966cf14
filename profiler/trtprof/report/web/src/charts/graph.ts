/* The engine's graph: layers as boxes in the order in which they run, coloured by the time they lose. */
import { el } from "../dom";
import { facts } from "../layers";
import { boundName } from "../page";
import type { Layer, Node } from "../page";
import type { Store } from "../store";
import { elided, formatBytes, formatNs, formatWhole, plural, visible } from "../text";
import { FONT, HOW, Heat, precisionLegend, precisionOf, boxes, clipped, color, drawing, fit, frame, instead, layerTip, numbers, pattern, shortly, tail, whenNear, widthOf, wires, words } from "./common";
import type { Frame, Precision, Shape } from "./common";
import { layOut } from "./layout";
import type { Layout } from "./layout";
import { modulesOf } from "./modules";
import type { Module } from "./modules";

const WIDTH = 190, HEAD = 34, CHIP = 17, PAD = 7, MOST_CHIP_ROWS = 3, CHIP_FONT = 10;
const MOST_APART = 200, MOST_MODULES = 48, SMALL = 0.45;

interface Chip { text: string; x: number; row: number; width: number }
interface Box {
  name: string;
  /** What stands first in it: the op, or of a module its last scope. */
  title: string;
  layer: Layer | null;
  /** Of a module: how many layers, which of them takes most, and from where to where they run. */
  module: { count: number; worst: Layer | null; first: number; end: number } | null;
  chips: Chip[];
  heat: number;
  precision: Precision;
  ns: number | null;
  lost_ns: number | null;
}

/** Boxes with the lines between them, laid out. */
interface Scene {
  all: Box[];
  heights: number[];
  layout: Layout;
  from: ArrayLike<number>;
  to: ArrayLike<number>;
  nbytes: ArrayLike<number>;
  /** Edges at each box. */
  incident: number[][];
  byRow: number[][];
}

function sceneOf(all: Box[], edges: { from: ArrayLike<number>; to: ArrayLike<number>; nbytes: ArrayLike<number> }, aspect: number): Scene {
  const count = all.length, { from, to } = edges;
  const heights = all.map((box) => HEAD + (box.chips.length ? (Math.max(...box.chips.map((chip) => chip.row)) + 1) * CHIP + PAD : 4));
  const layout = layOut(count, { from, to }, { width: WIDTH, heights, aspect });
  const incident: number[][] = all.map(() => []);
  for (let edge = 0; edge < from.length; edge++) {
    incident[from[edge]!]?.push(edge);
    if (to[edge] !== from[edge]) incident[to[edge]!]?.push(edge);
  }
  // The rows of each column, for what is seen and what is hit.
  const byRow: number[][] = Array.from({ length: layout.rows }, () => []);
  for (let at = 0; at < count; at++) byRow[layout.row[at]!]!.push(at);
  return { all, heights, layout, ...edges, incident, byRow };
}

export function mount(panel: HTMLElement, store: Store): void {
  const { graph, layers, nodes } = store.page;
  if (!graph) { instead(panel, "There is no graph: neither a plan of the engine nor a model tells who reads what from whom."); return; }
  const count = graph.layers.length;
  if (!count) { instead(panel, "The graph has no layer."); return; }
  const most = Math.round(Math.max(420, Math.min(720, innerHeight * 0.72)));
  const height = count < 6 ? 300 : most;

  whenNear(panel, height + 150, () => {
    const heat = new Heat(layers);
    const each: Box[] = graph.layers.map(({ name, place }) => {
      const layer = layers[place] ?? null;
      return { name, title: layer?.op_type ?? tail(name), layer, module: null, chips: chipsOf(layer, nodes), heat: layer ? heat.of(layer) : -2, precision: precisionOf(layer?.dtype ?? ""), ns: layer ? layer.measured_ns : null, lost_ns: layer?.lost_ns ?? null };
    });
    const aspect = (panel.clientWidth || 1200) / height;
    const apart = sceneOf(each, { from: graph.layer_from, to: graph.layer_to, nbytes: graph.nbytes }, aspect);
    // Where boxes as small as all of them together need would hold no word, modules stand for the layers.
    const small = Math.min((panel.clientWidth || 1200) / (apart.layout.bounds.right - apart.layout.bounds.left), height / (apart.layout.bounds.bottom - apart.layout.bounds.top)) < SMALL;
    const told = small ? modulesOf(each.map((box) => box.layer?.node_names[box.layer.node_names.length - 1] ?? box.name), MOST_MODULES) : [];
    const runs = 2 * told.length <= count ? told : []; // as many boxes as before would help nobody
    const moduleAt = new Int32Array(count);
    runs.forEach((run, at) => moduleAt.fill(at, run.first, run.end));
    const joined = runs.length ? sceneOf(runs.map((run) => moduleBox(run, each)), between(apart, moduleAt), aspect) : null;
    const heatOfModules = joined ? Math.max(...joined.all.map((box) => box.lost_ns ?? 0)) : 0;
    if (joined) for (const box of joined.all) box.heat = box.ns === null ? -2 : box.lost_ns === null ? -1 : heat.share(box.lost_ns, heatOfModules);
    let scene = joined && store.view("graph-of") !== "layers" ? joined : apart;
    const boxOf = new Map<number, number>();
    each.forEach((box, at) => { if (box.layer && !boxOf.has(box.layer.place)) boxOf.set(box.layer.place, at); });

    // Colours tell the time lost, or the precision: of a box that of its layer, of a line that of what its layer writes.
    let byPrecision = store.view("graph-color") === "precision";
    const written = new Map<number, Precision>();
    graph.dtype.forEach((dtype, edge) => { if (!written.has(graph.layer_from[edge]!)) written.set(graph.layer_from[edge]!, precisionOf(dtype)); });
    const writes = (box: number): Precision => written.get(scene === joined ? runs[box]!.end - 1 : box) ?? "other";
    const seenPrecisions = new Set([...each.map((box) => box.precision), ...written.values()]);

    let made: Frame;
    let scale = 0, panX = 0, panY = 0;
    let found: number[] = [], foundAt = -1, picked = store.selected === null ? -1 : (boxOf.get(store.selected) ?? -1);
    const MARGIN = 16;
    const wide = (): number => scene.layout.bounds.right - scene.layout.bounds.left, tall = (): number => scene.layout.bounds.bottom - scene.layout.bounds.top;
    /** Where the box of the picked layer stands: its module has it where modules are shown. */
    const shown = (): number => (picked >= 0 && scene === joined ? moduleAt[picked]! : picked);

    const whole = (): number => Math.min((made.width() - 2 * MARGIN) / wide(), (made.height() - 2 * MARGIN) / tall(), 1.4);
    const showAll = (): void => {
      const { bounds } = scene.layout;
      scale = whole();
      panX = (made.width() - wide() * scale) / 2 - bounds.left * scale;
      panY = (made.height() - tall() * scale) / 2 - bounds.top * scale;
    };
    const restore = (): void => {
      const stored = numbers(store.view("graph"), 3);
      scene = joined && store.view("graph-of") !== "layers" ? joined : apart;
      // Kept as the place in the drawing that is in the middle, and the scale: so it holds in a window of another size.
      if (stored && stored[0]! > 0 && stored[0]! < 50) {
        scale = stored[0]!;
        panX = made.width() / 2 - stored[1]! * scale;
        panY = made.height() / 2 - stored[2]! * scale;
      } else showAll();
    };
    const keep = (): void => {
      const { bounds } = scene.layout;
      const middle = [(made.width() / 2 - panX) / scale, (made.height() / 2 - panY) / scale];
      store.setView("graph-of", joined && scene === apart ? "layers" : null);
      store.setView("graph", Math.abs(scale / whole() - 1) < 1e-3 && Math.abs(middle[0]! - wide() / 2 - bounds.left) * scale < 2 && Math.abs(middle[1]! - tall() / 2 - bounds.top) * scale < 2 ? null : shortly([scale, ...middle]));
      redraw();
    };
    const hold = (): void => {
      // Some of the drawing stays in sight.
      const { left, right, top, bottom } = scene.layout.bounds, rim = 80;
      panX = Math.min(made.width() - rim - left * scale, Math.max(rim - right * scale, panX));
      panY = Math.min(made.height() - rim - top * scale, Math.max(rim - bottom * scale, panY));
    };

    /** Boxes that reach into a rectangle of the drawing. */
    const within = (x0: number, y0: number, x1: number, y1: number): number[] => {
      const seen: number[] = [], { layout, heights, byRow } = scene;
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
      const { all, heights, layout, incident, from: froms, to: tos } = scene, mark = shown();
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
        const lines = new Map<string, number[][]>();
        for (const piece of layout.pieces) {
          if (!near(piece.points)) continue;
          const stroke = byPrecision ? color(`p-${writes(piece.source)}`) : rest;
          (lines.get(stroke) ?? lines.set(stroke, []).get(stroke)!).push(screen(piece.points));
        }
        const thick = Math.max(0.5, Math.min(1.3, scale * 1.6)) * (byPrecision ? 2 : 1);
        for (const [stroke, some] of lines) out.push(wires(some, { stroke, lineWidth: thick, opacity: byPrecision ? 1 : boxTall < 8 ? 0.55 : 0.85 }, 1, true));
      }
      if (mark >= 0) {
        const drawn: number[][] = [], straight: number[][] = [];
        for (const edge of incident[mark]!) {
          const path = layout.path(edge);
          for (const piece of path) drawn.push(screen(layout.pieces[piece]!.points));
          if (!path.length) {
            const from = froms[edge]!, to = tos[edge]!;
            straight.push(screen([layout.x[from]! + WIDTH / 2, layout.y[from]! + heights[from]!, layout.x[to]! + WIDTH / 2, layout.y[to]!]));
          }
        }
        out.push(wires(drawn, { stroke: accent, lineWidth: 2.4 }, 3, true), wires(straight.slice(0, 400), { stroke: accent, lineWidth: 1.4, lineDash: [5, 4] }, 3));
      }
      // Boxes, one shape for each look.
      const looks = new Map<number | Precision, number[]>();
      const lookOf = (box: Box): number | Precision => (byPrecision && box.heat !== -2 ? box.precision : box.heat);
      for (const at of seen) {
        const quad = [X(layout.x[at]!), Y(layout.y[at]!), Math.max(WIDTH * scale, 1), Math.max(heights[at]! * scale, 1)];
        const look = looks.get(lookOf(all[at]!));
        if (look) look.push(...quad);
        else looks.set(lookOf(all[at]!), quad);
      }
      const stroke = boxTall > 5 ? { stroke: rest, lineWidth: boxTall > 14 ? 1 : 0.5 } : {};
      for (const [heatOf, quads] of looks) {
        out.push(boxes(quads, heatOf === -2 ? { fill: ground, stroke: rest, lineWidth: 1, lineDash: [3, 2] } : { fill: typeof heatOf === "string" ? color(`p-${heatOf}`) : heatOf < 0 ? unknown : fills[heatOf], ...stroke }, 2));
      }
      const marks: number[] = [];
      for (const at of new Set(scene === joined ? found.map((one) => moduleAt[one]!) : found)) if (at !== mark) marks.push(X(layout.x[at]!) - 2, Y(layout.y[at]!) - 2, WIDTH * scale + 4, heights[at]! * scale + 4);
      if (marks.length) out.push(boxes(marks, { fill: "none", stroke: accent, lineWidth: 2 }, 4));
      // Text, as much as there is room for.
      if (WIDTH * scale > 42 && boxTall > 9) for (const at of seen) {
        const box = all[at]!, x = X(layout.x[at]!), y = Y(layout.y[at]!), room = WIDTH * scale - 10, high = heights[at]! * scale;
        const on = byPrecision ? color(box.heat === -2 ? "ink" : "p-ink") : box.heat >= 0 ? inks[box.heat]! : ink, halo = box.heat === -1 && !byPrecision ? { stroke: color("rest-ground"), lineWidth: 3 } : {};
        const time = box.ns === null ? "" : formatNs(box.ns);
        const size = Math.max(9.5, Math.min(12, 12 * scale)), timeWidth = widthOf(time, size - 0.5);
        const { title } = box;
        const two = boxTall > 24;
        const line1 = y + (two ? (HEAD * Math.min(scale, 1)) * 0.3 + 1 : high / 2);
        const showTime = time && (room > timeWidth + 70 || widthOf(elided(title, 60), size, 620) + timeWidth + 3 <= room);
        const shown = fit(elided(title, 60), room - (showTime ? timeWidth + 3 : 0), size, 620);
        out.push(words(shown, x + 5, line1, { fill: on, font: `620 ${size}px ${font}`, verticalAlign: "middle", ...halo }, 5));
        if (showTime) out.push(words(time, x + WIDTH * scale - 5, line1, { fill: on, font: `${size - 0.5}px ${font}`, align: "right", verticalAlign: "middle", ...halo }, 5));
        if (!two) continue;
        const lost = box.ns === null ? "took no time" : box.lost_ns === null ? "" : `~${formatNs(box.lost_ns)} lost`;
        const sub = size - 1.5, lostWidth = widthOf(lost, sub), showLost = lost && room > lostWidth + 50;
        const line2 = y + HEAD * scale * 0.73;
        out.push(words(fit(elided(box.module ? plural(box.module.count, "layer") : tail(box.name), 80), room - (showLost ? lostWidth + 8 : 0), sub), x + 5, line2, { fill: on, font: `${sub}px ${font}`, verticalAlign: "middle", ...halo }, 5));
        if (showLost) out.push(words(lost, x + WIDTH * scale - 5, line2, { fill: on, font: `italic ${sub}px ${font}`, align: "right", verticalAlign: "middle", ...halo }, 5));
        if (scale < 0.82 || !box.chips.length) continue;
        for (const chip of box.chips) {
          const cx = x + (5 + chip.x) * scale, cy = y + (HEAD + chip.row * CHIP) * scale;
          out.push({ type: "rect", shape: { x: cx, y: cy, width: chip.width * scale, height: (CHIP - 3) * scale, r: 3 }, style: { fill: ground, stroke: rest, lineWidth: 0.8 }, silent: true, z2: 4 });
          out.push(words(chip.text, cx + (chip.width * scale) / 2, cy + ((CHIP - 3) * scale) / 2 + 0.5, { fill: ink, font: `${CHIP_FONT * Math.min(scale, 1.15)}px ${font}`, align: "center", verticalAlign: "middle" }, 5));
        }
      }
      if (mark >= 0) {
        const x = X(layout.x[mark]!), y = Y(layout.y[mark]!), bw = Math.max(WIDTH * scale, 6), bh = Math.max(heights[mark]! * scale, 6);
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
      const { layout, heights } = scene;
      if (closer) scale = Math.max(scale, 0.9);
      panX = made.width() / 2 - (layout.x[at]! + WIDTH / 2) * scale;
      panY = made.height() / 2 - (layout.y[at]! + heights[at]! / 2) * scale;
      keep();
    };
    const inSight = (at: number): boolean => {
      const { layout, heights } = scene;
      const x = layout.x[at]! * scale + panX, y = layout.y[at]! * scale + panY;
      return x >= 0 && y >= 0 && x + WIDTH * scale <= made.width() && y + heights[at]! * scale <= made.height();
    };
    const around = (at: number): [string, string][] => {
      const reads: string[] = [], writes: string[] = [], { all, incident, from, to, nbytes } = scene;
      for (const edge of incident[at]!) {
        const bytes = nbytes[edge]!, size = bytes >= 0 ? ` (${formatBytes(bytes)})` : "";
        if (to[edge] === at) reads.push(tail(all[from[edge]!]!.name) + size);
        else writes.push(tail(all[to[edge]!]!.name) + size);
      }
      const list = (some: string[]): string => some.slice(0, 4).join(", ") + (some.length > 4 ? ` and ${some.length - 4} more` : "");
      return [["reads from", list(reads) || "no layer"], ["is read by", list(writes) || "no layer"]];
    };
    /** Shows layers, or modules, and all of them or the layers `first` to `end`. */
    const switchTo = (next: Scene, first = 0, end = count): void => {
      scene = next;
      showAll();
      if (next === apart && end - first < count) {
        const { x, y } = next.layout, some = Array.from({ length: end - first }, (_, at) => first + at);
        const left = Math.min(...some.map((at) => x[at]!)), right = Math.max(...some.map((at) => x[at]!)) + WIDTH;
        const top = Math.min(...some.map((at) => y[at]!)), bottom = Math.max(...some.map((at) => y[at]! + next.heights[at]!));
        scale = Math.max(whole(), Math.min(1, (made.width() - 2 * MARGIN) / (right - left), (made.height() - 2 * MARGIN) / (bottom - top)));
        panX = made.width() / 2 - ((left + right) / 2) * scale;
        panY = made.height() / 2 - ((top + bottom) / 2) * scale;
      }
      whichLabel();
      keep();
    };
    const pick = (at: number): void => {
      const box = each[at];
      if (!box) return;
      picked = at;
      if (box.layer) store.select(box.layer.place, "graph");
      else { store.select(null, "graph"); picked = at; say(at); tell(); redraw(); }
    };
    const say = (at: number): void => {
      const box = each[at]!;
      made.say(`Selected: ${elided(box.name, 200)}, ${box.layer ? `${formatNs(box.layer.measured_ns)}, ${box.layer.lost_ns === null ? "loss not known" : `~${formatNs(box.layer.lost_ns)} lost`}` : "took no time"}; ${around(shown()).map(([key, value]) => `${key} ${elided(value, 300)}`).join("; ")}.`);
    };

    const timeless = each.filter((box) => !box.layer).length;
    const worst = each.filter((box) => box.layer?.lost_ns).sort((a, b) => b.layer!.lost_ns! - a.layer!.lost_ns!).slice(0, 3);
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
      reset: () => switchTo(joined ?? apart),
      step: (by) => {
        const next = Math.max(0, Math.min(count - 1, picked < 0 ? (by > 0 ? 0 : count - 1) : picked + by));
        pick(next);
        if (!inSight(shown())) centre(shown(), false);
      },
      hover: (x, y, clientX, clientY) => {
        const at = hit(x, y), box = scene.all[at];
        made.host.style.cursor = box ? "pointer" : "";
        if (!box) { store.tip(null, 0, 0); return; }
        if (box.module) {
          store.tip([["layers", formatWhole(box.module.count)], ["measured", box.ns === null ? "none was measured" : formatNs(box.ns)], ["lost", box.lost_ns === null ? "not known" : `~${formatNs(box.lost_ns)}`], ...(box.module.worst ? [["most in", box.module.worst.name] as [string, string]] : []), ...around(at), ["a click", "shows its layers"]], clientX, clientY, box.name);
          return;
        }
        store.tip([...(box.layer ? layerTip(box.layer, boundName(box.layer.bound, store.page)) : [["time", "none was measured"] as [string, string]]), ...around(at)], clientX, clientY, box.name);
      },
      click: (x, y) => { const at = hit(x, y), into = scene.all[at]?.module; if (into) switchTo(apart, into.first, into.end); else if (at >= 0) pick(at); else { picked = -1; store.select(null, "graph"); } },
    }, draw);

    let legend = heat.legend();
    const which = el("button", { type: "button", class: "chart-button" });
    const tint = el("button", { type: "button", class: "chart-button", title: "Colour by time lost, or by precision" });
    tint.addEventListener("click", () => {
      byPrecision = !byPrecision;
      store.setView("graph-color", byPrecision ? "precision" : null);
      whichLabel();
      redraw();
    });
    const whichLabel = (): void => {
      const next = byPrecision ? precisionLegend(seenPrecisions) : scene === joined ? heat.legend("a module", heatOfModules) : heat.legend();
      legend.replaceWith(next);
      legend = next;
      tint.textContent = byPrecision ? "Colour: precision" : "Colour: time lost";
      tint.setAttribute("aria-pressed", String(byPrecision));
      which.textContent = scene === joined ? `All ${plural(count, "layer")}` : `${plural(runs.length, runs[0]?.name ? "module" : "group")}`;
    };
    which.addEventListener("click", () => switchTo(scene === joined ? apart : joined!));
    if (joined) { made.tools.querySelector(".chart-zoom")!.prepend(which); }
    const search = el("input", { type: "search", class: "chart-search", placeholder: "Find a layer or node; Enter for the next", "aria-label": "Find a layer or node in the graph", autocomplete: "off", spellcheck: "false" });
    const hits = el("span", { role: "status" });
    const texts = each.map((box) => `${box.name}\n${box.layer?.op_type ?? ""}\n${box.layer?.node_names.join("\n") ?? ""}`.toLowerCase());
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
      if (scene === joined) { scene = apart; whichLabel(); }
      pick(found[foundAt]!);
      centre(found[foundAt]!, true);
    });

    made.tools.prepend(legend, ...(timeless ? [el("span", { class: "swatch" }, el("i", { class: "key-none", "aria-hidden": "true" }), "took no time")] : []), search, hits);
    made.tools.querySelector(".chart-zoom")!.prepend(tint);
    whichLabel();

    const lines = [`${plural(count, "layer")}${count > 1 ? " from top to bottom" : ""}${apart.layout.columns.length > 1 ? `, then on in the next of ${formatWhole(apart.layout.columns.length)} columns` : ""}. Zoomed in, a box holds the ONNX nodes that became this layer as chips.`];
    if (joined) lines.push(`At first ${plural(runs.length, "box").replace("boxs", "boxes")} stand for them, ${runs[0]!.name ? "by module: the scopes in the names of nodes" : "a run of layers each, as their names tell no module"}; a click on one shows its layers.`);
    if (!graph.layer_from.length && count > 1) lines.push("No edge is known: the boxes stand in order of execution.");
    if (apart.layout.undrawn.length) lines.push(`${plural(apart.layout.undrawn.length, "line")} that reach${apart.layout.undrawn.length === 1 ? "es" : ""} over many rows or back ${apart.layout.undrawn.length === 1 ? "is" : "are"} drawn only for the layer that is selected.`);
    made.words.replaceChildren(lines.join(" "), " ", el("span", { class: "chart-how" }, HOW));
    const about = el("div", { class: "graph-about", "aria-live": "polite" });
    panel.append(about);
    const tell = (): void => about.replaceChildren(...(picked < 0 ? [] : aboutBox(each[picked]!, nodes, tensorsAt(picked))));
    /** Tensors that a layer reads from others and that others read from it, each with what it is. */
    function tensorsAt(at: number): [string, string][] {
      const found = new Map<string, [string, string]>();
      for (const edge of apart.incident[at]!) {
        const reads = graph!.layer_to[edge] === at, other = each[reads ? graph!.layer_from[edge]! : graph!.layer_to[edge]!]!, bytes = graph!.nbytes[edge]!;
        const facts = [graph!.dtype[edge] ?? "", bytes >= 0 ? formatBytes(bytes) : "", `${reads ? "from" : "to"} ${tail(other.name)}`].filter(Boolean).join(", ");
        found.set(`${reads} ${graph!.tensor[edge]} ${other.name}`, [`${reads ? "reads" : "writes"} ${tail(graph!.tensor[edge]!)}`, facts]);
      }
      return [...found.values()];
    }
    tell();
    const unused = apartOf(nodes);
    if (unused) panel.append(unused);

    if (picked >= 0) say(picked);
    store.onSelect((place, by) => {
      const at = place === null ? -1 : (boxOf.get(place) ?? -1);
      if (by !== "graph" || place !== null) picked = place !== null && picked >= 0 && each[picked]!.layer?.place === place ? picked : at;
      if (picked >= 0) {
        say(picked);
        if (by !== "graph" && !inSight(shown())) centre(shown(), false);
      } else made.say(place === null ? "" : `Selected: ${elided(layers[place]!.name, 200)}, which is not in the graph`);
      tell();
      redraw();
    });
    store.onView(() => { restore(); byPrecision = store.view("graph-color") === "precision"; whichLabel(); redraw(); });
  });
}

/** What is known of a layer and of the nodes in it, beside the drawing, as a reader of the model's own graph expects it. */
function aboutBox(box: Box, nodes: Node[], tensors: [string, string][]): HTMLElement[] {
  const own = box.layer?.nodes.map((place) => nodes[place]!) ?? [], most = 8;
  const part = (...children: (HTMLElement | null)[]): HTMLElement => el("div", null, children);
  return [
    part(el("h3", null, el("bdi", null, elided(box.title, 60))), el("div", { class: "name" }, el("bdi", null, elided(box.name, 400))),
      facts([["shapes", box.layer?.shapes ?? ""], ["type", box.layer?.dtype ?? ""], ["time", box.ns === null ? "none was measured" : formatNs(box.ns)], ["lost", box.lost_ns === null ? "" : `~${formatNs(box.lost_ns)}`]])),
    ...own.slice(0, most).map((node) => part(el("h4", null, el("bdi", null, elided(node.op_type, 60))), el("div", { class: "name" }, el("bdi", null, elided(node.name, 200))), facts(node.attributes))),
    ...(own.length > most ? [part(el("p", { class: "soft" }, `and ${plural(own.length - most, "node")} more: the table of layers has all`))] : []),
    ...(tensors.length ? [part(el("h4", null, "Tensors"), facts(tensors.slice(0, 12)))] : []),
  ];
}

/** The box of the layers that are a module. */
function moduleBox(run: Module, each: Box[]): Box {
  const inside = each.slice(run.first, run.end), timed = inside.filter((box) => box.ns !== null), priced = timed.filter((box) => box.lost_ns !== null);
  const name = run.name || `${tail(inside[0]!.name)} \u2026 ${tail(inside[inside.length - 1]!.name)}`;
  const worst = priced.reduce<Box | null>((most, box) => (!most || box.lost_ns! > most.lost_ns! ? box : most), null);
  return {
    name, title: run.name ? tail(run.name) : name, layer: null, module: { count: inside.length, worst: worst?.layer ?? null, first: run.first, end: run.end }, chips: [], heat: -1, precision: mostTime(timed),
    ns: timed.length ? timed.reduce((sum, box) => sum + box.ns!, 0) : null, lost_ns: priced.length ? priced.reduce((sum, box) => sum + box.lost_ns!, 0) : null,
  };
}

/** The precision that most of the time of some boxes is spent in. */
function mostTime(boxes: Box[]): Precision {
  const times = new Map<Precision, number>();
  for (const box of boxes) times.set(box.precision, (times.get(box.precision) ?? 0) + box.ns!);
  return [...times].reduce<[Precision, number]>((most, one) => (one[1] > most[1] ? one : most), ["other", -1])[0];
}

/** The edges between modules, once for each pair; their bytes are the sums. */
function between(apart: Scene, moduleAt: Int32Array): { from: number[]; to: number[]; nbytes: number[] } {
  const pairs = new Map<string, [number, number, number]>();
  for (let edge = 0; edge < apart.from.length; edge++) {
    const from = moduleAt[apart.from[edge]!]!, to = moduleAt[apart.to[edge]!]!, bytes = apart.nbytes[edge]!;
    if (from === to) continue;
    const pair = pairs.get(`${from} ${to}`);
    if (!pair) pairs.set(`${from} ${to}`, [from, to, bytes]);
    else pair[2] = pair[2] < 0 || bytes < 0 ? -1 : pair[2] + bytes;
  }
  const all = [...pairs.values()];
  return { from: all.map((one) => one[0]), to: all.map((one) => one[1]), nbytes: all.map((one) => one[2]) };
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
