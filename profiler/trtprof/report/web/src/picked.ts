// The line at the foot of the window that names the selected layer, whatever panel is in sight.
import { bdi, byId, el, name as cut } from "./dom";
import { boundName } from "./page";
import { efficiency, expectedWords } from "./layers";
import { elided, formatNs, known } from "./text";
import type { Store } from "./store";

export function mountPicked(store: Store, step: (by: number) => void, show: (place: number) => void): void {
  const { page } = store;
  const box = byId("picked")!;
  const button = (label: string, text: string, act: () => void): HTMLElement => {
    const one = el("button", { type: "button", class: "flat", "aria-label": label, title: label }, text);
    one.addEventListener("click", act);
    return one;
  };
  function draw(place: number | null): void {
    box.hidden = place === null;
    document.documentElement.classList.toggle("picking", place !== null);
    if (place === null) return;
    const layer = page.layers[place]!;
    const codes = [...new Set(page.findings.filter((one) => one.layers.includes(place)).map((one) => one.code))];
    const pair = (key: string, value: string, css = ""): HTMLElement | null => (value ? el("span", { class: "pair" }, el("span", { class: "soft" }, key), el("b", { class: css }, value)) : null);
    const name = button("Show it in the table of layers", "", () => show(place));
    name.className = "flat name";
    name.removeAttribute("aria-label"); // its name is that of the layer
    name.append(cut(elided(layer.name, 400) || "(no name)"));
    box.replaceChildren(
      el("span", { class: "rank" }, `#${place + 1}`), name, el("span", { class: "soft op" }, bdi(elided(layer.op_type, 40))),
      el("span", { class: "pairs-line" }, pair("measured", formatNs(layer.measured_ns)), pair("allowed", known(layer.attainable_ns, formatNs, "~"), "est"), pair("lost", known(layer.lost_ns, formatNs, "~"), "est"),
        pair("roofline", known(efficiency(layer), (value) => `${(100 * value).toFixed(0)} %`, "~"), "est"), pair("good kernels", expectedWords(layer), "est"), pair("bound", boundName(layer.bound, page)), pair("findings", codes.slice(0, 4).join(" "), "cause")),
      el("span", { class: "moves" }, button("Previous layer (k)", "\u2191", () => step(-1)), button("Next layer (j)", "\u2193", () => step(1)), button("Select nothing (Esc)", "\u2715", () => store.select(null, "picked"))),
    );
  }
  store.onSelect(draw);
  draw(store.selected);
}
