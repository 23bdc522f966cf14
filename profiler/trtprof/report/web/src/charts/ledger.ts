/* The ledger as a waterfall: from what the device could do at best to what was measured, step by step. */
import { el } from "../dom";
import type { Kind } from "../page";
import type { Store } from "../store";
import { elided, formatNs, formatPercent } from "../text";
import { FONT, boxes, color, drawing, fit, frame, instead, pattern, whenNear, widthOf, wires, words } from "./common";
import type { Frame, Shape } from "./common";

const ROW = 44;
const TOP = 34;
const BAR = 18;
const MARK: Record<Kind, string> = { fact: "", estimate: "~", remainder: "=" };
const KIND: Record<Kind, string> = { fact: "measured", estimate: "estimate", remainder: "remainder" };

interface Step {
  cause: string;
  meaning: string;
  ns: number;
  kind: Kind;
  from: number;
  to: number;
  total: boolean;
}

export function mount(panel: HTMLElement, store: Store): void {
  const { ledger, latency_ns, end_to_end } = store.page;
  if (!ledger.length) {
    instead(panel, "There is no ledger to draw: nothing was measured that could be set against what the device allows.");
    return;
  }
  let sum = 0;
  const steps: Step[] = ledger.map((row) => ({ ...row, from: sum, to: (sum += row.ns), total: false }));
  steps.push({ cause: end_to_end ? "measured latency" : "sum of the layers", meaning: end_to_end ? "median, end to end" : "as profiled", ns: latency_ns, kind: "fact", from: 0, to: latency_ns, total: true });
  const ends = steps.flatMap((step) => [step.from, step.to]);
  const low = Math.min(0, ...ends), high = Math.max(...ends, low + 1);

  const height = TOP + ROW * steps.length + 14;
  whenNear(panel, height, () => {
    let chosen = -1, made: Frame;
    const rowAt = (y: number): number => { const row = Math.floor((y - TOP) / ROW); return row >= 0 && row < steps.length ? row : -1; };
    const text = (step: Step): string => `${MARK[step.kind]}${step.ns < 0 ? "\u2212" : ""}${formatNs(Math.abs(step.ns))}`;
    const say = (step: Step): string =>
      `${step.cause}: ${MARK[step.kind]}${formatNs(step.ns)}, ${KIND[step.kind]}${step.meaning ? `: ${step.meaning}` : ""}${step.total ? "" : `; the sum so far is ${formatNs(step.to)}`}`;

    const draw = (frame_: Frame): void => {
      made = frame_;
      const width = made.width(), ink = color("ink"), soft = color("soft"), font = FONT();
      const narrow = width < 640;
      const left = Math.min(narrow ? 150 : 330, width * 0.4), right = narrow ? 14 : 24;
      const room = width - left - right;
      const at = (ns: number): number => left + ((ns - low) / (high - low)) * room;
      const fills: Record<Kind, unknown> = {
        fact: color("fact"),
        estimate: pattern("hatch", color("est-ground"), color("est-line")),
        remainder: pattern("dots", color("rest-ground"), color("rest")),
      };
      const edges: Record<Kind, string> = { fact: color("fact"), estimate: color("est-line"), remainder: color("rest") };
      const shapes: Shape[] = [];
      // The scale on top.
      const span = (high - low) / Math.max(2, Math.floor(room / 110));
      const decade = 10 ** Math.floor(Math.log10(span));
      const tick = [1, 2, 5, 10].map((factor) => factor * decade).find((size) => size >= span) ?? span;
      for (let ns = Math.ceil(low / tick) * tick; ns <= high; ns += tick) {
        shapes.push(wires([[at(ns), TOP - 8, at(ns), height - 10]], { stroke: color("line"), lineWidth: 1 }, 0));
        const label = ns === 0 ? "0" : formatNs(ns).replace(/(\.\d*?)0+ /, "$1 ").replace(/\. /, " ");
        if (at(ns) + widthOf(label, 11.5) / 2 < width) shapes.push(words(label, at(ns), TOP - 20, { fill: soft, font: `11.5px ${font}`, align: "center", verticalAlign: "middle" }));
      }
      steps.forEach((step, index) => {
        const y = TOP + ROW * index, middle = y + ROW / 2;
        if (index === chosen) shapes.push(boxes([0, y, width, ROW], { fill: color("panel") }, 0));
        if (step.total) shapes.push(wires([[0, y, width, y]], { stroke: color("rest"), lineWidth: 1 }, 1));
        const cause = fit(elided(step.cause, 200), left - 14, 13.5, step.total ? 640 : 520);
        const meaning = narrow ? "" : fit(elided(step.meaning, 300), left - 14, 11.5);
        shapes.push(words(cause, 0, meaning ? middle - 9 : middle, { fill: ink, font: `${step.total ? 640 : 520} 13.5px ${font}`, verticalAlign: "middle" }));
        if (meaning) shapes.push(words(meaning, 0, middle + 9, { fill: soft, font: `11.5px ${font}`, verticalAlign: "middle" }));
        const x0 = at(Math.min(step.from, step.to)), wide = Math.max(at(Math.max(step.from, step.to)) - x0, 1.5);
        const gain = step.ns < 0;
        shapes.push(boxes([x0, middle - BAR / 2, wide, BAR], {
          fill: fills[step.kind], stroke: gain ? color("good") : edges[step.kind], lineWidth: gain ? 2 : 1, lineDash: step.kind === "remainder" && !gain ? [3, 2] : null,
        }, 2));
        // The sum goes on in the next row where this one ends.
        if (index + 1 < steps.length) shapes.push(wires([[at(step.to), middle + BAR / 2, at(step.to), middle + ROW - BAR / 2]], { stroke: color("rest"), lineWidth: 1, lineDash: [2, 2] }, 1));
        // What it is: the time, its share, its kind. Right of the bar, else left of it, else in it.
        const time = text(step);
        const share = latency_ns && !step.total ? `  ${formatPercent(step.ns / latency_ns).replace("-", "\u2212")}` : "";
        const kind = `  ${gain ? "gain, " : ""}${KIND[step.kind]}`;
        const size = (weight: number, part: string, px: number): number => widthOf(part, px, weight);
        const parts = [time, share, narrow ? "" : kind];
        const full = size(640, parts[0]!, 13) + size(400, parts[1]!, 12) + size(400, parts[2]!, 12);
        let x = x0 + wide + 8, color_ = step.kind === "estimate" ? color("est-ink") : ink, second = soft;
        if (x + full > width) {
          if (x0 - 8 - full > left) x = x0 - 8 - full;
          else {
            x = Math.max(left + 6, x0 + wide - full - 8);
            // Over the bar, on a ground of its own.
            shapes.push(boxes([x - 5, middle - 8, full + 10, 16], { fill: color("bg"), opacity: 0.94 }, 3));
          }
        }
        if (step.kind === "remainder") { color_ = soft; second = soft; }
        shapes.push(words(parts[0]!, x, middle, { fill: gain ? color("good") : color_, font: `640 13px ${font}`, verticalAlign: "middle" }, 6));
        shapes.push(words(parts[1]!, x + size(640, parts[0]!, 13), middle, { fill: second, font: `12px ${font}`, verticalAlign: "middle" }, 6));
        if (parts[2]) shapes.push(words(parts[2], x + size(640, parts[0]!, 13) + size(400, parts[1]!, 12), middle, { fill: second, font: `${step.kind === "fact" ? "" : "italic "}12px ${font}`, verticalAlign: "middle" }, 6));
      });
      made.chart.setOption({ animation: false, series: [drawing("ledger", () => shapes)] });
    };
    const show = (row: number): void => {
      if (row === chosen) return;
      chosen = row;
      draw(made);
    };
    const worst = [...ledger].sort((a, b) => b.ns - a.ns)[0]!;
    const label = `Waterfall of ${ledger.length} steps from ${formatNs(ledger[0]!.ns)} (${ledger[0]!.cause}) to ${formatNs(latency_ns)} (${end_to_end ? "measured latency" : "sum of the layers"}); the longest step is ${worst.cause} with ${formatNs(worst.ns)}. The same numbers are in the table below.`;
    made = frame(panel, store, elided(label, 400), height, {
      step: (by) => { const row = Math.max(0, Math.min(steps.length - 1, chosen + by)); show(row); made.say(elided(say(steps[row]!), 500)); },
      hover: (_x, y, clientX, clientY) => {
        const row = rowAt(y), step = steps[row];
        show(row);
        if (!step) { store.tip(null, 0, 0); return; }
        const lines: [string, string][] = [["time", `${MARK[step.kind]}${formatNs(step.ns)}`], ["kind", KIND[step.kind]]];
        if (latency_ns && !step.total) lines.push(["share", formatPercent(step.ns / latency_ns)]);
        if (!step.total) lines.push(["sum so far", formatNs(step.to)]);
        if (step.meaning) lines.push(["meaning", step.meaning]);
        store.tip(lines, clientX, clientY, step.cause);
      },
      leave: () => show(-1),
    }, draw);
    const key = (css: string, text_: string): HTMLElement => el("span", { class: "swatch" }, el("i", { class: css, "aria-hidden": "true" }), text_);
    made.tools.append(el("div", { class: "chart-legend" }, key("key-fact", "measured"), key("key-estimate", "~ estimate"), key("key-remainder", "= remainder"), key("key-gain", "green edge: a gain, it takes time off")));
    made.words.textContent = "Each bar starts where the sum of those above ends.";
  });
}
