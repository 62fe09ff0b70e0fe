// Runs the client half of the official suite: node client.mjs PROGRAM OUTPUT-FOLDER [--auth]
//
// Each scenario singly, in every revision that has it: only that mode looks at exit codes and time-outs. With --auth also the
// scenarios auth/*, and then the whole suite of each revision. Fails on a failure, on a warning, and on a client that ends with an
// error where the scenario does not allow that.

import { spawn } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
// Every scenario has a server of its own, and mostly waits.
const AT_A_TIME = 4;
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

// Lines like "  - tools_call [2025-06-18,2025-11-25,2026-07-28]".
const list = (await run(["list", "--client"])).out;
const scenarios = [...list.matchAll(/^\s*-\s+([\w./-]+)\s+\[([^\]]*)\]/gm)].map(([, name, where]) => ({ name, where: where.split(",") }));
if (scenarios.length === 0) {
  console.error(`no scenarios in:\n${list}`);
  process.exit(1);
}
// The longest first, so that nothing waits for one of them at the end.
const runs = [];
if (auth) {
  for (const revision of REVISIONS) {
    const strict = ["--expected-failures", join(here, "expected-failures.yml")];
    runs.push([`${revision} the whole suite`, ["--suite", "all", "--spec-version", revision, ...strict]]);
  }
}
for (const { name, where } of scenarios) {
  if (!auth && name.startsWith("auth/")) continue;
  // Skills are an extension that this client does not claim.
  if (name.startsWith("sep-2640")) continue;
  for (const revision of where.includes("extension") ? [undefined] : where) {
    runs.push([`${revision ?? "extension"} ${name}`, ["--scenario", name].concat(revision ? ["--spec-version", revision] : [])]);
  }
}
let passed = 0;
const faults = [];
let next = 0;
async function worker() {
  while (next < runs.length) {
    const number = next++;
    await judge(...runs[number], join(output, String(number)));
  }
}
await Promise.all(Array.from({ length: AT_A_TIME }, worker));
console.log(`\nconformance of the client: ${passed} passed, ${faults.length} failed`);
if (faults.length > 0) {
  console.error(faults.join("; "));
  process.exit(1);
}

async function judge(what, args, folder) {
  const { code, out } = await run(["client", "--command", program, ...args, "--output-dir", folder]);
  if (code === 0) {
    passed += 1;
    console.log(`pass ${what}`);
  } else {
    faults.push(what);
    console.log(`FAIL ${what}\n${out.split("\n").slice(-40).join("\n")}`);
  }
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
