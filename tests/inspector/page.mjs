// The page of the MCP Inspector as any web server would give it out: files, and index.html for everything else.

import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const DIST = join(
  dirname(fileURLToPath(import.meta.url)),
  "node_modules/@modelcontextprotocol/inspector-client/dist",
);
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

/** Serves it on a free port of 127.0.0.1. */
export async function servePage() {
  if (!existsSync(join(DIST, "index.html"))) {
    throw new Error(`${DIST} has no index.html: run \`cargo xtask test\`, which installs the inspector`);
  }
  const server = createServer((request, response) => {
    const wanted = join(DIST, normalize(new URL(request.url, "http://page").pathname));
    const file = existsSync(wanted) && statSync(wanted).isFile() ? wanted : join(DIST, "index.html");
    response.setHeader("Content-Type", TYPES[extname(file)] ?? "application/octet-stream");
    createReadStream(file).pipe(response);
  });
  await new Promise((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  return { port: server.address().port, close: () => server.close().closeAllConnections() };
}
