/* One inference as captured: lanes of streams and threads, and above them the layers and ONNX nodes that they work for. */
import { el } from "../dom";
import { boundName } from "../page";
import type { Store } from "../store";
import { elided, formatNs, formatPercent, formatWhole, plural, visible } from "../text";
import { FONT, HOW, Heat, boxes, clipped, color, drawing, fit, frame, instead, layerTip, numbers, pattern, shortly, tail, whenNear, wires, words } from "./common";
import type { Frame, Shape } from "./common";
import { barsOf, gapsOf, packed, spansOf, trackOf } from "./merge";
import type { Bar, Span, Track } from "./merge";

const ROW = 26, BAR = 20, TOP = 26, SLIDER = 46, MOST_LAYER_ROWS = 3;

type RowKind = "layers" | "nodes" | "kernels" | "copies" | "host" | "gaps";
interface Row {
  kind: RowKind;
  label: string;
  /** Rows of the table of events, or of `spans`, or of the gaps. */
  track: Track;
  spans: Span[];
  y: number;
  bars: Bar[];
}

export function mount(panel: HTMLElement, store: Store): void {
  const { timeline, layers } = store.page;
  if (!timeline) { instead(panel, "There is no timeline: nobody saw when kernels ran. Times of layers alone, or sums by kernel, do not tell it."); return; }
  const events = timeline.start_ns.length;
  if (!events) { instead(panel, "The timeline has no event: nothing ran in the inference that was chosen."); return; }

  const tracks = timeline.lanes.map((_, lane) => {
    const items: number[] = [];
    for (let row = 0; row < events; row++) if (timeline.lane[row] === lane) items.push(row);
    return trackOf(items, timeline.start_ns, timeline.dur_ns);
  });
  const total = Math.max(timeline.duration_ns, tracks.reduce((most, track) => Math.max(most, track.latest[track.latest.length - 1] ?? 0), 0), 1);
  const running = timeline.lanes.flatMap((lane, at) => (lane.kind === "kernels" ? [tracks[at]!] : []));
  const outermost = timeline.lanes.flatMap((lane, at) => (lane.kind === "kernels" && !lane.depth ? [tracks[at]!] : []));
  const gaps = gapsOf(running, 0, total);
  const gapTrack = trackOf(gaps.start.map((_, at) => at), gaps.start, gaps.start.map((start, at) => gaps.end[at]! - start));
  const idle = gaps.start.reduce((sum, start, at) => sum + gaps.end[at]! - start, 0);
  const spans = outermost.flatMap((track) => spansOf(track, timeline.layer));
  const rows: Row[] = [];
  const add = (kind: RowKind, label: string, track: Track, own: Span[] = []): void => { if (track.item.length) rows.push({ kind, label, track, spans: own, y: TOP + rows.length * ROW, bars: [] }); };
  const spanTrack = (own: Span[]): Track => trackOf(own.map((_, at) => at), own.map((span) => span.start), own.map((span) => span.end - span.start));
  const layerRows = packed(spans, MOST_LAYER_ROWS);
  layerRows.forEach((own, at) => {
    add("layers", layerRows.length > 1 ? `layers ${at + 1}` : "layers", spanTrack(own), own);
    if (own.some((span) => layers[span.layer]?.node_names.length)) add("nodes", layerRows.length > 1 ? `ONNX nodes ${at + 1}` : "ONNX nodes", spanTrack(own), own);
  });
  timeline.lanes.forEach((lane, at) => { if (lane.kind === "kernels") add("kernels", lane.depth ? `${lane.name}, inside (${lane.depth})` : lane.name, tracks[at]!); });
  if (running.length && idle) add("gaps", "no kernel runs", gapTrack);
  timeline.lanes.forEach((lane, at) => { if (lane.kind !== "kernels") add(lane.kind, lane.depth ? `${lane.name}, inside (${lane.depth})` : lane.name, tracks[at]!); });
  const height = TOP + rows.length * ROW + SLIDER;

  whenNear(panel, height + 110, () => {
    const heat = new Heat(layers);
    let made: Frame, merged = 0;
    let [from, to] = restored();
    let focus = -1;
    const left = (): number => Math.min(150, made.width() * 0.24);
    const room = (): number => Math.max(made.width() - left() - 14, 40);
    const px = (ns: number): number => left() + ((ns - from) / (to - from)) * room();
    const layerOf = (row: Row, item: number): number => (row.kind === "layers" || row.kind === "nodes" ? row.spans[item]!.layer : row.kind === "gaps" ? -1 : timeline.layer[item]!);

    function restored(): [number, number] {
      const found = numbers(store.view("time"), 2);
      return found && found[1]! > found[0]! && found[0]! >= 0 && found[0]! < total ? [found[0]!, Math.min(found[1]!, total)] : [0, total];
    }

    const shapes = (): Shape[] => {
      const ink = color("ink"), soft = color("soft"), font = FONT(), line = color("line"), x0 = left(), wide = room();
      const fills: unknown[] = Heat.colors(), inks = Heat.ink();
      const unknown = pattern("hatch", color("rest-ground"), color("rest")), dotted = pattern("dots", color("rest-ground"), color("rest"));
      const plain = color("rest-ground"), edge = color("bg"), panelColor = color("panel");
      const out: Shape[] = [], inside: Shape[] = [];
      merged = 0;
      // The scale.
      const tick = niceStep((to - from) / Math.max(2, Math.floor(wide / 110)));
      const bottom = TOP + rows.length * ROW;
      for (let ns = Math.ceil(from / tick) * tick; ns <= to + tick * 1e-6; ns += tick) {
        inside.push(wires([[px(ns), TOP - 5, px(ns), bottom]], { stroke: line, lineWidth: 1 }, 0));
        out.push(words(tickText(ns, tick), px(ns), TOP - 14, { fill: soft, font: `11.5px ${font}`, align: px(ns) > x0 + wide - 30 ? "right" : px(ns) < x0 + 20 ? "left" : "center", verticalAlign: "middle" }));
      }
      const pixel = (to - from) / wide;
      for (const row of rows) {
        const { y } = row, top = y + (ROW - BAR) / 2;
        const derived = row.kind === "layers" || row.kind === "nodes";
        out.push(words(fit(visible(row.label), x0 - 12, 12, derived ? 560 : 400), x0 - 10, y + ROW / 2, { fill: derived ? ink : soft, font: `${derived ? "560 " : ""}12px ${font}`, align: "right", verticalAlign: "middle" }));
        if (row.kind === "kernels") inside.push(boxes([x0, top, wide, BAR], { fill: panelColor }, 0));
        // Bars of one look are one shape.
        const looks = new Map<string, { fill: unknown; stroke: string | null; dash: number[] | null; quads: number[] }>();
        const put = (key: string, fill: unknown, quad: number[], stroke: string | null = edge, dash: number[] | null = null): void => {
          const look = looks.get(key);
          if (look) look.quads.push(...quad);
          else looks.set(key, { fill, stroke, dash, quads: quad });
        };
        row.bars = barsOf(row.track, from, to, pixel * 1.5, pixel * 5);
        for (const bar of row.bars) {
          const xa = Math.max(px(bar.start), x0 - 2), xb = Math.min(px(bar.end), x0 + wide + 2), item = row.track.item[bar.first]!;
          // Of merged events the height tells how much of the time something runs.
          const high = bar.count > 1 ? Math.max(3, (BAR * bar.busy) / Math.max(bar.end - bar.start, 1)) : BAR;
          const quad = [xa, top + BAR - high, Math.max(xb - xa, 1), high];
          if (bar.count > 1 && !derived && row.kind !== "gaps") merged += bar.count;
          const place = layerOf(row, item), layer = place >= 0 ? layers[place] : undefined, many = bar.count > 1;
          let text = "", on = ink;
          if (row.kind === "gaps") { put("gap", dotted, quad, null); text = formatNs(bar.end - bar.start); on = ink; }
          else if (row.kind === "host" || row.kind === "copies") { put(`${row.kind}${many}`, many ? color("rest") : plain, quad, many ? null : color("rest")); text = timeline.names[timeline.name[item]!] ?? ""; }
          else if (row.kind === "nodes") { put(`nodes${many}`, many ? plain : color("bg"), quad, many ? null : color("rest")); text = layer ? layer.node_names.map(tail).join(" + ") : ""; }
          else {
            const worst = layer ? heat.of(layer) : -2;
            if (worst === -2) put("nobody", color("bg"), quad, color("rest"), [3, 2]);
            else if (worst < 0) put(`unknown${many}`, unknown, quad, many ? null : edge);
            else put(`heat-${worst}${many}`, fills[worst], quad, many ? null : edge);
            on = worst >= 0 ? inks[worst]! : ink;
            const whole = layer && row.kind === "layers" ? `${layer.op_type}  ${tail(layer.name)}` : "";
            text = row.kind === "layers" ? (layer && fit(elided(whole, 120), xb - xa - 8, 11) !== whole ? layer.op_type : whole) : (timeline.names[timeline.name[item]!] ?? "");
          }
          if (bar.count > 1) text = "";
          if (xb - xa > 18 && text) {
            const shown = fit(elided(text, 120), xb - xa - 8, 11);
            if (shown) inside.push(words(shown, xa + 4, top + BAR / 2 + 0.5, { fill: on, font: `11px ${font}`, verticalAlign: "middle", ...(row.kind === "gaps" ? { stroke: color("rest-ground"), lineWidth: 3 } : {}) }, 5));
          }
          if (place >= 0 && place === store.selected && row.kind !== "host") inside.push({ type: "rect", shape: { x: xa - 1, y: top - 1, width: Math.max(xb - xa, 1) + 2, height: BAR + 2 }, style: { fill: "none", stroke: ink, lineWidth: 2.2 }, silent: true, z2: 6 });
        }
        for (const { fill, stroke, dash, quads } of looks.values()) {
          // Lines around bars of a pixel or two would hide them.
          const outline: Shape = stroke && quads.length < 1600 ? { stroke, lineWidth: stroke === edge ? 0.7 : 1, lineDash: dash } : {};
          inside.push(boxes(quads, { fill, ...outline }, 2));
        }
      }
      out.push(clipped(x0, 0, wide, bottom + 2, inside));
      return out;
    };

    const draw = (frame_: Frame): void => {
      made = frame_;
      const soft = color("soft"), rest = color("rest"), accent = color("accent"), bottom = TOP + rows.length * ROW + 12;
      made.chart.setOption({
        animation: false, grid: { left: left(), right: 14, top: TOP, height: rows.length * ROW },
        xAxis: { type: "value", min: 0, max: total, show: false }, yAxis: { type: "value", min: 0, max: 1, show: false },
        dataZoom: [{
          type: "slider", id: "zoom", xAxisIndex: 0, filterMode: "none", startValue: from, endValue: to, left: left(), right: 14, top: bottom, height: 20, showDataShadow: false, brushSelect: false,
          labelFormatter: (value: number) => formatNs(value), textStyle: { color: soft, fontSize: 11, fontFamily: FONT() }, borderColor: color("line"), fillerColor: `${accent}33`,
          backgroundColor: color("panel"), dataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } }, selectedDataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } },
          handleStyle: { color: color("bg"), borderColor: rest }, moveHandleStyle: { color: rest, opacity: 0.5 }, moveHandleSize: 6, emphasis: { handleStyle: { borderColor: accent }, moveHandleStyle: { color: accent } }, realtime: true, showDetail: made.width() > 500,
        }],
        series: [drawing("lanes", shapes)],
      }, { replaceMerge: ["series"] });
      tell();
    };
    const tell = (): void => {
      made.words.replaceChildren(sentence(), ...(merged ? [` ${plural(merged, "event")} shorter than a pixel are drawn merged with those beside them, in the colour of the longest and as high as the share of time that something runs: zoom in to see them apart.`] : []), " ", el("span", { class: "chart-how" }, HOW));
    };
    const sentence = (): string => {
      const count = gaps.start.length;
      const idleText = running.length
        ? count ? `In ${plural(count, "gap")}, ${formatNs(idle)} in all (${idle && idle / total < 0.0005 ? "under 0.1 %" : formatPercent(idle / total)}), no kernel runs${longestGap()}.` : "There is no gap: a kernel runs all the time."
        : "No kernel was seen, so no gap is told.";
      return `${plural(events, "event")} in ${plural(timeline.lanes.length, "lane")}, at the times captured, with the profiler's own in them. ${idleText}${spans.length ? " The bar of a layer reaches from its first kernel to its last; its time is never split over its nodes." : ""}`;
    };
    const longestGap = (): string => {
      const longest = gaps.start.reduce((most, start, at) => Math.max(most, gaps.end[at]! - start), 0);
      return gaps.start.length > 1 ? `; the longest is ${formatNs(longest)}` : "";
    };

    const redraw = (): void => made.redraw();
    const go = (start: number, end: number): void => {
      const span = Math.min(Math.max(end - start, Math.min(20, total)), total);
      const middle = (start + end) / 2;
      from = Math.max(0, Math.min(middle - span / 2, total - span));
      to = from + span;
      store.setView("time", span >= total * 0.99999 ? null : shortly([from, to]));
      redraw();
    };
    const rowAt = (y: number): Row | undefined => rows[Math.floor((y - TOP) / ROW)];
    const hit = (x: number, y: number): { row: Row; bar: Bar } | null => {
      const row = y >= TOP && x >= left() ? rowAt(y) : undefined;
      if (!row) return null;
      const ns = from + ((x - left()) / room()) * (to - from), near = (3 / room()) * (to - from);
      let best: Bar | null = null, away = near;
      for (const bar of row.bars) {
        const gap = Math.max(bar.start - ns, ns - bar.end, 0);
        if (gap < away || (gap === 0 && best && bar.end - bar.start < best.end - best.start)) { best = bar; away = gap; }
        if (bar.start > ns + near) break;
      }
      return best && { row, bar: best };
    };
    const facts = (row: Row, bar: Bar): { title: string; lines: [string, string][] } => {
      const item = row.track.item[bar.first]!, place = layerOf(row, item), layer = place >= 0 ? layers[place] : undefined;
      const when: [string, string][] = [["from", formatNs(bar.start)], [row.kind === "layers" || row.kind === "nodes" ? "first to last" : "takes", formatNs(bar.end - bar.start)]];
      if (row.kind === "gaps") return { title: bar.count > 1 ? `${bar.count} gaps` : "no kernel runs", lines: [...when, ["share", formatPercent(bar.busy / total)]] };
      if (bar.count > 1) return { title: `${formatWhole(bar.count)} events drawn as one`, lines: [["lane", row.label], ...when, ["busy", formatNs(bar.busy)], ["to see them", "zoom in"]] };
      if (row.kind === "layers" || row.kind === "nodes") {
        const span = row.spans[item]!;
        return { title: layer?.name ?? "", lines: [...when, ["kernels", `${span.count}, ${formatNs(span.busy)}`], ...(layer ? layerTip(layer, boundName(layer.bound, store.page)) : [])] };
      }
      const lines: [string, string][] = [["lane", row.label], ...when, ["layer", layer ? layer.name : "none"]];
      if (layer) lines.push(...layerTip(layer, boundName(layer.bound, store.page)).filter(([key]) => key !== "kernel" && !key.endsWith("kernels")));
      return { title: timeline.names[timeline.name[item]!] ?? "", lines };
    };

    const label = `Timeline of one inference: ${formatNs(total)}, ${plural(events, "event")} in ${plural(timeline.lanes.length, "lane")} (${timeline.lanes.slice(0, 8).map((lane) => lane.name).join(", ")}), work of ${plural(new Set(spans.map((span) => span.layer)).size, "layer")}. No kernel runs for ${formatNs(idle)}.`;
    made = frame(panel, store, elided(label, 500), height, {
      zoom: (factor, x) => {
        const share = Math.min(1, Math.max(0, (x - left()) / room())), at = from + share * (to - from), span = Math.min((to - from) / factor, total);
        if (span < 20) return;
        const start = at - share * span;
        go(start, start + span);
      },
      pan: (dx) => { const ns = (-dx / room()) * (to - from); const shift = Math.max(-from, Math.min(ns, total - to)); go(from + shift, to + shift); },
      reset: () => go(0, total),
      step: (by) => {
        const order = spans.length ? [...spans].sort((a, b) => a.start - b.start) : [];
        if (!order.length) return;
        if (focus < 0 || order[focus]?.layer !== store.selected) focus = by > 0 ? order.findIndex((span) => span.layer === store.selected) : order.length;
        focus = Math.max(0, Math.min(order.length - 1, focus + by));
        reveal(order[focus]!);
        store.select(order[focus]!.layer, "timeline");
      },
      hover: (x, y, clientX, clientY) => {
        const found = hit(x, y);
        made.host.style.cursor = found && layerOf(found.row, found.row.track.item[found.bar.first]!) >= 0 && found.bar.count === 1 ? "pointer" : "";
        if (!found) { store.tip(null, 0, 0); return; }
        const { title, lines } = facts(found.row, found.bar);
        store.tip(lines, clientX, clientY, title);
      },
      click: (x, y) => {
        const found = hit(x, y);
        if (!found) return;
        const place = layerOf(found.row, found.row.track.item[found.bar.first]!);
        if (found.bar.count > 1) go(found.bar.start - (found.bar.end - found.bar.start) * 0.2, found.bar.end + (found.bar.end - found.bar.start) * 0.2);
        else if (place >= 0) store.select(place, "timeline");
      },
    }, draw);
    // The slider moves the view as all else does.
    made.chart.on("datazoom", () => {
      const zoom = (made.chart.getOption()["dataZoom"] as { startValue: number; endValue: number }[])[0]!;
      if (Math.abs(zoom.startValue - from) + Math.abs(zoom.endValue - to) > (to - from) * 1e-6) go(Number(zoom.startValue), Number(zoom.endValue));
    });
    made.tools.prepend(heat.legend(), el("div", { class: "chart-legend" }, el("span", { class: "swatch" }, el("i", { class: "key-none", "aria-hidden": "true" }), "led to no layer"), el("span", { class: "swatch" }, el("i", { class: "key-remainder", "aria-hidden": "true" }), "no kernel runs")));

    const reveal = (span: { start: number; end: number }): void => {
      if (span.end > from && span.start < to) return;
      const middle = (span.start + span.end) / 2, half = (to - from) / 2;
      go(middle - half, middle + half);
    };
    const tellOf = (place: number | null): void => {
      const mine = place === null ? [] : spans.filter((span) => span.layer === place);
      made.say(place === null ? "" : mine.length
        ? `Selected: ${elided(layers[place]!.name, 200)}, ${plural(mine.length, "bar")}, ${formatNs(mine.reduce((sum, span) => sum + span.busy, 0))} of kernels, first at ${formatNs(mine[0]!.start)}`
        : `Selected: ${elided(layers[place]!.name, 200)}, which has no event here`);
    };
    tellOf(store.selected);
    store.onSelect((place, by) => {
      const mine = place === null ? [] : spans.filter((span) => span.layer === place);
      if (mine.length && by !== "timeline") {
        // To the first of them, unless one is seen.
        if (!mine.some((span) => span.end > from && span.start < to)) reveal(mine[0]!);
      }
      tellOf(place);
      redraw();
    });
    store.onView(() => { [from, to] = restored(); redraw(); });
  });
}

function niceStep(least: number): number {
  const decade = 10 ** Math.floor(Math.log10(Math.max(least, 1e-9)));
  return [1, 2, 5, 10].map((factor) => factor * decade).find((size) => size >= least * 0.999) ?? least;
}

/** A time on the scale, with as many digits as neighbours need to differ. */
function tickText(ns: number, step: number): string {
  if (Math.abs(ns) < step * 1e-6) return "0";
  const [unit, name] = ([[1e9, "s"], [1e6, "ms"], [1e3, "us"]] as const).find(([size]) => Math.abs(ns) >= size) ?? [1, "ns"];
  return `${(ns / unit).toFixed(Math.min(9, Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9))))} ${name}`;
}
