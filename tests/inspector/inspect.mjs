// Does in the MCP Inspector what a person would do: connects from its page straight to a server ("Direct": the requests are
// the browser's own, from another origin), lists the tools, runs a slow one and watches its progress, disconnects.
//
//   node inspect.mjs URL [--origin http://NAME] [--expect refused] [--screenshot FILE] [--ms N --progress N]
//
// Without --origin the page is at http://localhost and a port; with it, at that name and port 80, which only the browser
// resolves. BOWLINE_TEST_CHROMIUM names the browser. One JSON object a line says what was seen; the exit code is 0 only if
// everything was.

import { parseArgs } from "node:util";

import { chromium } from "playwright-core";

import { servePage } from "./page.mjs";

const { positionals, values: options } = parseArgs({
  allowPositionals: true,
  options: {
    origin: { type: "string" },
    expect: { type: "string", default: "connected" },
    screenshot: { type: "string" },
    ms: { type: "string", default: "4000" },
    progress: { type: "string", default: "8" },
  },
});
if (positionals.length !== 1 || !["connected", "refused"].includes(options.expect)) {
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

async function connect(page, origin) {
  const query = new URLSearchParams({ transport: "streamable-http", serverUrl: url });
  await page.goto(`${origin}/?${query}`);
  await page.getByRole("combobox", { name: "Connection Type" }).click();
  await page.getByRole("option", { name: "Direct" }).click();
  await page.getByRole("button", { name: "Connect", exact: true }).click();
}

async function callSlowTool(page) {
  await page.getByRole("tab", { name: "Tools" }).click();
  await page.getByRole("button", { name: "List Tools" }).click();
  await page.getByText("slow", { exact: true }).first().click();
  await page.getByRole("spinbutton", { name: "ms*" }).fill(options.ms);
  await page.getByRole("spinbutton", { name: "progress", exact: true }).fill(options.progress);
  say("listed");
  await page.getByRole("button", { name: "Run Tool" }).click();
  const notifications = page.getByText("notifications/progress");
  const result = page.getByText(`slow: ${options.ms} ms, ${options.progress} progress`);
  await notifications.first().waitFor();
  if (await result.first().isVisible()) throw new Error("the result was there before any progress was shown");
  say("progress");
  await page.getByText("Tool Result: Success").waitFor();
  await result.first().waitFor();
  say("result", { progress: await notifications.count() });
}

const served = await servePage();
let browser;
try {
  browser = await launch(served.port);
  const page = await browser.newPage({ viewport: { width: 1400, height: 1000 } });
  page.setDefaultTimeout(PATIENCE);
  const requests = watch(page);
  const origin = options.origin ?? `http://localhost:${served.port}`;
  try {
    await connect(page, origin);
    if (options.expect === "refused") {
      await page.getByText("Connection Error", { exact: false }).first().waitFor();
      say("refused");
    } else {
      await page.getByText("Connected", { exact: true }).waitFor();
      say("connected");
      await callSlowTool(page);
    }
  } finally {
    if (options.screenshot) await page.screenshot({ path: options.screenshot });
    console.error(`what the browser sent: ${JSON.stringify(requests)}`);
  }
  if (options.expect === "connected") {
    const deleted = page.waitForResponse((response) => response.request().method() === "DELETE");
    await page.getByRole("button", { name: "Disconnect" }).click();
    const status = (await deleted).status();
    say("disconnected", { status });
  }
  say("done", { version: browser.version(), origin, requests });
} catch (error) {
  console.error(error.stack);
  process.exitCode = 1;
} finally {
  await browser?.close();
  served.close();
}
