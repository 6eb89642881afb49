/* Tests the command line as a separate process: output of every command, --json, exit statuses. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { copyFile, cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { show } from '../../js/cli/chat.js';
import { loadOptions } from '../../js/cli/flags.js';
import { opened } from '../../js/cli/output.js';
import { newFolder, open } from './helpers.js';
import { testModel } from './models.js';

const CLI = fileURLToPath(new URL('../../js/cli.js', import.meta.url));
/** @type {string} */ let model;
before(async () => {
  model = await testModel('tiny');
});

/** @param {string[]} args */
function run(args, input = '', program = CLI) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [program, ...args]);
    const out = { status: 0, stdout: '', stderr: '' };
    child.stdout.on('data', (data) => {
      out.stdout += data;
    });
    child.stderr.on('data', (data) => {
      out.stderr += data;
    });
    child.on('close', (status) => resolve({ ...out, status }));
    child.stdin.end(input);
  });
}

/** Runs a line of shell code, in which $0 is Node, $1 the command line and $2 a model. @param {string} line */
function shell(line) {
  return promisify(execFile)('sh', ['-c', line, process.execPath, CLI, model], { timeout: 60_000 });
}

/** @param {...string} args */
async function json(...args) {
  const { status, stdout, stderr } = await run([...args, '--json']);
  assert.equal(status, 0, stderr);
  assert.equal(stderr, '');
  assert.equal(stdout.trim().split('\n').length, 1);
  return JSON.parse(stdout);
}

test('inspect prints the architecture, metadata and tensors', async () => {
  const found = await json('inspect', model, '--context', '128');
  assert.equal(found.architecture, 'gemma3');
  assert.equal(found.contextLength, 128);
  assert.ok(found.tensors.length > 70 && found.metadata.length > 10);
  assert.equal(
    Object.values(found.types).reduce((n, x) => n + x.tensors, 0),
    found.tensors.length,
  );
  const { stdout, status } = await run(['inspect', model]);
  assert.equal(status, 0);
  assert.match(stdout, /general\.architecture: "gemma3"/);
  assert.match(stdout, /blk\.0\.attn_q\.weight: Q4_0 \[64, 128\]/);
});

test('inspect --rows-on-disk and --rows-later change the memory plan, and reject invalid values', async () => {
  const table = await testModel('gemma4-q4_0');
  const onDisk = async (/** @type {string[]} */ ...flags) => (await json('inspect', table, ...flags)).memory.onDisk;
  assert.deepEqual([await onDisk(), await onDisk('--rows-on-disk', 'false', '--rows-later', 'false')], [0, 0]);
  assert.ok((await onDisk('--rows-on-disk', 'true')) > 0);
  const { status, stderr } = await run(['inspect', table, '--rows-later', 'never']);
  assert.equal(status, 2);
  assert.match(stderr, /rowsLater.*"never"/);
});

test('inspect --quantize-floats changes the memory plan, and rejects invalid values', async () => {
  const qat = await testModel('mqa-q4_0');
  const weights = async (/** @type {string[]} */ ...flags) => (await json('inspect', qat, ...flags)).memory.weights;
  assert.equal(await weights(), await weights('--quantize-floats', 'keep'));
  assert.equal(await weights(), await weights('--quantize-floats', 'auto'));
  assert.ok((await weights('--quantize-floats', 'q8_0')) < (await weights()));
  const { status, stderr } = await run(['inspect', qat, '--quantize-floats', 'f16']);
  assert.equal(status, 2);
  assert.match(stderr, /quantizeFloats.*q8_0.*"f16"/);
});

test('tokenize and detokenize print the same as the package returns', async (t) => {
  const loaded = await open(t);
  const ids = await loaded.tokenize('Héllo  world');
  assert.deepEqual(await json('tokenize', model, 'Héllo  world'), { ids });
  assert.deepEqual(await json('tokenize', model, 'Héllo  world', '--bos'), { ids: [2, ...ids] });
  assert.equal((await run(['tokenize', model, 'Héllo  world'])).stdout, `${ids.join(',')}\n`);
  assert.deepEqual(await json('detokenize', model, '--ids', ids.join(',')), { text: 'Héllo  world' });
  assert.equal((await run(['detokenize', model, '--ids', ids.join(', ')])).stdout, 'Héllo  world\n');
  assert.deepEqual((await json('tokenize', model, '<bos>')).ids.includes(2), false);
});

test("generate prints the package's answer, as text and as JSON", async (t) => {
  const loaded = await open(t);
  const options = { maxTokens: 9, temperature: 0.7, topK: 20, topP: 0.9, seed: 5 };
  const flags = '--max-tokens 9 --temperature 0.7 --top-k 20 --top-p 0.9 --seed 5'.split(' ');
  const expected = await loaded.generate('- Hi', options).result();
  const found = await json('generate', model, '--prompt', '- Hi', ...flags, '--threads', '2');
  assert.deepEqual(found.tokens, expected.tokens);
  assert.equal(found.text, expected.text);
  assert.equal(found.finishReason, expected.finishReason);
  const plain = await run(['generate', model, '--prompt', '- Hi', ...flags, '--threads', '1']);
  assert.equal(plain.stdout, `${expected.text}\n`);
  assert.equal(plain.stderr, '');
  const chat = await loaded.chat({ system: 'Be.' }).send('Hi', options).result();
  assert.deepEqual(
    (await json('generate', model, '--prompt', 'Hi', '--chat', '--system', 'Be.', ...flags)).tokens,
    chat.tokens,
  );
  const stop = expected.text.slice(2, 4);
  const stopped = await json('generate', model, '--prompt', '- Hi', ...flags, '--stop', 'nothing', '--stop', stop);
  assert.deepEqual(
    [stopped.finishReason, stopped.text],
    ['stop-sequence', expected.text.slice(0, expected.text.indexOf(stop))],
  );
});

test('generate accepts a schema, a regular expression, a grammar or choices', async (t) => {
  const directory = newFolder(t);
  const file = (/** @type {string} */ name) => join(directory, name);
  await writeFile(
    file('s.json'),
    '{"type":"object","properties":{"n":{"type":"integer","maximum":9,"minimum":0}},"required":["n"],' +
      '"additionalProperties":false}',
  );
  await writeFile(file('g.gbnf'), 'root ::= "<" [ab]+ ">"');
  const ask = (/** @type {string[]} */ ...format) =>
    json('generate', model, '--prompt', 'x', '--seed', '3', '--max-tokens', '90', ...format);
  const { value, text } = await ask('--schema', file('s.json'));
  assert.ok(Number.isInteger(value.n) && text === JSON.stringify(value));
  assert.match((await ask('--regex', '[0-9]{3}(a|b)')).value, /^[0-9]{3}[ab]$/);
  const held = await ask('--grammar', file('g.gbnf'));
  assert.match(held.text, held.finishReason === 'stop' ? /^<[ab]+>$/ : /^<[ab]*$/);
  assert.ok(['yes', 'no way'].includes((await ask('--choices', 'yes,no way')).value));
  const { status, stderr } = await run(['generate', model, '--prompt', 'x', '--regex', '(']);
  assert.equal(status, 1);
  assert.match(stderr, /bad-format/);
  const twice = await run(['generate', model, '--prompt', 'x', '--regex', 'a', '--choices', 'a,b']);
  assert.equal(twice.status, 2);
});

test('logits writes little-endian float32, for the last token or all', async (t) => {
  const loaded = await open(t);
  const file = join(newFolder(t), 'logits.bin');
  for (const all of [false, true]) {
    const flags = all ? ['--all'] : [];
    const { status, stdout } = await run(['logits', model, '--ids', '2,300,301', '--out', file, ...flags]);
    assert.deepEqual([status, stdout], [0, '']);
    const bytes = await readFile(file);
    const expected = await loaded.debug.logits([2, 300, 301], { all });
    assert.equal(bytes.length, expected.length * 4);
    assert.deepEqual(
      Float32Array.from(expected, (_, i) => bytes.readFloatLE(i * 4)),
      expected,
    );
  }
});

test("perplexity prints the package's result, and rejects an empty file", async (t) => {
  const loaded = await open(t);
  const file = join(newFolder(t), 'text.txt');
  await writeFile(file, 'Some words to be surprised by. '.repeat(5));
  const expected = await loaded.debug.perplexity('Some words to be surprised by. '.repeat(5), { window: 20 });
  assert.deepEqual(await json('perplexity', model, '--file', file, '--window', '20'), expected);
  assert.match(
    (await run(['perplexity', model, '--file', file])).stdout,
    /^perplexity: [\d.]+\nnll: [\d.]+\ntokens: \d+\n$/,
  );
  await writeFile(file, '');
  const { status, stderr } = await run(['perplexity', model, '--file', file]);
  assert.equal(status, 1, 'an empty file is an error, but not of usage (status 2)');
  assert.match(stderr, /is empty\. Pass a file/);
});

test('bench reports its settings and speeds', async () => {
  const flags = '--prompt-tokens 20 --gen-tokens 6 --runs 3 --threads 1 --variant simd128';
  const found = await json('bench', model, ...flags.split(' '));
  assert.deepEqual([found.variant, found.threads, found.runs], ['simd128', 1, 3]);
  assert.ok(found.prefillTokensPerSecond > 0 && found.decodeTokensPerSecond > 0);
});

test('generate: thinking is turned on and off, thoughts are in the JSON, and plain output leaves them out', async () => {
  const thinks = await testModel('gemma4-thinks');
  const flags = '--prompt Hi --max-tokens 30 --temperature 0 --threads 1'.split(' ');
  const on = await json('generate', thinks, ...flags, '--thinking-budget', '5');
  assert.ok(on.thoughts && on.text);
  assert.ok(!('thoughts' in (await json('generate', thinks, ...flags, '--no-thinking'))));
  assert.ok(!('text' in on && on.text.includes(on.thoughts)));
  const { stdout } = await run(['generate', thinks, ...flags, '--thinking-budget', '5']);
  assert.equal(stdout, `${on.text}\n`);
  const { status } = await run(['generate', thinks, ...flags, '--no-thinking', '--thinking']);
  assert.equal(status, 2);
  /** @type {any} */
  const out = { isTTY: true, said: '', write: (/** @type {string} */ text) => (out.said += text) };
  const steps = async function* () {
    yield* [
      { kind: 'thought', text: 'hm' },
      { kind: 'text', text: 'Yes' },
    ];
  };
  await show(/** @type {any} */ ({ steps }), out);
  assert.equal(out.said, '\x1b[2mhm\x1b[22m\n\nYes\n');
  out.said = '';
  const failing = async function* () {
    yield { kind: 'thought', text: 'hm' };
    throw new Error('lost');
  };
  await assert.rejects(show(/** @type {any} */ ({ steps: failing }), out));
  assert.equal(out.said, '\x1b[2mhm\x1b[22m');
});

test('chat reads lines, answers, and runs its commands', async () => {
  const args = ['chat', model, ...'--max-tokens 5 --seed 1 --threads 1'.split(' ')];
  const { status, stdout, stderr } = await run(
    args,
    'Hello\n/retry\n/nonsense\n/system Be.\n/reset\nHi\n/exit\nnever\n',
  );
  assert.equal(status, 0, stderr);
  const answers = stdout.split('\n');
  assert.equal(answers.length, 4, stdout);
  assert.equal(answers[1], answers[0]);
  assert.match(stderr, /\/reset/);
  assert.equal((await run(args, 'Hello\n')).status, 0);
});

test('a model can load from a named pipe that opens late; an abort ends the process', async (t) => {
  const pipe = join(newFolder(t), 'pipe');
  const loads = (
    /** @type {string} */ more,
  ) => `mkfifo '${pipe}' 2>/dev/null; "${process.execPath}" --input-type=module --eval "
    import { loadModel } from '${new URL('../../js/index.node.js', import.meta.url)}';
    const options = { threads: 1, cache: false, signal: AbortSignal.timeout(${more ? 60_000 : 300}) };
    await loadModel('${pipe}', options).then((model) => { console.log('loaded'); return model.dispose(); },
      (error) => console.log(error.code));" ${more}`;
  assert.equal((await shell(loads(''))).stdout, 'aborted\n');
  assert.equal((await shell(loads(`& sleep 0.3; cat "$2" > '${pipe}'; wait`))).stdout, 'loaded\n');
  assert.equal((await shell('true | "$0" "$1" tokenize /dev/stdin Hello; true')).stdout, '');
});

test('a model can load from stdin; a closed stdout is not an error', async () => {
  const { stdout } = await shell('cat "$2" | "$0" "$1" tokenize /dev/stdin Hello');
  assert.equal(stdout, (await run(['tokenize', model, 'Hello'])).stdout);
  const whole = await shell('cat "$2" | "$0" "$1" generate /dev/stdin --prompt x --max-tokens 2 --seed 1');
  assert.equal(
    whole.stdout,
    (await run(['generate', model, '--prompt', 'x', '--max-tokens', '2', '--seed', '1'])).stdout,
  );
  const closed = await shell('{ sleep 0.1; "$0" "$1" inspect "$2"; echo "status $?" >&2; } | true');
  assert.equal(closed.stderr, 'status 0\n');
});

test('without MODEL, the storyteller beside the package is used; if there is none, that is a usage error', async (t) => {
  const home = newFolder(t);
  await cp(join(CLI, '..'), join(home, 'js'), { recursive: true });
  await symlink(join(CLI, '../../node_modules'), join(home, 'node_modules'));
  await writeFile(join(home, 'package.json'), '{ "type": "module" }');
  const args = ['tokenize', 'Hello', '--json'];
  assert.equal((await run(args, '', join(home, 'js/cli.js'))).status, 2);
  await mkdir(join(home, 'models/storyteller'), { recursive: true });
  await copyFile(model, join(home, 'models/storyteller/storyteller.gguf'));
  const { status, stdout, stderr } = await run(args, '', join(home, 'js/cli.js'));
  assert.equal(status, 0, stderr);
  assert.deepEqual(JSON.parse(stdout), await json('tokenize', model, 'Hello'));
  assert.match(stderr, /^gemma-wasm: No MODEL[^\n]*storyteller is used\.\n$/);
  for (const named of [model, 'HTTP://127.0.0.1:1/x']) {
    assert.equal(
      (await run(['tokenize', named], '', join(home, 'js/cli.js'))).status,
      2,
      'a path or URL is taken for MODEL, so TEXT is missing',
    );
  }
});

test('progress is shown only on a terminal, and erased before the result; notices are always shown', async (t) => {
  const { stderr } = process;
  Object.defineProperty(stderr, 'isTTY', { value: true, configurable: true });
  t.after(() => Reflect.deleteProperty(stderr, 'isTTY'));
  const write = t.mock.method(stderr, 'write', () => true);
  const progress = { phase: 'load', loaded: 1e6, total: 2e6, bytesPerSecond: 1e6 };
  /** @type {any} */ let report;
  const load = async (/** @type {string} */ source, /** @type {any} */ { onProgress }) => {
    report = onProgress;
    report(progress);
    if (source === 'wrong') throw new Error('no model');
  };
  await opened(load, { source: 'right' });
  report({ ...progress, phase: 'rest', notice: { message: 'News.' } });
  await assert.rejects(opened(load, { source: 'wrong' }));
  const [line, gone] = ['\r\x1b[K1 of 2 MB, 1 MB/s', '\r\x1b[K'];
  assert.deepEqual(
    write.mock.calls.map((call) => call.arguments[0]),
    [line, gone, '\nNews.\n', line, gone],
  );
  Object.defineProperty(stderr, 'isTTY', { value: false });
  write.mock.resetCalls();
  await opened(load, { source: 'right' });
  report({ ...progress, notice: { message: 'News.' } });
  assert.deepEqual(
    write.mock.calls.map((call) => call.arguments[0]),
    ['News.\n'],
  );
});

test('usage errors exit with status 2 and a short message; failures exit with status 1', async () => {
  const wrong = [
    [],
    ['frobnicate'],
    ['tokenize'],
    ['inspect', model, 'more'],
    ['generate', model],
    ['detokenize', model],
    ['generate', model, '--prompt', 'x', '--top-q', '5'],
    ['generate', model, '--prompt', 'x', '--top-k', 'many'],
    ['generate', model, '--prompt', 'x', '--top-k', '-1'],
    ['logits', model, '--ids', '2,x', '--out', '/dev/null'],
    ['logits', model, '--ids', '2'],
    ['inside', model, '--prompt', 'x', '--layer', '1,'],
    ['bench', model, '--runs', '0'],
    ['tokenize', model, 'x', '--variant', 'fast'],
    ['generate', model, '--prompt'],
    ['logits', model, '--ids', '5000', '--out', '/dev/null'],
    ['detokenize', model, '--ids', '5000'],
    ['match', model, '--text', CLI],
    ['match', model, '--regex', ''],
    ['match', model, '--text', CLI, '--regex', '', '--choices', 'a'],
    ...['foo', '99', '', '2e3'].map((draft) => ['match', model, '--text', CLI, '--regex', 'a', '--draft', draft]),
  ];
  for (const args of wrong) {
    const { status, stdout, stderr } = await run(args);
    assert.deepEqual([status, stdout], [2, ''], `${args.join(' ')}: ${stderr}`);
    assert.match(stderr, /^gemma-wasm: \S/);
    assert.ok(stderr.split('\n').length < 5, stderr);
  }
  const failing = [
    ['inspect', '/no/such/file'],
    ['inspect', CLI, '--json'],
    ['perplexity', model, '--file', '/no/such/file'],
    ['generate', model, '--prompt', 'long '.repeat(600), '--json'],
    ['embed', model, '--file', '/no/such/file', '--json'],
    ...['--schema', '--grammar'].map((flag) => ['match', model, flag, '/no/such/file', '--text', CLI]),
    ['generate', model, '--prompt', 'x', '--grammar', ''],
    ['match', model, '--cases', '/no/such/file'],
  ];
  for (const args of failing) {
    const { status, stdout, stderr } = await run(args);
    assert.deepEqual([status, stdout], [1, ''], `${args.join(' ').slice(0, 99)}: ${stderr}`);
    assert.match(stderr, /^gemma-wasm: .*\((read-error|bad-magic|context-exceeded)\)\n$/);
  }
  for (const args of [['--help'], ['-h'], ['help'], ['generate', '-h']]) {
    const { status, stdout } = await run(args);
    assert.equal(status, 0, args.join(' '));
    assert.match(stdout, /usage/);
  }
  const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'));
  assert.equal((await run(['--version'])).stdout, `${version}\n`);
  assert.equal((await run(['generate', model, '--prompt', '-h', '--max-tokens', '1'])).stdout.includes('usage'), false);
});

test('the token for Hugging Face is used only if no other server would get it', (t) => {
  const { HF_TOKEN } = process.env;
  t.after(() => {
    if (HF_TOKEN === undefined) delete process.env.HF_TOKEN;
    else process.env.HF_TOKEN = HF_TOKEN;
  });
  process.env.HF_TOKEN = 'SECRET';
  const hub = 'https://huggingface.co/a/b/resolve/main/c.gguf';
  for (const [source, draft, token] of [
    [hub, undefined, 'SECRET'],
    [hub, hub, 'SECRET'],
    [hub, 'draft.gguf', 'SECRET'],
    ['model.gguf', hub, 'SECRET'],
    [hub, 'https://example.com/draft.gguf', undefined],
    ['http://example.com/model.gguf', hub, undefined],
    ['model.gguf', undefined, undefined],
  ]) {
    assert.equal(loadOptions({ source, 'draft-model': draft }).token, token, `${source} ${draft}`);
  }
});
