// Runs every client script against the reference server's own Streamable HTTP mode, so that a script that is broken is not
// taken for a gateway that is. `cargo xtask test --only clients`.

import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';

const python = process.env.BOWLINE_TEST_PYTHON;
if (!python) {
  console.error('BOWLINE_TEST_PYTHON is not set: run this as `cargo xtask test --only clients`');
  process.exit(2);
}
const path = relative => fileURLToPath(new URL(relative, import.meta.url));
const clients = {
  v1: [process.execPath, path('node/v1.mjs')],
  v2: [process.execPath, path('node/v2.mjs')],
  python: [python, '-B', path('python/client.py')],
};
// The reference server answers 400, not 404, for a session that has ended.
const scenarios = [
  ['everything', '--gone-status', '400', '--deadline', '60'],
  ['slow', '--seconds', '1', '--expect-once', '--no-repeats', '--deadline', '30'],
  ['many', '--calls', '200', '--parallel', '20', '--deadline', '30'],
];
const modes = { v1: [], v2: [['slow', '--seconds', '1', '--mode', 'auto']], python: [['slow', '--seconds', '1', '--mode', 'auto']] };

const port = await new Promise((resolve, reject) => {
  const probe = createServer().on('error', reject);
  probe.listen(0, '127.0.0.1', () => {
    const { port } = probe.address();
    probe.close(() => resolve(port));
  });
});
const server = spawn(process.execPath, [path('node/node_modules/@modelcontextprotocol/server-everything/dist/index.js'), 'streamableHttp'], {
  env: { ...process.env, PORT: String(port) },
  stdio: ['ignore', 'ignore', 'pipe'],
});
process.on('exit', () => server.kill('SIGKILL'));
await new Promise((resolve, reject) => {
  let said = '';
  server.stderr.on('data', data => {
    said += data;
    if (said.includes('listening')) resolve();
  });
  server.on('exit', status => reject(new Error(`the reference server ended with ${status}: ${said}`)));
});
server.removeAllListeners('exit');

// Resolves to what went wrong, or nothing.
function run(command, args) {
  return new Promise(resolve => {
    const child = spawn(command[0], [...command.slice(1), `http://127.0.0.1:${port}/mcp`, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
    let output = '';
    child.stdout.on('data', data => (output += data));
    child.on('error', error => resolve(String(error)));
    child.on('close', status => {
      const lines = output.trim().split('\n');
      const broken = lines.filter(line => !line.includes('"ok":true') && !line.includes('"ok": true'));
      resolve(status === 0 && broken.length === 0 ? undefined : `status ${status}\n${broken.join('\n')}`);
    });
  });
}

let failed = 0;
for (const [name, command] of Object.entries(clients)) {
  for (const args of [...scenarios, ...modes[name]]) {
    const start = performance.now();
    const wrong = await run(command, args);
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    console.log(`${wrong === undefined ? 'ok    ' : 'FAILED'} ${name.padEnd(6)} ${args.join(' ')} (${seconds} s)${wrong === undefined ? '' : `: ${wrong}`}`);
    failed += wrong === undefined ? 0 : 1;
  }
}
// The checks must be able to fail: with the server's real status for an ended session refused, the run is not ok.
const refused = await run(clients.v1, ['everything', '--gone-status', '404']);
if (!refused?.includes('"step":"gone"')) {
  console.log(`FAILED a wrong status was accepted: ${refused}`);
  failed += 1;
}
process.exit(failed === 0 ? 0 : 1);
