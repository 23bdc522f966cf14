/* Which bars of a lane of time are drawn, and which become one: pure functions over columns. */

/** Events of one lane by start, as columns; `item` says which row of the table each is. */
export interface Track {
  item: Int32Array;
  start: Float64Array;
  end: Float64Array;
  /** The latest end up to each event, itself included. */
  latest: Float64Array;
}

/** What is drawn as one bar. `first` is a place in the track; `busy` is the time that something runs in it. */
export interface Bar {
  first: number;
  count: number;
  start: number;
  end: number;
  busy: number;
}

/** A track of the rows `items` of a table with these starts and durations. */
export function trackOf(items: ArrayLike<number>, starts: ArrayLike<number>, durations: ArrayLike<number>): Track {
  const item = Int32Array.from(items);
  item.sort((a, b) => starts[a]! - starts[b]! || durations[a]! - durations[b]! || a - b);
  const start = Float64Array.from(item, (row) => starts[row]!);
  const end = Float64Array.from(item, (row) => starts[row]! + durations[row]!);
  const latest = new Float64Array(item.length);
  let most = -Infinity;
  for (let at = 0; at < item.length; at++) latest[at] = most = Math.max(most, end[at]!);
  return { item, start, end, latest };
}

/** The first place whose value is at least `value` in a column that never falls. */
export function firstFrom(column: Float64Array, value: number): number {
  let low = 0, high = column.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Bars of the events that are seen between `from` and `to`.
 *
 * An event of at least `pixel` is a bar of its own. Shorter ones become one bar with those next to them that are no
 * further than `pixel` away, as long as that bar is no longer than `widest`: a lane never has more bars than pixels,
 * hides no event, and still shows where it is dense. `first` of such a bar is its longest event.
 */
export function barsOf(track: Track, from: number, to: number, pixel: number, widest = Infinity): Bar[] {
  const bars: Bar[] = [];
  let open: Bar | null = null;
  for (let at = firstFrom(track.latest, from); at < track.item.length && track.start[at]! <= to; at++) {
    const start = track.start[at]!, end = track.end[at]!;
    if (end < from) continue;
    if (end - start >= pixel) {
      bars.push({ first: at, count: 1, start, end, busy: end - start });
      open = null;
    } else if (open && start - open.end < pixel && end - open.start <= widest) {
      if (end - start > track.end[open.first]! - track.start[open.first]!) open.first = at;
      open.busy += Math.max(0, end - Math.max(start, open.end));
      open.end = Math.max(open.end, end);
      open.count++;
    } else {
      open = { first: at, count: 1, start, end, busy: end - start };
      bars.push(open);
    }
  }
  return bars;
}

/** Times between `from` and `to` in which no event of any track runs, as starts and ends. */
export function gapsOf(tracks: Track[], from: number, to: number): { start: number[]; end: number[] } {
  const gaps: { start: number[]; end: number[] } = { start: [], end: [] };
  const next = tracks.map(() => 0);
  let now = from;
  const gap = (until: number): void => {
    if (until <= now) return;
    // What takes no time ends no gap.
    if (gaps.end[gaps.end.length - 1] === now) gaps.end[gaps.end.length - 1] = until;
    else { gaps.start.push(now); gaps.end.push(until); }
  };
  for (;;) {
    let first = -1;
    for (let index = 0; index < tracks.length; index++) {
      const at = next[index]!;
      if (at < tracks[index]!.item.length && (first < 0 || tracks[index]!.start[at]! < tracks[first]!.start[next[first]!]!)) first = index;
    }
    if (first < 0) break;
    const at = next[first]!++;
    gap(Math.min(tracks[first]!.start[at]!, to));
    now = Math.max(now, Math.min(tracks[first]!.start[at]!, to), tracks[first]!.end[at]!);
  }
  gap(to);
  return gaps;
}

/** A layer at work: from the first of its events in a lane to the last before another layer's. */
export interface Span {
  layer: number;
  start: number;
  end: number;
  /** Events in it, and the time that they take. */
  count: number;
  busy: number;
}

/** Spans of the layers of a track, by start; events without a layer (-1) end a span. */
export function spansOf(track: Track, layers: ArrayLike<number>): Span[] {
  const spans: Span[] = [];
  let open: Span | null = null;
  for (let at = 0; at < track.item.length; at++) {
    const layer = layers[track.item[at]!]!, start = track.start[at]!, end = track.end[at]!;
    if (layer < 0) { open = null; continue; }
    if (open && open.layer === layer) {
      open.busy += Math.max(0, end - Math.max(start, open.end));
      open.end = Math.max(open.end, end);
      open.count++;
    } else spans.push((open = { layer, start, end, count: 1, busy: end - start }));
  }
  return spans;
}

/** The spans in as few rows as keep them apart, at most `most`; what does not fit stands in the last one. */
export function packed(spans: Span[], most: number): Span[][] {
  const rows: Span[][] = [], ends: number[] = [];
  for (const span of [...spans].sort((a, b) => a.start - b.start || b.end - a.end)) {
    let row = ends.findIndex((end) => end <= span.start);
    if (row < 0) row = Math.min(rows.length, most - 1);
    (rows[row] ??= []).push(span);
    ends[row] = Math.max(ends[row] ?? 0, span.end);
  }
  return rows;
}
