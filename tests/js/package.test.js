/* Tests the package as `npm pack` makes it: a few files without dependencies. Installed elsewhere, the package, its
 * command line and its TypeScript types work. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { MODULES, PAGE_SCRIPTS, PARTS } from '../../tools/build/package.js';
import { builds, goals } from '../../tools/build/setup.js';
import { essence, open } from './helpers.js';
import { buildPackage, installPackage } from './installed.js';
import { testModel } from './models.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const STALE = join(ROOT, 'dist', 'stale.js');
/** @type {string} */ let folder;
/** Folder of the installed package. @type {string} */ let installed;

before(() => {
  if (existsSync(join(ROOT, 'dist'))) writeFileSync(STALE, '');
  buildPackage();
  folder = installPackage();
  installed = join(folder, 'node_modules', 'gemma-wasm');
});
after(() => rmSync(folder, { recursive: true }));

/** @param {string[]} path */
const read = (...path) => readFileSync(join(...path), 'utf8');

/** @param {string} name @param {string} source */
function write(name, source) {
  writeFileSync(join(folder, name), source);
  return join(folder, name);
}

/** Runs a program beside the installed package. Returns its output.
 * @param {string} name @param {string} source @param {string[]} args */
const run = (name, source, ...args) =>
  execFileSync(process.execPath, [write(name, source), ...args], { encoding: 'utf8' });

test('npm pack builds the package anew', () => {
  assert.equal(JSON.parse(read(ROOT, 'package.json')).scripts.prepack, 'node tools/build/setup.js package');
  for (const step of [builds.package, builds.types]) assert.ok(goals.package.includes(step) && !step.done());
  assert.ok(!existsSync(STALE), 'dist/ is emptied first');
});

test('the package has its files, and no dependencies', () => {
  const files = readdirSync(join(installed, 'dist'));
  const about = JSON.parse(read(installed, 'package.json'));
  for (const kind of ['dependencies', 'peerDependencies', 'optionalDependencies']) assert.ok(!(kind in about), kind);
  for (const name of [...MODULES, ...PAGE_SCRIPTS, ...PARTS, 'index.node.js', 'index.cjs', 'index.d.ts', 'cli.js']) {
    assert.ok(files.includes(name), name);
  }
  assert.match(read(installed, 'NOTICES.md'), /Hugging Face[^]*Emscripten[^]*musl/);
  const index = read(installed, 'dist', 'index.js');
  // index.js imports chunks from its own folder, so relative URLs in the chunks lead to the same files as in index.js.
  const chunks = [...index.matchAll(/from"\.\/(common-\w+\.js)"/g)].map(([, name]) => read(installed, 'dist', name));
  const scripts = [index, ...chunks].join('\n');
  for (const name of PAGE_SCRIPTS.slice(1)) {
    assert.ok(
      scripts.includes(`new Worker(new URL("./${name}",import.meta.url),{type:"module"})`),
      `bundlers see ${name}`,
    );
  }
});

test('an uncaught error in Node prints a short line, and names of classes and functions', () => {
  const program = write('uncaught.mjs', "import { loadModel } from 'gemma-wasm'; await loadModel('nowhere.gguf');");
  const { stderr } = spawnSync(process.execPath, [program], { encoding: 'utf8' });
  assert.match(stderr, /^ModelError: /m);
  assert.match(stderr, /at unpackError /);
  assert.ok(Math.max(...stderr.split('\n').map((line) => line.length)) < 400, stderr);
});

test('scripts import only relative files and Node modules, and tell bundlers to leave dynamic imports alone', () => {
  const scripts = readdirSync(join(installed, 'dist')).filter((name) => /\.c?js$/.test(name));
  for (const name of scripts) {
    const code = read(installed, 'dist', name);
    const allowed = PAGE_SCRIPTS.includes(name) ? /^\.\// : /^(node:|\.\/)/;
    for (const { fileName } of ts.preProcessFile(code, true, true).importedFiles) {
      assert.match(fileName, allowed, `${name} imports ${fileName}`);
    }
    assert.ok(!/\bimport\([\w$]+\)/.test(code), `${name}: a dynamic import lacks the comments for bundlers`);
  }
});

test('links in the packed documents lead to packed files', () => {
  const documents = readdirSync(installed, { recursive: true })
    .map(String)
    .filter((name) => name.endsWith('.md'));
  assert.ok(documents.length > 12, `${documents}`);
  const dead = documents.flatMap((name) => {
    const links = read(installed, name).matchAll(/\]\((?!https?:|#)([^)#\s]+)/g);
    return [...links]
      .filter(([, link]) => !existsSync(join(installed, dirname(name), link)))
      .map(([, link]) => `${name}: ${link}`);
  });
  assert.deepEqual(dead, []);
});

test('the package can be loaded with require()', async () => {
  const out = run(
    'run.cjs',
    `
    const { loadModel, ModelError } = require('gemma-wasm');
    loadModel(process.argv[2], { threads: 2 }).then(async (model) => {
      console.log(await model.generate('Hello', { maxTokens: 5, seed: 3 }).text());
      await loadModel('nowhere.gguf').catch((error) => console.log(error instanceof ModelError));
      await model.dispose();
    });`,
    await testModel('tiny'),
  );
  assert.match(out, /^[^]+\ntrue\n$/);
});

test('the installed package gives the same answer as js/', async (t) => {
  const out = run(
    'run.js',
    `
    import { loadModel } from 'gemma-wasm';
    const model = await loadModel(process.argv[2], { threads: 2 });
    const { text, tokens, finishReason, seed } = await model.generate('Hello', { maxTokens: 12, seed: 3 }).result();
    console.log(JSON.stringify({ text, tokens, finishReason, seed }));
    await model.dispose();`,
    await testModel('tiny'),
  );
  const ours = await open(t);
  assert.deepEqual(JSON.parse(out), essence(await ours.generate('Hello', { maxTokens: 12, seed: 3 }).result()));
});

test('outside browsers, gemma-wasm/shared fails with cannot-share', () => {
  const out = run(
    'share.js',
    `
    import { loadModel, ModelError } from 'gemma-wasm/shared';
    await loadModel('https://x/y.gguf').catch((error) => console.log(error instanceof ModelError, error.code));`,
  );
  assert.equal(out, 'true cannot-share\n');
});

test('`npx gemma-wasm` runs the command line', async () => {
  const npx = (/** @type {string[]} */ ...args) =>
    execFileSync('npm', ['exec', '--offline', '--', 'gemma-wasm', ...args], {
      cwd: folder,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
  assert.match(npx('--version'), /^\d+\.\d+\.\d+\n$/);
  assert.match(npx('--help'), /^usage: gemma-wasm COMMAND MODEL[^]*\n\n {2}inspect MODEL/);
  const copy = join(folder, 'tiny.gguf');
  cpSync(await testModel('tiny'), copy);
  assert.match(npx('tokenize', copy, 'Hello'), /^\d+(,\d+)*\n$/);
});

/** Types of the package without members to describe: types of other specifications, and conditional types. */
const UNDESCRIBED = /^(StandardSchema|Validated|FromSchema|TypedJson|ValueOf|CODES|\w+V4)$/;

/** Returns the names of a file's exports and members, at any depth, that have no description. @param {string} name of a
 * file in dist/ */
function bare(name) {
  const source = ts.createSourceFile(name, read(ROOT, 'dist', name), ts.ScriptTarget.Latest, true);
  /** @type {string[]} */
  const found = [];
  /** @param {ts.Node} node @param {string} within */
  const visit = (node, within) => {
    const { name: named } = /** @type {any} */ (node);
    const isMember = ts.isTypeElement(node) || (ts.isClassElement(node) && !ts.isConstructorDeclaration(node));
    const path = isMember ? `${within}.${named?.getText() ?? ''}` : within;
    if (isMember && !ts.getJSDocCommentsAndTags(node).length) found.push(path);
    ts.forEachChild(node, (child) => visit(child, path));
  };
  for (const statement of source.statements) {
    if (!ts.canHaveModifiers(statement) || !ts.getModifiers(statement)?.length || ts.isModuleDeclaration(statement))
      continue;
    const [{ name: named }] = ts.isVariableStatement(statement)
      ? statement.declarationList.declarations
      : [/** @type {any} */ (statement)];
    const text = named.getText();
    if (!ts.getJSDocCommentsAndTags(statement).length) found.push(text);
    if (!UNDESCRIBED.test(text)) visit(statement, text);
  }
  return found;
}

test('every export and member has a description, which editors show', () => {
  const entries = readdirSync(join(ROOT, 'dist')).filter((name) => name.endsWith('.d.ts'));
  const exported = read(ROOT, 'package.json').match(/[\w-]+\.d\.ts(?=")/g);
  assert.deepEqual(entries, [...new Set(exported)].sort());
  assert.ok(entries.length >= 7);
  assert.deepEqual(entries.flatMap(bare), []);
});

const USE = `
import { loadModel, inspectModel, modelCache, openCache, ModelError, CODES } from 'gemma-wasm';
import { loadModel as share, type SharedModel } from 'gemma-wasm/shared';
import { createHandler, type Handler } from 'gemma-wasm/openai';
import type { CacheEntry, Chat, ChatMessage, ChatOptions, ErrorCode, ErrorDetails, FinishReason, GenerateOptions,
  GenerateResult, Generation, Inspection, LoadOptions, Model, ModelCache, ModelInfo, ModelSource, Notice, Progress,
  Prompt, Store, TokenLogprob, Tool } from 'gemma-wasm';
export const asked: [LoadOptions, GenerateOptions, ChatOptions, ErrorDetails] = [{ threads: 2 }, { topK: 1 }, {}, {}];
export type All = [CacheEntry, ChatMessage, FinishReason, GenerateResult, Inspection, ModelInfo, ModelSource, Notice,
  Progress, Prompt, Store, TokenLogprob];
export const known = (error: ModelError): ErrorCode => error.code;
export const load = () => loadModel('x');   // tsc must be able to name the inferred type
export function isOld(error: ModelError) {
  // @ts-expect-error: there is no such code
  return error.code === 'to-old';
}
const model: Model = await loadModel('x.gguf', { threads: 2, onProgress: ({ loaded }) => loaded.toFixed() });
const out: Generation = model.generate('a', { maxTokens: 4 });
for await (const piece of out) piece.toUpperCase();
const chat: Chat = model.chat({ system: 'b' });
const handle: Handler = createHandler({ one: model, two: () => loadModel('y.gguf') }, { maxBodyBytes: 9 });
export const asFetch: typeof fetch = handle, alone = createHandler(model);
export const said: ChatMessage[] = [{ role: 'user', content: [{ type: 'text', text: 'a' }] }, { role: 'tool', id: 'b', content: 1 }];
// @ts-expect-error: only the result of a tool can be a number
model.generate([{ role: 'user', content: 1 }]);
// @ts-expect-error: parts are text
said.push({ role: 'user', content: [{ type: 'image', image: 'a' }] });
// @ts-expect-error: a path is not a model
createHandler('x.gguf');
const reason: 'aborted' extends (typeof answer)['finishReason'] ? string : never = 'c';
const answer = await chat.send('d').result();
const caches: ModelCache[] = [modelCache, openCache('e')];
await using brief = await loadModel(new URL('https://x/y.gguf'));
const shared: SharedModel = await share('x.gguf', { contextLength: 9 }), one: Model = shared;
if (!shared.owner) await one.dispose();
declare const person: { readonly '~standard': { version: 1, vendor: string, validate: (value: unknown) => { value: { age: number } },
  types?: { input: unknown, output: { age: number } } } };
const { value } = await model.generate('a', { format: { schema: person }, seed: null, stop: ['x'] as const }).result();
export const age: number | undefined = value?.age;
// @ts-expect-error: the value has the schema's type
export const wrong: string | undefined = value?.age;
// @ts-expect-error: there is no such option
model.generate('a', { maxToken: 4 });
for (const result of [await model.generate([{ role: 'user', content: 'a' }], { format: { schema: person } }).result(),
  await chat.send('a', { format: { schema: person } }).result(), await chat.retry({ format: { schema: person } }).result()]) {
  const years: number | undefined = result.value?.age;
  // @ts-expect-error: the value has the schema's type
  result.value?.name;
}
const word: string | undefined = (await model.generate('a', { format: { regex: /a+/ } }).result()).value;
// @ts-expect-error: the value is a string
const size: number | undefined = (await chat.send('a', { format: { regex: 'a+' } }).result()).value;
const color: 'red' | 'blue' | undefined = (await chat.send('a', { format: { choices: ['red', 'blue'] } }).result()).value;
const options: string[] = ['x'], chosen: string | undefined = (await chat.send('a', { format: { choices: options } }).result()).value;
// @ts-expect-error: the value is a string
const wrongChoice: boolean | undefined = (await chat.send('a', { format: { choices: options } }).result()).value;
const anything: { free: true } = (await model.generate('a', { format: 'json' }).result()).value;
const plainSchema: { free: true } = (await model.generate('a', { format: { schema: { type: 'object' } } }).result()).value;
if (answer.finishReason === 'tool-calls') answer.toolCalls[0].name.toUpperCase();
// @ts-expect-error: only an answer that calls tools has calls
else answer.toolCalls[0];
if (answer.finishReason === 'stop-sequence') answer.stopSequence.trim();
// @ts-expect-error: only an answer that a stop sequence ended has one
else answer.stopSequence.trim();
const place: { readonly '~standard': { version: 1, vendor: string, validate: (value: unknown) => { value: { city: string } } } } = null!;
const tools = [{ name: 'x', parameters: { type: 'object' }, execute: ({ n }: { n: number }) => n }] as const;
const calling = model.chat({ tools: [
  { name: 'weather', parameters: place, execute: (args) => args.city.toUpperCase() },
  { name: 'age', parameters: person, execute: ({ age }, { id }) => id + age.toFixed() },
  { name: 'any', parameters: { type: 'object' }, execute: ({ whatever }) => whatever },
  { name: 'none', execute: () => 1 },
] });
// @ts-expect-error: the arguments have the schema's type, without town
model.chat({ tools: [{ name: 'weather', parameters: place, execute: (args) => args.town }] });
// @ts-expect-error: the schema has no property town
chat.send('a', { tools: [{ name: 'weather', parameters: place, execute: ({ town }) => town }] });
calling.send('a', { tools, toolChoice: 'none', format: { schema: person } });
const list: readonly Tool[] = tools, given: GenerateOptions = { tools: list, format: { choices: options } };
calling.send('a', given), model.generate('a', { ...given, seed: null }), model.chat({ ...given, messages: [] as const });
calling.sendToolResults([{ name: 'x', content: 1 }] as const);
await model.embed(['a', 'b'] as const), await loadModel(['a', 'b'] as const, { sha256: ['c'] as const, headers: [['a', 'b']] as const });
await model.debug.inside('a', { layers: [1] as const });
const { value: plan } = await model.generate('a', { format: { schema: { type: 'object', required: ['kind', 'steps'], properties: {
  kind: { enum: ['walk', 'ride'] }, steps: { type: 'array', items: { type: ['integer', 'null'] } }, note: { type: 'string' } } } } }).result();
export const kind: 'walk' | 'ride' | undefined = plan?.kind, steps: (number | null)[] | undefined = plan?.steps;
// @ts-expect-error: note is not required, so it may be undefined
export const note: string = plan?.note;
const point = { type: 'object', properties: { x: { type: 'number' } }, required: ['x'] } as const;
model.chat({ tools: [{ name: 'at', parameters: point, execute: ({ x }) => x.toFixed() }] });
// @ts-expect-error: the schema has no property y
model.chat({ tools: [{ name: 'at', parameters: point, execute: ({ y }) => y }] });
const vague: { free: true } = (await model.generate('a', { format: { schema: { allOf: [point] } } }).result()).value;
// @ts-expect-error: a number has no length
model.info.threads.length;
export default [reason, brief, caches, (await inspectModel('x')).tensors[0].shape, new ModelError('aborted', 'g').code, CODES];`;

test("a TypeScript program that uses the package's types compiles", () => {
  write('use.ts', USE);
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const compilerOptions = {
    strict: true,
    declaration: true,
    outDir: 'out',
    target: 'es2022',
    types: [],
    module: 'nodenext',
    skipLibCheck: false,
    skipDefaultLibCheck: true, // checks the package's types, but not TypeScript's own
  };
  write('tsconfig.json', JSON.stringify({ compilerOptions, files: ['use.ts'] }));
  const { stdout, status } = spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' });
  assert.equal(status, 0, stdout);
});
