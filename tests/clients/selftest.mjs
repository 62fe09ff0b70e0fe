// Runs every client script against servers that are known to be right, so that a script that is broken is not taken for a
// gateway that is: the reference server's own Streamable HTTP mode, and polling_server.py, which cuts its streams.
// `cargo xtask test --only clients`.

import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';

const DEADLINE_MS = 180_000;
const python = process.env.BOWLINE_TEST_PYTHON;
if (!python) {
  console.error('BOWLINE_TEST_PYTHON is not set: run this as `cargo xtask test --only clients`');
  process.exit(2);
}
const rmcp = process.env.BOWLINE_TEST_RMCP_CLIENT;
if (!rmcp) {
  console.error('BOWLINE_TEST_RMCP_CLIENT is not set: run this as `cargo xtask test --only clients`');
  process.exit(2);
}
const path = relative => fileURLToPath(new URL(relative, import.meta.url));
const CLIENTS = {
  v1: [process.execPath, path('node/v1.mjs')],
  v2: [process.execPath, path('node/v2.mjs')],
  python: [python, '-B', path('python/client.py')],
  rmcp: [rmcp],
};

const children = [];
process.on('exit', () => children.forEach(child => child.kill('SIGKILL')));
setTimeout(() => {
  console.log(`FAILED not done after ${DEADLINE_MS / 1000} s`);
  process.exit(1);
}, DEADLINE_MS);

// Starts a server and resolves to the first line that it writes to one of its outputs.
function start(command, args, output, env = {}) {
  const stdio = output === 'stdout' ? ['ignore', 'pipe', 'inherit'] : ['ignore', 'ignore', 'pipe'];
  const child = spawn(command, args, { stdio, env: { ...process.env, ...env } });
  children.push(child);
  return new Promise((resolve, reject) => {
    let said = '';
    child[output].on('data', data => {
      said += data;
      if (said.includes('\n')) resolve(said.trim());
    });
    child.on('error', reject);
    child.on('exit', status => reject(new Error(`${command} ${args.join(' ')} ended with ${status}: ${said}`)));
  });
}

async function referenceServer() {
  const port = await new Promise((resolve, reject) => {
    const probe = createServer().on('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
  const program = path('node/node_modules/@modelcontextprotocol/server-everything/dist/index.js');
  const said = await start(process.execPath, [program, 'streamableHttp'], 'stderr', { PORT: String(port) });
  if (!said.includes('listening')) throw new Error(`the reference server says: ${said}`);
  return port;
}

const pollingServer = (...args) => start(python, ['-B', path('polling_server.py'), ...args], 'stdout');

const servers = {
  reference: await referenceServer(),
  closes: await pollingServer(),
  resets: await pollingServer('--reset'),
};

// [clients, server, arguments, what the failure must say if it must fail]
const CUT = ['cut', '--seconds', '3', '--expect-once', '--no-repeats', '--min-resumes', '2'];
const CHECKS = [
  // This server answers 400, not 404, for a session that has ended.
  ['v1 v2 python rmcp', 'reference', ['everything', '--gone-status', '400']],
  ['v1 v2 python rmcp', 'reference', ['slow', '--seconds', '1', '--expect-once', '--no-repeats']],
  ['v1 v2 python rmcp', 'reference', ['many', '--calls', '200', '--parallel', '20']],
  ['v1 v2 python rmcp', 'reference', ['cancel', '--seconds', '2']],
  ['v2 python', 'reference', ['slow', '--seconds', '1', '--mode', 'auto']],
  ['v1 v2 python rmcp', 'closes', CUT],
  ['v1 v2 rmcp', 'resets', CUT],
  ['python', 'resets', CUT, 'reconnection attempts were exhausted'],
  // The checks can fail. (The polling server knows no cancelling: it answers. rmcp then reads no more.)
  ['v1 v2 python', 'closes', ['cancel', '--seconds', '2'], 'to a cancelled call'],
  ['v1 v2 python rmcp', 'reference', ['everything', '--gone-status', '404'], 'status 400, not 404'],
  ['v1 v2 python rmcp', 'closes', ['cut', '--seconds', '1', '--min-resumes', '9'], 'was it cut at all'],
  ['v1 v2 python rmcp', 'closes', ['slow', '--seconds', '9', '--deadline', '1'], 'not done after 1'],
];

// Resolves to what went wrong, or nothing.
function run(client, server, args) {
  const [command, ...script] = CLIENTS[client];
  const url = `http://127.0.0.1:${servers[server]}/mcp`;
  // The Python SDK logs a stack for every connection that is reset: shown only if the check fails.
  const child = spawn(command, [...script, url, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  children.push(child);
  return new Promise(resolve => {
    let [output, errors] = ['', ''];
    child.stdout.on('data', data => (output += data));
    child.stderr.on('data', data => (errors += data));
    child.on('error', error => resolve(String(error)));
    child.on('close', status => {
      const steps = output.trim().split('\n').map(line => JSON.parse(line));
      const ok = status === 0 && steps.at(-1)?.step === 'done' && steps.every(step => step.ok === true);
      const broken = steps.filter(step => step.ok !== true).map(step => JSON.stringify(step));
      resolve(ok ? undefined : [`status ${status}`, ...broken, errors.slice(-2000)].join('\n'));
    });
  });
}

let [passed, failed] = [0, 0];
async function checkAll(client) {
  for (const [clients, server, args, mustSay] of CHECKS.filter(check => check[0].split(' ').includes(client))) {
    const wrong = await run(client, server, args).catch(error => `output that is not JSON: ${error}`);
    const good = mustSay === undefined ? wrong === undefined : wrong?.includes(mustSay);
    good ? (passed += 1) : (failed += 1);
    const expected = mustSay === undefined ? '' : ` (must fail: ${mustSay})`;
    console.log(`${good ? 'ok    ' : 'FAILED'} ${client} at ${server}: ${args.join(' ')}${expected}${good ? '' : `: ${wrong}`}`);
  }
}
await Promise.all(Object.keys(CLIENTS).map(checkAll));
console.log(`clients: ${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
