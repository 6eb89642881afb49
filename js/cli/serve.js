/* serve: the command `gemma-wasm serve`, which loads models and runs the HTTP server until a signal stops the server.
 * */
/** @import { Model } from '../model.js' */
/** @import { LogLine } from '../serve/app.js' */
/** @import { RunningServer } from '../serve/server.js' */
/** @import { ServeOptions } from '../serve/options.js' */
/** @import { Values } from './flags.js' */
import { FLAGS } from '../generated.js';
import { loadModel } from '../index.node.js';
import { isLoopback } from '../serve/guard.js';
import { DEFAULTS, checkServeOptions } from '../serve/options.js';
import { startServer } from '../serve/server.js';
import { badName, cannotListen, portInUse, sameName, wrongNames } from './errors.js';
import { number } from './flags.js';
import { opened } from './output.js';

/** Time in ms that running answers have to finish after the first SIGINT or SIGTERM. */
const GRACE_MS = 10_000;
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 };

/** Runs `gemma-wasm serve`. @param {Values} values */
export async function serve(values) {
  const options = serveOptions(values);
  checkServeOptions(options);
  const ids = idsOf(values.sources, options.name);
  /** @type {Record<string, Model>} */
  const models = {};
  try {
    for (const [i, source] of values.sources.entries()) {
      models[ids[i]] = await opened(loadModel, { ...values, source }, { restart: true });
    }
    const { url, running, close } = await listening(models, options);
    say(`Serving ${ids.join(', ')} at ${url}/v1 (OpenAI) and ${url} (Ollama). Press Ctrl-C to stop.`);
    warn(options);
    await signalled(running);
    await close(GRACE_MS);
  } finally {
    await Promise.all(Object.values(models).map((model) => model.dispose()));
  }
}

/** @param {Values} values @returns {ServeOptions} */
function serveOptions(values) {
  const numbers = ['port', 'queue'];
  const given = Object.entries(FLAGS.serve).map(([flag, name]) => {
    return [name, numbers.includes(flag) ? number(values, flag) : values[flag]];
  });
  const options = Object.fromEntries(given);
  return { ...options, apiKey: options.apiKey ?? (process.env.GEMMA_WASM_API_KEY || undefined) };
}

/** @param {string[]} sources @param {string[]} [names] */
function idsOf(sources, names) {
  if (names && names.length !== sources.length) throw wrongNames(sources.length, names.length);
  const ids = names ?? sources.map(nameOf);
  const twice = ids.find((id, i) => ids.indexOf(id) < i);
  if (twice !== undefined) throw sameName(twice);
  const wrong = ids.find((id) => !/^[^\s\p{Cc}]{1,200}$/u.test(id));
  if (wrong !== undefined) throw badName(wrong);
  return ids;
}

/** Returns the file name of a model without its extension and its split number (`-00001-of-00003`).
 * @param {string} source path or URL */
function nameOf(source) {
  const isUrl = /^https?:/i.test(source);
  const path = isUrl ? decodeURIComponent(new URL(source).pathname) : source;
  const file = path.split(/[/\\]/).at(-1) ?? '';
  return file
    .replace(/\.gguf$/i, '')
    .replace(/-\d{5}-of-\d{5}$/, '')
    .replace(/\s+/g, '-');
}

/** @param {Record<string, Model>} models @param {ServeOptions} options @returns {Promise<RunningServer>} */
async function listening(models, options) {
  try {
    return await startServer(models, options, { log: options.quiet ? undefined : writeLine });
  } catch (/** @type {any} */ error) {
    const { code } = error;
    const { port = DEFAULTS.port, host = DEFAULTS.host } = options;
    if (code === 'EADDRINUSE') throw portInUse(host, port, error);
    if (code?.startsWith('E')) throw cannotListen(host, port, error);
    throw error;
  }
}

/** Logs a request. The line has no text of the client except the HTTP method, because `route` is one of a fixed set.
 * @param {LogLine} line */
function writeLine({ method, route, status, ms, usage }) {
  const { promptTokens, completionTokens } = usage;
  const tokens = promptTokens ? `, ${promptTokens} + ${completionTokens} tokens` : '';
  process.stderr.write(`${new Date().toISOString()} ${method} ${route} ${status} ${Math.round(ms)} ms${tokens}\n`);
}

/** Warns of options that let other machines or web pages use the models. @param {ServeOptions} options */
function warn({ host = DEFAULTS.host, apiKey, cors = [] }) {
  if (apiKey !== undefined) return;
  if (!isLoopback(host)) {
    say(`Warning: every machine that can reach ${host} can use the models. Set --api-key, or listen on 127.0.0.1.`);
  }
  if (cors.includes('*')) {
    say(
      'Warning: every web page that is open on this machine can use the models. Set --api-key, or name origins with --cors.',
    );
  }
}

/** Resolves with the first SIGINT or SIGTERM. A second signal ends the process immediately.
 * @param {() => number} running returns the number of running requests */
function signalled(running) {
  return new Promise((resolve) => {
    let isStopping = false;
    for (const [name, status] of Object.entries(EXIT_CODES)) {
      process.on(name, () => {
        if (isStopping) process.exit(status);
        isStopping = true;
        const count = running();
        const seconds = GRACE_MS / 1000;
        if (count)
          say(`Stopping. Running requests (${count}) have ${seconds} s to finish. Press Ctrl-C to end them now.`);
        resolve(null);
      });
    }
  });
}

/** @param {string} text */
const say = (text) => void process.stderr.write(`gemma-wasm: ${text}\n`);
