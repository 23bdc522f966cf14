// A table of any length: sort, filter, unfold; only the rows in sight are elements.
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from "@tanstack/virtual-core";
import { copyBar, type Cell } from "./copy";
import { el } from "./dom";
import { formatWhole, plural, visible } from "./text";
import type { Rows, Store } from "./store";

const ROW_HEIGHT = 33;
const DETAIL_HEIGHT = 420;
/** Rows on paper; the line above the table says so. */
const PRINTED = 300;

type Child = Parameters<typeof el>[2];
type Key = number | string | null;

export interface Column<T> {
  /** What the address calls it. */
  id: string;
  label: string;
  width?: number;
  /** Whether it holds numbers: to the right, largest first. */
  num?: boolean;
  /** Key of the definition behind its `?`. */
  term?: string;
  key(item: T): Key;
  cell(item: T): Child;
  css?(item: T): string;
  /** For a copy; the key where it is absent. */
  copy?(item: T): Cell;
}

export interface Options<T> {
  store: Store<Rows>;
  /** Names the table in the address and the ids of its rows: `layer`. */
  id: string;
  noun: string;
  hint: string;
  label: string;
  rows: T[];
  columns: Column<T>[];
  /** `id` of the column that orders at first, and whether largest first; null keeps the order of `rows`. */
  order: { column: string; down: boolean } | null;
  words(item: T): string[];
  /** Rows that are shown as one, which unfolds to them: places, at least two each, and the item of that one. */
  groups?: { members: number[]; item: T }[];
  detail(item: T): HTMLElement;
  /** The row was clicked, or come to by key. */
  onPick(place: number): void;
}

export interface Table {
  /** Marks rows: the one that is selected, and such as belong to it. */
  mark(selected: number | null, related?: ReadonlySet<number>): void;
  /** Brings a row into sight inside the table; where the filter hides it, `insist` empties the filter. */
  reveal(place: number, insist?: boolean): void;
  unfold(place: number, open?: boolean): void;
  /** The place of the row `by` rows from the selected one, or null at the end. */
  step(from: number | null, by: number): number | null;
  focusFilter(): void;
  clearFilter(): boolean;
}

type Line = { place: number; at: number; detail: boolean };

export function mountTable<T>(root: HTMLElement, options: Options<T>): Table {
  const { store, id, noun, rows, columns } = options;
  const words: (string | undefined)[] = new Array(rows.length);
  const wordsOf = (place: number): string => (words[place] ??= options.words(rows[place]!).map(visible).join("\n").toLowerCase());
  const open = new Set<number>();
  // A row that stands for several has a place behind those of all rows.
  const groups = options.groups ?? [];
  const groupOf = new Map(groups.flatMap(({ members }, at) => members.map((place) => [place, rows.length + at] as const)));
  const membersOf = (place: number): number[] => groups[place - rows.length]?.members ?? [];
  const itemAt = (place: number): T => (place < rows.length ? rows[place]! : groups[place - rows.length]!.item);
  const first = (place: number): number => membersOf(place)[0] ?? place;
  let apart = false;
  let order: number[] = rows.map((_, place) => place);
  let position = new Map<number, number>();
  let lines: Line[] = [];
  const shownBelow = new Set<number>();
  let sorted = options.order;
  let selected: number | null = null;
  let related: ReadonlySet<number> = new Set();
  let printing = false;
  let rowHeight = ROW_HEIGHT;

  // --- elements ---------------------------------------------------------------------------------

  const status = el("span", { class: "status", role: "status" });
  const filter = el("input", { type: "search", placeholder: options.hint, "aria-label": `Filter ${noun}s`, autocomplete: "off", spellcheck: "false" });
  const heads = columns.map((column, at) => {
    const button = el("button", { type: "button", class: "sort" }, column.label);
    button.addEventListener("click", () => sort(at));
    const help = column.term ? el("button", { type: "button", class: "q", popovertarget: `term-${column.term}`, "aria-label": `Definition: ${column.label}` }, "?") : null;
    return el("th", { scope: "col", class: column.num ? "num" : null }, el("span", { class: "head-cell" }, button, help));
  });
  const wide = (column: Column<T>): string => `var(--w-${column.id}, ${column.width}px)`;
  const widths = columns.map((column) => {
    const col = el("col");
    if (column.width) col.style.width = wide(column);
    return col;
  });
  const spacer = (): HTMLTableRowElement => el("tr", { class: "spacer", "aria-hidden": "true" }, el("td", { colspan: columns.length }));
  const above = spacer(), below = spacer();
  const body = el("tbody", null, above, below);
  const head = el("thead", null, el("tr", { "aria-rowindex": 1 }, heads));
  const table = el("table", { class: "data", "aria-label": options.label }, el("colgroup", null, widths), head, body);
  // The column of the name has what the others leave, and never less than a name needs: narrower, the rows scroll.
  table.style.minWidth = `calc(var(--named) + ${columns.filter((column) => column.width).map(wide).join(" + ")})`;
  const scroller = el("div", { class: "table-scroll", tabindex: 0, role: "group", "aria-label": `${options.label}: rows` }, table);
  const joining = el("button", { type: "button", class: "flat joining" });
  joining.addEventListener("click", () => {
    apart = !apart;
    store.setView(`${id}s.apart`, apart ? "1" : null);
    arrange();
  });
  root.append(el("div", { class: "tools" }, filter, status, groups.length ? joining : null, copyBar(copied, options.label)), scroller);

  function copied(): Cell[][] {
    return [["#", ...columns.slice(1).map((column) => column.label)],
      ...order.flatMap((place) => (place < rows.length ? [place] : open.has(place) ? [] : membersOf(place))).map((place) => [place + 1, ...columns.slice(1).map((column) => (column.copy ?? column.key)(rows[place]!))])];
  }

  // --- order ------------------------------------------------------------------------------------

  function sort(at: number): void {
    const column = columns[at]!;
    sorted = { column: column.id, down: sorted?.column === column.id ? !sorted.down : Boolean(column.num) };
    const first = options.order;
    const same = first ? sorted.column === first.column && sorted.down === first.down : false;
    store.setView(`${id}s.sort`, same ? null : `${sorted.column}${sorted.down ? "-" : ""}`);
    arrange();
    scroller.scrollTop = 0;
  }

  function arrange(): void {
    shownBelow.clear();
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    order = [];
    for (let place = 0; place < rows.length; place++) if (wanted.every((word) => wordsOf(place).includes(word))) order.push(place);
    const found = order.length;
    if (groups.length && !apart) {
      // Of those that the filter takes apart each stands for itself.
      const kept = new Set(order);
      const whole = groups.flatMap(({ members }, at) => (members.every((place) => kept.has(place)) ? [rows.length + at] : []));
      const hidden = new Set(whole);
      order = [...order.filter((place) => !hidden.has(groupOf.get(place) ?? -1)), ...whole].sort((a, b) => first(a) - first(b));
    }
    const column = sorted && columns.find((one) => one.id === sorted!.column);
    if (column && sorted) {
      const sign = sorted.down ? -1 : 1;
      const keys = [...rows, ...groups.map(({ item }) => item)].map((item) => column.key(item));
      const missing = (key: Key | undefined): boolean => key === null || key === undefined || key === "";
      order.sort((a, b) => {
        const x = keys[a]!, y = keys[b]!;
        if (missing(x) || missing(y)) return Number(missing(x)) - Number(missing(y)) || a - b;
        return sign * (x < y ? -1 : x > y ? 1 : 0) || a - b;
      });
    }
    columns.forEach((one, at) => {
      if (one === column) heads[at]!.setAttribute("aria-sort", sorted!.down ? "descending" : "ascending");
      else heads[at]!.removeAttribute("aria-sort");
    });
    status.textContent = found === rows.length ? plural(rows.length, noun) : `${plural(found, noun)} (filtered from ${formatWhole(rows.length)})`;
    if (groups.length) {
      joining.textContent = apart ? "Join those that are alike" : `One row each (alike ones are joined: ${plural(order.length, "row")})`;
    }
    unfoldGroups();
    layOut();
  }

  /** The members of a row that is unfolded stand below it. */
  function unfoldGroups(): void {
    order = order.filter((place) => !shownBelow.has(place));
    shownBelow.clear();
    order = order.flatMap((place) => {
      if (place < rows.length || !open.has(place)) return [place];
      for (const one of membersOf(place)) shownBelow.add(one);
      return [place, ...membersOf(place)];
    });
    position = new Map(order.map((place, at) => [place, at]));
  }

  function layOut(): void {
    lines = [];
    order.forEach((place, at) => {
      lines.push({ place, at, detail: false });
      if (open.has(place) && place < rows.length) lines.push({ place, at, detail: true });
    });
    table.setAttribute("aria-rowcount", String(order.length + 1));
    virtualizer.setOptions(settings());
    virtualizer._willUpdate();
    virtualizer.measure();
    draw();
  }

  // --- rows in sight ----------------------------------------------------------------------------

  const keyOf = (line: Line): string => `${line.place}${line.detail ? "d" : ""}`;
  const settings = () => ({
    count: lines.length, getScrollElement: () => scroller, estimateSize: (at: number) => (lines[at]?.detail ? DETAIL_HEIGHT : rowHeight),
    getItemKey: (at: number) => (lines[at] ? keyOf(lines[at]!) : at), overscan: 10, scrollMargin: head.offsetHeight, scrollPaddingStart: head.offsetHeight,
    initialRect: { width: 0, height: 640 }, observeElementRect, observeElementOffset, scrollToFn: elementScroll, onChange: () => draw(),
  });
  const virtualizer = new Virtualizer<HTMLElement, HTMLTableRowElement>(settings());
  const drawn = new Map<string, HTMLTableRowElement>();

  function draw(): void {
    const items = printing ? lines.slice(0, PRINTED).map((_, index) => ({ index, start: 0, end: 0 })) : virtualizer.getVirtualItems();
    const wanted = new Map(items.map((item) => [keyOf(lines[item.index]!), item.index]));
    for (const [key, row] of drawn) {
      if (wanted.has(key)) continue;
      row.remove();
      drawn.delete(key);
    }
    let before: Element = above;
    for (const [key, index] of wanted) {
      const line = lines[index]!;
      let row = drawn.get(key);
      if (!row) {
        row = line.detail ? detailRow(line) : rowOf(line);
        drawn.set(key, row);
      }
      row.dataset["index"] = String(index);
      if (!line.detail) {
        row.setAttribute("aria-rowindex", String(line.at + 2));
        dress(row, line.place);
      }
      if (before.nextElementSibling !== row) before.after(row);
      if (line.detail && !printing) virtualizer.measureElement(row);
      before = row;
    }
    const margin = head.offsetHeight, first = items[0], last = items[items.length - 1];
    size(above, printing || !first ? 0 : first.start - margin);
    size(below, printing || !last ? 0 : virtualizer.getTotalSize() - (last.end - margin));
    status.dataset["paper"] = lines.length > PRINTED ? `, the first ${formatWhole(PRINTED)} of them on paper` : "";
  }

  function size(row: HTMLElement, height: number): void {
    row.hidden = height < 0.5;
    (row.firstElementChild as HTMLElement).style.height = `${height}px`;
  }

  function dress(row: HTMLTableRowElement, place: number): void {
    const isOpen = open.has(place);
    // A row that is folded is marked for what is in it.
    const inside = isOpen ? [] : membersOf(place), chosen = selected !== null && (place === selected || inside.includes(selected));
    row.className = ["row", isOpen ? "open" : "", place >= rows.length ? "joined" : shownBelow.has(place) ? "member" : "", chosen ? "selected" : "", related.has(place) || inside.some((one) => related.has(one)) ? "related" : ""].filter(Boolean).join(" ");
    if (chosen) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
    row.querySelector(".unfold")!.setAttribute("aria-expanded", String(isOpen));
  }

  function rowOf(line: Line): HTMLTableRowElement {
    const item = itemAt(line.place), rank = first(line.place) + 1, joins = membersOf(line.place).length;
    const cells = columns.map((column, at) => {
      const css = [column.num ? "num" : "", column.css?.(item) ?? ""].join(" ").trim();
      return at === 0
        ? el("td", null, el("button", { type: "button", class: "unfold", tabindex: -1, "aria-label": joins ? `The ${formatWhole(joins)} ${noun}s like ${noun} ${rank}` : `Details of ${noun} ${rank}` }, formatWhole(rank)))
        : el("td", { class: css || null }, column.cell(item));
    });
    const row = el("tr", { id: joins ? `${id}s-like-${rank}` : `${id}-${rank}`, class: "row" }, cells);
    row.addEventListener("click", (event) => {
      if (String(getSelection()) && !(event.target as Element).closest("button")) return;
      const closes = open.has(line.place) && (joins || selected === line.place || Boolean((event.target as Element).closest(".unfold")));
      options.onPick(rank - 1);
      unfold(line.place, !closes);
    });
    return row;
  }

  const detailRow = (line: Line): HTMLTableRowElement => el("tr", { class: "detail" }, el("td", { colspan: columns.length }, options.detail(rows[line.place]!)));

  function unfold(place: number, opened = !open.has(place)): void {
    if (opened === open.has(place)) return;
    if (opened) open.add(place).add(first(place)); // of those that are alike the first tells all but the times
    else open.delete(place);
    const kept = [...open].slice(-20).map((one) => one + 1);
    store.setView(`${id}s.open`, kept.length ? kept.join(".") : null);
    if (place >= rows.length) unfoldGroups();
    layOut();
  }

  const at = (place: number): number => lines.findIndex((line) => line.place === place && !line.detail);

  function step(from: number | null, by: number): number | null {
    if (!order.length) return null;
    // An unfolded row is stepped over: what it stands for comes next.
    const steps = groups.length ? order.filter((place) => place < rows.length || !open.has(place)) : order;
    const rowOf = from === null ? undefined : position.has(from) ? from : groupOf.get(from);
    const now = rowOf === undefined ? -1 : groups.length ? steps.indexOf(rowOf) : (position.get(rowOf) ?? -1);
    if (now < 0) return first(steps[by > 0 ? 0 : steps.length - 1]!);
    return first(steps[Math.min(Math.max(now + by, 0), steps.length - 1)]!);
  }

  // --- keys, address, paper ---------------------------------------------------------------------

  let waiting = 0;
  function filtered(): void {
    store.setView(`${id}s.q`, filter.value || null);
    arrange();
    scroller.scrollTop = 0;
  }
  filter.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = window.setTimeout(filtered, 90);
  });
  const clearFilter = (): boolean => {
    if (!filter.value) return false;
    filter.value = "";
    clearTimeout(waiting);
    filtered();
    return true;
  };
  filter.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      if (!clearFilter()) filter.blur();
      event.stopPropagation();
    } else if (event.key === "Enter" || event.key === "ArrowDown") {
      event.preventDefault();
      clearTimeout(waiting);
      filtered();
      const first = step(null, 1);
      if (first !== null) options.onPick(first);
      scroller.focus();
    }
  });
  let current: number | null = null;
  scroller.addEventListener("keydown", (event) => {
    if (event.target !== scroller || event.ctrlKey || event.metaKey || event.altKey) return;
    const from = current !== null && (position.has(current) || position.has(groupOf.get(current) ?? -1)) ? current : null;
    const line = from === null || position.has(from) ? from : groupOf.get(from)!;
    let to: number | null | undefined;
    if (event.key === "ArrowDown") to = step(from, 1);
    else if (event.key === "ArrowUp") to = step(from, -1);
    else if (event.key === "Home") to = order.length ? first(order[0]!) : undefined;
    else if (event.key === "End") to = order.length ? first(order[order.length - 1]!) : undefined;
    else if (event.key === "PageDown") to = step(from, 15);
    else if (event.key === "PageUp") to = step(from, -15);
    else if (event.key === "ArrowRight" && from !== null) unfold(line!, true);
    else if (event.key === "ArrowLeft" && from !== null) unfold(line!, false);
    else if (event.key === "Enter" && from !== null) unfold(line!);
    else return;
    event.preventDefault();
    event.stopPropagation();
    if (to !== null && to !== undefined) {
      current = to;
      options.onPick(to);
      reveal(to);
    }
  });

  function restore(): void {
    filter.value = store.view(`${id}s.q`) ?? "";
    apart = groups.length > 0 && store.view(`${id}s.apart`) !== null;
    const wanted = store.view(`${id}s.sort`);
    const column = wanted?.replace(/-$/, "");
    sorted = wanted && columns.some((one) => one.id === column) ? { column: column!, down: wanted.endsWith("-") } : options.order;
    open.clear();
    for (const rank of (store.view(`${id}s.open`) ?? "").split(".").map(Number)) if (Number.isInteger(rank) && rank >= 1 && rank <= rows.length + groups.length) open.add(rank - 1);
    arrange();
  }

  function reveal(place: number, insist = false): void {
    const group = groupOf.get(place);
    if (!position.has(place) && (group === undefined || !position.has(group)) && insist) clearFilter();
    if (!position.has(place) && group !== undefined && insist) unfold(group, true);
    const index = at(position.has(place) ? place : (group ?? place));
    if (index >= 0) virtualizer.scrollToIndex(index, { align: "auto" });
  }

  document.addEventListener("printchange", (event) => {
    printing = (event as CustomEvent<boolean>).detail;
    draw();
  });

  virtualizer._didMount();
  virtualizer._willUpdate();
  restore();
  store.onView(restore);
  const sample = drawn.values().next().value;
  if (sample && sample.offsetHeight && Math.abs(sample.offsetHeight - rowHeight) > 0.5) {
    rowHeight = sample.offsetHeight;
    layOut();
  }

  return {
    mark(place, others = new Set()) {
      selected = place;
      current = place;
      related = others;
      draw();
    },
    reveal,
    unfold,
    step,
    focusFilter: () => filter.focus(),
    clearFilter,
  };
}
