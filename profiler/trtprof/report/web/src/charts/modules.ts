/* Which layers of a long graph are drawn as one: runs of the same module. Pure: names in, places out. */

/** Layers `first` to `end` (not included) in order of execution. */
export interface Module {
  name: string;
  first: number;
  end: number;
}

/** The scopes of a name: `/encoder/layers.3/attention/MatMul` is in `encoder`, `layers.3` and `attention`. */
export const scopesOf = (name: string): string[] => name.split("/").filter(Boolean).slice(0, -1);

/**
 * Names in order of execution as at most `most` runs that are one module each.
 *
 * The deepest level of scopes that gives no more runs than that. Where the first that tells modules apart gives more, as
 * many of its modules as need be are one run, called by the first and the last. Names without scopes are cut into runs
 * of equal length, which have no name.
 */
export function modulesOf(names: string[], most: number): Module[] {
  const scopes = names.map(scopesOf);
  const deepest = scopes.reduce((depth, one) => Math.max(depth, one.length), 0);
  let best: Module[] = [];
  for (let depth = 1; depth <= deepest; depth++) {
    const runs: Module[] = [];
    scopes.forEach((scope, at) => {
      const name = scope.slice(0, depth).join("/"), last = runs[runs.length - 1];
      // A node of no scope, such as a cast that the engine put in, breaks no module apart.
      if (last && (last.name === name || !name)) last.end = at + 1;
      else if (last && !last.name) { last.name = name; last.end = at + 1; }
      else runs.push({ name, first: at, end: at + 1 });
    });
    if (runs.length <= most) best = runs;
    else return best.length > 2 ? best : together(runs, most);
  }
  return best.length > 2 ? best : together(names.map((_, at) => ({ name: "", first: at, end: at + 1 })), most);
}

function together(runs: Module[], most: number): Module[] {
  const size = Math.ceil(runs.length / most), found: Module[] = [];
  for (let at = 0; at < runs.length; at += size) {
    const first = runs[at]!, last = runs[Math.min(at + size, runs.length) - 1]!;
    found.push({ name: first.name === last.name ? first.name : `${first.name} \u2026 ${last.name.split("/").pop()}`, first: first.first, end: last.end });
  }
  return found;
}
