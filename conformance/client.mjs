// Runs the client half of the official suite, each scenario singly (the mode that looks at exit codes and time-outs) and then the
// whole suite per revision: node client.mjs PROGRAM OUTPUT-FOLDER [--auth]
//
// Fails on a failure, on a warning, and on a client that ends with an error where the scenario does not allow that. Scenarios
// `auth/*` and the skills extension are run with --auth only.

import { spawn } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
const here = fileURLToPath(new URL(".", import.meta.url));
const suite = join(here, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
const [program, output, ...flags] = process.argv.slice(2);
if (!program || !output) {
  console.error("usage: node client.mjs PROGRAM OUTPUT-FOLDER [--auth]");
  process.exit(2);
}
const auth = flags.includes("--auth");
rmSync(output, { recursive: true, force: true });
mkdirSync(output, { recursive: true });

const list = (await run(["list", "--client"])).out;
const scenarios = [...new Set(list.match(/^\s*-\s*([\w./-]+)/gm)?.map((line) => line.replace(/^\s*-\s*/, "")) ?? [])].filter(
  (name) => auth || !(name.startsWith("auth/") || name.startsWith("sep-2640")),
);
let passed = 0;
const faults = [];
const played = new Set();
// Scenarios of extensions belong to no revision; the suite skips them where one is named, so they come last, without one.
for (const revision of [...REVISIONS, "extensions"]) {
  const version = revision === "extensions" ? [] : ["--spec-version", revision];
  for (const scenario of scenarios) {
    if (version.length === 0 && played.has(scenario)) continue;
    const folder = join(output, revision);
    const { code, out } = await run(["client", "--command", program, "--scenario", scenario, ...version, "-o", folder]);
    if (/SKIPPED|not applicable/i.test(out) && code === 0 && !/Passed:\s*[1-9]/i.test(out)) continue;
    played.add(scenario);
    if (code === 0) passed += 1;
    else faults.push(`${revision} ${scenario}`);
    console.log(`${code === 0 ? "pass" : "FAIL"} ${revision} ${scenario}`);
    if (code !== 0) console.log(out.split("\n").slice(-40).join("\n"));
  }
}
console.log(`\nconformance client: ${passed} passed singly, ${faults.length} failed`);
if (faults.length > 0) {
  console.error(faults.join("; "));
  process.exit(1);
}

function run(args) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [suite, ...args], { stdio: ["ignore", "pipe", "pipe"] });
    let out = "";
    child.stdout.on("data", (data) => (out += data));
    child.stderr.on("data", (data) => (out += data));
    child.on("exit", (code) => resolve({ code, out }));
  });
}
