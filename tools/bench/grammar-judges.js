/**
 * grammar-judges: checks and times instances of a JSON schema token by token with gemma-wasm or @mlc-ai/web-xgrammar
 * (the "neighbour"). web-xgrammar runs in a worker that can be terminated, because its compiler may take a minute.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { compileFunction, constants } from 'node:vm';
import { parentPort, workerData } from 'node:worker_threads';
import { stringifyExactly } from '../../js/cli/exact-json.js';
import { Matcher } from '../../js/engine/grammar.js';
import { compile } from '../../js/grammar/index.js';
import { lower } from '../../js/grammar/lower.js';
import { bareEngine } from '../../tests/js/bare-engine.js';
import { testModel } from '../../tests/js/models.js';

/** @typedef {{ name: string, schema: any, tests: { valid: boolean, data: any }[] }} Case */
/** A grammar implementation. `open` compiles a schema or throws. `refuses` returns whether an error of `open` means
 * that it does not support the schema. `take` returns false if it rejects a token. `found` returns the number of states
 * with computed masks.
 * @typedef {{ open: (schema: any) => Promise<void> | void, refuses: (error: any) => boolean, reset: () => void,
 *   mask: () => Promise<unknown> | void, take: (id: number) => boolean, complete: () => boolean, found: () => number,
 *   bytes: () => number, close: () => void }} Judge */
/** Result of one case, or the sum of several. `failed`: number of cases with an error that is not a refusal. `cut`:
 * number of cases stopped at the time limit. `times`: in milliseconds. `said`: messages of failures. `bytes`: memory of
 * the grammar.
 * @typedef {{ accepted: number, refused: number, failed: number, wrong: number, cut: number, bytes: number,
 *   times: Record<string, number[]>, said: string[] }} Found */

/** Returns an engine with one thread and Gemma's vocabulary, without weights. @param {string} variant */
export async function vocabularyEngine(variant) {
  return bareEngine(await testModel('gemma-vocab-tiny'), variant);
}

/** Returns a judge that runs gemma-wasm's grammars. Without close(), the next open() leaks the matcher.
 * @param {import('../../js/engine/engine.js').Engine} engine @returns {Judge} */
export function ours(engine) {
  /** @type {Matcher} */
  let matcher;
  return {
    open(schema) {
      matcher = new Matcher(engine, lower(compile({ schema }, { matching: true })));
    },
    refuses: ({ code }) => code === 'bad-format' || code === 'format-too-complex',
    reset: () => matcher.reset(),
    mask: () => matcher.touch(),
    take: (id) => matcher.accept(id),
    complete: () => matcher.complete,
    found: () => matcher.found,
    bytes: () => matcher.heapBytes,
    close: () => matcher.dispose(),
  };
}

/** Loads a CommonJS file of a package that declares itself an ES module. @param {string} path @returns {any} */
function loaded(path) {
  const module = { exports: {} };
  const names = ['exports', 'module', 'require', '__filename', '__dirname'];
  const importModuleDynamically = constants.USE_MAIN_CONTEXT_DEFAULT_LOADER;
  const run = compileFunction(readFileSync(path, 'utf8'), names, { filename: path, importModuleDynamically });
  run(module.exports, module, createRequire(path), path, dirname(path));
  return module.exports;
}

/** @param {import('../../js/engine/engine.js').Engine} engine @param {string} folder @returns {Promise<Judge>} */
async function neighbour(engine, folder) {
  const { GrammarCompiler, GrammarMatcher, TokenizerInfo } = loaded(join(resolve(folder), 'lib', 'index.js'));
  const size = engine.number('n_vocab');
  const pieces = Array.from({ length: size }, (_, id) => Buffer.from(engine.decode(id, true)).toString());
  const info = await TokenizerInfo.createTokenizerInfo(pieces, 'raw', false, size, engine.where('is_end', size));
  const compiler = await GrammarCompiler.createGrammarCompiler(info);
  /** @type {any} */
  let matcher;
  return {
    async open(schema) {
      matcher = await GrammarMatcher.createGrammarMatcher(await compiler.compileJSONSchema(stringifyExactly(schema)));
    },
    // web-xgrammar refuses a schema with abort(). A crash is a trap, with another message.
    refuses: ({ message }) => /^Aborted\(/.test(message),
    reset: () => matcher.reset(),
    mask: () => matcher.getNextTokenBitmask(),
    take: (id) => matcher.acceptToken(id),
    complete: () => matcher.acceptToken(engine.where('is_end', size)[0]),
    found: () => NaN,
    bytes: () => NaN,
    close: () => matcher.dispose(),
  };
}

/** Returns a result of no cases, to which results can be added. @returns {Found} */
export const nothing = () => ({
  accepted: 0,
  refused: 0,
  failed: 0,
  wrong: 0,
  cut: 0,
  bytes: 0,
  said: [],
  times: { masks: [], new: [], known: [], first: [], compiling: [] },
});

/** Times the computation of a token mask. If the state was new, also times the cached mask. @param {Judge} judge
 * @param {Found['times']} times @param {number} [since] when compiling began, for the first mask */
async function mask(judge, times, since) {
  const states = judge.found();
  const before = performance.now();
  const asked = judge.mask();
  if (asked) await asked;
  const after = performance.now();
  times.masks.push(after - before);
  if (since !== undefined) times.first.push(after - since);
  if (!(judge.found() > states)) return;
  times.new.push(after - before);
  const again = performance.now();
  judge.mask();
  times.known.push(performance.now() - again);
}

/** Compiles the case's schema and tests its instances. Errors of the judge are counted, not thrown.
 * @param {Judge} judge @param {(text: string) => Iterable<number>} encode @param {Case} one
 * @returns {Promise<Found>} */
export async function judged(judge, encode, { name, schema, tests }) {
  const found = nothing();
  const start = performance.now();
  /** Returns whether the judge accepts an instance. @param {any} data
   * @param {number} [since] when compiling began, for the first instance of a schema */
  const accepts = async (data, since) => {
    judge.reset();
    for (const id of encode(stringifyExactly(data))) {
      await mask(judge, found.times, since);
      since = undefined;
      if (!judge.take(id)) return false;
    }
    return judge.complete();
  };
  try {
    await judge.open(schema);
  } catch (error) {
    const refused = judge.refuses(error);
    found[refused ? 'refused' : 'failed']++;
    found.said.push(`${name}: ${refused ? 'refused' : 'FAILED'}: ${/** @type {Error} */ (error).message}`);
    return found;
  }
  found.accepted++;
  found.times.compiling.push(performance.now() - start);
  try {
    for (const [i, { valid, data }] of tests.entries()) {
      if ((await accepts(data, i ? undefined : start)) === valid) continue;
      found.wrong++;
      found.said.push(`${name}: WRONG: test ${i} is ${valid ? '' : 'not '}valid`);
    }
  } catch (error) {
    found.failed++;
    found.said.push(`${name}: FAILED: ${/** @type {Error} */ (error).message}`);
  }
  found.bytes = judge.bytes();
  judge.close();
  return found;
}

if (parentPort && workerData?.folder) {
  const { folder, variant } = workerData;
  const engine = await vocabularyEngine(variant);
  const judge = await neighbour(engine, folder);
  const port = parentPort;
  port.on('message', async (/** @type {Case} */ one) => {
    port.postMessage(await judged(judge, (text) => engine.encode(text, false), one));
  });
  port.postMessage('ready');
}
