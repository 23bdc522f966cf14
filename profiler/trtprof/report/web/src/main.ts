// The page's script: text from the run only ever becomes a text node, a title or a number; never markup.
import { copyTables } from "./copy";
import { byId } from "./dom";
import { mountKeys } from "./keys";
import { kernelTable, mountLayers } from "./layers";
import { mountNodes } from "./nodes";
import { readPage } from "./page";
import { mountPicked } from "./picked";
import { createStore } from "./store";
import { drawRest } from "./charts/common";
import { mount as ledger } from "./charts/ledger";
import { mount as roofline } from "./charts/roofline";
import { mount as timeline } from "./charts/timeline";
import { mount as graph } from "./charts/graph";
import { mount as memory } from "./charts/memory";

const page = readPage(byId("data")!.textContent!);
const store = createStore(page);
const root = document.documentElement;

// --- tables -----------------------------------------------------------------------------------

const layers = mountLayers(byId("layers-table")!, store);
const nodes = mountNodes(byId("nodes-table")!, store);
const kernels = byId("kernels-table");
if (kernels) kernels.append(kernelTable([...page.unattributed].sort((a, b) => b.total_ns - a.total_ns)));
copyTables();

// What is open for a reader without scripts and on paper, and folded where a chart shows the same.
const folds = [...document.querySelectorAll<HTMLDetailsElement>("details[data-fold]")];
for (const fold of folds) fold.open = false;
document.addEventListener("printchange", (event) => {
  for (const fold of folds) fold.open = (event as CustomEvent<boolean>).detail;
});

// --- selection over all panels ----------------------------------------------------------------

/** Brings the row of a layer to the eye: unfolded, whatever filter hid it, wherever the page stands. */
function show(place: number): void {
  layers.reveal(place, true);
  layers.unfold(place, true);
  byId("layers-table")!.scrollIntoView({ block: "start" });
  layers.reveal(place);
}

const cards = [...document.querySelectorAll<HTMLElement>("[data-layers]")].map((card) => ({
  card, ranks: card.dataset["layers"]!.split(/\s+/).filter(Boolean).map(Number),
}));
for (const { card, ranks } of cards) {
  if (!ranks.length) continue;
  card.classList.add("pickable");
  card.addEventListener("click", (event) => {
    if ((event.target as Element).closest("a, button, summary") || String(getSelection())) return;
    store.select(ranks[0]! - 1, "findings");
  });
}

function mark(place: number | null, by: string): void {
  const layer = place === null ? null : page.layers[place]!;
  layers.mark(place);
  nodes.mark(null, new Set(layer?.nodes));
  for (const { card, ranks } of cards) card.classList.toggle("hit", place !== null && ranks.includes(place + 1));
  if (place === null) return;
  if (by === "link" || by === "address") show(place);
  else if (by !== "layers") layers.reveal(place);
  const first = layer!.nodes[0];
  if (first !== undefined && by !== "nodes") nodes.reveal(first);
}
store.onSelect(mark);

function step(by: number): void {
  const next = layers.step(store.selected, by);
  if (next === null) return;
  store.select(next, "keys");
}
mountPicked(store, step, (place) => store.select(place, "link"));
mountKeys(store, layers, step);

// --- links inside the page --------------------------------------------------------------------

// The address holds the view, so a link to a section must not replace it.
document.addEventListener("click", (event) => {
  const link = (event.target as Element).closest<HTMLAnchorElement>('a[href^="#"]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const layer = /^#layer-(\d+)$/.exec(link.getAttribute("href")!);
  if (layer) store.select(Number(layer[1]) - 1, "link");
  else go(link.hash.slice(1));
});

function go(id: string): void {
  const section = byId(id);
  if (!section) return;
  store.setView("at", id === "top" ? null : id);
  if (id === "top") scrollTo({ top: 0 });
  else section.scrollIntoView({ block: "start" });
  const heading = section.querySelector<HTMLElement>("h1, h2");
  if (!heading) return;
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
}
store.onView(() => {
  const id = store.view("at");
  if (id && store.view("layer") === null) go(id);
});

// --- definitions ------------------------------------------------------------------------------

document.addEventListener("toggle", (event) => {
  const box = event.target as HTMLElement;
  if (!box.classList?.contains("term") || (event as ToggleEvent).newState !== "open") return;
  const from = lastHelp?.getBoundingClientRect();
  if (!from) return;
  box.style.left = `${Math.max(8, Math.min(from.left - 12, innerWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${from.bottom + 8 + box.offsetHeight > innerHeight ? Math.max(8, from.top - box.offsetHeight - 8) : from.bottom + 8}px`;
}, true);
let lastHelp: Element | null = null, helpAt: DOMRect | null = null;
document.addEventListener("click", (event) => {
  lastHelp = (event.target as Element).closest(".q") ?? lastHelp;
  helpAt = lastHelp?.getBoundingClientRect() ?? null;
}, true);
for (const scroll of ["scroll", "resize"]) {
  addEventListener(scroll, (event) => {
    if (event.target instanceof Element && event.target.closest(".term")) return;
    // What it explains may stand still while the page scrolls: a chart was drawn above it.
    const now = lastHelp?.getBoundingClientRect();
    if (now && helpAt && Math.hypot(now.left - helpAt.left, now.top - helpAt.top) < 2) return;
    for (const box of document.querySelectorAll<HTMLElement>(".term:popover-open")) box.hidePopover();
  }, { capture: true, passive: true });
}

// --- charts: after the tables, one a task, so that the page answers meanwhile ------------------

const charts = ([["chart-ledger", ledger], ["chart-roofline", roofline], ["chart-timeline", timeline], ["chart-graph", graph], ["chart-memory", memory]] as const)
  .flatMap(([id, mount]) => {
    const panel = byId(id);
    return panel ? [{ panel, mount }] : [];
  });

function drawCharts(): void {
  const next = charts.shift();
  if (next) {
    next.mount(next.panel, store);
    setTimeout(drawCharts);
    return;
  }
  settle();
  requestAnimationFrame(() => requestAnimationFrame(() => {
    root.dataset["ready"] = "true";
    performance.mark("ready");
    drawRest();
    lookSoon();
  }));
}

/** Where the address points to, now that all has its height. */
function settle(): void {
  const again = (performance.getEntriesByType("navigation")[0] as PerformanceNavigationTiming | undefined)?.type === "reload";
  if (again) return; // the browser goes back to where the reader was
  if (store.selected !== null && link) show(store.selected);
  else if (store.view("at")) go(store.view("at")!);
  else if (store.selected !== null) {
    byId("layers")!.scrollIntoView({ block: "start" });
    layers.reveal(store.selected);
  }
}

// --- what scrolls can be scrolled by key ---------------------------------------------------------

const SCROLLS = "h1, .inputs, .big, .scroll, .kernels, .full, .detail ul, .graph-about, .chart-apart ul, .licence, .columns ul, .pairs dt, .pairs dd, .finding h3, .finding dd, .finding .where, .ledger bdi, nav";
/** Where not all of a text is seen and nothing in it takes the focus, it takes it itself. */
function focusWhatScrolls(): void {
  for (const node of document.querySelectorAll<HTMLElement>(SCROLLS)) {
    const hidden = node.scrollHeight > node.clientHeight + 1 || node.scrollWidth > node.clientWidth + 1;
    if (hidden && /auto|scroll/.test(getComputedStyle(node).overflow)) node.tabIndex = 0;
    else if (node.getAttribute("tabindex") === "0") node.removeAttribute("tabindex");
  }
}
let looking = 0;
const lookSoon = (): void => { clearTimeout(looking); looking = window.setTimeout(focusWhatScrolls, 150); };
addEventListener("resize", lookSoon);
document.addEventListener("toggle", lookSoon, true);
document.addEventListener("click", lookSoon);
document.addEventListener("keyup", lookSoon);

const link = /^#layer-\d+$/.test(location.hash);
if (store.selected !== null) mark(store.selected, "start");
setTimeout(drawCharts);
