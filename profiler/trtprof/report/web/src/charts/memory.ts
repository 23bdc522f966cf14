/* The bytes of tensors that are alive while each layer runs, and from when to when each of the largest is there. */
import type { Store } from "../store";
import { elided, formatBytes, formatWhole, plural } from "../text";
import { FONT, HOW, boxes, color, drawing, fit, frame, instead, numbers, pattern, shortly, tail, whenNear, wires, words } from "./common";
import type { Frame, Shape } from "./common";

const TOP = 26, AREA = 150, ROW = 16, MOST_BARS = 16;

export function mount(panel: HTMLElement, store: Store): void {
  const { memory, graph, layers } = store.page;
  if (!memory || !graph) { instead(panel, "Nothing tells which tensors are alive when: there is no plan of the engine, or an earlier trtprof saved the run."); return; }
  const count = memory.live.length, peak = memory.live[memory.peak_at]!;
  if (!peak) { instead(panel, "No tensor has a known size."); return; }
  const largest = memory.tensor.map((_, at) => at).sort((a, b) => memory.nbytes[b]! - memory.nbytes[a]! || memory.first[a]! - memory.first[b]!).slice(0, MOST_BARS)
    .sort((a, b) => memory.first[a]! - memory.first[b]! || memory.last[a]! - memory.last[b]!);
  const height = TOP + AREA + 12 + ROW * largest.length + 8;
  const nameOf = (at: number): string => graph.layers[at]!.name;
  const aliveAt = (at: number): number[] => memory.tensor.map((_, one) => one).filter((one) => memory.first[one]! <= at && at <= memory.last[one]!).sort((a, b) => memory.nbytes[b]! - memory.nbytes[a]!);

  whenNear(panel, height + 80, () => {
    let made: Frame, from = 0, to = count, chosen = -1;
    const restore = (): void => {
      const stored = numbers(store.view("mem"), 2);
      [from, to] = stored && stored[0]! >= 0 && stored[1]! <= count && stored[1]! - stored[0]! >= 1 ? [stored[0]!, stored[1]!] : [0, count];
    };
    restore();
    const left = (): number => Math.min(150, made.width() * 0.24), room = (): number => made.width() - left() - 14;
    const px = (at: number): number => left() + ((at - from) / (to - from)) * room();
    const at = (x: number): number => Math.min(count - 1, Math.max(0, Math.floor(from + ((x - left()) / room()) * (to - from))));

    const shapes = (): Shape[] => {
      const font = FONT(), soft = color("soft"), ink = color("ink"), line = color("line"), hatch = pattern("hatch", color("est-ground"), color("est-line")), out: Shape[] = [], x0 = left(), wide = room();
      const bottom = TOP + AREA, y = (bytes: number): number => bottom - (bytes / peak) * AREA;
      for (const share of [0, 0.5, 1]) {
        out.push(wires([[x0, y(peak * share), x0 + wide, y(peak * share)]], { stroke: line, lineWidth: 1 }, 0));
        out.push(words(share ? `~${formatBytes(peak * share)}` : "0", x0 - 10, y(peak * share), { fill: soft, font: `11.5px ${font}`, align: "right", verticalAlign: "middle" }));
      }
      // One bar a layer, or a pixel: of those that share it the fullest.
      const first = Math.floor(from), end = Math.min(count, Math.ceil(to)), step = Math.max(1, Math.floor((end - first) / Math.max(wide, 1))), quads: number[] = [];
      for (let place = first; place < end; place += step) {
        let most = 0;
        for (let one = place; one < Math.min(place + step, end); one++) most = Math.max(most, memory.live[one]!);
        const a = Math.max(px(place), x0), b = Math.min(px(Math.min(place + step, end)), x0 + wide);
        quads.push(a, y(most), Math.max(b - a, 0.5), bottom - y(most));
      }
      out.push(boxes(quads, { fill: hatch }, 1));
      const mark = (place: number, stroke: string, dash: number[] | null): void => { if (place + 0.5 >= from && place + 0.5 <= to) out.push(wires([[px(place + 0.5), TOP - 4, px(place + 0.5), height - 4]], { stroke, lineWidth: 1.4, lineDash: dash }, 3)); };
      mark(memory.peak_at, color("cause"), [4, 3]);
      if (chosen >= 0) mark(chosen, ink, null);
      const label = `peak ~${formatBytes(peak)} at ${elided(tail(nameOf(memory.peak_at)), 60)}`, peakX = px(memory.peak_at + 0.5), right = peakX > x0 + wide * 0.6;
      if (peakX >= x0 && peakX <= x0 + wide) out.push(words(fit(label, right ? peakX - x0 : x0 + wide - peakX, 11.5, 600), peakX + (right ? -4 : 4), TOP - 12, { fill: color("cause"), font: `600 11.5px ${font}`, align: right ? "right" : "left", verticalAlign: "middle" }));
      largest.forEach((tensor, row) => {
        const top = bottom + 12 + row * ROW, a = Math.max(px(memory.first[tensor]!), x0), b = Math.min(px(memory.last[tensor]! + 1), x0 + wide);
        out.push(words(fit(elided(tail(memory.tensor[tensor]!), 60), x0 - 12, 11), x0 - 10, top + ROW / 2, { fill: soft, font: `11px ${font}`, align: "right", verticalAlign: "middle" }));
        if (b <= a) return;
        out.push(boxes([a, top + 2, Math.max(b - a, 1.5), ROW - 4], { fill: hatch, stroke: color("est-line"), lineWidth: 0.7 }, 1));
        const size = `~${formatBytes(memory.nbytes[tensor]!)}`;
        out.push(words(size, b + 60 < x0 + wide ? b + 5 : a - 5, top + ROW / 2, { fill: color("est-ink"), font: `11px ${font}`, align: b + 60 < x0 + wide ? "left" : "right", verticalAlign: "middle" }));
      });
      return out;
    };
    const draw = (frame_: Frame): void => {
      made = frame_;
      made.chart.setOption({ animation: false, series: [drawing("memory", shapes)] });
    };
    const go = (start: number, end: number): void => {
      const span = Math.min(Math.max(end - start, Math.min(4, count)), count);
      from = Math.max(0, Math.min((start + end - span) / 2, count - span));
      to = from + span;
      store.setView("mem", span >= count ? null : shortly([from, to]));
      made.redraw();
    };
    const tell = (place: number): [string, string][] => {
      const alive = aliveAt(place);
      return [["layer", `${formatWhole(place + 1)} of ${formatWhole(count)}`], ["alive", `~${formatBytes(memory.live[place]!)} in ${plural(alive.length, "tensor")}`], ...alive.slice(0, 6).map((one): [string, string] => [`~${formatBytes(memory.nbytes[one]!)}`, memory.tensor[one]!])];
    };
    const choose = (place: number): void => {
      chosen = place;
      if (place >= 0) made.say(`${elided(nameOf(place), 200)}: ${tell(place).slice(1).map(([key, value]) => `${key} ${value}`).join("; ")}`);
      made.redraw();
    };
    made = frame(panel, store, `Bytes of tensors alive over ${plural(count, "layer")}: at most ~${formatBytes(peak)}, at ${elided(nameOf(memory.peak_at), 200)}.`, height, {
      zoom: (factor, x) => { const share = Math.min(1, Math.max(0, (x - left()) / room())), middle = from + share * (to - from), span = (to - from) / factor; go(middle - share * span, middle + (1 - share) * span); },
      pan: (dx) => { const shift = Math.max(-from, Math.min((-dx / room()) * (to - from), count - to)); go(from + shift, to + shift); },
      reset: () => go(0, count),
      step: (by) => { const next = Math.max(0, Math.min(count - 1, chosen < 0 ? memory.peak_at : chosen + by)), { place } = graph.layers[next]!; if (place >= 0) store.select(place, "memory"); choose(next); },
      hover: (x, y, clientX, clientY) => { if (x < left() || y > height) store.tip(null, 0, 0); else store.tip(tell(at(x)), clientX, clientY, nameOf(at(x))); },
      click: (x) => { if (x < left()) return; const { place } = graph.layers[at(x)]!; if (place >= 0) store.select(place, "memory"); else choose(at(x)); },
    }, draw);
    made.words.textContent = `At most ~${formatBytes(peak)} of tensors are alive at once, while ${elided(nameOf(memory.peak_at), 120)} runs: an estimate from the plan, inputs and outputs of the model included, weights and scratch memory not. Below, the ${largest.length === 1 ? "largest tensor" : `${largest.length} largest tensors`}, each from its writer to its last reader.${memory.unknown ? ` ${plural(memory.unknown, "tensor")} of unknown size ${memory.unknown === 1 ? "is" : "are"} left out: it is a lower bound.` : ""} ${HOW}`;
    const placeOf = new Map(graph.layers.map((layer, place) => [layer.place, place]));
    const follow = (place: number | null): void => choose(place === null ? -1 : (placeOf.get(place) ?? -1));
    if (store.selected !== null && layers[store.selected]) follow(store.selected);
    store.onSelect((place) => follow(place));
    store.onView(() => { restore(); made.redraw(); });
  });
}
