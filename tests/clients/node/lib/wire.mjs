// Watches what a client really sends and receives, without changing it: requests through its `fetch` option, messages
// through the transport's `onmessage`.

import { expect } from './report.mjs';

export class Wire {
  // GETs with Last-Event-ID: attempts to resume a stream.
  resumes = 0;
  // Requests that failed below HTTP (connection refused, reset, ...).
  brokenRequests = 0;
  // Statuses by method, as {"GET 200": 3}.
  statuses = {};
  // Responses (results and errors) and notifications that were received, by method.
  responses = 0;
  notifications = {};
  // What the transport or the client reported through `onerror`.
  errors = [];
  #waiting = new Set();

  // To be given to the transport as its `fetch`.
  fetch = async (url, init) => {
    const method = init?.method ?? 'GET';
    if (new Headers(init?.headers).has('last-event-id')) this.resumes += 1;
    try {
      const response = await fetch(url, init);
      const key = `${method} ${response.status}`;
      this.statuses[key] = (this.statuses[key] ?? 0) + 1;
      return response;
    } catch (error) {
      if (error?.name !== 'AbortError') this.brokenRequests += 1;
      throw error;
    }
  };

  // To be called once the client is connected: before that, the client installs its own `onmessage`.
  watch(client, transport) {
    const inner = transport.onmessage;
    transport.onmessage = (message, extra) => {
      if (message.method === undefined) this.responses += 1;
      else if (message.id === undefined) {
        this.notifications[message.method] = (this.notifications[message.method] ?? 0) + 1;
        for (const check of this.#waiting) check(message);
      }
      inner?.(message, extra);
    };
    client.onerror = error => {
      if (this.errors.length < 20) this.errors.push(String(error?.message ?? error));
    };
  }

  // Waits for a notification: call it before what causes it.
  next(method, seconds, matches = () => true) {
    return new Promise((resolve, reject) => {
      const check = message => {
        if (message.method !== method || !matches(message.params)) return;
        clearTimeout(timer);
        this.#waiting.delete(check);
        resolve(message.params);
      };
      const timer = setTimeout(() => {
        this.#waiting.delete(check);
        reject(new Error(`no ${method} within ${seconds} s`));
      }, seconds * 1000);
      this.#waiting.add(check);
    });
  }

  summary() {
    const { resumes, brokenRequests, statuses, notifications, errors } = this;
    return { resumes, brokenRequests, statuses, notifications, errors };
  }
}

// The text of a tool result's first content; fails on isError.
export function textOf(result) {
  expect(!result.isError, 'the tool answered with isError', { result });
  expect(result.content?.[0]?.type === 'text', 'the first content is not text', { result });
  return result.content[0].text;
}
