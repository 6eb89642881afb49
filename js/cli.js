#!/usr/bin/env node
/* cli: the command line. Results go to standard output, messages to standard error; exit status 0,
 * 1 (it failed), 2 (it was called wrongly). */
import { readFile, writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { GemmaError, inspectModel, loadModel } from './index.node.js';
import { interact } from './cli-chat.js';
import { openHeader } from './model.js';

const USAGE = `usage: gemma-wasm COMMAND MODEL ...       MODEL: a path or a URL of a GGUF file

  inspect MODEL [--json]                   metadata, tensors, types, memory plan
  tokenize MODEL TEXT [--bos] [--json]     ids of a text
  detokenize MODEL --ids 2,105,... [--json]
  generate MODEL --prompt TEXT [--chat] [--system TEXT] [sampling] [--json]
  chat MODEL [--system TEXT] [sampling]    interactive
  logits MODEL --ids 2,105,... [--all] --out FILE      little-endian float32
  perplexity MODEL --file FILE [--window N] [--json]
  bench MODEL [--prompt-tokens N] [--gen-tokens N] [--runs N] [--json]

sampling  --max-tokens N --temperature T --top-k K --top-p P --min-p P --typical-p P --seed S
          --repetition-penalty X --frequency-penalty X --presence-penalty X --penalty-window N
          --stop TEXT (may be repeated) --logprobs N
common    --threads N --context N --variant auto|relaxed|simd128
`;

class UsageError extends Error {}

/** @typedef {{ type: 'string' | 'boolean', multiple?: boolean }} Flag */
/** @typedef {Record<string, any>} Values */
/** @type {Flag} */
const TEXT = { type: 'string' };
/** @type {Flag} */
const SWITCH = { type: 'boolean' };

const COMMON = { threads: TEXT, context: TEXT, variant: TEXT, help: SWITCH };
const NUMBERS = [
  'max-tokens', 'temperature', 'top-k', 'top-p', 'min-p', 'typical-p', 'seed', 'logprobs',
  'repetition-penalty', 'frequency-penalty', 'presence-penalty', 'penalty-window',
];
const SAMPLING = {
  ...Object.fromEntries(NUMBERS.map((name) => [name, TEXT])),
  stop: { ...TEXT, multiple: true },
  system: TEXT,
};

/** @type {Record<string, { words: string[], flags: Record<string, Flag>, needs?: string[],
 *   run: (words: string[], values: Values) => Promise<void> }>} */
const COMMANDS = {
  inspect: { words: ['MODEL'], flags: { json: SWITCH }, run: inspect },
  tokenize: { words: ['MODEL', 'TEXT'], flags: { bos: SWITCH, json: SWITCH }, run: tokenize },
  detokenize: { words: ['MODEL'], flags: { ids: TEXT, json: SWITCH }, needs: ['ids'], run: detokenize },
  generate: {
    words: ['MODEL'],
    flags: { prompt: TEXT, chat: SWITCH, json: SWITCH, ...SAMPLING },
    needs: ['prompt'],
    run: generate,
  },
  chat: { words: ['MODEL'], flags: SAMPLING, run: chat },
  logits: {
    words: ['MODEL'], flags: { ids: TEXT, all: SWITCH, out: TEXT }, needs: ['ids', 'out'], run: logits,
  },
  perplexity: {
    words: ['MODEL'], flags: { file: TEXT, window: TEXT, json: SWITCH }, needs: ['file'], run: perplexity,
  },
  bench: {
    words: ['MODEL'],
    flags: { 'prompt-tokens': TEXT, 'gen-tokens': TEXT, runs: TEXT, json: SWITCH },
    run: bench,
  },
};

/** @param {string[]} argv */
async function main([name, ...rest]) {
  if (name === '--help' || name === 'help') return void process.stdout.write(USAGE);
  const command = Object.hasOwn(COMMANDS, name ?? '') ? COMMANDS[name] : null;
  if (!command) throw new UsageError(name ? `there is no command "${name}"` : 'which command?');
  const { positionals, values } = parse(rest, { ...command.flags, ...COMMON });
  if (values.help) return void process.stdout.write(USAGE);
  if (positionals.length !== command.words.length) {
    throw new UsageError(`${name}: expected ${command.words.join(' ')}, got ${positionals.length} words`);
  }
  for (const flag of command.needs ?? []) {
    if (values[flag] === undefined) throw new UsageError(`${name} needs --${flag}`);
  }
  await command.run(positionals, values);
}

/** @param {string[]} args @param {Record<string, Flag>} options */
function parse(args, options) {
  try {
    // What follows a flag that takes a value is that value, also when it begins with a dash.
    /** @type {string[]} */
    const joined = [];
    for (let i = 0; i < args.length; i++) {
      const takes = args[i].startsWith('--') && options[args[i].slice(2)]?.type === 'string';
      joined.push(takes && i + 1 < args.length ? `${args[i]}=${args[++i]}` : args[i]);
      if (args[i] === '--') joined.push(...args.splice(i + 1));
    }
    return /** @type {{ positionals: string[], values: Values }} */ (
      parseArgs({ args: joined, options, allowPositionals: true }));
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

/** @param {Values} values @param {string} name @returns {number | undefined} */
function number(values, name) {
  const text = values[name];
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text.trim() === '' || Number.isNaN(value)) {
    throw new UsageError(`--${name}: expected a number, got "${text}"`);
  }
  return value;
}

/** @param {Values} values */
function idList({ ids }) {
  const list = ids.split(',').map((/** @type {string} */ id) => id.trim());
  if (list.length === 1 && list[0] === '') return [];
  if (list.some((/** @type {string} */ id) => !/^\d+$/.test(id))) {
    throw new UsageError(`--ids: expected numbers with commas between, got "${ids}"`);
  }
  return list.map(Number);
}

/** @param {Values} values */
function loadOptions(values) {
  return {
    threads: number(values, 'threads'), contextLength: number(values, 'context'), variant: values.variant,
  };
}

/** @param {Values} values */
function samplingOptions(values) {
  const camel = (/** @type {string} */ name) => name.replace(/-(.)/g, (_, c) => c.toUpperCase());
  return {
    ...Object.fromEntries(NUMBERS.map((name) => [camel(name), number(values, name)])),
    stop: values.stop,
  };
}

/** Run f with a loaded model. @param {string} source @param {Values} values
 * @param {(model: import('./model.js').Model) => Promise<void>} f */
async function withModel(source, values, f) {
  const options = loadOptions(values);
  const onProgress = process.stderr.isTTY ? showProgress : undefined;
  const model = await loadModel(source, { ...options, onProgress });
  try {
    await f(model);
  } finally {
    await model.dispose();
  }
}

/** @param {import('./stream.js').Progress} progress */
function showProgress({ phase, loaded, total, bytesPerSecond }) {
  const mb = (/** @type {number} */ bytes) => `${(bytes / 1e6).toFixed(0)} MB`;
  const of = total === undefined ? '' : ` of ${mb(total)}`;
  const line = phase === 'ready' ? '' : `${mb(loaded)}${of}, ${mb(bytesPerSecond)}/s`;
  process.stderr.write(`\r\x1b[K${line}`);
}

/** @param {object} value */
function printJson(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

/** @param {string[]} words @param {Values} values */
async function inspect([source], values) {
  const { info, version, alignment, metadata, tensors } = await inspectModel(source, loadOptions(values));
  /** @type {Record<string, { tensors: number, bytes: number }>} */
  const types = {};
  for (const { type, bytes } of tensors) {
    types[type] ??= { tensors: 0, bytes: 0 };
    types[type].tensors++;
    types[type].bytes += bytes;
  }
  const { threads, variant, isolated, reason, ...file } = info;
  if (values.json) return printJson({ ...file, version, alignment, types, metadata, tensors });
  const lines = [
    `${file.name || 'unnamed'}: ${file.architecture}, ${file.quantisation}, GGUF ${version}`,
    `${file.parameters} parameters, ${file.vocabSize} tokens, ${file.fileBytes} bytes`,
    `memory at a context of ${file.contextLength} (of ${file.trainedContextLength}): `
      + Object.entries(file.memory).map(([part, bytes]) => `${part} ${bytes}`).join(', '),
    '', 'metadata',
    ...metadata.map((m) => `  ${m.key}: ${m.of ? `${m.count} x ${m.of}` : JSON.stringify(m.value)}`),
    '', 'tensors',
    ...tensors.map((t) => `  ${t.name}: ${t.type} [${t.shape.join(', ')}]`),
    '', 'types',
    ...Object.entries(types).map(([type, t]) => `  ${type}: ${t.tensors} tensors, ${t.bytes} bytes`),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

/** @param {string} source @param {Values} values
 * @param {(model: import('./model.js').HeaderModel) => Promise<void>} f */
async function withHeader(source, values, f) {
  const model = await openHeader(source, loadOptions(values));
  try {
    await f(model);
  } finally {
    await model.dispose();
  }
}

/** @param {string[]} words @param {Values} values */
async function tokenize([source, text], values) {
  await withHeader(source, values, async (model) => {
    const ids = await model.tokenize(text, { bos: values.bos });
    if (values.json) printJson({ ids });
    else process.stdout.write(`${ids.join(',')}\n`);
  });
}

/** @param {string[]} words @param {Values} values */
async function detokenize([source], values) {
  const ids = idList(values);
  await withHeader(source, values, async (model) => {
    const text = await model.detokenize(ids);
    if (values.json) printJson({ text });
    else process.stdout.write(`${text}\n`);
  });
}

/** @param {string[]} words @param {Values} values */
async function generate([source], values) {
  const { prompt, system } = values;
  const options = samplingOptions(values);
  await withModel(source, values, async (model) => {
    const asChat = values.chat || system !== undefined;
    const out = asChat ? model.chat({ system }).send(prompt, options) : model.generate(prompt, options);
    if (values.json) return printJson(await out.result());
    for await (const piece of out) process.stdout.write(piece);
    process.stdout.write('\n');
  });
}

/** @param {string[]} words @param {Values} values */
async function chat([source], values) {
  const options = samplingOptions(values);
  await withModel(source, values, (model) => interact(model, { ...options, system: values.system }));
}

/** @param {string[]} words @param {Values} values */
async function logits([source], values) {
  const ids = idList(values);
  await withModel(source, values, async (model) => {
    const rows = await model.logits(ids, { all: values.all });
    // WebAssembly is little-endian, and so is every machine that Node runs on here.
    await writeFile(values.out, new Uint8Array(rows.buffer));
    process.stderr.write(`${rows.length} values in ${values.out}\n`);
  });
}

/** @param {string[]} words @param {Values} values */
async function perplexity([source], values) {
  const window = number(values, 'window');
  const text = await readFile(values.file, 'utf8');
  await withModel(source, values, async (model) => {
    const result = await model.perplexity(text, { window });
    if (values.json) return printJson(result);
    process.stdout.write(`perplexity ${result.perplexity}, nll ${result.nll}, ${result.tokens} tokens\n`);
  });
}

/** @param {string[]} words @param {Values} values */
async function bench([source], values) {
  const promptTokens = number(values, 'prompt-tokens') ?? 128;
  const genTokens = number(values, 'gen-tokens') ?? 32;
  const runs = number(values, 'runs') ?? 5;
  for (const n of [promptTokens, genTokens, runs]) {
    if (!Number.isInteger(n) || n < 1) throw new UsageError('bench: expected whole numbers above 0');
  }
  const before = performance.now();
  await withModel(source, values, async (model) => {
    const loadMs = performance.now() - before;
    const results = [];
    for (let run = 0; run < runs; run++) results.push(await benchRun(model, promptTokens, genTokens, run));
    const { threads, variant, memory, contextLength } = model.info;
    const report = {
      model: source, variant, threads, contextLength, memory, runs, promptTokens, genTokens, loadMs,
      prefillTokensPerSecond: median(results.map((r) => r.prefillTokensPerSecond)),
      decodeTokensPerSecond: median(results.map((r) => r.decodeTokensPerSecond)),
      firstTokenMs: median(results.map((r) => r.firstTokenMs)),
    };
    if (values.json) return printJson(report);
    process.stdout.write(`${variant}, ${threads} threads, medians of ${runs} runs\n`
      + `prefill ${report.prefillTokensPerSecond.toFixed(2)} tokens/s (${promptTokens} tokens)\n`
      + `decode  ${report.decodeTokensPerSecond.toFixed(2)} tokens/s (${genTokens} tokens)\n`);
  });
}

/** Ids that differ from the first on, so that nothing is reused; ends of answers are banned.
 * @param {import('./model.js').Model} model @param {number} promptTokens @param {number} genTokens
 * @param {number} run */
async function benchRun(model, promptTokens, genTokens, run) {
  const { vocabSize, endTokens } = model.info;
  const ids = Array.from({ length: promptTokens }, (_, i) => (i * 31 + run * 17 + 300) % vocabSize);
  const logitBias = Object.fromEntries(endTokens.map((id) => [id, -Infinity]));
  const out = model.generate(ids, { maxTokens: genTokens, temperature: 0, logitBias });
  return (await out.result()).timings;
}

/** @param {number[]} values */
function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  const usage = error instanceof UsageError;
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof GemmaError ? ` (${error.code})` : '';
  process.stderr.write(`gemma-wasm: ${message}${code}\n${usage ? `\n${USAGE}` : ''}`);
  const asked = usage || (error instanceof GemmaError && error.code === 'bad-option');
  process.exitCode = asked ? 2 : 1;
}
