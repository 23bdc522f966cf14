// Numbers and names as all reports of trtprof show them: profiler/units.py and profiler/trtprof/report/_format.py.

export function digits(value: number): string {
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return "-";
  return value.toFixed(Math.min(Math.max(2 - Math.floor(Math.log10(Math.abs(value))), 0), 6));
}

type Steps = readonly (readonly [number, string])[];

function scaled(value: number, steps: Steps): string {
  const [factor, unit] = steps.find(([least]) => Math.abs(value) >= least) ?? steps[steps.length - 1]!;
  return `${digits(value / factor)} ${unit}`;
}

const TIMES: Steps = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
const si = (unit: string): Steps => [[1e12, `T${unit}`], [1e9, `G${unit}`], [1e6, `M${unit}`], [1e3, `k${unit}`], [1, unit]];

export const formatNs = (ns: number): string => scaled(ns, TIMES);
/** A duration that is expected, in the middle of its band, which always has its level: `~3.50 ms (3.00 .. 4.20, 80 %)`. */
export function formatBand(ns: number, low: number, high: number): string {
  const [factor, unit] = TIMES.find(([least]) => ns >= least) ?? TIMES[TIMES.length - 1]!;
  const part = (of: number): string => (of / factor >= 1 || !of ? digits(of / factor) : of / factor < 0.001 ? "<0.001" : (of / factor).toFixed(3));
  return `~${part(ns)} ${unit} (${part(low)} .. ${part(high)}, 80 %)`;
}
export const formatBytes = (count: number): string => scaled(count, si("B"));
export const formatFlops = (count: number): string => scaled(count, si("FLOP"));
/** A rate with an SI prefix: `formatRate(1e12, "B/s")` is `1.00 TB/s`. */
export const formatRate = (perSecond: number, unit: string): string => scaled(perSecond, si(unit));
export const formatPercent = (fraction: number): string => `${(100 * fraction).toFixed(1)} %`;
export const formatWhole = (value: number): string => value.toLocaleString("en-US");
export const plural = (n: number, noun: string): string => `${formatWhole(n)} ${noun}${n === 1 ? "" : "s"}`;
/** `show(value)` behind `mark`, or nothing where the value is unknown: unknown is never 0. */
export const known = (value: number | null | undefined, show: (value: number) => string, mark = ""): string =>
  value === null || value === undefined ? "" : mark + show(value);

const HIDDEN = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;
const SHORT: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function escaped(char: string): string {
  const hex = char.codePointAt(0)!.toString(16);
  const wide = hex.length <= 2 ? `\\x${hex.padStart(2, "0")}` : hex.length <= 4 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
  return SHORT[char] ?? wide;
}

/** `text` with every character escaped that could hide on a page or turn its direction. */
export const visible = (text: string): string => text.replace(HIDDEN, escaped);

/** The same, of `most` characters at most: the middle goes, for names differ at the end. */
export function elided(text: string, most: number): string {
  // A long name is cut before it is looked through: escapes only make it longer.
  const cut = text.length > 4 * most ? head(text, 2 * most) + tail(text, 2 * most) : text;
  const shown = visible(cut);
  if (shown.length <= most) return shown;
  const end = most >> 1;
  return `${head(shown, most - 1 - end)}\u2026${tail(shown, end)}`;
}

/** A name as the part that may go where there is no room, the end that stays, and what tells nothing behind it. */
export function parted(text: string): [string, string, string] {
  const rest = SUFFIX.exec(text)?.[0] ?? "", named = text.slice(0, text.length - rest.length);
  const end = tail(named, Math.min(KEPT, named.length >> 1));
  return [named.slice(0, named.length - end.length), end, rest];
}
/** What exporters and ONNX Runtime put behind the name of every node. */
const SUFFIX = /(?<=.{4})(_output_\d+)?(_nchwc)?$/s;
/** Characters of a name that no column cuts off. */
const KEPT = 12;

// A cut leaves no half of a character that takes two code units.
function head(text: string, most: number): string {
  return text.slice(0, most).replace(/[\ud800-\udbff]$/, "");
}

function tail(text: string, most: number): string {
  return text.slice(Math.max(text.length - most, 0)).replace(/^[\udc00-\udfff]/, "");
}
