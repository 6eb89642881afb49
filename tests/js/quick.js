/**
 * quick: makes workers start faster and test runs repeatable (tests/support/seeds.js). `npm test` imports it before
 * each test file in Node. A worker becomes one bundled CommonJS file, which spares it the start of Node's loader of ES
 * modules. V8 compiles the wasm modules once for the process, because this file keeps references to them. That halves
 * the time to load a small model. It also lets V8's compiler threads finish before the process ends, because Node 20
 * can hang otherwise (nodejs/node#54918). Test files run by hand do not need it.
 *
 *   node tests/js/quick.js                          makes the files, in build/quick/
 *   node --import ./tests/js/quick.js TEST-FILE     starts workers from there
 */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { after } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import threads from 'node:worker_threads';
import { MODULES } from '../../js/modules.js';
import { countSeeds } from '../support/seeds.js';

const FOLDER = fileURLToPath(new URL('../../build/quick/', import.meta.url));
const SCRIPTS = ['worker.node.js', 'thread.node.js'];
/** Time in ms in which V8's compiler threads finish. */
const SETTLE_MS = 50;
const source = (/** @type {string} */ name) => new URL(`../../js/${name}`, import.meta.url);
const named = (/** @type {string} */ end) => Object.keys(MODULES).filter((name) => name.endsWith(end));

async function make() {
  const { build } = await import('esbuild');
  mkdirSync(FOLDER, { recursive: true });
  await build({
    entryPoints: [...SCRIPTS, ...named('.js')].map((name) => fileURLToPath(source(name))),
    outdir: FOLDER,
    bundle: true,
    format: 'cjs',
    define: { 'import.meta.url': 'here' },
    banner: { js: 'const here=require("node:url").pathToFileURL(__filename).href;' },
    platform: 'node',
    target: ['node20'],
    logLevel: 'warning',
  });
  writeFileSync(join(FOLDER, 'package.json'), '{ "type": "commonjs" }');
  for (const name of named('.wasm')) copyFileSync(source(name), join(FOLDER, name));
}

/** Compiled wasm modules that this Node supports. The references make V8 compile each module only once.
 * @type {Promise<WebAssembly.Module | null>[]} */
let held = [];
const hold = () => named('.wasm').map((name) => WebAssembly.compile(readFileSync(source(name))).catch(() => null));

function startFromThere() {
  const known = new Map(SCRIPTS.map((name) => [source(name).href, pathToFileURL(join(FOLDER, name))]));
  threads.Worker = class extends threads.Worker {
    /** @param {string | URL} script @param {import('node:worker_threads').WorkerOptions} [options] */
    constructor(script, options) {
      const quick = known.get(String(script));
      if (quick && !held.length) held = hold();
      super(quick ?? script, options);
    }
  };
  syncBuiltinESMExports();
}

if (fileURLToPath(import.meta.url) === process.argv[1]) await make();
else {
  startFromThere();
  const isTest = threads.isMainThread && process.argv.at(-1)?.endsWith('.test.js');
  if (isTest) {
    countSeeds();
    after(() => sleep(SETTLE_MS));
  }
}
