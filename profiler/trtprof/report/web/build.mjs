// Bundles src/ into ../templates: app.js (the page of a run), fleet.js (that of a fleet), theme.js (set before first paint) and the licences of what the
// first two hold. The same sources and lock file give the same bytes, on every machine. `--out FOLDER` writes elsewhere.
import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = dirname(fileURLToPath(import.meta.url));
const flag = process.argv.indexOf("--out");
const out = flag < 0 ? join(root, "..", "templates") : process.argv[flag + 1];

// The digest that tests/report/test_browser.py computes too: of path, size and bytes of each source, by path.
async function digest() {
  const inside = await readdir(join(root, "src"), { recursive: true });
  const paths = ["build.mjs", "package.json", "package-lock.json", "tsconfig.json", ...inside.filter((path) => path.endsWith(".ts")).map((path) => `src/${path.split(sep).join("/")}`)].sort();
  const hash = createHash("sha256");
  for (const path of paths) {
    const bytes = await readFile(join(root, path));
    hash.update(`${path}\n${bytes.length}\n`);
    hash.update(bytes);
  }
  return hash.digest("hex");
}

const sources = await digest();
// What ECharts carries for pages that are not ours: words in Chinese, which are asked for where the browser is, and a theme.
const spared = {
  name: "spared",
  setup(build) {
    build.onLoad({ filter: /echarts\/lib\/i18n\/langZH\.js$/ }, () => ({ contents: 'export { default } from "./langEN.js";', resolveDir: join(root, "node_modules/echarts/lib/i18n") }));
    build.onLoad({ filter: /echarts\/lib\/theme\/dark\.js$/ }, () => ({ contents: "export default {};" }));
  },
};
const settings = {
  absWorkingDir: root, plugins: [spared], bundle: true, minify: true, format: "iife", target: "es2022", charset: "ascii", legalComments: "none",
  write: false, metafile: true, logLevel: "warning", define: { "process.env.NODE_ENV": '"production"' },
};

async function bundle(entry, name, banner) {
  const result = await build({ ...settings, entryPoints: [entry], outfile: name, banner: { js: banner } });
  return { text: result.outputFiles[0].text, inputs: Object.keys(result.metafile.inputs) };
}

const app = await bundle("src/main.ts", "app.js",
  `/*! trtprof's page, built from profiler/trtprof/report/web; sources sha256:${sources}\n    Bundled libraries: see "Licences" at the end of the page, and app.js.LICENSES.txt */`);
const fleet = await bundle("src/fleet.ts", "fleet.js",
  `/*! trtprof's page of a fleet, built from profiler/trtprof/report/web; sources sha256:${sources}\n    Bundled libraries: see "Licences" at the end of the page, and fleet.js.LICENSES.txt */`);
const theme = await bundle("src/theme.ts", "theme.js", `/*! trtprof's page; sources sha256:${sources} */`);

// The libraries of a bundle, and a text of their licences.
async function licencesOf(name, inputs) {
  const packages = [...new Set(inputs.map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(relative(".", path).split(sep).join("/"))?.[1]).filter(Boolean))].sort();
  const licences = [`Libraries in ${name}; sources sha256:${sources}\n`];
  for (const name of packages) {
    const folder = join(root, "node_modules", name);
    const { version, license, homepage } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    licences.push(`${"=".repeat(78)}\n${name} ${version} (${license})${homepage ? `, ${homepage}` : ""}\n`);
    // echarts keeps the licences of what it took over in a folder of its own.
    const files = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((file) => file.isFile() && !file.parentPath.includes(join(name, "node_modules")))
      .map((file) => relative(folder, join(file.parentPath, file.name)).split(sep).join("/")).filter((file) => /^(licen[cs]es?\/|licen[cs]e[^/]*$|notice[^/]*$)/i.test(file)).sort();
    if (!files.length) throw new Error(`${name} has no licence file`);
    for (const file of files) licences.push(`${"-".repeat(78)}\n${(await readFile(join(folder, file), "utf8")).replace(/\r\n/g, "\n").trimEnd()}\n`);
  }
  return { packages, text: licences.join("\n") };
}

const used = await licencesOf("app.js", app.inputs);
const usedByFleet = await licencesOf("fleet.js", fleet.inputs);

await mkdir(out, { recursive: true });
await writeFile(join(out, "app.js"), app.text);
await writeFile(join(out, "fleet.js"), fleet.text);
await writeFile(join(out, "theme.js"), theme.text);
await writeFile(join(out, "app.js.LICENSES.txt"), used.text);
await writeFile(join(out, "fleet.js.LICENSES.txt"), usedByFleet.text);
console.log(`app.js ${app.text.length} bytes, fleet.js ${fleet.text.length} bytes, theme.js ${theme.text.length} bytes; ${used.packages.join(", ")}`);
