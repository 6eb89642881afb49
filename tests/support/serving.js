/* serving: runs `gemma-wasm serve` in a process, and speaks HTTP to it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { STORYTELLER } from '../js/models.js';

const CLI = fileURLToPath(new URL('../../js/cli.js', import.meta.url));

/** A server in its own process. `log` returns the standard error so far; `exited` resolves with the exit status.
 * @typedef {{ url: string, port: number, pid: number, log: () => string, exited: Promise<number | null>,
 *   kill: (signal: NodeJS.Signals) => void, stop: () => Promise<number | null> }} Serving */

/** Starts a server on a free port. Rejects if the server exits early.
 * @param {string[]} [args] arguments of `serve` @param {Record<string, string>} [env] @returns {Promise<Serving>} */
export async function startServing(args = [STORYTELLER, '--threads', '1'], env = {}) {
  const child = spawn(process.execPath, [CLI, 'serve', '--port', '0', ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  const exited = once(child, 'close').then(([status]) => /** @type {number | null} */ (status));
  const url = await new Promise((resolve, reject) => {
    child.stderr.on('data', (data) => {
      log += data;
      const [, found] = /and (http:\S+) \(Ollama\)/.exec(log) ?? [];
      if (found) resolve(found);
    });
    exited.then((status) => reject(new Error(`serve ended with ${status}: ${log}`)));
  });
  const kill = (/** @type {NodeJS.Signals} */ signal) => void child.kill(signal);
  const stop = () => {
    kill('SIGTERM');
    return exited;
  };
  return { url, port: Number(new URL(url).port), pid: Number(child.pid), log: () => log, exited, kill, stop };
}

/** Sends a value as JSON. @param {string} url @param {unknown} body @param {RequestInit} [init] */
export function post(url, body, { headers, ...init } = {}) {
  return fetch(url, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', ...headers },
    ...init,
  });
}

/** Returns the body of a chat completion of at most 24 tokens. `more` adds or replaces fields.
 * @param {object} [more] */
export const chatBody = (more) => ({
  model: 'storyteller',
  messages: [{ role: 'user', content: 'Tell me a story.' }],
  max_tokens: 24,
  ...more,
});

/** Writes text to a connection. Resolves with what the server sends until it closes the connection or `ms` pass.
 * @param {number} port @param {string | Buffer} text @param {number} [ms] */
export async function raw(port, text, ms = 3000) {
  const socket = connect(port, '127.0.0.1');
  let reply = '';
  socket.on('data', (data) => {
    reply += data;
  });
  socket.on('error', () => {});
  socket.write(text);
  const timer = setTimeout(() => socket.destroy(), ms);
  await once(socket, 'close');
  clearTimeout(timer);
  return reply;
}

/** Returns the status of a raw HTTP response, NaN if its first line is malformed. @param {string} reply */
export const statusOf = (reply) => Number(/^HTTP\/1\.1 (\d+)/.exec(reply)?.[1]);

/** Returns the values of /metrics by name and labels, as they are written there. @param {string} url */
export async function metricsOf(url) {
  const text = await (await fetch(`${url}/metrics`)).text();
  const rows = text.matchAll(/^([^#\n].*) (\S+)$/gm);
  return Object.fromEntries(Array.from(rows, ([, name, value]) => [name, Number(value)]));
}

/** Returns the resident memory (VmRSS) of a process. Linux only. @param {number} pid */
export const residentBytes = (pid) =>
  1024 * Number(/VmRSS:\s*(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
