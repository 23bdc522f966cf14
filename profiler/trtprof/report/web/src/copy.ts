// Tables as text for somewhere else. Names come from files by others, so they must stay text there too.
import { byId, el } from "./dom";
import { plural, visible } from "./text";

export type Format = "Markdown" | "CSV" | "tabs";
/** A cell as text, and as a number where it is one. */
export type Cell = string | number | null;

/** `-1.23 ms`: a number with its unit is no formula. */
const AMOUNT = /^[-+]?\d[\d.,]*( ?[%A-Za-z/]+)?$/;
// What spreadsheets take for the start of a formula, full-width forms included, as in profiler/trtprof/report/csv_.py.
const FORMULA = /^ *[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;

/** A text that no spreadsheet takes for a formula. */
const harmless = (text: string): string => (FORMULA.test(text) && !AMOUNT.test(text) ? `'${text}` : text);
const quoted = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const show = (cell: Cell): string => (cell === null ? "" : typeof cell === "number" ? String(cell) : visible(cell));

/** Rows in a format; the first one is the head. */
export function toText(rows: Cell[][], format: Format): string {
  if (format === "CSV") return rows.map((row) => row.map((cell) => quoted(harmless(show(cell)))).join(",")).join("\r\n") + "\r\n";
  if (format === "tabs") return rows.map((row) => row.map((cell) => harmless(show(cell))).join("\t")).join("\n") + "\n";
  const [head = [], ...rest] = rows;
  const line = (cells: string[]): string => `| ${cells.join(" | ")} |`;
  const plain = (cell: Cell): string => show(cell).replace(/[\\`*_{}[\]<>|#]/g, "\\$&");
  return [line(head.map(plain)), `|${" --- |".repeat(head.length)}`, ...rest.map((row) => line(row.map(plain)))].join("\n") + "\n";
}

/** Says something to a reader who does not see the page change. */
export function say(text: string): void {
  const said = byId("said")!;
  said.textContent = text;
  said.classList.add("shown");
  clearTimeout(Number(said.dataset["timer"]));
  said.dataset["timer"] = String(setTimeout(() => said.classList.remove("shown"), 2500));
}

async function put(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without the permission, or where a file is no secure context: the old way.
    const area = el("textarea", { class: "offscreen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** Buttons that copy the rows that `rows` gives, whose first is the head. */
export function copyBar(rows: () => Cell[][], what: string): HTMLElement {
  const button = (format: Format): HTMLElement => {
    const one = el("button", { type: "button", class: "flat", "aria-label": `Copy ${what} ${format === "tabs" ? "with tabs" : `as ${format}`}` }, format);
    one.addEventListener("click", async () => {
      const all = rows();
      const done = await put(toText(all, format));
      say(done ? `Copied ${plural(all.length - 1, "row")} ${format === "tabs" ? "with tabs" : `as ${format}`}` : "This browser does not let a file copy");
    });
    return one;
  };
  return el("span", { class: "copy" }, "Copy", button("Markdown"), button("CSV"), button("tabs"));
}

/** The buttons above every table that the page came with. */
export function copyTables(): void {
  for (const table of document.querySelectorAll<HTMLTableElement>("table[data-copy]")) {
    const rows = (): Cell[][] => [...table.rows].map((row) => [...row.cells].map((cell) => {
      const copy = cell.cloneNode(true) as HTMLElement;
      for (const button of copy.querySelectorAll("button")) button.remove();
      return (copy.textContent ?? "").replace(/\s+/g, " ").trim();
    }));
    const home = table.closest(".scroll") ?? table;
    home.before(el("div", { class: "tools copies" }, copyBar(rows, table.dataset["copy"]!)));
  }
}

