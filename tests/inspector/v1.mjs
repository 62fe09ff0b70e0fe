// Version 1: a page that connects straight to a server ("Direct": the requests are the browser's own, from another origin).

import { servePage } from "./page.mjs";

export async function serve(url) {
  const query = new URLSearchParams({ transport: "streamable-http", serverUrl: url });
  return { ...(await servePage()), host: "localhost", query };
}

export async function connect(page) {
  await page.getByRole("combobox", { name: "Connection Type" }).click();
  await page.getByRole("option", { name: "Direct" }).click();
  await page.getByRole("button", { name: "Connect", exact: true }).click();
}

export const connected = (page) => page.getByText("Connected", { exact: true }).waitFor();

export async function openTool(page, name) {
  await page.getByRole("tab", { name: "Tools" }).click();
  await page.getByRole("button", { name: "List Tools" }).click();
  await page.getByText(name, { exact: true }).first().click();
}

export async function runTool(page, { ms, progress }) {
  await page.getByRole("spinbutton", { name: "ms*" }).fill(ms);
  await page.getByRole("spinbutton", { name: "progress", exact: true }).fill(progress);
  await page.getByRole("button", { name: "Run Tool" }).click();
}

export async function disconnect(page) {
  const deleted = page.waitForResponse((response) => response.request().method() === "DELETE");
  await page.getByRole("button", { name: "Disconnect" }).click();
  await deleted;
}
