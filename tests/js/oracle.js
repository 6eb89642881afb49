/**
 * oracle: token ids by @huggingface/tokenizers, with Gemma 3's vocabulary or another. What it gave for a text is kept in
 * build/oracle/, under a name that changes with all that it is made of (the package, the vocabulary, this file);
 * so it computes each text once on a machine, and is not even built where it knows them all.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gemma3TokenizerPath } from '../../tools/models/vocab.js';

const FOLDER = fileURLToPath(new URL('../../build/oracle/', import.meta.url));
const VOCABULARY = gemma3TokenizerPath();
const PARTS = [VOCABULARY, VOCABULARY.replace('tokenizer.json', 'tokenizer_config.json')];

/** Of a text, halves of surrogate pairs told apart. @param {string} text */
const digest = (text) => createHash('sha256').update(text, 'utf16le').digest('base64');

/** @param {Source} source */
function keyOf(source) {
  const hash = createHash('sha256');
  if (source === GEMMA3) for (const file of PARTS) hash.update(readFileSync(file));
  else hash.update(JSON.stringify(source.parts()));
  for (const file of [fileURLToPath(import.meta.resolve('@huggingface/tokenizers')), fileURLToPath(import.meta.url)]) {
    hash.update(readFileSync(file));
  }
  return hash.digest('hex').slice(0, 16);
}

/** What an oracle is made of: a name, and its vocabulary's two files as objects.
 * @typedef {{ name: string, parts: () => [object, object] }} Source */
const GEMMA3 = /** @type {Source} */ ({
  name: 'gemma3',
  parts: () => /** @type {[object, object]} */ (PARTS.map((file) => JSON.parse(readFileSync(file, 'utf8')))),
});

/** @param {Source} source */
async function build(source) {
  const { Tokenizer } = await import('@huggingface/tokenizers');
  return new Tokenizer(...source.parts());
}

export class Oracle {
  #source;
  #file;
  /** @type {Record<string, number[]>} */ #known;
  /** The texts of this run; all others are dropped from the file. @type {Record<string, number[]>} */ #asked = {};
  /** @type {Promise<import('@huggingface/tokenizers').Tokenizer> | undefined} */ #tokenizer;
  computed = 0;

  /** @param {Source} [source] Gemma 3's vocabulary if none is given */
  constructor(source = GEMMA3) {
    this.#source = source;
    this.#file = join(FOLDER, `${source.name}-${keyOf(source)}.json`);
    this.#known = existsSync(this.#file) ? JSON.parse(readFileSync(this.#file, 'utf8')) : {};
  }

  /** Its ids for a text. @param {string} text @returns {Promise<number[]>} */
  async ids(text) {
    const key = digest(text);
    return (this.#asked[key] ??= this.#known[key] ?? (await this.#compute(text)));
  }

  /** @param {string} text */
  async #compute(text) {
    const tokenizer = await (this.#tokenizer ??= build(this.#source));
    this.computed++;
    return tokenizer.encode(text, { add_special_tokens: false }).ids;
  }

  /** Keeps the answers, in the place of all that was kept before. */
  save() {
    if (!this.computed) return;
    mkdirSync(FOLDER, { recursive: true });
    // What has another ending is being written, by another process perhaps.
    const old = readdirSync(FOLDER)
      .filter((name) => name.startsWith(`${this.#source.name}-`) && name.endsWith('.json'))
      .map((name) => join(FOLDER, name))
      .filter((name) => name !== this.#file);
    for (const name of old) rmSync(name, { force: true });
    const unfinished = `${this.#file}.${process.pid}.tmp`;
    writeFileSync(unfinished, JSON.stringify(this.#asked));
    renameSync(unfinished, this.#file);
  }
}
