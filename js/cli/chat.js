/* chat: `gemma-wasm chat`, a conversation in the terminal. */
/** @import { ChatOptions } from '../chat.js' */
/** @import { Generation } from '../generation.js' */
/** @import { Model } from '../model.js' */
import { createInterface } from 'node:readline/promises';
import { ModelError } from '../errors.js';

const DIM = '\x1b[2m';
const PLAIN = '\x1b[22m';
const HELP =
  'Commands: /reset, /retry, /system TEXT, /exit. Ctrl-C stops a running answer, or exits if there is none.\n';

/** Writes an answer to standard output as it arrives. Dims thoughts on a terminal, and leaves them out otherwise.
 * @param {Generation} answer @param {Pick<NodeJS.WriteStream, 'write' | 'isTTY'>} [out] */
export async function show(answer, out = process.stdout) {
  let last = 'text';
  try {
    for await (const { kind, text } of answer.steps()) {
      if (!text || (kind === 'thought' && !out.isTTY)) continue;
      if (kind !== last) out.write(kind === 'thought' ? DIM : `${PLAIN}\n\n`);
      last = kind;
      out.write(text);
    }
  } finally {
    if (last === 'thought') out.write(PLAIN);
  }
  out.write('\n');
}

/** Reads questions and answers them until the input ends. @param {Model} model @param {ChatOptions} options */
export async function interact(model, options) {
  let chat = model.chat(options);
  /** @type {AbortController | null} */
  let answering = null;
  let closed = false;
  const lines = createInterface({ input: process.stdin, output: process.stderr, prompt: '> ' });
  lines.on('close', () => {
    closed = true;
  });
  lines.on('SIGINT', () => {
    if (!answering || answering.signal.aborted) return lines.close();
    answering.abort();
  });

  /** @param {(options: { signal: AbortSignal }) => Generation} ask */
  const answer = async (ask) => {
    answering = new AbortController();
    try {
      await show(ask({ signal: answering.signal }));
    } catch (error) {
      if (!(error instanceof ModelError)) throw error;
      process.stderr.write(`${error.message}\n`);
    } finally {
      answering = null;
    }
  };

  /** @param {string} line */
  const handle = async (line) => {
    const [word, ...rest] = line.split(' ');
    if (word === '/reset') chat = model.chat(options);
    else if (word === '/retry') await answer((o) => chat.retry(o));
    else if (word === '/system') chat = model.chat((options = { ...options, system: rest.join(' ') }));
    else if (word.startsWith('/')) process.stderr.write(HELP);
    else if (line.trim()) await answer((o) => chat.send(line, o));
  };

  process.stderr.write(HELP);
  lines.prompt();
  for await (const line of lines) {
    if (line.trim() === '/exit') break;
    await handle(line);
    if (!closed) lines.prompt();
  }
  lines.close();
}
