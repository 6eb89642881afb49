/*
 * open-responses: runs the compliance program of Open Responses (https://github.com/openresponses/openresponses)
 * against `gemma-wasm serve`, and writes a table of the results to docs/reports/open-responses.md.
 *
 *   node tools/check/open-responses.js FOLDER-OF-THE-PROGRAM [--model FILE.gguf] [--verbose]
 *
 * Clone the program first. It is bundled and runs in Node. Exits with status 1 if a case fails that is not in
 * EXCEPTIONS, or if a case in EXCEPTIONS passes.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { loadModel } from '../../js/index.node.js';
import { startServer } from '../../js/serve/server.js';
import { keep } from '../../tests/lab/tables.js';
import { Trouble, at, cli, parseOptions } from '../support/proc.js';

/** Cases of the compliance program that do not pass, by the beginning of their id, and why.
 * @type {[beginning: string, reason: string][]} */
const EXCEPTIONS = [
  ['image-input', 'images are not supported'],
  ['websocket-', 'WebSocket, an optional transport of the specification, is not supported'],
  ['compact-response', 'compaction is not supported'],
];
/** Remarks on cases of the compliance program that pass. @type {Record<string, string>} */
const REMARKS = {
  'response-output-phase-schema': "tests only the program's own schemas, without a request",
  'compact-missing-model': 'expects an error, and this endpoint refuses every request',
};
/** With this seed and logit bias, answers with tool calls end within the context. See modelOf(). */
const SEED = 12;
const CLOSING = 5;

/** @typedef {{ id: string, name: string, status: string, errors?: string[] }} Result */

/** Returns a model that always calls a tool if the request has tools. No model in this repository was trained to decide
 * on a call, or to end a call's strings. So calls are required, and a logit bias makes the ends of strings and objects
 * more likely. Other answers are not changed. @param {import('../../js/model.js').Model} model */
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

/** @param {string} program @param {string} folder */
async function bundled(program, folder) {
  const outfile = join(folder, 'program.mjs');
  const zod = createRequire(import.meta.url).resolve('zod/v3');
  const contents = "export * from './compliance-tests'; export * from './sse-parser';";
  const stdin = { contents, resolveDir: join(program, 'src', 'lib') };
  try {
    await build({ stdin, outfile, bundle: true, format: 'esm', platform: 'node', alias: { zod }, logLevel: 'silent' });
  } catch (error) {
    throw new Trouble(`${program} is not the compliance program: ${/** @type {Error} */ (error).message}`);
  }
  return import(pathToFileURL(outfile).href);
}

/** Streaming requests that the compliance program does not test, each with the expected type of the first output item
 * and the expected status of the response.
 * @type {Record<string, [type: string, status: string, request: object]>} */
const STREAMS = {
  call: [
    'function_call',
    'completed',
    { tools: [{ type: 'function', name: 'add', parameters: { type: 'object', properties: {} } }] },
  ],
  incomplete: ['message', 'incomplete', { max_output_tokens: 5 }],
  logprobs: [
    'message',
    'incomplete',
    { max_output_tokens: 5, top_logprobs: 2, include: ['message.output_text.logprobs'] },
  ],
};

/** @param {string} url @param {(response: Response) => Promise<any>} parse @returns {Promise<Result[]>} */
async function streamResults(url, parse) {
  return Promise.all(
    Object.entries(STREAMS).map(async ([name, [type, status, more]]) => {
      const body = JSON.stringify({ model: 'storyteller', input: 'Hello', stream: true, ...more });
      const headers = { 'content-type': 'application/json' };
      const { errors, finalResponse } = await parse(await fetch(`${url}/responses`, { method: 'POST', headers, body }));
      const found = `${finalResponse?.output[0]?.type}, ${finalResponse?.status}`;
      if (found !== `${type}, ${status}`) errors.push(`The response is ${found} instead of ${type}, ${status}.`);
      return {
        id: `stream-${name}`,
        name: 'Stream of this project, checked against the schemas',
        status: errors.length ? 'failed' : 'passed',
        errors,
      };
    }),
  );
}

/** @param {Result} result */
function rowOf({ id, name, status }) {
  const reason = EXCEPTIONS.find(([beginning]) => id.startsWith(beginning))?.[1] ?? '';
  const right = (status === 'passed') === !reason;
  return { right, row: `| \`${id}\` | ${name} | ${status} | ${reason || (REMARKS[id] ?? '')} |` };
}

await cli(async () => {
  const { values, positionals } = parseOptions(
    { model: at('models', 'storyteller', 'storyteller.gguf'), verbose: false },
    { allowPositionals: true },
  );
  if (positionals.length !== 1) throw new Trouble('Pass the folder of the compliance program.');
  const model = await loadModel(values.model);
  const server = await startServer({ storyteller: await modelOf(model) }, { port: 0 });
  const folder = mkdtempSync(join(tmpdir(), 'open-responses-'));
  try {
    const config = {
      baseUrl: `${server.url}/v1`,
      apiKey: 'none',
      authHeaderName: 'Authorization',
      useBearerPrefix: true,
      model: 'storyteller',
    };
    const { runAllTests, parseSSEStream } = await bundled(positionals[0], folder);
    const cases = /** @type {Result[]} */ (await runAllTests(config, () => {}));
    const results = [...cases, ...(await streamResults(config.baseUrl, parseSSEStream))];
    const rows = results.map(rowOf);
    keep(
      'reports/open-responses.md',
      'cases',
      rows.map(({ row }) => row),
      1,
    );
    for (const [i, { id, status, errors = [] }] of results.entries()) {
      console.log(`${rows[i].right ? ' ' : '!'} ${status}  ${id}`);
      if (values.verbose || !rows[i].right) for (const error of errors) console.log(`    ${error.slice(0, 300)}`);
    }
    process.exitCode = rows.every(({ right }) => right) ? 0 : 1;
  } finally {
    await server.close(0);
    rmSync(folder, { recursive: true, force: true });
    await model.dispose();
  }
});
