/**
 * oracle: reference token ids by @huggingface/tokenizers, with Gemma 3's vocabulary or another. Results are kept in
 * build/oracle/ under a name that changes with their inputs (the package, the vocabulary, this file), so that each text
 * is computed once per machine.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PromptEncoder } from '../../js/engine/prompt-encoder.js';
import { gemma3TokenizerPath } from '../../tools/models/vocab.js';

const FOLDER = fileURLToPath(new URL('../../build/oracle/', import.meta.url));
const VOCABULARY = gemma3TokenizerPath();
const PARTS = [VOCABULARY, VOCABULARY.replace('tokenizer.json', 'tokenizer_config.json')];

/** Returns a digest of a text that distinguishes lone surrogates. @param {string} text */
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

/** A reference tokenizer: its name, and its files tokenizer.json and tokenizer_config.json as objects.
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
  /** Ids of the texts of this run. save() drops other ids. @type {Record<string, number[]>} */ #asked = {};
  /** @type {Promise<import('@huggingface/tokenizers').Tokenizer> | undefined} */ #tokenizer;
  computed = 0;

  /** @param {Source} [source] Gemma 3's vocabulary if none is given */
  constructor(source = GEMMA3) {
    this.#source = source;
    this.#file = join(FOLDER, `${source.name}-${keyOf(source)}.json`);
    this.#known = existsSync(this.#file) ? JSON.parse(readFileSync(this.#file, 'utf8')) : {};
  }

  /** @param {string} text @returns {Promise<number[]>} */
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

  /** Checks that the engine and the reference give each text the same ids, and that decoding these returns the text.
   * Calls the worker's encoder directly, because messages to a worker take longer than short texts. Returns a summary.
   * @param {PromptEncoder} encoder @param {string[]} texts
   * @param {(text: string) => string} [read] returns the expected result of decoding */
  async compare(encoder, texts, read = (text) => text) {
    let [ids, bytes] = [0, 0];
    for (const text of texts) {
      const got = encoder.encode(text);
      assert.deepEqual(got, await this.ids(text), JSON.stringify(text));
      assert.equal(encoder.decode(got), read(text));
      ids += got.length;
      bytes += Buffer.byteLength(text);
    }
    return `${texts.length} texts, ${bytes} bytes, ${ids} ids; the oracle computed ${this.computed} now`;
  }

  /** Checks that the model and the reference give a long text the same ids, and that decoding these returns the text.
   * Returns the speed as text. @param {import('../../js/index.node.js').Model} model @param {string} text
   * @param {(text: string) => string} [read] */
  async compareLong(model, text, read = (text) => text) {
    const start = performance.now();
    const got = Array.from(await model.tokenize(text));
    const seconds = (performance.now() - start) / 1000;
    assert.deepEqual(got, await this.ids(text));
    assert.equal(await model.detokenize(got), read(text));
    return `${(Buffer.byteLength(text) / 1e6 / seconds).toFixed(1)} MB/s, worker and copies included`;
  }

  /** Saves the reference's results, and removes files with results for other inputs. */
  save() {
    if (!this.computed) return;
    mkdirSync(FOLDER, { recursive: true });
    // Files not named *.json are still being written, perhaps by another process.
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

/** Returns the encoder that the worker uses, without a worker. @param {import('./bare-engine.js').Engine} engine */
export const encoderOf = (engine) => new PromptEncoder(engine, /** @type {any} */ (undefined), () => {});

/** Asserts that 262,144 repetitions of each letter survive tokenize() and detokenize().
 * @param {import('../../js/index.node.js').Model} model @param {string[]} letters */
export async function decodesRepeats(model, letters) {
  for (const letter of letters) {
    const text = letter.repeat(1 << 18);
    assert.equal(await model.detokenize(await model.tokenize(text)), text);
  }
}
