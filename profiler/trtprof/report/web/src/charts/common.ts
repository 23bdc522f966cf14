/* What the charts share: colours, the frame around a canvas, and how a reader moves in it. */
import * as echarts from "echarts/core";
import { CustomChart } from "echarts/charts";
import { DataZoomSliderComponent, GridSimpleComponent } from "echarts/components";
import { CanvasRenderer } from "echarts/renderers";
import type { EChartsType } from "echarts/core";

import { el } from "../dom";
import type { Bound, Layer } from "../page";
import type { Store } from "../store";
import { elided, formatNs } from "../text";

echarts.use([CanvasRenderer, CustomChart, GridSimpleComponent, DataZoomSliderComponent]);

// --- many rectangles or lines as one shape, which a canvas draws far quicker than a shape each -----

/** Flat quadruples: left, top, width, height. */
class Boxes {
  boxes: ArrayLike<number> = [];
}
/** Polylines, each flat x and y by turns; `curved` bends the way from row to row. */
class Lines {
  lines: ArrayLike<number>[] = [];
  curved = false;
}

/** Dots of one bound, flat: x, y, radius. */
class Dots {
  dots: ArrayLike<number> = [];
  bound: Bound = "none";
}

interface PathLike {
  arc(x: number, y: number, r: number, from: number, to: number): unknown;
  closePath(): unknown;
  moveTo(x: number, y: number): unknown;
  lineTo(x: number, y: number): unknown;
  bezierCurveTo(a: number, b: number, c: number, d: number, e: number, f: number): unknown;
  rect(x: number, y: number, width: number, height: number): unknown;
}

echarts.graphic.registerShape("boxes", echarts.graphic.extendShape({
  type: "boxes",
  shape: new Boxes(),
  buildPath(path: PathLike, { boxes }: Boxes) {
    for (let at = 0; at + 3 < boxes.length; at += 4) path.rect(boxes[at]!, boxes[at + 1]!, boxes[at + 2]!, boxes[at + 3]!);
  },
} as never) as never);
echarts.graphic.registerShape("wires", echarts.graphic.extendShape({
  type: "wires",
  shape: new Lines(),
  buildPath(path: PathLike, { lines, curved }: Lines) {
    for (const line of lines) {
      path.moveTo(line[0]!, line[1]!);
      for (let at = 2; at + 1 < line.length; at += 2) {
        const x = line[at]!, y = line[at + 1]!, x0 = line[at - 2]!, y0 = line[at - 1]!, middle = (y0 + y) / 2;
        if (curved && x !== x0 && y > y0) path.bezierCurveTo(x0, middle, x, middle, x, y);
        else path.lineTo(x, y);
      }
    }
  },
} as never) as never);

/** Corners of the dots that are no circle, around 0, for a circle of radius 1 of the same area. */
const CORNERS: Partial<Record<Bound, number[]>> = {
  dram: [-0.886, -0.886, 0.886, -0.886, 0.886, 0.886, -0.886, 0.886],
  l2: [0, -1.253, 1.253, 0, 0, 1.253, -1.253, 0],
  vector: [0, -1.253, 1.253, 1.253, -1.253, 1.253],
  sfu: [0, 1.253, 1.253, -1.253, -1.253, -1.253],
  launch: [-0.4, -1.1, 0.4, -1.1, 0.4, -0.4, 1.1, -0.4, 1.1, 0.4, 0.4, 0.4, 0.4, 1.1, -0.4, 1.1, -0.4, 0.4, -1.1, 0.4, -1.1, -0.4, -0.4, -0.4],
  none: [0, -1.1, 1.1, -0.2, 0.66, 1.1, -0.66, 1.1, -1.1, -0.2],
};

echarts.graphic.registerShape("dots", echarts.graphic.extendShape({
  type: "dots",
  shape: new Dots(),
  buildPath(path: PathLike, { dots, bound }: Dots) {
    const corners = CORNERS[bound === "unknown" ? "none" : bound];
    for (let at = 0; at + 2 < dots.length; at += 3) {
      const x = dots[at]!, y = dots[at + 1]!, r = dots[at + 2]!;
      if (!corners) {
        path.moveTo(x + r, y);
        path.arc(x, y, r, 0, 2 * Math.PI);
      } else {
        for (let corner = 0; corner < corners.length; corner += 2) {
          if (corner) path.lineTo(x + r * corners[corner]!, y + r * corners[corner + 1]!);
          else path.moveTo(x + r * corners[0]!, y + r * corners[1]!);
        }
      }
      path.closePath();
    }
  },
} as never) as never);

/** A part of what a custom series draws. ECharts types these by series; here they are plain. */
export type Shape = Record<string, unknown>;

export const boxes = (quads: ArrayLike<number>, style: Shape, z2 = 0): Shape => ({ type: "boxes", shape: { boxes: quads }, style, silent: true, z2 });
export const wires = (lines: ArrayLike<number>[], style: Shape, z2 = 0, curved = false): Shape =>
  ({ type: "wires", shape: { lines, curved }, style: { fill: "none", ...style }, silent: true, z2 });
export const words = (text: string, x: number, y: number, style: Shape, z2 = 5, more: Shape = {}): Shape =>
  ({ type: "text", x, y, style: { text, ...style }, silent: true, z2, ...more });
export const spots = (dots: ArrayLike<number>, bound: Bound, style: Shape, z2 = 0): Shape => ({ type: "dots", shape: { dots, bound }, style, silent: true, z2 });
/** Keeps what is in it inside a rectangle. */
export const clipped = (x: number, y: number, width: number, height: number, children: Shape[]): Shape =>
  ({ type: "group", children, clipPath: { type: "rect", shape: { x, y, width: Math.max(width, 0), height: Math.max(height, 0) } } });

/** A series that draws what `shapes` returns, in pixels of the canvas. */
export const drawing = (id: string, shapes: () => Shape[], z = 2): Shape => ({
  type: "custom", id, coordinateSystem: "none", silent: true, animation: false, z, clip: false, data: [0],
  renderItem: () => ({ type: "group", children: shapes(), $mergeChildren: false }),
});

/** Shapes on a canvas of their own above a chart: what changes often costs no drawing of what does not. */
export class Overlay {
  private readonly group = new echarts.graphic.Group();
  constructor(chart: EChartsType) {
    chart.getZr().add(this.group);
  }
  show(shapes: Shape[]): void {
    this.group.removeAll();
    for (const { type, ...rest } of shapes) {
      const Class = type === "text" ? echarts.graphic.Text : type === "rect" ? echarts.graphic.Rect : echarts.graphic.Circle;
      this.group.add(new Class({ ...rest, zlevel: 1 } as never));
    }
  }
}

// --- colours ------------------------------------------------------------------------------------

/** The value of a CSS variable of the page, with or without its dashes. */
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888";
}

export const FONT = (): string => color("sans") || "sans-serif";

/** Steps of the scale of lost time: shares of the largest loss that each class reaches up to. */
const HEAT_UP_TO = [0, 0.01, 0.05, 0.15, 0.35, 0.65, 1];

/** How lost time is coloured: classes 0 (nothing lost) to 6 (the most); -1 where the loss is not known. */
export class Heat {
  readonly most: number;
  constructor(layers: Layer[]) {
    this.most = layers.reduce((top, layer) => Math.max(top, layer.lost_ns ?? 0), 0);
  }
  of(layer: Layer | undefined | null): number {
    if (!layer || layer.lost_ns === null) return -1;
    return this.share(layer.lost_ns, this.most);
  }
  /** The class of a loss where `most` is the largest. */
  share(lost: number, most: number): number {
    if (lost <= 0 || !most) return 0;
    const share = lost / most;
    return HEAT_UP_TO.findIndex((limit, at) => at > 0 && share <= limit * 1.0000001);
  }
  static colors(): string[] {
    return HEAT_UP_TO.map((_, at) => color(`heat-${at}`));
  }
  /** Colour of text on a class. */
  static ink(): string[] {
    return HEAT_UP_TO.map((_, at) => color(at >= 5 ? "heat-ink-high" : "heat-ink"));
  }
  /** The legend: a swatch for each class with the loss that it goes up to. */
  legend(what = "a layer", most = this.most): HTMLElement {
    const swatch = (css: string, text: string): HTMLElement => el("span", { class: "swatch" }, el("i", { class: css, "aria-hidden": "true" }), text);
    const steps = most
      ? [swatch("heat-0", "nothing lost"), ...HEAT_UP_TO.slice(1).map((limit, at) => swatch(`heat-${at + 1}`, `\u2264 ~${formatNs(limit * most)}`))]
      : [swatch("heat-0", "nothing lost")];
    return el("div", { class: "chart-legend wide" }, el("span", { class: "est" }, `Time lost by ${what}:`), steps, swatch("heat-unknown", "not known"));
  }
}

/** Classes of precision, widest first, each with its own colour (`--p-...`). */
const PRECISIONS = ["fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4", "integer", "other"] as const;
export type Precision = (typeof PRECISIONS)[number];

/** The class of a dtype: all kinds of fp8 are one, as are all of four bits or less. */
export function precisionOf(dtype: string): Precision {
  const found = PRECISIONS.find((one) => one === dtype);
  if (found) return found;
  if (/^fp8/.test(dtype)) return "fp8";
  if (/^uint8$/.test(dtype)) return "int8";
  if (/^(fp[46]|u?int[24]$)/.test(dtype)) return "int4";
  if (/^(u?int|bool)/.test(dtype)) return "integer";
  return dtype === "fp64" ? "fp32" : "other";
}

export function precisionLegend(seen: ReadonlySet<Precision>): HTMLElement {
  const names: Partial<Record<Precision, string>> = { int4: "4 bits or less", integer: "indices, bool", other: "not known" };
  return el("div", { class: "chart-legend wide" }, el("span", null, "Precision of a layer and of a tensor:"),
    PRECISIONS.filter((one) => seen.has(one)).map((one) => el("span", { class: "swatch" }, el("i", { class: `p-${one}`, "aria-hidden": "true" }), names[one] ?? one)));
}

/** A pattern of lines (an estimate) or of dots (a remainder) in these colours, as a fill for a canvas. */
export function pattern(kind: "hatch" | "dots", ground: string, mark: string): Shape {
  const size = kind === "hatch" ? 16 : 12;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const brush = canvas.getContext("2d")!;
  brush.fillStyle = ground;
  brush.fillRect(0, 0, size, size);
  if (kind === "hatch") {
    brush.strokeStyle = mark;
    brush.lineWidth = 4.5;
    for (const shift of [-size, 0, size]) {
      brush.beginPath();
      brush.moveTo(shift - 4, size + 4);
      brush.lineTo(shift + size + 4, -4);
      brush.stroke();
    }
  } else {
    brush.fillStyle = mark;
    brush.beginPath();
    brush.arc(size / 2, size / 2, 2.6, 0, 2 * Math.PI);
    brush.fill();
  }
  return { image: canvas, repeat: "repeat", scaleX: 0.5, scaleY: 0.5 };
}

const OUTLINES: Record<Bound, string> = {
  tensor: "M6,0.5 a5.5,5.5 0 1,0 0.01,0 Z", dram: "M1,1 H11 V11 H1 Z", l2: "M6,0 L12,6 L6,12 L0,6 Z", vector: "M6,0.5 L12,11.5 H0 Z",
  sfu: "M0,0.5 H12 L6,11.5 Z", launch: "M4,0.5 H8 V4 H11.5 V8 H8 V11.5 H4 V8 H0.5 V4 H4 Z", none: "M6,0 L12,5 L9.5,12 L2.5,12 L0,5 Z", unknown: "M6,0 L12,5 L9.5,12 L2.5,12 L0,5 Z",
};

/** The dot of a bound for a legend in the page. */
export function dot(bound: Bound): SVGElement {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg"), path = document.createElementNS(space, "path");
  for (const [name, value] of Object.entries({ width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": "true", class: `dot b-${bound}` })) svg.setAttribute(name, String(value));
  path.setAttribute("d", OUTLINES[bound]);
  svg.append(path);
  return svg;
}

// --- text ---------------------------------------------------------------------------------------

let brush: CanvasRenderingContext2D | null = null;
/** Width in pixels of `text` in the page's font. */
export function widthOf(text: string, size: number, weight = 400): number {
  brush ??= document.createElement("canvas").getContext("2d");
  if (!brush) return text.length * size * 0.6;
  brush.font = `${weight} ${size}px ${FONT()}`;
  return brush.measureText(text).width;
}

/** `text` without the accents that pile up beyond two: on a canvas they would run over what stands above and below. */
const flat = (text: string): string => text.replace(/(\p{M}{2})\p{M}+/gu, "$1");

/** As much of `text` as fits `room` pixels at a font size, cut in the middle; empty where hardly a letter does. */
export function fit(text: string, room: number, size: number, weight = 400): string {
  if (room < size * 1.2) return "";
  const shown = flat(text);
  if (widthOf(shown, size, weight) <= room) return shown;
  let low = 0, high = Math.min(shown.length, Math.ceil(room / (size * 0.2)));
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (widthOf(elided(shown, middle), size, weight) <= room) low = middle;
    else high = middle - 1;
  }
  return low >= 3 ? elided(shown, low) : "";
}

/** The end of a long name, where the telling part of most is. */
export const tail = (name: string): string => {
  const parts = name.split("/").filter(Boolean);
  return parts.length > 2 ? parts.slice(-2).join("/") : (parts.join("/") || name);
};

// --- the frame ----------------------------------------------------------------------------------

export interface Frame {
  chart: EChartsType;
  host: HTMLElement;
  tools: HTMLElement;
  /** Sentences under the drawing. */
  words: HTMLElement;
  /** Draws before the next frame, or as soon as the drawing is on the screen. */
  redraw(): void;
  /** What was just reached with the keyboard, or is selected: read out. */
  say(text: string): void;
  width(): number;
  height(): number;
}

/** What a reader can do in a drawing; places are pixels of the canvas. */
export interface Moves {
  zoom?(factor: number, x: number, y: number): void;
  pan?(dx: number, dy: number): void;
  reset?(): void;
  /** To the next (1) or the one before (-1) in the drawing's own order. */
  step?(by: number): void;
  hover?(x: number, y: number, clientX: number, clientY: number): void;
  click?(x: number, y: number): void;
  leave?(): void;
}

/** A sentence in place of a chart. */
export function instead(panel: HTMLElement, sentence: string): void {
  panel.replaceChildren(el("p", { class: "none" }, sentence));
}

/** Charts that nobody has come near to yet, in the order of the page. */
const waiting = new Set<() => void>();

/** Draws the charts that are left, one whenever the page has nothing else to do: it may be captured whole at any time. */
export function drawRest(): void {
  const next = waiting.values().next().value;
  if (!next) return;
  const idle = (act: () => void): void => void ("requestIdleCallback" in window ? requestIdleCallback(act, { timeout: 400 }) : setTimeout(act, 50));
  idle(() => { next(); drawRest(); });
}

/**
 * Runs `start` when the panel comes near the window, the page is printed, or its turn comes in `drawRest`: a page of
 * many layers opens sooner. A chart that fails takes nothing else down: its panel says so.
 */
export function whenNear(panel: HTMLElement, height: number, start: () => void): void {
  panel.style.minHeight = `${height}px`;
  let started = false;
  const run = (): void => {
    if (started) return;
    started = true;
    waiting.delete(run);
    near.disconnect();
    const bottom = (): number => panel.getBoundingClientRect().bottom;
    const top = panel.getBoundingClientRect().top, before = bottom();
    panel.style.minHeight = "";
    start();
    // Legends and sentences wrap: the panel is seldom as high as the room that was kept for it. What lies below it and
    // is seen already, such as a row under the pointer, stays where it is.
    queueMicrotask(() => { if (scrollY > 0 && (top < 0 || before < innerHeight)) scrollBy(0, bottom() - before); });
  };
  const near = new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) run(); }, { rootMargin: "500px" });
  near.observe(panel);
  waiting.add(run);
  addEventListener("beforeprint", run);
  matchMedia("print").addEventListener("change", run);
}

/** Width of a drawing on paper, in its own pixels: a sheet of A4 is a fifth less, which leaves its words large enough. */
const PAPER = 880;
const printing = (): boolean => document.documentElement.hasAttribute("data-printing");

/** The frame of a chart in `panel`: tools, canvas, words. `draw` is called when size or colours change, and once now. */
export function frame(panel: HTMLElement, store: Store, name: string, height: number, moves: Moves, draw: (frame: Frame) => void): Frame {
  const tools = el("div", { class: "chart-tools" });
  const host = el("div", { class: "chart-canvas", tabindex: 0, role: "application", "aria-roledescription": "chart", "aria-label": name });
  const text = el("p", { class: "chart-words" });
  const status = el("p", { class: "chart-status", role: "status" });
  host.style.height = `${height}px`;
  panel.classList.add("chart");
  panel.replaceChildren(tools, host, text, status);
  // At least two pixels of the canvas for one of the page: it is printed.
  const chart = echarts.init(host, null, { renderer: "canvas", devicePixelRatio: Math.max(2, Math.min(devicePixelRatio, 3)) });
  const sized = (): void => chart.resize(printing() ? { width: PAPER } : { width: "auto" });
  let seen = true, stale = false;
  const soon = eachFrame(() => draw(made));
  const made: Frame = {
    chart, host, tools, words: text,
    redraw: () => { if (seen) soon(); else stale = true; },
    say: (sentence) => { if (status.textContent !== sentence) status.textContent = sentence; },
    width: () => chart.getWidth(),
    height: () => chart.getHeight(),
  };
  if (moves.zoom) {
    const button = (sign: string, label: string, act: () => void): HTMLElement => {
      const node = el("button", { type: "button", class: "chart-button", "aria-label": label, title: label }, sign);
      node.addEventListener("click", act);
      return node;
    };
    const middle = (factor: number) => () => moves.zoom!(factor, chart.getWidth() / 2, chart.getHeight() / 2);
    tools.append(el("span", { class: "chart-zoom" }, button("+", "Zoom in", middle(1.5)), button("\u2212", "Zoom out", middle(1 / 1.5)), button("Fit", "Fit: show all", () => moves.reset?.())));
  }
  move(host, store, moves);
  // The frame is the reader's before it is drawn in.
  queueMicrotask(() => {
    if (printing()) sized();
    draw(made);
  });
  document.addEventListener("printchange", () => {
    sized();
    draw(made);
    // A page about to be printed is painted at once.
    chart.getZr().flush();
  });
  new IntersectionObserver((entries) => {
    seen = entries[entries.length - 1]!.isIntersecting;
    if (seen && stale) { stale = false; soon(); }
  }, { rootMargin: "200px" }).observe(host);
  let width = host.clientWidth;
  new ResizeObserver(() => {
    if (!host.clientWidth || host.clientWidth === width || printing()) return;
    width = host.clientWidth;
    sized();
    draw(made);
  }).observe(host);
  store.onTheme(() => { if (!printing()) draw(made); });
  return made;
}

function move(host: HTMLElement, store: Store, moves: Moves): void {
  let armed = false;
  let drag: { x: number; y: number; moved: boolean } | null = null;
  const at = (event: MouseEvent): [number, number] => {
    const box = host.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  host.addEventListener("wheel", (event) => {
    // The wheel belongs to the page until the reader has clicked into the drawing, or holds Ctrl.
    if (!moves.zoom || !(armed || event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    store.tip(null, 0, 0);
    if (moves.pan && event.shiftKey) moves.pan(-(event.deltaX || event.deltaY), 0);
    else {
      const lines = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
      const pinch = event.ctrlKey && Math.abs(event.deltaY) < 50 ? 6 : 1;
      moves.zoom(Math.exp(-Math.max(-600, Math.min(600, event.deltaY * lines * pinch)) * 0.0018), ...at(event));
    }
  }, { passive: false });
  host.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    armed = true;
    if (event.pointerType === "touch") return;
    drag = { x: event.clientX, y: event.clientY, moved: false };
  });
  addEventListener("pointermove", (event) => {
    if (!drag) return;
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    if (!drag.moved) { drag.moved = true; host.classList.add("dragged"); store.tip(null, 0, 0); }
    drag.x = event.clientX;
    drag.y = event.clientY;
    moves.pan?.(dx, dy);
  });
  addEventListener("pointerup", () => {
    setTimeout(() => { drag = null; host.classList.remove("dragged"); }, 0);
  });
  host.addEventListener("click", (event) => { if (!drag?.moved) moves.click?.(...at(event)); });
  host.addEventListener("dblclick", (event) => { moves.zoom?.(2, ...at(event)); });
  host.addEventListener("pointermove", (event) => { if (!drag?.moved && event.pointerType !== "touch") moves.hover?.(...at(event), event.clientX, event.clientY); });
  host.addEventListener("pointerleave", () => { armed = false; store.tip(null, 0, 0); moves.leave?.(); });
  addEventListener("scroll", () => store.tip(null, 0, 0), { passive: true });
  host.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const middle: [number, number] = [host.clientWidth / 2, host.clientHeight / 2];
    const far = 60;
    const arrows: Record<string, [number, number]> = { ArrowLeft: [far, 0], ArrowRight: [-far, 0], ArrowUp: [0, far], ArrowDown: [0, -far] };
    const arrow = arrows[event.key];
    if (arrow && event.shiftKey && moves.pan) moves.pan(...arrow);
    else if (arrow && !event.shiftKey && moves.step) moves.step(event.key === "ArrowRight" || event.key === "ArrowDown" ? 1 : -1);
    else if ((event.key === "+" || event.key === "=") && moves.zoom) moves.zoom(1.5, ...middle);
    else if (event.key === "-" && moves.zoom) moves.zoom(1 / 1.5, ...middle);
    else if ((event.key === "0" || event.key === "Home") && moves.reset) moves.reset();
    else if (event.key === "Escape") { armed = false; store.tip(null, 0, 0); store.select(null, "chart"); }
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

/** Calls `f` at most once a frame. */
export function eachFrame(f: () => void): () => void {
  let waiting = 0;
  return () => { waiting ||= requestAnimationFrame(() => { waiting = 0; f(); }); };
}

/** Numbers of a view as the address keeps them; null where it is not as many numbers as there should be. */
export function numbers(text: string | null, count: number): number[] | null {
  const found = (text ?? "").split("_").map(Number);
  return found.length === count && found.every(Number.isFinite) && text ? found : null;
}
export const shortly = (values: number[]): string => values.map((value) => String(Number(value.toPrecision(6)))).join("_");

export const HOW = "Drag to move; Ctrl and wheel to zoom (after a click the wheel alone). Keys: + \u2212 0 to zoom, arrows to go from one to the next, Shift and arrows to move.";

/** What a dot, a bar or a box says of a layer. */
export function layerTip(layer: Layer, boundName: string): [string, string][] {
  const lines: [string, string][] = [["op", layer.op_type]];
  if (layer.node_names.length) lines.push([layer.node_names.length === 1 ? "node" : `${layer.node_names.length} nodes`, layer.node_names.slice(0, 6).join(", ") + (layer.node_names.length > 6 ? ", \u2026" : "")]);
  if (layer.kernels.length) lines.push([layer.kernels.length === 1 ? "kernel" : `${layer.kernels.length} kernels`, layer.kernels.slice(0, 3).map((kernel) => kernel.name).join(", ")]);
  lines.push(["measured", formatNs(layer.measured_ns)]);
  if (layer.attainable_ns !== null) lines.push(["allowed", `~${formatNs(layer.attainable_ns)}`]);
  lines.push(["lost", layer.lost_ns === null ? "not known" : `~${formatNs(layer.lost_ns)}`]);
  if (layer.attainable_ns !== null && layer.measured_ns) lines.push(["of the roofline", `~${((100 * layer.attainable_ns) / layer.measured_ns).toFixed(0)} %`]);
  lines.push(["bound by", boundName]);
  return lines;
}
