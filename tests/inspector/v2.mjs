// Version 2: the page talks to a server of its own, which connects (with the TypeScript SDK 2). BOWLINE_TEST_NODE_22 names the
// Node.js that it runs on, 22 or newer.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const LAUNCHER = join(
  dirname(fileURLToPath(import.meta.url)),
  "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js",
);

/** The inspector takes no port 0. */
async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return String(port);
}

export async function serve(url) {
  const node = process.env.BOWLINE_TEST_NODE_22;
  if (!node || !existsSync(LAUNCHER)) {
    throw new Error("BOWLINE_TEST_NODE_22 is not set, or the inspector not installed: run `cargo xtask test`");
  }
  const home = mkdtempSync(join(tmpdir(), "bowline-inspector-"));
  const env = { PATH: process.env.PATH, HOME: home, CLIENT_PORT: await freePort(), MCP_AUTO_OPEN_ENABLED: "false" };
  env.MCP_INSPECTOR_SECRET_STORE = "memory";
  const args = [LAUNCHER, "--web", "--transport", "http", "--server-url", url];
  const server = spawn(node, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(server, "exit");
  const close = async () => {
    server.kill("SIGKILL");
    await ended;
    rmSync(home, { recursive: true, force: true });
  };
  const announced = (async () => {
    for await (const line of createInterface({ input: server.stdout })) {
      const found = line.match(/http:\/\/\S+MCP_INSPECTOR_API_TOKEN=\S+/);
      if (found) return new URL(found[0]);
    }
    throw new Error("the inspector ended before it said where it is");
  })();
  try {
    const late = new Promise((_, reject) => setTimeout(reject, 20_000, new Error("the inspector does not start")).unref());
    const { hostname, port, searchParams } = await Promise.race([announced, late]);
    return { host: hostname, port, query: searchParams, close };
  } catch (error) {
    await close();
    throw error;
  }
}

export async function connect(page) {
  const connection = page.getByRole("switch", { name: /Connect or disconnect/ });
  await connection.waitFor({ state: "attached" });
  // What is seen of it is drawn beside it.
  await connection.click({ force: true });
}

export const connected = (page) => page.getByText("Tools", { exact: true }).first().waitFor();

export async function openTool(page, name) {
  await page.getByText("Tools", { exact: true }).first().click();
  await page.getByText("Protocol", { exact: true }).click();
  await page.getByText(name, { exact: true }).first().click();
}

export async function runTool(page, { ms, progress }) {
  await page.getByRole("textbox", { name: "ms", exact: true }).fill(ms);
  await page.getByRole("textbox", { name: "progress", exact: true }).fill(progress);
  await page.getByRole("button", { name: "Execute Tool" }).click();
}

export async function disconnect(page) {
  await page.getByRole("button", { name: "Disconnect from server" }).click();
  await page.getByRole("switch", { name: /Connect or disconnect/ }).waitFor({ state: "attached" });
}
