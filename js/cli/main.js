/* main: the commands of the command line. Writes results to standard output and messages to standard error. Exit
 * status: 0, 1 (failure) or 2 (wrong usage). */
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { bench } from './bench.js';
import { interact, show } from './chat.js';
import { EMBED, embed } from './embed.js';
import { UsageError, emptyText, incomplete, noCommand, unknownCommand } from './errors.js';
import { ANSWER, LOAD, SERVE, idList, number, parse, readText, answerOptions } from './flags.js';
import { FORMAT, formatOf } from './format.js';
import { INSIDE, inside } from './inside.js';
import { inspect } from './inspect.js';
import { MATCH, match } from './match.js';
import { print, using } from './output.js';
import { HELP } from '../generated.js';
import { ModelError, loadModel } from '../index.node.js';
import { openHeader } from '../model.js';
/** @import { Values } from './flags.js' */

const USAGE = `usage: gemma-wasm COMMAND MODEL ...       MODEL: a path or a URL of a GGUF file
                                         (default: the tiny storyteller, if it is installed)

  inspect MODEL [--json]                   metadata, tensors and their types, memory that the model needs
  tokenize MODEL TEXT [--bos] [--json]     token ids of a text
  detokenize MODEL --ids 2,105,... [--json]
  match MODEL --text FILE CONSTRAINT [--draft 4|6|7|2019|2020] [--json]  whether a text satisfies a constraint
  match MODEL --cases FILE.jsonl [--draft N]           FILE has lines of { name, schema, tests: [{ valid, data }] }
  generate MODEL --prompt TEXT [--chat] [--system TEXT] [sampling] [--json]
  chat MODEL [--system TEXT] [sampling]    a conversation in the terminal
  logits MODEL --ids 2,105,... [--all] --out FILE      logits as little-endian float32
  perplexity MODEL --file FILE [--window N] [--json]
  embed MODEL --text TEXT | --file FILE (one text per line)  embeddings; --out FILE: rows of little-endian float32
        [--task query|document|similarity|classification|clustering|code|question|fact] [--title TEXT]
        [--instruction TEXT] [--dimensions N] [--pooling mean|last] [--truncate] --out FILE | --json
  inside MODEL --prompt TEXT [--layer N,...] [--head N,...] [--position N,...] [--lens K] [--norms] [--json]
                                           attention weights, most likely tokens and norms, layer by layer
  bench MODEL [--prompt-tokens N] [--gen-tokens N] [--runs N] [--json]
  serve MODEL... [--port N] [--host TEXT]  OpenAI's and Ollama's HTTP APIs, for one or several models
  --version                                the version of gemma-wasm

CONSTRAINT  --schema FILE (JSON Schema) | --regex R | --grammar FILE (GBNF) | --choices A,B,...
            (also for generate and chat)

sampling (--stop may be repeated)
${HELP.answer}
  --thinking, --no-thinking  Turns thinking on or off, for models that support it. Implies --chat.
  --thinking-budget N        Turns thinking on, with at most N tokens of thoughts.

serve
${HELP.serve}

common
${HELP.load}
  --no-cache               Does not cache the download. The cache is ~/.cache/gemma-wasm.

The environment variable HF_TOKEN is sent to huggingface.co as the access token.
`;

/** Returns the path of a file of the package, '' if it is missing: relative to dist/ in the package, to js/cli/ in a
 * checkout. @param {string} name */
const pathOf = (name) =>
  ['../', '../../'].map((up) => fileURLToPath(new URL(up + name, import.meta.url))).find(existsSync) ?? '';

/** The tiny model that comes with the package. */
const STORYTELLER = pathOf('models/storyteller/storyteller.gguf');

/** The commands. words: names of the arguments after MODEL; several: whether several MODELs are accepted; needs:
 * required flags; flags: optional flags.
 * @type {Record<string, { words?: string[], several?: boolean, needs?: string, flags: string,
 *   run: (values: Values) => Promise<void> }>} */
const COMMANDS = {
  inspect: { flags: 'json', run: inspect },

  match: { flags: MATCH, run: match },

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
    flags: `chat json ${ANSWER} ${FORMAT}`,
    async run(values) {
      const options = { ...answerOptions(values), format: await formatOf(values) };
      const { prompt, system, chat = system !== undefined || options.thinking !== undefined } = values;
      await using(loadModel, values, async (model) => {
        const out = chat ? model.chat({ system }).send(prompt, options) : model.generate(prompt, options);
        if (values.json) return print(values, await out.result());
        await show(out);
      });
    },
  },

  chat: {
    flags: `${ANSWER} ${FORMAT}`,
    async run(values) {
      const options = { ...answerOptions(values), system: values.system, format: await formatOf(values) };
      await using(loadModel, values, (model) => interact(model, options));
    },
  },

  logits: {
    needs: 'ids out',
    flags: 'all',
    async run(values) {
      const { all, out } = values;
      const ids = idList(values.ids);
      const rows = await using(loadModel, values, (model) => model.debug.logits(ids, { all }));
      // Both the file and all machines that Node supports are little-endian.
      await writeFile(out, new Uint8Array(rows.buffer));
      process.stderr.write(`Wrote ${rows.length} values to ${out}.\n`);
    },
  },

  perplexity: {
    needs: 'file',
    flags: 'window json',
    async run(values) {
      const window = number(values, 'window');
      const text = await readText(values.file);
      if (!text) throw emptyText(values.file);
      print(values, await using(loadModel, values, (model) => model.debug.perplexity(text, { window })));
    },
  },

  embed: { flags: EMBED, run: embed },

  inside: { needs: 'prompt', flags: INSIDE, run: inside },

  bench: { flags: 'prompt-tokens gen-tokens runs json', run: bench },

  // The server's code is imported on use, because no other command needs it.
  serve: { several: true, flags: SERVE, run: async (values) => (await import('./serve.js')).serve(values) },
};

/** @param {string[]} argv */
async function main([name = process.stdin.isTTY && existsSync(STORYTELLER) ? 'chat' : '', ...rest]) {
  if (['--help', '-h', 'help'].includes(name)) return void process.stdout.write(USAGE);
  if (name === '--version') {
    const { version } = JSON.parse(await readFile(pathOf('package.json'), 'utf8'));
    return void process.stdout.write(`${version}\n`);
  }
  if (!Object.hasOwn(COMMANDS, name)) throw name ? unknownCommand(name) : noCommand();
  const { words = [], several = false, needs = '', flags, run } = COMMANDS[name];
  const { positionals, values } = parse(rest, `${needs} ${flags} ${LOAD} help`);
  if (values.help) return void process.stdout.write(USAGE);
  // A first argument that looks like a model is the MODEL. Otherwise `tokenize x.gguf` would tokenize "x.gguf".
  const named = /\.gguf$|^https?:/i.test(positionals[0] ?? '');
  if (positionals.length === words.length && !named && existsSync(STORYTELLER)) {
    process.stderr.write('gemma-wasm: No MODEL is given, so the tiny storyteller is used.\n');
    positionals.unshift(STORYTELLER);
  }
  if (several ? !positionals.length : positionals.length !== 1 + words.length) {
    throw incomplete(name, `the arguments ${['MODEL', ...words].join(' ')} (got ${positionals.length})`);
  }
  const missing = needs.split(' ').find((flag) => flag && values[flag] === undefined);
  if (missing) throw incomplete(name, `--${missing}`);
  const [source, text] = positionals;
  await run({ ...values, source, ...(several ? { sources: positionals } : text !== undefined && { text }) });
}

/** @param {any} error @returns {number} the exit status */
function report(error) {
  const usage = error instanceof UsageError;
  const { code = '' } = error instanceof ModelError ? error : {};
  process.stderr.write(
    `gemma-wasm: ${error.message}${code && ` (${code})`}\n${usage ? 'See gemma-wasm --help.\n' : ''}`,
  );
  return usage || ['bad-option', 'bad-token'].includes(code) ? 2 : 1;
}

// EPIPE means that the reader of standard output closed the pipe, which is not a failure.
process.stdout.on('error', (error) => process.exit(/EPIPE/.test(error.message) ? 0 : report(error)));
try {
  await main(process.argv.slice(2));
} catch (error) {
  process.exitCode = report(error);
}
