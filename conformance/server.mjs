// Runs the official suite against a server: node server.mjs PROGRAM OUTPUT-FOLDER
//
// Every scenario of every revision, every scenario at the wire that the suite picks for it, and what is officially required. Fails on a
// failure, on a warning, and when the scenario of polling did not see the connection closed and the result fetched by a resumed one
// (which the suite itself lets pass).

import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const RUNS = {
  "2025-03-26": ["--suite", "all", "--spec-version", "2025-03-26"],
  "2025-06-18": ["--suite", "all", "--spec-version", "2025-06-18"],
  "2025-11-25": ["--suite", "all", "--spec-version", "2025-11-25"],
  "2026-07-28": ["--suite", "all", "--spec-version", "2026-07-28"],
  "all": ["--suite", "all"],
  "required-2025-11-25": ["--requirements", "2025-11-25"],
  "required-2026-07-28": ["--requirements", "2026-07-28"],
};
// Every run has a server of its own, and waits for a good part of its time.
const AT_A_TIME = 3;
const here = fileURLToPath(new URL(".", import.meta.url));
const suite = join(here, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
const [program, output] = process.argv.slice(2);
if (!program || !output) {
  console.error("usage: node server.mjs PROGRAM OUTPUT-FOLDER");
  process.exit(2);
}

const faults = [];
const names = Object.keys(RUNS);
let next = 0;
async function worker() {
  while (next < names.length) {
    const name = names[next++];
    // Not `faults = faults.concat(await ...)`: that is read before the wait, and what others found meanwhile would be lost.
    const found = await served(name, (port) => run(name, RUNS[name], port));
    faults.push(...found);
  }
}
await Promise.all(Array.from({ length: AT_A_TIME }, worker));
if (faults.length > 0) {
  console.error(`\nconformance: ${faults.join("; ")}`);
  process.exit(1);
}
console.log(`\nconformance: no failure and no warning in ${Object.keys(RUNS).join(", ")}`);

// Does `work` with a server of its own.
async function served(name, work) {
  const port = await freePort();
  const server = spawn(program, ["--port", String(port)], { stdio: ["ignore", "inherit", "inherit"] });
  const state = { ended: false };
  server.on("exit", () => (state.ended = true));
  server.on("error", (error) => {
    console.error(`${program} cannot be started: ${error.message}`);
    state.ended = true;
  });
  try {
    await ready(`http://127.0.0.1:${port}/readyz`, state);
    return await work(port);
  } finally {
    server.kill("SIGTERM");
  }
}

async function run(name, options, port) {
  const folder = join(output, name);
  rmSync(folder, { recursive: true, force: true });
  const { code, out } = await exit(
    spawn(
      process.execPath,
      [suite, "server", "--url", `http://127.0.0.1:${port}/mcp`, ...options]
        .concat(["--expected-failures", join(here, "expected-failures.yml"), "--output-dir", folder]),
      { stdio: ["ignore", "pipe", "pipe"] },
    ),
  );
  const scenarios = existsSync(folder) ? readdirSync(folder) : [];
  const faults = code === 0 ? [] : [`${name}: the suite ended with ${code}`];
  let checks = 0;
  let resumed = false;
  for (const scenario of scenarios) {
    for (const check of JSON.parse(readFileSync(join(folder, scenario, "checks.json"), "utf8"))) {
      checks += 1;
      if (check.status === "FAILURE" || check.status === "WARNING") {
        faults.push(`${name}: ${scenario}: ${check.id}: ${check.status} ${check.errorMessage ?? ""}`);
      }
      resumed ||= check.id === "server-sse-disconnect-resume" && check.status === "SUCCESS";
    }
  }
  if (checks === 0) faults.push(`${name}: nothing was checked`);
  if (name === "2025-11-25" && !resumed) faults.push(`${name}: no connection was closed and resumed`);
  if (faults.length > 0) console.log(out);
  console.log(`${faults.length > 0 ? "FAIL" : "pass"} ${name}: ${checks} checks of ${scenarios.length} scenarios`);
  return faults;
}

function exit(child) {
  return new Promise((resolve, reject) => {
    let out = "";
    child.stdout.on("data", (data) => (out += data));
    child.stderr.on("data", (data) => (out += data));
    child.on("error", reject);
    child.on("close", (code, signal) => resolve({ code: code ?? signal, out }));
  });
}

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.on("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

async function ready(url, state) {
  const deadline = Date.now() + 20_000;
  while (!state.ended && Date.now() < deadline) {
    try {
      if ((await fetch(url)).ok) return;
    } catch {
      // Not listening yet.
    }
    await sleep(50);
  }
  throw new Error(state.ended ? `${program} ended before it served` : `${program} did not serve within 20 s`);
}
