// Runs in the head, before anything is painted: which colours the page has. The reader's switch wins over the system's.
const KEY = "trtprof-theme";
const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
const paper = matchMedia("print");

function stored(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // a browser may forbid it to files
  }
}

let choice = stored();
let printing = false;

function apply(): void {
  const chosen = choice === "dark" || choice === "light" ? choice : null;
  // Paper is white.
  const theme = printing ? "light" : (chosen ?? (dark.matches ? "dark" : "light"));
  root.dataset["choice"] = chosen ?? "system";
  if (root.dataset["theme"] === theme) return;
  root.dataset["theme"] = theme;
  document.dispatchEvent(new Event("themechange"));
}

function print(now: boolean): void {
  if (printing === now) return;
  printing = now;
  root.toggleAttribute("data-printing", now);
  apply();
  document.dispatchEvent(new CustomEvent("printchange", { detail: now }));
}

printing = paper.matches;
root.toggleAttribute("data-printing", printing);
apply();
dark.addEventListener("change", apply);
paper.addEventListener("change", () => print(paper.matches));
addEventListener("beforeprint", () => print(true));
addEventListener("afterprint", () => print(false));
document.addEventListener("themechoice", (event) => {
  choice = (event as CustomEvent<string>).detail;
  try {
    if (choice === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, choice);
  } catch {
    // the choice lasts as long as the page is open
  }
  apply();
});
