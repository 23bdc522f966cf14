// What the panels of the page share: the data, the layer that is selected, and the view that the address keeps.
import { el } from "./dom";
import { elided, visible } from "./text";
import type { Page } from "./page";

/** What a store asks of the data: the rows one of which is selected. */
export interface Rows {
  layers: readonly unknown[];
}

export interface Store<P extends Rows = Page> {
  page: P;
  /** Place in `page.layers`. */
  selected: number | null;
  /** Selects a layer, or none; `by` names the panel that asks, which need not scroll to it. */
  select(layer: number | null, by: string): void;
  onSelect(f: (layer: number | null, by: string) => void): void;
  /** A part of the view (a zoom, an order, a filter) as the address has it. */
  view(key: string): string | null;
  /** Keeps a part of the view in the address; null is the default view. */
  setView(key: string, value: string | null): void;
  /** Called when the colours change: the reader switched, or the page is about to be printed. */
  onTheme(f: () => void): void;
  /** Called when the address was changed by hand or by going back: read `view` again. */
  onView(f: () => void): void;
  /** Shows facts beside the pointer (client coordinates); null hides them. */
  tip(lines: [string, string][] | null, x: number, y: number, title?: string): void;
}

const LAYER = "layer";

/** The address as a view: `#layer=3&sort=lost-`; `#layer-3` selects, and `#roofline` goes to a section. */
function parse(hash: string): URLSearchParams {
  const text = hash.replace(/^#/, "");
  const layer = /^layer-(\d+)$/.exec(text);
  if (layer) return new URLSearchParams({ [LAYER]: layer[1]! });
  return text && !text.includes("=") ? new URLSearchParams({ at: text }) : new URLSearchParams(text);
}

export function createStore<P extends Rows>(page: P): Store<P> {
  let parts = parse(location.hash);
  const selects: ((layer: number | null, by: string) => void)[] = [];
  const themes: (() => void)[] = [];
  const views: (() => void)[] = [];
  const box = document.getElementById("tip")!;

  const fromAddress = (): number | null => {
    const rank = Number(parts.get(LAYER));
    return Number.isInteger(rank) && rank >= 1 && rank <= page.layers.length ? rank - 1 : null;
  };

  let waiting = 0;
  function write(): void {
    // Browsers refuse an address that changes many times a second, as a zoom does.
    if (waiting) return;
    waiting = window.setTimeout(() => {
      waiting = 0;
      const text = parts.toString();
      const wanted = text ? `#${text}` : "";
      if (location.hash !== wanted) history.replaceState(history.state, "", wanted || location.pathname + location.search);
    }, 120);
  }

  const store: Store<P> = {
    page,
    selected: fromAddress(),
    select(layer, by) {
      if (layer !== null && !page.layers[layer]) return;
      const changed = layer !== store.selected;
      store.selected = layer;
      if (layer === null) parts.delete(LAYER);
      else parts.set(LAYER, String(layer + 1));
      if (changed) write();
      for (const f of selects) f(layer, by);
    },
    onSelect: (f) => void selects.push(f),
    view: (key) => parts.get(key),
    setView(key, value) {
      if (value === null) parts.delete(key);
      else parts.set(key, value);
      write();
    },
    onTheme: (f) => void themes.push(f),
    onView: (f) => void views.push(f),
    tip(lines, x, y, title) {
      if (!lines) {
        box.hidden = true;
        return;
      }
      box.replaceChildren(
        ...(title === undefined ? [] : [el("b", null, el("bdi", null, elided(title, 160)))]),
        el("dl", null, lines.map(([key, value]) => [el("dt", null, visible(key)), el("dd", null, el("bdi", null, elided(value, 300)))])),
      );
      box.hidden = false;
      const { width, height } = box.getBoundingClientRect();
      box.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - width - 8))}px`;
      box.style.top = `${Math.max(8, y + 14 + height > innerHeight ? y - height - 10 : y + 14)}px`;
    },
  };

  addEventListener("hashchange", () => {
    parts = parse(location.hash);
    const layer = fromAddress();
    for (const f of views) f();
    store.selected = layer;
    for (const f of selects) f(layer, "address");
  });
  document.addEventListener("themechange", () => {
    for (const f of themes) f();
  });
  return store;
}
