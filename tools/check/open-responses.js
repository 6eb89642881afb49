/*
 * open-responses: runs the compliance program of Open Responses (https://github.com/openresponses/openresponses) against
 * the handler of gemma-wasm/openai, and writes its table to docs/reports/open-responses.md.
 *
 *   node tools/check/open-responses.js FOLDER-OF-THE-PROGRAM [--model FILE.gguf] [--verbose]
 *
 * The program is not part of this repository: fetch it first. It is bundled and runs in Node. Ends with status 1 if a
 * case fails that is not in EXCEPTIONS, or if one of these passes.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';
import { loadModel } from '../../js/index.node.js';
import { createHandler } from '../../js/openai.js';
import { keep } from '../../tests/lab/tables.js';
import { Trouble, at, cli } from '../support/proc.js';

/** Cases that do not pass, by their beginnings, and why. @type {[beginning: string, reason: string][]} */
const EXCEPTIONS = [
  ['image-input', 'images are not supported'],
  ['websocket-', 'the handler answers HTTP requests; WebSocket is an optional transport of the specification'],
  ['compact-response', 'compaction is not supported'],
];
/** The answers of the case about tools end within the context with these: see modelOf(). */
const SEED = 12;
const CLOSING = 5;

/** @typedef {{ id: string, name: string, status: string, errors?: string[] }} Result */

/** Returns a model that calls tools if there are some. No model in this repository was trained to decide that, or to end
 * the strings of a call, so calls are required, and what ends a string or an object is made more likely. Answers in words
 * are the model's own. @param {import('../../js/model.js').Model} model */
async function modelOf(model) {
  const closing = (await Promise.all(['"', '}'].map((text) => model.tokenize(text)))).flat();
  const logitBias = Object.fromEntries(closing.map((id) => [id, CLOSING]));
  /** @type {typeof model.generate} */
  const generate = (messages, options) => {
    const calls = options?.tools?.length ? { toolChoice: /** @type {const} */ ('required'), logitBias } : {};
    return model.generate(messages, { ...options, seed: SEED, ...calls });
  };
  return /** @type {typeof model} */ ({ info: model.info, generate });
}

/** Starts a server for a handler on a port of the loopback interface.
 * @param {ReturnType<typeof createHandler>} handler */
async function serverOf(handler) {
  const server = createServer(async (request, response) => {
    const body = request.method === 'POST' ? Buffer.concat(await request.toArray()) : undefined;
    const {
      status,
      headers,
      body: answer,
    } = await handler(`http://localhost${request.url}`, { method: request.method, body });
    response.writeHead(status, Object.fromEntries(headers));
    if (answer) Readable.fromWeb(/** @type {any} */ (answer)).pipe(response);
    else response.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return { server, url: `http://127.0.0.1:${port}/v1` };
}

/** Bundles the program's list of cases into a folder, and runs all of them.
 * @param {string} program @param {string} folder @param {object} config @returns {Promise<Result[]>} */
async function resultsOf(program, folder, config) {
  const outfile = join(folder, 'cases.mjs');
  const zod = createRequire(import.meta.url).resolve('zod/v3');
  const entryPoints = [join(program, 'src', 'lib', 'compliance-tests.ts')];
  try {
    await build({
      entryPoints,
      outfile,
      bundle: true,
      format: 'esm',
      platform: 'node',
      alias: { zod },
      logLevel: 'silent',
    });
  } catch (error) {
    throw new Trouble(`${program} is not the compliance program: ${/** @type {Error} */ (error).message}`);
  }
  const { runAllTests } = await import(pathToFileURL(outfile).href);
  return runAllTests(config, () => {});
}

/** @param {Result} result */
function rowOf({ id, name, status }) {
  const reason = EXCEPTIONS.find(([beginning]) => id.startsWith(beginning))?.[1] ?? '';
  const right = (status === 'passed') === !reason;
  return { right, row: `| \`${id}\` | ${name} | ${status} | ${reason} |` };
}

await cli(async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { model: { type: 'string' }, verbose: { type: 'boolean' } },
  });
  if (positionals.length !== 1) throw new Trouble('Pass the folder of the compliance program.');
  const model = await loadModel(values.model ?? at('models', 'storyteller', 'storyteller.gguf'));
  const { server, url } = await serverOf(createHandler(await modelOf(model)));
  const folder = mkdtempSync(join(tmpdir(), 'open-responses-'));
  try {
    const config = {
      baseUrl: url,
      apiKey: 'none',
      authHeaderName: 'Authorization',
      useBearerPrefix: true,
      model: 'any',
    };
    const results = await resultsOf(positionals[0], folder, config);
    const rows = results.map(rowOf);
    keep(
      'reports/open-responses.md',
      'cases',
      rows.map(({ row }) => row),
      1,
    );
    for (const [i, { id, status, errors = [] }] of results.entries()) {
      console.log(`${rows[i].right ? ' ' : '!'} ${status}  ${id}`);
      if (values.verbose || !rows[i].right) for (const error of errors) console.log(`    ${error}`);
    }
    process.exitCode = rows.every(({ right }) => right) ? 0 : 1;
  } finally {
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true, force: true });
    await model.dispose();
  }
});
