// Elements from text nodes only: nothing on the page is ever parsed as markup.
import { parted, visible } from "./text";

type Child = globalThis.Node | string | null | undefined | false | Child[];
type Attributes = Record<string, string | number | null | undefined> | null;

function fill<T extends Element>(node: T, attributes: Attributes, children: Child[]): T {
  for (const [key, value] of Object.entries(attributes ?? {})) if (value !== null && value !== undefined) node.setAttribute(key, String(value));
  const flat = (children as unknown[]).flat(Infinity) as (globalThis.Node | string | null | undefined | false)[];
  node.append(...flat.filter((child): child is globalThis.Node | string => child !== null && child !== undefined && child !== false));
  return node;
}

export const el = <K extends keyof HTMLElementTagNameMap>(tag: K, attributes?: Attributes, ...children: Child[]): HTMLElementTagNameMap[K] =>
  fill(document.createElement(tag), attributes ?? null, children);

/** A name from the run: isolated from the direction of the text around it, hidden characters shown. */
export const bdi = (text: string, attributes?: Attributes): HTMLElement => el("bdi", attributes, visible(text));

/** The same in one line: where there is no room its middle is left out, never its end. */
export function name(text: string, attributes?: Attributes): HTMLElement {
  const [front, end, rest] = parted(visible(text));
  return el("bdi", { ...attributes, class: "cut" }, el("span", null, front), el("span", null, end), rest ? el("span", null, rest) : null);
}

export function byId(id: string): HTMLElement | null {
  return document.getElementById(id);
}
