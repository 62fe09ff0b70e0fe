// Does in the MCP Inspector what a person would do: connects to a server, lists the tools, runs a slow one and watches its
// progress, disconnects.
//
//   node inspect.mjs URL [--inspector 1|2] [--origin http://NAME] [--expect refused] [--screenshot FILE] [--ms N --progress N]
//
// v1.mjs and v2.mjs have what differs between its versions. --origin, for version 1, puts the page at that name and port 80,
// which only the browser resolves; else it is at a port of this machine. BOWLINE_TEST_CHROMIUM names the browser. One JSON
// object a line says what was seen; the exit code is 0 only if everything was.

import { parseArgs } from "node:util";

import { chromium } from "playwright-core";

import * as v1 from "./v1.mjs";
import * as v2 from "./v2.mjs";

const { positionals, values: options } = parseArgs({
  allowPositionals: true,
  options: {
    inspector: { type: "string", default: "1" },
    origin: { type: "string" },
    expect: { type: "string", default: "connected" },
    screenshot: { type: "string" },
    ms: { type: "string", default: "4000" },
    progress: { type: "string", default: "8" },
  },
});
const inspector = { 1: v1, 2: v2 }[options.inspector];
if (positionals.length !== 1 || !inspector || !["connected", "refused"].includes(options.expect)) {
  console.error("usage: see the head of inspect.mjs");
  process.exit(2);
}
const [url] = positionals;

/** No wait is longer. */
const PATIENCE = 20_000;

const began = performance.now();
function say(step, seen = {}) {
  console.log(JSON.stringify({ step, ok: true, ms: Math.round(performance.now() - began), ...seen }));
}

/** Headless as root, without the network that browsers ask for by themselves. */
function launch(pagePort) {
  const executablePath = process.env.BOWLINE_TEST_CHROMIUM;
  if (!executablePath) {
    throw new Error("BOWLINE_TEST_CHROMIUM is not set: run `cargo xtask test`, which installs Chromium and sets it");
  }
  const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"];
  args.push("--disable-background-networking", "--disable-component-update", "--disable-sync");
  if (options.origin) {
    args.push(`--host-resolver-rules=MAP ${new URL(options.origin).hostname}:80 127.0.0.1:${pagePort}`);
  }
  return chromium.launch({ executablePath, args, timeout: PATIENCE });
}

/** What the browser sent to the server, and what came back; `status` 0 where the page was not allowed to see an answer. */
function watch(page) {
  const requests = [];
  const ours = (request) => request.url().startsWith(url);
  page.on("response", (response) => {
    const request = response.request();
    if (ours(request)) {
      requests.push({
        method: request.method(),
        status: response.status(),
        resumed: "last-event-id" in request.headers(),
        origin: response.headers()["access-control-allow-origin"],
      });
    }
  });
  page.on("requestfailed", (request) => {
    const why = request.failure()?.errorText;
    // An empty 202 whose body the page does not want is "aborted" too.
    if (ours(request) && why !== "net::ERR_ABORTED") requests.push({ method: request.method(), status: 0, why });
  });
  return requests;
}

/**
 * Runs in the page: notes when each text is in it for the first time. What looks from outside may come too late on a busy
 * machine; here, the order is that in which things were shown.
 */
function noteFirst(texts) {
  window.noted = {};
  const look = () => {
    for (const [name, text] of Object.entries(texts)) {
      if (!(name in window.noted) && document.body.textContent.includes(text)) window.noted[name] = performance.now();
    }
  };
  const what = { subtree: true, childList: true, characterData: true };
  new MutationObserver(look).observe(document.body, what);
}

/** Runs the tool `slow`, and sees progress before the result. */
async function callSlowTool(page) {
  await inspector.openTool(page, "slow");
  say("listed");
  const outcome = `slow: ${options.ms} ms, ${options.progress} progress`;
  await page.evaluate(noteFirst, { progress: "notifications/progress", result: outcome });
  await inspector.runTool(page, { ms: options.ms, progress: options.progress });
  await page.getByText(outcome).first().waitFor();
  const first = await page.evaluate(() => window.noted);
  const ahead = Math.round(first.result - first.progress);
  if (!(ahead > 0)) throw new Error(`progress was not shown before the result: ${JSON.stringify(first)}`);
  say("progress", { ahead });
  say("result", { progress: await page.getByText("notifications/progress").count() });
}

const served = await inspector.serve(url);
let browser;
try {
  browser = await launch(served.port);
  const page = await browser.newPage({ viewport: { width: 1400, height: 1000 } });
  page.setDefaultTimeout(PATIENCE);
  const requests = watch(page);
  const origin = options.origin ?? `http://${served.host}:${served.port}`;
  try {
    await page.goto(`${origin}/?${served.query}`);
    await inspector.connect(page);
    if (options.expect === "refused") {
      await page.getByText("Connection Error", { exact: false }).first().waitFor();
      say("refused");
    } else {
      await inspector.connected(page);
      say("connected");
      await callSlowTool(page);
    }
  } finally {
    if (options.screenshot) await page.screenshot({ path: options.screenshot });
    console.error(`what the browser sent: ${JSON.stringify(requests)}`);
  }
  if (options.expect === "connected") {
    await inspector.disconnect(page);
    say("disconnected");
  }
  say("done", { version: browser.version(), origin, requests });
} catch (error) {
  console.error(error.stack);
  process.exitCode = 1;
} finally {
  await browser?.close();
  await served.close();
}
