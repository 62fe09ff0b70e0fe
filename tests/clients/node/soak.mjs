// Many clients on a TypeScript SDK in one process, for `crates/soak`, which starts it, breaks its connections, kills it, and
// checks what it writes down: `node soak.mjs ts1|ts2 CONFIG`. Stock settings. The journal is that of `crates/soak/src/journal`; every line
// is on disk before what it announces is done, so that a kill loses nothing.

import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const [sdk, text] = process.argv.slice(2);
const config = JSON.parse(text);

const note = event => appendFileSync(config.journal, `${JSON.stringify({ t: Date.now(), ...event })}\n`);

// splitmix32: the same seed, the same decisions.
function chanceOf(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x9e3779b9) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return (z ^ (z >>> 15)) >>> 0;
  };
  const between = (from, to) => from + Math.floor((next() / 2 ** 32) * (Math.floor(to) - from + 1));
  return { between, percent: share => between(0, 99) < share };
}

const answers = {
  elicitation: (client, params) => {
    const of = params.message.replace(/^ask /, '');
    client.heard(of, 'ask');
    return { action: 'accept', content: { call: of } };
  },
  sampling: (client, params) => {
    const content = [params.messages[0].content].flat()[0];
    const of = content.text.replace(/^ask /, '');
    client.heard(of, 'ask');
    return { role: 'assistant', model: 'none', content: { type: 'text', text: `answer ${of}` } };
  },
};

const INFO = { name: 'bowline-soak', version: '1.0.0' };
const CAPABILITIES = { elicitation: {}, sampling: {} };

const SDKS = {
  ts1: async () => {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const types = await import('@modelcontextprotocol/sdk/types.js');
    return (url, fetch, session) => {
      const client = new Client(INFO, { capabilities: CAPABILITIES });
      client.setRequestHandler(types.ElicitRequestSchema, request => answers.elicitation(session, request.params));
      client.setRequestHandler(types.CreateMessageRequestSchema, request => answers.sampling(session, request.params));
      const transport = new StreamableHTTPClientTransport(url, { fetch });
      const call = (args, options) => client.callTool({ name: 'work', arguments: args }, undefined, options);
      return { client, transport, call };
    };
  },
  ts2: async () => {
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    return (url, fetch, session) => {
      const client = new Client(INFO, { capabilities: CAPABILITIES });
      client.setRequestHandler('elicitation/create', request => answers.elicitation(session, request.params));
      client.setRequestHandler('sampling/createMessage', request => answers.sampling(session, request.params));
      const transport = new StreamableHTTPClientTransport(url, { fetch });
      const call = (args, options) => client.callTool({ name: 'work', arguments: args }, options);
      return { client, transport, call };
    };
  },
};

const left = () => config.until - Date.now();

// What a call asks for, and what becomes of it.
function planOf(chance) {
  const long = config.longest_call;
  const ms = Math.min([0, 0, 0, chance.between(0, long / 20), chance.between(0, long / 4), chance.between(long / 10, long)][chance.between(0, 5)], left() + 2000);
  return {
    ms,
    progress: chance.percent(50) ? chance.between(1, 2 + ms / 300) : 0,
    size: chance.percent(12) ? chance.between(4096, 400_000) : chance.between(1, 2000),
    ask: ['elicit', 'sample', 'none', 'none', 'none', 'none', 'none', 'none'][chance.between(0, 7)],
    log: chance.percent(15),
  };
}

const payload = (call, size) => `${call}|`.repeat(Math.ceil(size / (call.length + 1))).slice(0, size);

class Session {
  constructor(name, url, connect) {
    this.name = name;
    Object.assign(this, connect(new URL(url), this.fetch, this));
  }

  fetch = (url, init) => {
    const headers = new Headers(init?.headers);
    headers.set('authorization', `Bearer ${config.token}`);
    return fetch(url, { ...init, headers });
  };

  heard = (of, what) => note({ e: 'heard', session: this.name, of, what });

  // Watches what comes before the SDK looks at it: a result that came twice is seen.
  watch() {
    const inner = this.transport.onmessage;
    this.transport.onmessage = (message, extra) => {
      const of = message.result?.structuredContent?.call;
      if (of) note({ e: 'response', call: of });
      if (message.method === 'notifications/message') this.heard(message.params.data.call, 'log');
      inner?.(message, extra);
    };
    this.client.onerror = () => {};
  }

  async run(number, chance) {
    const call = `${this.name}.${number}`;
    const plan = planOf(chance);
    const intent = chance.percent(7) ? 'cancel' : 'finish';
    const bound = plan.ms + config.grace;
    const cancelled = new AbortController();
    note({ e: 'sent', call, plan, intent, bound_ms: bound + 5000 });
    if (intent === 'cancel') setTimeout(() => cancelled.abort(), chance.between(0, plan.ms + 200)).unref();
    const onprogress = ({ progress, message }) => note({ e: 'progress', call, of: message ?? '', n: progress });
    const options = { timeout: bound, maxTotalTimeout: bound, signal: cancelled.signal, onprogress };
    const how = await this.call({ call, ...plan }, options).then(
      result => {
        const { call: of, asked } = result.structuredContent ?? {};
        return { how: 'result', of: of ?? '', good: result.content[0].text === payload(call, plan.size), asked: asked ?? '' };
      },
      error => {
        if (cancelled.signal.aborted) return { how: 'cancelled' };
        const message = String(error?.message ?? error);
        if (error?.code === -32001 || error?.code === 'REQUEST_TIMEOUT' || /timed out/i.test(message)) return { how: 'timeout' };
        const refused = /\b(429|503)\b/.exec(message);
        if (refused && typeof error.code !== 'string') return { how: 'refused', status: Number(refused[1]) };
        if (typeof error?.code === 'number' && error.code < -32000) {
          const { reason, outcome } = error.data ?? {};
          return { how: 'error', code: error.code, reason: reason ?? null, outcome: outcome ?? null, message };
        }
        return { how: 'lost', why: `${error?.code ?? ''} ${message}` };
      },
    );
    note({ e: 'end', call, ...how });
  }
}

// One client: session after session.
async function work({ name, url }, connect, chance) {
  await sleep(chance.between(0, config.longest_pause));
  for (let number = 1; left() > 0; number += 1) {
    const session = new Session(`${name}/${config.incarnation}.${number}`, url, connect);
    try {
      await session.client.connect(session.transport);
    } catch {
      await session.client.close().catch(() => {});
      await sleep(500);
      continue;
    }
    session.watch();
    note({ e: 'opened', session: session.name });
    let next = 1;
    for (let round = chance.between(1, 8); round > 0 && left() > 0; round -= 1) {
      const atOnce = chance.percent(15) ? chance.between(2, 3) : 1;
      await Promise.all(Array.from({ length: atOnce }, () => session.run(next++, chance)));
      await sleep(chance.between(0, config.longest_pause));
    }
    const deleted = chance.percent(50) && (await session.transport.terminateSession().then(() => true, () => false));
    note({ e: 'closed', session: session.name, parting: deleted ? 'deleted' : 'left' });
    await session.client.close();
  }
}

const connect = await SDKS[sdk]();
await Promise.all(config.clients.map((client, index) => work(client, connect, chanceOf(config.seed + index * 7919))));
process.exit(0);
