/* main: the commands of the command line. Results go to standard output, messages to standard error; exit status 0,
 * 1 (it failed), 2 (it was called wrongly). */
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { interact, show } from './chat.js';
import { GemmaError, inspectModel, loadModel } from '../index.node.js';
import { openHeader } from '../model.js';
/** @import { GenerateResult } from '../generation.js' */
/** @import { Model } from '../model.js' */
/** @import { Progress } from '../engine/meter.js' */

const USAGE = `usage: gemma-wasm COMMAND MODEL ...       MODEL: a path or a URL of a GGUF file
                                         (left out: the tiny storyteller, if it is here)

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
          --float-matrices auto|keep|q8_0 (auto: as in the file)
          --kv-type auto|f32|i16|q8_0 (how the context is kept)
          --no-cache (keep no download; else they are kept in ~/.cache/gemma-wasm)
HF_TOKEN in the environment goes to huggingface.co, as a header.
`;

const STORYTELLER = fileURLToPath(new URL('../../models/storyteller/storyteller.gguf', import.meta.url));

class UsageError extends Error {}
/** The flags, `source` and `text`. @typedef {Record<string, any>} Values */

const NUMBERS = 'max-tokens temperature top-k top-p min-p typical-p seed logprobs repetition-penalty '
  + 'frequency-penalty presence-penalty penalty-window';
const SAMPLING = `${NUMBERS} stop system`;
const SWITCHES = ['json', 'bos', 'chat', 'all', 'help', 'no-cache'];

/** words: behind MODEL; needs: flags that must be there; flags: the others.
 * @type {Record<string, { words?: string[], needs?: string, flags: string,
 *   run: (values: Values) => Promise<void> }>} */
const COMMANDS = {
  inspect: { flags: 'json', run: inspect },

  tokenize: {
    words: ['TEXT'],
    flags: 'bos json',
    async run(values) {
      const { text, bos } = values;
      const ids = await using(openHeader, values, (model) => model.tokenize(text, { bos }));
      print(values, { ids }, ids.join(','));
    },
  },

  detokenize: {
    needs: 'ids',
    flags: 'json',
    async run(values) {
      const ids = idList(values.ids);
      const text = await using(openHeader, values, (model) => model.detokenize(ids));
      print(values, { text }, text);
    },
  },

  generate: {
    needs: 'prompt',
    flags: `chat json ${SAMPLING}`,
    async run(values) {
      const { prompt, system, chat = system !== undefined } = values;
      const options = samplingOptions(values);
      await using(loadModel, values, async (model) => {
        const out = chat ? model.chat({ system }).send(prompt, options) : model.generate(prompt, options);
        if (values.json) return print(values, await out.result());
        await show(out);
      });
    },
  },

  chat: {
    flags: SAMPLING,
    async run(values) {
      const options = { ...samplingOptions(values), system: values.system };
      await using(loadModel, values, (model) => interact(model, options));
    },
  },

  logits: {
    needs: 'ids out',
    flags: 'all',
    async run(values) {
      const { all, out } = values;
      const ids = idList(values.ids);
      const rows = await using(loadModel, values, (model) => model.logits(ids, { all }));
      // Every machine that Node runs on is little-endian.
      await writeFile(out, new Uint8Array(rows.buffer));
      process.stderr.write(`${rows.length} values in ${out}\n`);
    },
  },

  perplexity: {
    needs: 'file',
    flags: 'window json',
    async run(values) {
      const window = number(values, 'window');
      const text = await readFile(values.file, 'utf8');
      print(values, await using(loadModel, values, (model) => model.perplexity(text, { window })));
    },
  },

  bench: { flags: 'prompt-tokens gen-tokens runs json', run: bench },
};

/** @param {string[]} argv */
async function main([name = process.stdin.isTTY && existsSync(STORYTELLER) ? 'chat' : '', ...rest]) {
  if (['--help', '-h', 'help'].includes(name)) return void process.stdout.write(USAGE);
  if (!Object.hasOwn(COMMANDS, name)) throw new UsageError(`there is no command "${name}"`);
  const { words = [], needs = '', flags, run } = COMMANDS[name];
  const { positionals, values } = parse(rest, `${needs} ${flags} threads context variant float-matrices kv-type no-cache help`);
  if (values.help) return void process.stdout.write(USAGE);
  // `tokenize MODEL` lacks its TEXT, not its MODEL.
  const named = /\.gguf$|^https?:/i.test(positionals[0] ?? '');
  if (positionals.length === words.length && !named && existsSync(STORYTELLER)) {
    process.stderr.write('gemma-wasm: no MODEL is named: taking the tiny storyteller\n');
    positionals.unshift(STORYTELLER);
  }
  if (positionals.length !== 1 + words.length) {
    const wanted = ['MODEL', ...words].join(' ');
    throw new UsageError(`${name}: expected ${wanted}, got ${positionals.length} words`);
  }
  const missing = needs.split(' ').find((flag) => flag && values[flag] === undefined);
  if (missing) throw new UsageError(`${name} needs --${missing}`);
  const [source, text] = positionals;
  await run({ ...values, source, text });
}

/** @param {string[]} args @param {string} flags */
function parse(args, flags) {
  const options = Object.fromEntries(flags.trim().split(' ').map((flag) => {
    const type = /** @type {'boolean' | 'string'} */ (SWITCHES.includes(flag) ? 'boolean' : 'string');
    return [flag, { type, multiple: flag === 'stop', ...(flag === 'help' && { short: 'h' }) }];
  }));
  // A flag's value may begin with a dash.
  /** @type {string[]} */
  const joined = [];
  for (let i = 0; i < args.length; i++) {
    const takes = args[i].startsWith('--') && options[args[i].slice(2)]?.type === 'string';
    joined.push(takes && i + 1 < args.length ? `${args[i]}=${args[++i]}` : args[i]);
    if (args[i] === '--') joined.push(...args.splice(i + 1));
  }
  try {
    const parsed = parseArgs({ args: joined, options, allowPositionals: true });
    return { positionals: parsed.positionals, values: /** @type {Values} */ (parsed.values) };
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

/** @param {Values} values @param {string} name @returns {number | undefined} */
function number(values, name) {
  const text = values[name];
  if (text === undefined) return undefined;
  const value = text.trim() === '' ? NaN : Number(text);
  if (!Number.isNaN(value)) return value;
  throw new UsageError(`--${name}: expected a number, got "${text}"`);
}

/** @param {string} text */
function idList(text) {
  const ids = text.split(',').map((id) => id.trim());
  if (ids.every((id) => /^\d+$/.test(id))) return ids.map(Number);
  throw new UsageError(`--ids: expected numbers with commas between, got "${text}"`);
}

/** @param {Values} values */
function loadOptions(values) {
  return {
    threads: number(values, 'threads'), contextLength: number(values, 'context'), variant: values.variant,
    floatMatrices: values['float-matrices'], kvType: values['kv-type'], cache: !values['no-cache'],
    token: /^https:\/\/huggingface\.co\//.test(values.source) ? process.env.HF_TOKEN || undefined : undefined,
  };
}

/** @param {Values} values */
function samplingOptions(values) {
  const camel = (/** @type {string} */ name) => name.replace(/-./g, ([, letter]) => letter.toUpperCase());
  const named = NUMBERS.split(' ').map((name) => [camel(name), number(values, name)]);
  return { ...Object.fromEntries(named), stop: values.stop };
}

/** @template {{ dispose: () => Promise<void> }} M @template T
 * @param {(source: string, options: any) => Promise<M>} open @param {Values} values
 * @param {(model: M) => Promise<T>} f */
async function using(open, values, f) {
  const onProgress = process.stderr.isTTY ? showProgress : undefined;
  const model = await open(values.source, { ...loadOptions(values), onProgress });
  if (onProgress) process.stderr.write('\r\x1b[K');
  try {
    return await f(model);
  } finally {
    await model.dispose();
  }
}

/** @param {Progress} progress */
function showProgress({ loaded, total, bytesPerSecond, notice }) {
  if (notice) process.stderr.write(`\r\x1b[K${notice.message}\n`);
  const [done, all, rate] = [loaded, total ?? NaN, bytesPerSecond].map((x) => (x / 1e6).toFixed(0));
  process.stderr.write(`\r\x1b[K${done} of ${all} MB, ${rate} MB/s`);
}

/** @param {Values} values @param {object} result @param {string} [text] */
function print({ json }, result, text = linesOf(result)) {
  process.stdout.write(`${json ? JSON.stringify(result) : text}\n`);
}

/** @param {object} facts */
function linesOf(facts) {
  return Object.entries(facts).map(([key, value]) => `${key}: ${JSON.stringify(value)}`).join('\n');
}

/** @param {Values} values */
async function inspect(values) {
  const { info, version, alignment, metadata, tensors } = await inspectModel(values.source, loadOptions(values));
  /** @type {Record<string, { tensors: number, bytes: number }>} */
  const types = {};
  for (const { type, bytes } of tensors) {
    const sum = types[type] ??= { tensors: 0, bytes: 0 };
    sum.tensors++;
    sum.bytes += bytes;
  }
  const { threads, variant, isolated, reason, endTokens, ...file } = info;
  const facts = { ...file, version, alignment, types };
  print(values, { ...facts, metadata, tensors }, [
    linesOf(facts),
    '', ...metadata.map((m) => `${m.key}: ${m.of ? `${m.count} x ${m.of}` : JSON.stringify(m.value)}`),
    '', ...tensors.map((t) => `${t.name}: ${t.type} [${t.shape.join(', ')}]`),
  ].join('\n'));
}

/** @param {Values} values */
async function bench(values) {
  const [promptTokens = 128, genTokens = 32, runs = 5] = ['prompt-tokens', 'gen-tokens', 'runs']
    .map((name) => number(values, name));
  if (![promptTokens, genTokens, runs].every((n) => Number.isInteger(n) && n > 0)) {
    throw new UsageError('bench: expected whole numbers above 0');
  }
  const start = performance.now();
  await using(loadModel, values, async (model) => {
    const loadMs = performance.now() - start;
    /** @type {GenerateResult['timings'][]} */
    const timings = [];
    while (timings.length < runs) {
      timings.push(await benchRun(model, promptTokens, genTokens, timings.length));
    }
    const { threads, variant, memory, contextLength } = model.info;
    print(values, {
      model: values.source, variant, threads, contextLength, memory, runs, promptTokens, genTokens, loadMs,
      ...medians(timings, ['prefillTokensPerSecond', 'decodeTokensPerSecond', 'firstTokenMs']),
    });
  });
}

/** @template {string} K @param {Record<K, number>[]} runs @param {K[]} names */
function medians(runs, names) {
  return Object.fromEntries(names.map((name) => {
    const sorted = runs.map((run) => run[name]).sort((a, b) => a - b);
    return [name, (sorted[(runs.length - 1) >> 1] + sorted[runs.length >> 1]) / 2];
  }));
}

/** Ids that differ from the first on, so that nothing is reused; ends of answers are banned.
 * @param {Model} model @param {number[]} counts */
async function benchRun(model, ...[promptTokens, genTokens, run]) {
  const { vocabSize, endTokens } = model.info;
  const ids = Array.from({ length: promptTokens }, (_, i) => (i * 31 + run * 17 + 300) % vocabSize);
  const logitBias = Object.fromEntries(endTokens.map((id) => [id, -Infinity]));
  const out = model.generate(ids, { maxTokens: genTokens, temperature: 0, logitBias });
  return (await out.result()).timings;
}

/** @param {any} error @returns {number} the exit status */
function report(error) {
  const usage = error instanceof UsageError;
  const { code = '', what = '' } = error instanceof GemmaError ? error : {};
  process.stderr.write(`gemma-wasm: ${error.message}${code && ` (${code})`}\n${usage ? `\n${USAGE}` : ''}`);
  // `text`: what a file holds, no flag.
  return usage || (code === 'bad-option' && what !== 'text') ? 2 : 1;
}

// EPIPE: the reader has had enough.
process.stdout.on('error', (error) => process.exit(/EPIPE/.test(error.message) ? 0 : report(error)));
try {
  await main(process.argv.slice(2));
} catch (error) {
  process.exitCode = report(error);
}
