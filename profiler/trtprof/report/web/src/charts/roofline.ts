/* The roofline: rate over arithmetic intensity of each layer, below what the device can do. Both axes are logarithms. */
import { el } from "../dom";
import { boundName } from "../page";
import type { Bound, Layer, Roof } from "../page";
import type { Store } from "../store";
import { digits, elided, formatNs, formatPercent, formatRate, plural } from "../text";
import { FONT, HOW, Overlay, clipped, color, dot, drawing, frame, instead, layerTip, numbers, shortly, spots, tail, whenNear, widthOf, wires, words } from "./common";
import type { Frame, Shape } from "./common";

interface Dot { layer: Layer; x: number; y: number }
interface Ceiling { flat: boolean; value: number; label: string; short: string; measured: boolean }
interface View { x0: number; x1: number; y0: number; y1: number }

/** From this many dots on, those of a bound are one shape. */
const CROWD = 1500;
const LEFT = 84, RIGHT = 18, TOP = 14, BOTTOM = 46;
const ORDER: Bound[] = ["tensor", "vector", "sfu", "dram", "l2", "launch", "none", "unknown"];

export function mount(panel: HTMLElement, store: Store): void {
  const { layers, ceilings, device } = store.page;
  const dots: Dot[] = [];
  for (const layer of layers) {
    if (layer.flops === null || layer.bytes === null || !(layer.flops > 0 && layer.bytes > 0 && layer.measured_ns > 0)) continue;
    dots.push({ layer, x: Math.log10(layer.flops / layer.bytes), y: Math.log10((layer.flops / layer.measured_ns) * 1e9) });
  }
  if (!layers.length) { instead(panel, "There is no layer to draw: no layer was timed."); return; }
  if (!dots.length) { instead(panel, `${layers.length === 1 ? "The one layer cannot be drawn: it has no" : `None of ${plural(layers.length, "layer")} can be drawn: none has`} arithmetic, bytes and a time that are all known.`); return; }
  const at = new Map(dots.map((one, index) => [one.layer.place, index]));
  const roofs = ceilingsOf(dots, ceilings.attainable, ceilings.best, ceilings.origin, device.kind);
  const whole = extent(dots, roofs);
  const height = Math.round(Math.max(380, Math.min(580, (panel.clientWidth || 1200) * 0.44)));

  whenNear(panel, height + 90, () => {
    const name = (bound: string): string => boundName(bound, store.page);
    let view = restored(whole, store.view("roof"));
    const off = new Set((store.view("roof-off") ?? "").split("-").filter(Boolean));
    let made: Frame;
    const longest = dots.reduce((most, one) => Math.max(most, one.layer.measured_ns), 1);
    const present = ORDER.filter((bound) => dots.some((one) => one.layer.bound === bound));

    const box = () => ({ left: LEFT, top: TOP, width: Math.max(made.width() - LEFT - RIGHT, 50), height: made.height() - TOP - BOTTOM });
    const px = (x: number): number => { const { left, width } = box(); return left + ((x - view.x0) / (view.x1 - view.x0)) * width; };
    const py = (y: number): number => { const { top, height } = box(); return top + ((view.y1 - y) / (view.y1 - view.y0)) * height; };

    const radius = (one: Dot): number => {
      const most = 24 * Math.min(1, made.width() / 900) * Math.min(1, (150 / dots.length) ** 0.25);
      // Zooming in makes room.
      const closer = Math.min(1.6, Math.sqrt((whole.x1 - whole.x0) / (view.x1 - view.x0)));
      return Math.max(2.2, most * closer * Math.sqrt(one.layer.measured_ns / longest));
    };

    const draw = (frame_: Frame): void => {
      made = frame_;
      const ink = color("ink"), soft = color("soft"), ground = color("bg"), font = FONT();
      const xTicks = ticks(view.x0, view.x1, box().width / 80), yTicks = ticks(view.y0, view.y1, box().height / 42);
      const axis = (name_: string, lowest: number, highest: number, values: number[], gap: number, format: (value: number) => string): Shape => ({
        type: "value", min: lowest, max: highest, name: name_, nameLocation: "middle", nameGap: gap, nameTextStyle: { color: soft, fontSize: 12.5, fontFamily: font },
        axisLine: { show: false }, axisTick: { show: false }, axisLabel: { customValues: values, color: soft, fontSize: 11.5, fontFamily: font, formatter: format, hideOverlap: true },
        splitLine: { show: false },
      });
      made.chart.setOption({
        animation: false, grid: { left: LEFT, right: RIGHT, top: TOP, bottom: BOTTOM },
        xAxis: axis("arithmetic intensity: FLOP per byte that the layer moves", view.x0, view.x1, xTicks, 30, (value) => plainNumber(10 ** value)),
        yAxis: axis("", view.y0, view.y1, yTicks, 40, (value) => formatRate(10 ** value * 1.0000001, "FLOP/s").replace(/(\.\d*?)0+ /, "$1 ").replace(/\. /, " ")),
        series: [drawing("roofs", () => roofShapes(ink, soft), 2), drawing("dots", () => dotShapes(ground), 3), drawing("labels", () => labelShapes(ink, ground, font), 4)],
      }, { replaceMerge: ["series"] });
      mark();
    };
    let overlay: Overlay | null = null;
    /** Marks the selected dot. */
    const mark = (): void => (overlay ??= new Overlay(made.chart)).show(pickedShapes(color("ink"), color("bg"), FONT()));

    /** Ends of a ceiling within the drawing, in logarithms; null where none of it is seen. */
    const seen = (roof: Ceiling): [number, number, number, number] | null => {
      const log = Math.log10(roof.value);
      if (roof.flat) {
        // From where the fastest memory could feed it.
        const widest = roofs.filter((one) => !one.flat && one.measured === roof.measured).reduce((most, one) => Math.max(most, one.value), 0);
        const from = Math.max(view.x0, widest ? log - Math.log10(widest) : view.x0);
        return log < view.y0 || log > view.y1 || from >= view.x1 ? null : [from, log, view.x1, log];
      }
      const top = roofs.filter((one) => one.flat && one.measured === roof.measured).reduce((most, one) => Math.max(most, Math.log10(one.value)), -Infinity);
      const from = Math.max(view.x0, view.y0 - log), to = Math.min(view.x1, view.y1 - log, (top === -Infinity ? view.y1 : top) - log);
      return from >= to ? null : [from, from + log, to, to + log];
    };

    const roofShapes = (ink: string, soft: string): Shape[] => {
      const { left, top, width, height: tall } = box();
      const grid = [...ticks(view.x0, view.x1, width / 80).map((x) => [px(x), top, px(x), top + tall]), ...ticks(view.y0, view.y1, tall / 42).map((y) => [left, py(y), left + width, py(y)])];
      return [wires([...grid, [left, top, left, top + tall, left + width, top + tall]], { stroke: color("line"), lineWidth: 1 }), clipped(left, top, width, tall, roofs.flatMap((roof) => {
        const ends = seen(roof);
        if (!ends) return [];
        const [x0, y0, x1, y1] = ends;
        return [wires([[px(x0), py(y0), px(x1), py(y1)]], roof.measured ? { stroke: ink, lineWidth: 1.8 } : { stroke: soft, lineWidth: 1.3, lineDash: [6, 4] }, 1)];
      }))];
    };

    const dotShapes = (ground: string): Shape[] => {
      const { left, top, width, height: tall } = box(), crowd = dots.length > CROWD;
      const shown = dots.filter((one) => !off.has(one.layer.bound) && one.x > view.x0 - 0.5 && one.x < view.x1 + 0.5 && one.y > view.y0 - 0.5 && one.y < view.y1 + 0.5);
      const style = (bound: Bound): Shape => ({
        fill: bound === "unknown" ? ground : color(bound), opacity: crowd ? 0.62 : 0.8, stroke: bound === "unknown" ? color("unknown") : ground, lineWidth: crowd && bound !== "unknown" ? 0 : 1,
      });
      if (crowd) {
        // A shape for each bound: thousands of dots are drawn in a blink.
        const flat = new Map<Bound, number[]>();
        for (const one of shown) {
          const own = flat.get(one.layer.bound) ?? flat.set(one.layer.bound, []).get(one.layer.bound)!;
          own.push(px(one.x), py(one.y), radius(one));
        }
        return [clipped(left, top, width, tall, [...flat].map(([bound, own]) => spots(own, bound, style(bound), 1)))];
      }
      // Small dots stand over large ones.
      shown.sort((a, b) => b.layer.measured_ns - a.layer.measured_ns);
      return [clipped(left, top, width, tall, shown.map((one, index) => spots([px(one.x), py(one.y), radius(one)], one.layer.bound, style(one.layer.bound), index)))];
    };

    const labelShapes = (ink: string, ground: string, font: string): Shape[] => {
      const { left, top, width, height: tall } = box(), shapes: Shape[] = [], taken: Rect[] = [];
      const lines = roofs.map((roof) => { const ends = seen(roof); return ends && { roof, line: [px(ends[0]), py(ends[1]), px(ends[2]), py(ends[3])] as Rect }; }).filter((one) => one !== null);
      const style = (measured: boolean): Shape => ({ fill: measured ? ink : color("soft"), font: `${measured ? 560 : 400} 11.5px ${font}`, stroke: ground, lineWidth: 4, align: "center", verticalAlign: "middle" });
      const taking = dots.flatMap((one) => (off.has(one.layer.bound) ? [] : [[px(one.x), py(one.y), radius(one)] as const]));
      const covers = (parts: Rect[]): number => {
        const [a, b, c, d] = [Math.min(...parts.map((part) => part[0])), Math.min(...parts.map((part) => part[1])), Math.max(...parts.map((part) => part[2])), Math.max(...parts.map((part) => part[3]))];
        let count = 0;
        for (const [x, y, r] of taking) if (x + r > a && x - r < c && y + r > b && y - r < d && parts.some((part) => x + r > part[0] && x - r < part[2] && y + r > part[1] && y - r < part[3])) count++;
        return Math.min(count, 8);
      };
      for (const { roof, line } of lines) {
        const [x0, y0, x1, y1] = line;
        // The whole label, or where there is no room for it, the number alone.
        for (const text of [roof.label, roof.short]) {
          const long = widthOf(text, 11.5, 560) + 6, length = Math.hypot(x1 - x0, y1 - y0);
          if (long > length - 8) continue;
          const cos = (x1 - x0) / length, sin = (y1 - y0) / length;
          // Along the line, above or below it: where no label stands and, if there is such a place, no other line runs.
          const places: { x: number; y: number; parts: Rect[]; cost: number }[] = [];
          for (const share of roof.flat ? [1, 0.8, 0.6, 0.4] : roof.measured ? [0.05, 0.25, 0.5, 0.75] : [0.5, 0.3, 0.7, 0.1, 0.9, 1]) for (const side of [-10, 10]) {
            const along = 4 + long / 2 + share * (length - long - 8);
            const x = x0 + cos * along - sin * side, y = y0 + sin * along + cos * side;
            // The band of the label as small boxes, since it may run aslant.
            const parts = Array.from({ length: 8 }, (_, part): Rect => {
              const away = ((part + 0.5) / 8 - 0.5) * long;
              return [x + cos * away - long / 16 - 2, y + sin * away - 8, x + cos * away + long / 16 + 2, y + sin * away + 8];
            });
            if (parts.some(([a, b, c, d]) => a < left || b < top - 8 || c > left + width + 4 || d > top + tall) || parts.some((part) => taken.some((other) => overlap(part, other)))) continue;
            const crossed = lines.filter((other) => other.roof !== roof && parts.some((part) => passes(other.line, part))).length;
            places.push({ x, y, parts, cost: crossed * 6 + covers(parts) * 5 + places.length });
          }
          const best = places.sort((a, b) => a.cost - b.cost)[0];
          if (!best) continue;
          taken.push(...best.parts);
          shapes.push(words(text, best.x, best.y, style(roof.measured), 5, { rotation: -Math.atan2(sin, cos) }));
          break;
        }
      }
      return shapes;
    };

    const pickedShapes = (ink: string, ground: string, font: string): Shape[] => {
      const index = store.selected === null ? undefined : at.get(store.selected);
      if (index === undefined) return [];
      const one = dots[index]!, x = px(one.x), y = py(one.y), { left, top, width, height: tall } = box();
      if (x < left || x > left + width || y < top || y > top + tall) return [];
      const r = radius(one), text = elided(`${one.layer.op_type}: ${tail(one.layer.name)}, ${formatNs(one.layer.measured_ns)}`, 60), long = widthOf(text, 12, 600);
      // Below its dot, or above it at the foot of the drawing.
      const from = Math.max(left + 4, Math.min(x - long / 2, left + width - long - 4)), line = y + r + 30 < top + tall ? y + r + 17 : y - r - 17;
      return [
        { type: "rect", shape: { x: from - 4, y: line - 9, width: long + 8, height: 18, r: 3 }, style: { fill: ground, opacity: 0.93 }, silent: true },
        { type: "circle", shape: { cx: x, cy: y, r: r + 3.5 }, style: { fill: "none", stroke: ground, lineWidth: 5 }, silent: true },
        { type: "circle", shape: { cx: x, cy: y, r: r + 3.5 }, style: { fill: "none", stroke: ink, lineWidth: 2.2 }, silent: true },
        words(text, from, line, { fill: ink, font: `600 12px ${font}`, verticalAlign: "middle" }),
      ];
    };

    /** The smallest dot under the pointer, or the nearest within a few pixels. */
    const hit = (x: number, y: number): Dot | null => {
      let best: Dot | null = null, least = Infinity;
      for (const one of dots) {
        if (off.has(one.layer.bound)) continue;
        const dx = px(one.x) - x, dy = py(one.y) - y;
        if (Math.abs(dx) > 30 || Math.abs(dy) > 30) continue;
        const r = radius(one), away = Math.hypot(dx, dy);
        if (away > r + 4) continue;
        const cost = away <= r ? r : r + away * 10;
        if (cost < least) { least = cost; best = one; }
      }
      return best;
    };

    const redraw = (): void => made.redraw();
    const moved = (): void => {
      const same = (["x0", "x1", "y0", "y1"] as const).every((key) => Math.abs(view[key] - whole[key]) < 1e-6);
      store.setView("roof", same ? null : shortly([view.x0, view.x1, view.y0, view.y1]));
      redraw();
    };
    const describe = (layer: Layer): string =>
      `${layer.name}: ${layer.op_type}, measured ${formatNs(layer.measured_ns)}, ${layer.lost_ns === null ? "loss not known" : `lost ~${formatNs(layer.lost_ns)}`}, bound by ${name(layer.bound)}`;

    const shownWords = `${plural(dots.length, "layer")} as dots`;
    const label = `Roofline, rate over arithmetic intensity: ${shownWords}, from ${formatRate(10 ** Math.min(...ends(dots, "y")), "FLOP/s")} to ${formatRate(10 ** Math.max(...ends(dots, "y")), "FLOP/s")}. Ceilings: ${roofs.map((roof) => roof.label).join("; ")}. ${present.map((bound) => `${dots.filter((one) => one.layer.bound === bound).length} bound by ${name(bound)}`).join(", ")}. The same numbers are in the table of layers.`;
    made = frame(panel, store, label, height, {
      zoom: (factor, x, y) => {
        const { left, top, width, height: tall } = box();
        const sx = Math.min(1, Math.max(0, (x - left) / width)), sy = Math.min(1, Math.max(0, (y - top) / tall));
        const across = (view.x1 - view.x0) / factor, up = (view.y1 - view.y0) / factor;
        if (across > 3 * (whole.x1 - whole.x0) || across < 0.02) return;
        const cx = view.x0 + sx * (view.x1 - view.x0), cy = view.y1 - sy * (view.y1 - view.y0);
        view = { x0: cx - sx * across, x1: cx + (1 - sx) * across, y0: cy - (1 - sy) * up, y1: cy + sy * up };
        moved();
      },
      pan: (dx, dy) => {
        const { width, height: tall } = box();
        const x = (-dx / width) * (view.x1 - view.x0), y = (dy / tall) * (view.y1 - view.y0);
        view = { x0: view.x0 + x, x1: view.x1 + x, y0: view.y0 + y, y1: view.y1 + y };
        moved();
      },
      reset: () => { view = { ...whole }; moved(); },
      step: (by) => {
        const shown = dots.filter((one) => !off.has(one.layer.bound));
        if (!shown.length) return;
        const now = shown.findIndex((one) => one.layer.place === store.selected);
        store.select(shown[now < 0 ? (by > 0 ? 0 : shown.length - 1) : (now + by + shown.length) % shown.length]!.layer.place, "roofline");
      },
      hover: (x, y, clientX, clientY) => {
        const one = hit(x, y);
        made.host.style.cursor = one ? "pointer" : "";
        if (!one) { store.tip(null, 0, 0); return; }
        const lines = layerTip(one.layer, name(one.layer.bound));
        lines.push(["intensity", `~${digits(10 ** one.x)} FLOP/B`], ["reached", formatRate(10 ** one.y, "FLOP/s")]);
        store.tip(lines, clientX, clientY, one.layer.name);
      },
      click: (x, y) => { const one = hit(x, y); if (one) store.select(one.layer.place, "roofline"); },
    }, draw);

    const legend = el("div", { class: "chart-legend" }, "Bound by:", present.map((bound) => {
      const mine = dots.filter((one) => one.layer.bound === bound);
      const button = el("button", { type: "button", class: "chart-toggle", "aria-pressed": String(!off.has(bound)), title: `Show or hide layers bound by ${name(bound)}` }, dot(bound), `${name(bound)} ${mine.length}`);
      button.addEventListener("click", () => {
        if (!off.delete(bound)) off.add(bound);
        button.setAttribute("aria-pressed", String(!off.has(bound)));
        store.setView("roof-off", off.size ? [...off].join("-") : null);
        draw(made);
      });
      return button;
    }));
    made.tools.prepend(legend);
    made.words.textContent = sentences(layers, dots, longest, roofs);
    made.words.append(" ", el("span", { class: "chart-how" }, HOW));
    const follow = (place: number | null): void => {
      const index = place === null ? undefined : at.get(place);
      if (index !== undefined) {
        const one = dots[index]!;
        if (one.x < view.x0 || one.x > view.x1 || one.y < view.y0 || one.y > view.y1) { view = { ...whole }; moved(); }
        made.say(`Selected: ${elided(describe(one.layer), 300)}`);
      } else if (place !== null) made.say(`Selected: ${elided(layers[place]!.name, 200)}, which is no dot here: its arithmetic or bytes are none or not known`);
      else made.say("");
    };
    if (store.selected !== null) follow(store.selected);
    store.onSelect((place) => { follow(place); mark(); });
    store.onView(() => {
      view = restored(whole, store.view("roof"));
      off.clear();
      for (const bound of (store.view("roof-off") ?? "").split("-").filter(Boolean)) off.add(bound);
      redraw();
    });
  });
}

/** Left, top, right, bottom; of a line its two ends. */
type Rect = [number, number, number, number];
const overlap = (a: Rect, b: Rect): boolean => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];

/** Whether a line runs through a box. */
function passes([x0, y0, x1, y1]: Rect, [left, top, right, bottom]: Rect): boolean {
  let from = 0, to = 1;
  for (const [start, step, low, high] of [[x0, x1 - x0, left, right], [y0, y1 - y0, top, bottom]] as const) {
    if (Math.abs(step) < 1e-9) { if (start < low || start > high) return false; continue; }
    const a = (low - start) / step, b = (high - start) / step;
    from = Math.max(from, Math.min(a, b));
    to = Math.min(to, Math.max(a, b));
  }
  return from <= to;
}

const ends = (dots: Dot[], key: "x" | "y"): [number, number] => [dots.reduce((least, one) => Math.min(least, one[key]), Infinity), dots.reduce((most, one) => Math.max(most, one[key]), -Infinity)];

function restored(whole: View, text: string | null): View {
  const found = numbers(text, 4);
  if (!found || !(found[1]! > found[0]! && found[3]! > found[2]!) || found.some((value) => Math.abs(value) > 60)) return { ...whole };
  return { x0: found[0]!, x1: found[1]!, y0: found[2]!, y1: found[3]! };
}

/** All ceilings that matter to these layers: peaks by dtype and kind of unit, and the two levels of memory. */
function ceilingsOf(dots: Dot[], attainable: Roof, best: Roof, origin: "measured" | "datasheet", device: "cpu" | "gpu"): Ceiling[] {
  const used = new Set(dots.map((one) => one.layer.dtype));
  const some = (peaks: Record<string, number>): string[] => {
    const all = Object.keys(peaks).filter((dtype) => peaks[dtype]! > 0);
    return all.some((dtype) => used.has(dtype)) ? all.filter((dtype) => used.has(dtype)) : all;
  };
  const found: Ceiling[] = [];
  const add = (roof: Roof, measured: boolean, word: string): void => {
    const flats = new Map<string, { value: number; names: string[] }>();
    const put = (name: string, value: number): void => {
      const key = value.toPrecision(2);
      const same = flats.get(key);
      if (same) same.names.push(name);
      else flats.set(key, { value, names: [name] });
    };
    for (const dtype of some(roof.tensor_flops_per_s)) {
      const vector = roof.vector_flops_per_s[dtype] ?? 0, tensor = roof.tensor_flops_per_s[dtype]!;
      const apart = vector > 0 && Math.abs(vector / tensor - 1) > 0.01;
      put(apart ? `${dtype} ${device === "gpu" ? "tensor cores" : "products"}` : dtype, tensor);
      if (apart) put(`${dtype} ${device === "gpu" ? "CUDA cores" : "other arithmetic"}`, vector);
    }
    for (const dtype of some(roof.vector_flops_per_s)) if (!(roof.tensor_flops_per_s[dtype]! > 0)) put(`${dtype} other arithmetic`, roof.vector_flops_per_s[dtype]!);
    for (const { value, names } of [...flats.values()].sort((a, b) => b.value - a.value)) found.push({ flat: true, value, measured, short: `${formatRate(value, "FLOP/s")}, ${word}`, label: `${names.slice(0, 3).join(", ")}${names.length > 3 ? ", \u2026" : ""} ${formatRate(value, "FLOP/s")}, ${word}` });
    if (roof.dram_bytes_per_s > 0) found.push({ flat: false, value: roof.dram_bytes_per_s, measured, short: `${formatRate(roof.dram_bytes_per_s, "B/s")}, ${word}`, label: `DRAM ${formatRate(roof.dram_bytes_per_s, "B/s")}, ${word}` });
    if (roof.cache_bytes_per_s > 0) found.push({ flat: false, value: roof.cache_bytes_per_s, measured, short: `${formatRate(roof.cache_bytes_per_s, "B/s")}, ${word}`, label: `${device === "gpu" ? "L2" : "last-level cache"} ${formatRate(roof.cache_bytes_per_s, "B/s")}, ${word}` });
  };
  add(attainable, origin === "measured", origin);
  const known = found.map((roof) => roof);
  const more: Ceiling[] = [];
  const mark = found.length;
  add(best, false, origin === "measured" ? (device === "gpu" ? "datasheet" : "best measured") : "datasheet, at best");
  more.push(...found.splice(mark));
  // What is no different is not drawn twice.
  return [...known, ...more.filter((roof) => !known.some((other) => other.flat === roof.flat && Math.abs(roof.value / other.value - 1) < 0.015))].map((roof) => ({ ...roof, label: elided(roof.label, 70) }));
}

function extent(dots: Dot[], roofs: Ceiling[]): View {
  const flats = roofs.filter((roof) => roof.flat).map((roof) => Math.log10(roof.value)), slopes = roofs.filter((roof) => !roof.flat).map((roof) => Math.log10(roof.value));
  const ridges = flats.flatMap((flat) => slopes.map((slope) => flat - slope));
  const span = (values: number[], pad: number): [number, number] => {
    const finite = values.filter(Number.isFinite);
    const low = finite.reduce((a, b) => Math.min(a, b), Infinity), high = finite.reduce((a, b) => Math.max(a, b), -Infinity);
    if (low === Infinity) return [0, 1];
    return [low - pad, Math.max(high, low + 1) + pad];
  };
  const [x0, x1] = span([...ends(dots, "x"), ...ridges], 0.5), [y0, y1] = span([...ends(dots, "y"), ...flats], 0.32);
  return { x0, x1, y0, y1 };
}

/** Places of ticks on a logarithmic axis: powers of ten, and 2 and 5 between them where there is room. */
function ticks(low: number, high: number, most: number): number[] {
  const decades = high - low;
  const every = decades > most ? Math.ceil(decades / Math.max(most, 1)) : 1;
  const parts = decades * 3 <= most * 1.2 ? (decades * 9 <= most ? [1, 2, 3, 4, 5, 6, 7, 8, 9] : [1, 2, 5]) : [1];
  const found: number[] = [];
  for (let power = Math.floor(low / every) * every; power <= high; power += every) for (const part of parts) {
    const value = power + Math.log10(part);
    if (value >= low && value <= high) found.push(value);
  }
  // Deep in one decade: even steps of the axis itself.
  if (found.length < 2) { for (let step = 0; step <= 4; step++) found.push(low + ((high - low) * step) / 4); found.sort((a, b) => a - b); }
  return found;
}

const plainNumber = (value: number): string => (value >= 1e5 || value < 1e-4 ? value.toExponential(0).replace("e+", "e") : String(Number(value.toPrecision(2))));

function sentences(layers: Layer[], dots: Dot[], longest: number, roofs: Ceiling[]): string {
  const drawn = new Set(dots.map((one) => one.layer.place));
  const rest = layers.filter((layer) => !drawn.has(layer.place));
  const unknown = rest.filter((layer) => layer.flops === null || layer.bytes === null), idle = rest.filter((layer) => !unknown.includes(layer) && layer.measured_ns > 0), short = rest.filter((layer) => !unknown.includes(layer) && !layer.measured_ns);
  const time = (some: Layer[]): string => formatNs(some.reduce((sum, layer) => sum + layer.measured_ns, 0));
  const parts = [`The area of a dot is its time; the largest takes ${formatNs(longest)}.`];
  const dashed = roofs.some((roof) => !roof.measured), solid = roofs.some((roof) => roof.measured);
  parts.push(solid && dashed ? "Solid lines are ceilings measured for this run, dashed ones the best known of this device." : solid ? "Lines are ceilings measured for this run." : "Dashed lines are ceilings of the datasheet, not measured.");
  const missing = [[idle, "without arithmetic"], [unknown, "whose work is not known"], [short, "without a time"]] as const;
  const said = missing.filter(([some]) => some.length).map(([some, why]) => `${plural(some.length, "layer")} ${why} (${time(some)})`);
  parts.push(said.length ? `Not drawn: ${said.join(", ")}.` : "Every layer is drawn.");
  const total = layers.reduce((sum, layer) => sum + layer.measured_ns, 0);
  if (said.length && total) parts.push(`The dots are ${formatPercent(dots.reduce((sum, one) => sum + one.layer.measured_ns, 0) / total)} of the time of all layers.`);
  return parts.join(" ");
}
