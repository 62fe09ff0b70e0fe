// Runs a scenario with either SDK. What differs between the SDKs comes in as `connect(options, wire, asked)`, which returns
// {client, transport, call(name, arguments, requestOptions), serverInfo, revision, era}.

import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import { everything } from './everything.mjs';
import { facade } from './facade.mjs';
import { expect, options as readOptions, Report } from './report.mjs';
import { textOf, Wire } from './wire.mjs';

export const CLIENT_INFO = { name: 'bowline-test', version: '1.0.0' };
export const CAPABILITIES = { elicitation: { form: {} }, sampling: {}, roots: { listChanged: true } };

// What the client answers when the server asks. `asked` counts.
export function answers(asked) {
  return {
    elicitation: () => {
      asked.elicitation += 1;
      return { action: 'accept', content: { name: 'Ann Example', check: true, integer: 7 } };
    },
    sampling: request => {
      asked.sampling += 1;
      const content = [request.params.messages[0].content].flat()[0];
      return { model: 'none', role: 'assistant', stopReason: 'endTurn', content: { type: 'text', text: `sampled: ${content.text}` } };
    },
    roots: () => {
      asked.roots += 1;
      return { roots: [{ uri: 'file:///srv/example', name: 'example' }] };
    },
  };
}

const SCENARIOS = {
  everything,
  facade,
  slow: (report, session, options) => slow(report, session, options, 0),
  cut: (report, session, options) => slow(report, session, options, options.minResumes),
  cancel,
  many,
  jobs,
};

export async function main(connect) {
  const options = readOptions();
  const scenario = SCENARIOS[options.scenario];
  if (!scenario) {
    console.error(`unknown scenario ${options.scenario}; there are ${Object.keys(SCENARIOS).join(', ')}`);
    process.exit(2);
  }
  const report = new Report(options.deadline);
  const wire = new Wire();
  const asked = { elicitation: 0, sampling: 0, roots: 0 };
  let session;
  const connected = await report.step('connect', async () => {
    session = { ...(await connect(options, wire, asked)), wire, asked };
    wire.watch(session.client, session.transport);
    const { revision, era, serverInfo } = session;
    expect(revision === options.revision, `negotiated ${revision}, not ${options.revision}`);
    return { revision, era, server: serverInfo, session: Boolean(session.sessionId()) };
  });
  if (connected) {
    await scenario(report, session, options);
    await report.step('close', async () => {
      if (session.sessionId()) await session.terminate();
      await session.client.close();
      return wire.summary();
    });
  }
  report.finish();
}

// The long call of server-everything or of the fixture server: [tool, arguments, the text that its result has in it].
async function longCall(client, seconds) {
  const { tools } = await client.listTools();
  const steps = Math.max(1, Math.round(seconds));
  return tools.some(tool => tool.name === 'trigger-long-running-operation')
    ? ['trigger-long-running-operation', { duration: seconds, steps }, 'completed']
    : ['slow', { ms: seconds * 1000, progress: steps }, 'slow:'];
}

// One long call.
async function slow(report, { client, call, wire }, options, minResumes) {
  await report.step(options.scenario, async () => {
    const [name, args, wanted] = await longCall(client, options.seconds);
    const before = wire.responses;
    const start = performance.now();
    const seen = [];
    const timeout = (options.seconds + 60) * 1000;
    const onprogress = ({ progress }) => seen.push(progress);
    const text = textOf(await call(name, args, { timeout, maxTotalTimeout: timeout, onprogress }));
    const seconds = (performance.now() - start) / 1000;
    if (options.expectOnce) await sleep(1000);
    const results = wire.responses - before;
    const repeats = seen.filter((value, at) => at > 0 && value <= seen[at - 1]).length;
    const details = { results, progress: seen.length, repeats, seconds: Math.round(seconds * 1000) / 1000, ...wire.summary() };
    expect(text.includes(wanted), 'not the result of the call', { text, ...details });
    expect(seconds >= options.seconds * 0.98, 'the result came before the call can have ended', details);
    expect(!options.expectOnce || results === 1, `received ${results} responses instead of one`, details);
    expect(!options.noRepeats || repeats === 0, `${repeats} progress notifications came again`, details);
    expect(wire.resumes >= minResumes, `resumed ${wire.resumes} times, not ${minResumes}: was it cut at all?`, details);
    return details;
  });
}

// One long call that is cancelled after half a second: no response may come, and the session goes on.
async function cancel(report, { client, call, wire, era }, options) {
  await report.step('cancel', async () => {
    const [name, args] = await longCall(client, options.seconds);
    const before = wire.responses;
    const signal = AbortSignal.timeout(500);
    const outcome = await call(name, args, { signal }).then(() => 'answered', error => String(error?.message ?? error));
    expect(signal.aborted && outcome !== 'answered', 'the call ended before it was cancelled', { outcome });
    await sleep(options.seconds * 1000);
    const results = wire.responses - before;
    expect(results === 0, `${results} responses came to a cancelled call`, wire.summary());
    await (era === 'modern' ? client.listTools() : client.ping());
    return { outcome, ...wire.summary() };
  });
}

// Many echo calls at a time: an answer that goes to the wrong call is seen.
async function many(report, { client, call, wire }, options) {
  await report.step('many', async () => {
    const { tools } = await client.listTools();
    const argument = Object.keys(tools.find(tool => tool.name === 'echo').inputSchema.properties)[0];
    const wrong = [];
    let next = 0;
    let right = 0;
    const start = performance.now();
    const worker = async () => {
      while (next < options.calls) {
        const number = next++;
        const sent = `${number} ✓ ${randomBytes(number % 200).toString('base64')}`;
        const answer = await call('echo', { [argument]: sent }, { timeout: 60_000 }).then(textOf, error => `${error}`);
        if (answer === sent || answer === `Echo: ${sent}`) right += 1;
        else wrong.push({ sent: sent.slice(0, 60), answer: answer.slice(0, 120) });
      }
    };
    await Promise.all(Array.from({ length: options.parallel }, worker));
    const details = { calls: options.calls, right, seconds: Math.round(performance.now() - start) / 1000, statuses: wire.statuses };
    expect(wrong.length === 0 && right === options.calls, `${wrong.length} wrong answers`, { wrong: wrong.slice(0, 5), ...details });
    return details;
  });
}

// Jobs one after another, several at a time, until a file is there: each takes --seconds to --longest, reports and, every
// other one, asks. Every one must end with its own result, which is received once.
async function jobs(report, { call, wire, asked }, options) {
  await report.step('jobs', async () => {
    const before = wire.responses;
    const wrong = [];
    let next = 0;
    let right = 0;
    let progressed = 0;
    let longest = 0;
    const worker = async () => {
      while (!existsSync(options.until)) {
        const number = next++;
        const key = `${options.name}-${number}`;
        // Spread evenly, the same in every run.
        const seconds = options.seconds + (options.longest - options.seconds) * ((number * 0.618) % 1);
        const ask = number % 2 === 0;
        const args = { file: options.file, key, ms: Math.round(seconds * 1000), progress: Math.max(2, Math.round(seconds)), ask };
        const timeout = (seconds + 60) * 1000;
        const onprogress = () => (progressed += 1);
        const start = performance.now();
        const answer = await call('job', args, { timeout, maxTotalTimeout: timeout, onprogress }).then(textOf, error => `${error?.code ?? ''} ${error}`);
        longest = Math.max(longest, (performance.now() - start) / 1000 - seconds);
        if (answer === `job ${key}: ${ask ? 'Ann Example' : '-'}`) right += 1;
        else wrong.push({ key, seconds, after: (performance.now() - start) / 1000, answer: answer.slice(0, 300) });
      }
    };
    await Promise.all(Array.from({ length: options.parallel }, worker));
    const results = wire.responses - before;
    const details = { calls: next, right, results, progressed, asked: asked.elicitation, latest: Math.round(longest * 10) / 10, ...wire.summary() };
    expect(wrong.length === 0 && right === next, `${wrong.length} wrong answers`, { wrong: wrong.slice(0, 5), ...details });
    expect(results === next, `received ${results} responses to ${next} calls`, details);
    return details;
  });
}
