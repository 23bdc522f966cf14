// The page of a fleet: the table of models and targets; everything else on it is there without a script.
import { copyTables } from "./copy";
import { bdi, byId, el, name } from "./dom";
import { mountKeys } from "./keys";
import { createStore } from "./store";
import { mountTable, type Column, type Table } from "./table";
import { digits, elided, formatBand, formatNs, known, visible } from "./text";

/** What a number rests on, as `FLEET_BASES` of formats/_fleet_page.py orders it. */
const BASES = ["none", "measured", "expected", "bound"] as const;
const MARKS = { none: "", measured: "", expected: "~", bound: ">= " };
type Basis = (typeof BASES)[number];

/** A cell, in the order of `_cell` of formats/_fleet_page.py. */
type Packed = [done: number, latency: number | null, low: number | null, high: number | null, bound: number | null, expected: number | null, p10: number | null, p90: number | null,
  wider: number, ofExpected: number | null, cost: number | null, costBasis: number, joules: number | null, joulesBasis: number, doubts: string, error: string, href: string, run: string, nothing: string];
interface Data {
  currency: string;
  targets: string[];
  rows: [model: string, size: string, precision: string, best: string, cells: (Packed | null)[]][];
}
interface Answer {
  done: boolean; latency: number | null; low: number | null; high: number | null; bound: number | null; expected: number | null; p10: number | null; p90: number | null;
  wider: boolean; ofExpected: number | null; cost: number | null; costBasis: Basis; joules: number | null; joulesBasis: Basis; doubts: string; error: string; href: string; run: string;
  /** What is said where no number is. */
  nothing: string;
}
interface Row {
  place: number; model: string; size: string; precision: string; best: string; cells: (Answer | null)[];
}

const data = JSON.parse(byId("data")!.textContent!) as Data;
const basis = (at: number): Basis => BASES[at] ?? "none";
const answer = (c: Packed): Answer => ({
  done: c[0] === 1, latency: c[1], low: c[2], high: c[3], bound: c[4], expected: c[5], p10: c[6], p90: c[7], wider: c[8] === 1, ofExpected: c[9], cost: c[10], costBasis: basis(c[11]),
  joules: c[12], joulesBasis: basis(c[13]), doubts: c[14], error: c[15], href: c[16], run: c[17], nothing: c[18],
});
const rows: Row[] = data.rows.map(([model, size, precision, best, cells], place) => ({ place, model, size, precision, best, cells: cells.map((cell) => cell && answer(cell)) }));
const store = createStore({ layers: rows });

// --- what a cell says ---------------------------------------------------------------------------

const timeBasis = (one: Answer): Basis => (one.latency !== null ? "measured" : one.expected !== null ? "expected" : one.bound !== null ? "bound" : "none");
const timeOf = (one: Answer): number | null => one.latency ?? one.expected ?? one.bound;
const money = (value: number): string => `${value !== 0 && value < 1e-4 ? value.toExponential(1) : digits(value)} ${data.currency}`.trim();
const energy = (joules: number): string => (joules < 1 ? `${digits(joules * 1e3)} mJ` : `${digits(joules)} J`);
const percent = (value: number): string => `${(100 * value).toFixed(0)} %`;

interface Shown { id: string; label: string; of(one: Answer): number | null; basis(one: Answer): Basis; words(value: number): string }
const SHOWN: Shown[] = [
  { id: "time", label: "latency", of: timeOf, basis: timeBasis, words: formatNs },
  { id: "cost", label: `cost of a million requests`, of: (one) => one.cost, basis: (one) => one.costBasis, words: money },
  { id: "share", label: "expected \u00f7 measured", of: (one) => one.ofExpected, basis: () => "expected", words: percent },
  // The power limit of a board is not what it drew: an estimate, whatever the time rests on.
  { id: "energy", label: "energy of an inference", of: (one) => one.joules, basis: (one) => (one.joulesBasis === "measured" ? "expected" : one.joulesBasis), words: energy },
];
const offered = SHOWN.filter((shown) => rows.some((row) => row.cells.some((one) => one?.done && shown.of(one) !== null)));

function cellOf(row: Row, at: number, shown: Shown): HTMLElement | string {
  const one = row.cells[at];
  if (!one) return "";
  if (!one.done) return el("span", { class: "bad", title: elided(one.error, 300) }, "failed");
  const value = shown.of(one);
  if (value === null) return el("span", { class: "soft" }, shown.id === "time" ? one.nothing : "unknown");
  const rests = shown.basis(one), star = shown.id === "time" && rests === "expected" && one.wider ? "*" : "";
  const doubt = one.doubts && rests === "measured" ? el("span", { class: "doubt", title: elided(one.doubts, 300) }, "!") : null;
  return el("span", { class: [rests === "measured" ? "" : "est", row.best === data.targets[at] ? "best" : ""].join(" ").trim() || null }, `${MARKS[rests]}${shown.words(value)}${star}`, doubt);
}

/** All that is known of a row, a line a target. */
function detail(row: Row): HTMLElement {
  const head = ["Target", "Measured", "Good kernels", "Bound", "Expected \u00f7 measured", "A million requests", "Energy", "Said of it"];
  const lines = row.cells.flatMap((one, at) => {
    if (!one) return [];
    const target = data.targets[at]!;
    const said = [one.error, one.doubts].filter(Boolean).join("; ");
    const named = [bdi(elided(target, 60), { class: "name" }), row.best === target ? " (best)" : null];
    return [el("tr", null,
      el("th", { scope: "row" }, named, one.run ? [el("br"), one.href ? el("a", { href: one.href }, "its run") : el("span", { class: "soft" }, bdi(elided(one.run, 80)))] : null),
      el("td", { class: "num" }, one.done ? one.nothing || known(one.latency, formatNs) : el("span", { class: "bad" }, "failed"), one.low !== null && one.high !== null ? el("small", { class: "interval" }, `${formatNs(one.low)} .. ${formatNs(one.high)}`) : null),
      el("td", { class: "num est" }, one.expected === null ? "" : one.p10 === null || one.p90 === null ? `~${formatNs(one.expected)}` : formatBand(one.expected, one.p10, one.p90), one.wider ? "*" : null),
      el("td", { class: "num est" }, known(one.bound, formatNs, ">= ")), el("td", { class: "num est" }, known(one.ofExpected, percent, "~")),
      el("td", { class: one.costBasis === "measured" ? "num" : "num est" }, known(one.cost, money, MARKS[one.costBasis])),
      el("td", { class: "num est" }, known(one.joules, energy, one.joulesBasis === "bound" ? ">= " : "~")), el("td", { class: "said-of" }, bdi(elided(said, 600))))];
  });
  return el("div", { class: "kernels" }, el("h3", null, bdi(elided(row.model, 200)), " ", el("small", null, bdi(row.size), row.precision === "model" ? null : `, ${visible(row.precision)}`)),
    el("table", { class: "plain" }, el("thead", null, el("tr", null, head.map((text, at) => el("th", { scope: "col", class: at > 0 && at < 7 ? "num" : null }, text)))), el("tbody", null, lines)));
}

// --- the table ----------------------------------------------------------------------------------

const precisions = new Set(rows.map((row) => row.precision)).size > 1;
const sized = (row: Row): string => (precisions && row.precision !== "model" ? `${row.size}, ${row.precision}` : row.size);
const widths = [...new Set(rows.map((row) => sized(row).length))];
const root = byId("answers-table")!, place = byId("answers-shown")!;
let table: Table | null = null;

/** The table anew: its filter, its order and what is unfolded are those of the address. */
function show(shown: Shown): void {
  const home = el("div");
  root.replaceChildren(home);
  table = mount(home, shown);
  table.mark(store.selected);
}

function mount(home: HTMLElement, shown: Shown): Table {
  const columns: Column<Row>[] = [
    { id: "rank", label: "#", width: 66, key: (row) => row.place, cell: () => null },
    { id: "model", label: "Model", key: (row) => row.model, css: () => "name", cell: (row) => name(elided(row.model, 400), { title: elided(row.model, 400) }) },
    { id: "size", label: "Size", width: Math.min(320, 26 + 8 * Math.max(8, ...widths)), key: sized, cell: (row) => name(elided(sized(row), 200), { title: elided(sized(row), 400) }) },
    ...data.targets.map((target, at): Column<Row> => ({
      id: `t${at}`, label: elided(target, 24), width: Math.max(112, Math.min(220, 30 + 8 * Math.min(target.length, 24))), num: true,
      key: (row) => { const one = row.cells[at]; return one?.done ? shown.of(one) : null; },
      cell: (row) => cellOf(row, at, shown),
    })),
  ];
  return mountTable<Row>(home, {
    store, id: "answer", noun: "row", label: "Answers", hint: "Filter by model, size, failed \u2026", rows, columns, order: null,
    onPick: (at) => store.select(at, "table"), detail,
    words: (row) => [row.model, row.size, row.precision, ...row.cells.flatMap((one) => (one ? [one.done ? "" : "failed", one.error, one.doubts ? "doubt" : "", one.doubts] : []))],
  });
}

if (offered.length > 1) {
  place.append(el("span", null, "Show"), ...offered.map((shown, at) => {
    const input = el("input", { type: "radio", name: "shown", id: `shown-${shown.id}`, value: shown.id });
    input.checked = (store.view("show") ?? offered[0]!.id) === shown.id || (at === 0 && !offered.some((one) => one.id === store.view("show")));
    input.addEventListener("change", () => { 
      if (!input.checked) return;
      store.setView("show", at === 0 ? null : shown.id);
      show(shown);
    });
    return el("label", null, input, " ", shown.label);
  }));
}
show(offered.find((shown) => shown.id === store.view("show")) ?? offered[0] ?? SHOWN[0]!);
store.onSelect((at) => table?.mark(at));
if (store.selected !== null) {
  table!.mark(store.selected);
  table!.reveal(store.selected, true);
}
mountKeys(store, {
  mark: (...given) => table!.mark(...given), reveal: (...given) => table!.reveal(...given), unfold: (...given) => table!.unfold(...given), step: (...given) => table!.step(...given),
  focusFilter: () => table!.focusFilter(), clearFilter: () => table!.clearFilter(),
}, (by) => {
  const next = table!.step(store.selected, by);
  if (next === null) return;
  store.select(next, "keys");
  table!.reveal(next);
});
copyTables();
document.documentElement.dataset["ready"] = "true";
