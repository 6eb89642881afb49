/* The package as `npm pack` makes it: what js/ is, without comments; installed elsewhere it runs, its command
 * line too, and its types are there for TypeScript. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { builds, goals } from '../../tools/setup.js';
import { stripComments } from '../../tools/strip-comments.js';
import { essence, open } from './helpers.js';
import { buildPackage, installPackage } from './installed.js';
import { testModel } from './models.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const STALE = join(ROOT, 'dist', 'stale.js');
/** @type {string} */
let folder;

before(() => {
  if (existsSync(join(ROOT, 'dist'))) writeFileSync(STALE, '');
  buildPackage();
  folder = installPackage();
});
after(() => rmSync(folder, { recursive: true }));

/** @param {string} name @param {string} source */
function write(name, source) {
  writeFileSync(join(folder, name), source);
  return join(folder, name);
}

test('comments go, and indentation becomes tabs', () => {
  const source = `#!/usr/bin/env node
/* head */
import { a } from './a.js';   // why

/** @param {string} b */
export function f(b) {
  // a line
  const text = \`/* text */

  // \${/* here */ b} // text
\`;
  return /\\/*[/*]/.test(b) ? (/** @type {any} */ (text)) / 2 /* half */ : '// no /* comment */';
}
`;
  assert.equal(stripComments(source), `#!/usr/bin/env node
import { a } from './a.js';
export function f(b) {
\tconst text = \`/* text */

  // \${b} // text
\`;
\treturn /\\/*[/*]/.test(b) ? ((text)) / 2 : '// no /* comment */';
}
`);
});

test('npm pack makes it anew', () => {
  assert.equal(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).scripts.prepack, 'node tools/setup.js package');
  for (const step of [builds.package, builds.types]) assert.ok(goals.package.includes(step) && !step.done());
  assert.ok(!existsSync(STALE), 'dist/ is emptied first');
});

test('it holds the scripts of js/ and the wasm files, and no other code', () => {
  const names = (/** @type {string} */ where) => readdirSync(where, { recursive: true }).map(String)
    .filter((name) => /\.(js|wasm)$/.test(name)).sort();
  const installed = join(folder, 'node_modules', 'gemma-wasm');
  assert.deepEqual(names(join(installed, 'dist')), names(join(ROOT, 'js')));
  assert.deepEqual(readdirSync(installed).sort(), ['LICENSE', 'README.md', 'dist', 'models', 'package.json']);
  const [, worker] = readFileSync(join(installed, 'dist', 'index.js'), 'utf8').match(/new URL\('(.*?)', import\.meta\.url\)/) ?? [];
  assert.equal(worker, './worker.js');
});

test('installed in Node, it says what js/ says', async (t) => {
  const model = await testModel('tiny');
  const program = write('run.js', `
    import { loadModel } from 'gemma-wasm';
    const model = await loadModel(process.argv[2], { threads: 2 });
    const { text, tokens, finishReason, seed } = await model.generate('Hello', { maxTokens: 12, seed: 3 }).result();
    console.log(JSON.stringify({ text, tokens, finishReason, seed }));
    await model.dispose();`);
  const out = JSON.parse(execFileSync(process.execPath, [program, model], { encoding: 'utf8' }));
  const ours = await open(t);
  assert.deepEqual(out, essence(await ours.generate('Hello', { maxTokens: 12, seed: 3 }).result()));
});

test('the command line runs by its name', async () => {
  const npx = (/** @type {string[]} */ ...args) => execFileSync('npm', ['exec', '--offline', '--', 'gemma-wasm', ...args],
    { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  assert.match(npx('--help'), /^usage: gemma-wasm COMMAND MODEL[^]*\n\n {2}inspect MODEL/);
  const copy = join(folder, 'tiny.gguf');
  cpSync(await testModel('tiny'), copy);
  assert.match(npx('tokenize', copy, 'Hello'), /^\d+(,\d+)*\n$/);
});

test('TypeScript finds its types', () => {
  write('use.ts', `
    import { loadModel, inspectModel, modelCache, openCache, GemmaError, CODES } from 'gemma-wasm';
    import type { Chat, Generation, Model, ModelCache } from 'gemma-wasm';
    const model: Model = await loadModel('x.gguf', { threads: 2, onProgress: ({ loaded }) => loaded.toFixed() });
    const out: Generation = model.generate('a', { maxTokens: 4 });
    for await (const piece of out) piece.toUpperCase();
    const chat: Chat = model.chat({ system: 'b' });
    const reason: 'aborted' extends (typeof answer)['finishReason'] ? string : never = 'c';
    const answer = await chat.send('d').result();
    const caches: ModelCache[] = [modelCache, openCache('e')];
    await using brief = await loadModel(new URL('https://x/y.gguf'));
    // @ts-expect-error: no such option
    model.generate('a', { maxToken: 4 });
    // @ts-expect-error: a number it is
    model.info.threads.length;
    export default [reason, brief, caches, (await inspectModel('x')).tensors[0].shape, new GemmaError('f', 'g').code, CODES];`);
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const compilerOptions = { strict: true, noEmit: true, target: 'es2022', types: [], module: 'nodenext' };
  write('tsconfig.json', JSON.stringify({ compilerOptions, files: ['use.ts'] }));
  const { stdout, status } = spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' });
  assert.equal(status, 0, stdout);
});
