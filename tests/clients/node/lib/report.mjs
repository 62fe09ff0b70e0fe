// The command line of the client scripts, and what they print: one JSON object a line and step,
// {"step": NAME, "ok": true|false, "ms": N, ...}, the last one being the step `done`. Exit status: 0 if every step passed,
// 1 if one failed, 2 for a wrong command line, 3 if the deadline passed.

import { parseArgs } from 'node:util';

const USAGE = `usage: node SCRIPT URL SCENARIO [options]
scenarios:
  everything   all that a client can do, against @modelcontextprotocol/server-everything
  slow         one long call; exactly one result
  cut          as slow, and the stream must have been resumed at least --min-resumes times
  cancel       one long call, cancelled after 0.5 s: no response may come within --seconds
  many         echo calls with distinct texts, in parallel
  jobs         calls of the fixture's \`job\`, in parallel, until a file is there: each its own result, received once
options:
  --seconds N      slow, cut, cancel: how long the call takes (default 3); jobs: how long the shortest one takes
  --longest N      jobs: how long the longest one takes (default 10)
  --until FILE     jobs: no more are begun once this file is there
  --file FILE      jobs: the ledger, for the tool to write to
  --name NAME      jobs: what the keys of this client's jobs start with (default job)
  --expect-once    slow, cut: fail unless exactly one response was received (also watches for 1 s after it)
  --no-repeats     slow, cut: fail if progress came twice
  --min-resumes N  cut: at least so many GETs with Last-Event-ID (default 1)
  --calls N        many: how many calls (default 100)
  --parallel P     many: how many at a time (default 10)
  --revision R     the revision that must be negotiated (default 2025-11-25)
  --gone-status N  everything: what a request gets after the session was deleted (default 404)
  --mode M         v2 only: legacy (default), auto (asks server/discover first) or modern (no fallback)
  --deadline S     give up after S seconds in all (default 90, and what --seconds says)`;

export function options() {
  const text = fallback => ({ type: 'string', default: fallback });
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        seconds: text('3'),
        'expect-once': { type: 'boolean', default: false },
        'no-repeats': { type: 'boolean', default: false },
        'min-resumes': text('1'),
        calls: text('100'),
        parallel: text('10'),
        revision: text('2025-11-25'),
        'gone-status': text('404'),
        longest: text('10'),
        until: text(''),
        file: text(''),
        name: text('job'),
        mode: text('legacy'),
        deadline: text(''),
      },
    });
    const number = name => {
      const value = Number(values[name]);
      if (values[name] === '' || !(value >= 0)) throw new Error(`--${name} needs a number, not ${values[name]}`);
      return value;
    };
    if (positionals.length !== 2) throw new Error('needs a URL and a scenario');
    if (!['legacy', 'auto', 'modern'].includes(values.mode)) throw new Error(`--mode is legacy, auto or modern, not ${values.mode}`);
    const seconds = number('seconds');
    return {
      url: new URL(positionals[0]),
      scenario: positionals[1],
      seconds,
      expectOnce: values['expect-once'],
      noRepeats: values['no-repeats'],
      minResumes: number('min-resumes'),
      calls: number('calls'),
      parallel: number('parallel'),
      revision: values.revision,
      goneStatus: number('gone-status'),
      longest: number('longest'),
      until: values.until,
      file: values.file,
      name: values.name,
      mode: values.mode,
      deadline: values.deadline === '' ? 90 + seconds : number('deadline'),
    };
  } catch (error) {
    console.error(`${error.message}\n${USAGE}`);
    process.exit(2);
  }
}

const print = line => process.stdout.write(`${JSON.stringify(line)}\n`);

export class Report {
  #failed = 0;
  #passed = 0;
  #now = 'start';

  constructor(deadlineSeconds) {
    setTimeout(() => {
      print({ step: 'deadline', ok: false, error: `not done after ${deadlineSeconds} s`, during: this.#now });
      process.exit(3);
    }, deadlineSeconds * 1000);
  }

  // Runs one step and prints its line. `work` returns what else the line says; it throws when the step fails, and then
  // the next steps run all the same. Returns whether the step passed.
  async step(name, work) {
    this.#now = name;
    const start = performance.now();
    const line = details => ({ step: name, ...details, ms: Math.round(performance.now() - start) });
    try {
      print(line({ ok: true, ...(await work()) }));
      this.#passed += 1;
      return true;
    } catch (error) {
      const code = error?.code === undefined ? {} : { code: error.code };
      print(line({ ok: false, error: String(error?.message ?? error), ...code, ...error?.details }));
      this.#failed += 1;
      return false;
    }
  }

  // Prints the last line and ends the process: a client that leaves a timer or a socket behind must not hang the test.
  finish() {
    const ok = this.#failed === 0 && this.#passed > 0;
    process.stdout.write(`${JSON.stringify({ step: 'done', ok, steps: this.#passed, broken: this.#failed })}\n`, () =>
      process.exit(ok ? 0 : 1),
    );
  }
}

// Fails the step with what was expected and what came.
export function expect(condition, message, details) {
  if (!condition) throw Object.assign(new Error(message), { details });
}
