// The keyboard, the list of its keys, and the switch of colours.
import { byId } from "./dom";
import { say } from "./copy";
import type { Rows, Store } from "./store";
import type { Table } from "./table";

const typing = (target: EventTarget | null): boolean => target instanceof Element && target.matches("input, textarea, select");
const acting = (target: EventTarget | null): boolean => target instanceof Element && target.closest("button, a, summary, select, input") !== null;

export function mountKeys(store: Store<Rows>, layers: Table, step: (by: number) => void): void {
  const help = byId("help") as HTMLDialogElement;
  const theme = byId("theme") as HTMLSelectElement;
  const root = document.documentElement;

  byId("help-open")!.addEventListener("click", () => help.showModal());
  help.addEventListener("click", (event) => {
    if (event.target === help || (event.target as Element).closest(".close")) help.close();
  });
  theme.value = root.dataset["choice"] ?? "system";
  const choose = (choice: string): void => {
    theme.value = choice;
    document.dispatchEvent(new CustomEvent("themechoice", { detail: choice }));
  };
  theme.addEventListener("change", () => choose(theme.value));

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || help.open) return;
    if (event.key === "/") {
      event.preventDefault();
      layers.focusFilter();
    } else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "t") {
      choose(root.dataset["theme"] === "dark" ? "light" : "dark");
      say(`${theme.value} colours`);
    } else if (event.key === "?") help.showModal();
    else if (event.key === "Enter" && store.selected !== null && !acting(event.target)) layers.unfold(store.selected);
    else if (event.key === "Escape") {
      if (document.querySelector(".term:popover-open")) return; // the browser closes it
      if (!layers.clearFilter()) store.select(null, "keys");
    }
  });
}
