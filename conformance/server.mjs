// Runs the official suite against a server: node server.mjs PROGRAM OUTPUT-FOLDER
//
// Every scenario of every revision, every scenario at the wire that the suite picks for it, and what is officially required. Fails on a
// failure, on a warning, and when the scenario of polling did not see the connection closed and the result fetched by a resumed one
// (which the suite itself lets pass).

import { spawn } from "node:child_process";
import { readdirSync, readFileSync, rmSync } from "node:fs";
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
const here = fileURLToPath(new URL(".", import.meta.url));
const suite = join(here, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
const [program, output] = process.argv.slice(2);
if (!program || !output) {
  console.error("usage: node server.mjs PROGRAM OUTPUT-FOLDER");
  process.exit(2);
}

const port = await freePort();
const server = spawn(program, ["--port", String(port)], { stdio: ["ignore", "inherit", "inherit"] });
let ended = false;
server.on("exit", () => (ended = true));
server.on("error", (error) => {
  console.error(`${program} cannot be started: ${error.message}`);
  ended = true;
});
let faults = [];
try {
  await ready(`http://127.0.0.1:${port}/readyz`);
  for (const [name, options] of Object.entries(RUNS)) faults = faults.concat(await run(name, options));
} finally {
  server.kill("SIGTERM");
}
if (faults.length > 0) {
  console.error(`\nconformance: ${faults.join("; ")}`);
  process.exit(1);
}
console.log(`\nconformance: no failure and no warning in ${Object.keys(RUNS).join(", ")}`);

async function run(name, options) {
  const folder = join(output, name);
  rmSync(folder, { recursive: true, force: true });
  const code = await exit(
    spawn(
      process.execPath,
      [suite, "server", "--url", `http://127.0.0.1:${port}/mcp`, ...options]
        .concat(["--expected-failures", join(here, "expected-failures.yml"), "--output-dir", folder]),
      { stdio: "inherit" },
    ),
  );
  const scenarios = readdirSync(folder);
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
  return faults;
}

function exit(child) {
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code, signal) => resolve(code ?? signal));
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

async function ready(url) {
  const deadline = Date.now() + 20_000;
  while (!ended && Date.now() < deadline) {
    try {
      if ((await fetch(url)).ok) return;
    } catch {
      // Not listening yet.
    }
    await sleep(50);
  }
  throw new Error(ended ? `${program} ended before it served` : `${program} did not serve within 20 s`);
}
