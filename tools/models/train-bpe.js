/**
 * train-bpe: trains realistic byte-level BPE vocabularies on texts (Sennrich et al. 2016): a family's regular
 * expression splits texts into words, then the most common pair of adjacent symbols is merged repeatedly. The same
 * texts give the same merges. Also returns the tokenizer.json of such a vocabulary. Writes no files.
 *
 * @typedef {'gpt-2' | 'gpt-4o' | 'llama-bpe' | 'smollm' | 'qwen2'} PreTokenizer
 */
import { byteCharacters } from './bpe-vocab.js';

/** Returns the regular expressions of a family's pre-tokenizer, each of which splits the results of the previous one.
 * They have White_Space instead of \s, because JavaScript's \s includes U+FEFF and lacks U+0085.
 * @param {PreTokenizer} name @returns {string[]} */
function patternsOf(name) {
  const blank = '\\p{White_Space}';
  const other = `[^${blank}\\p{L}\\p{N}]`;
  const end = `${blank}+(?!\\P{White_Space})|${blank}+`;
  const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?${other}+|${end}`;
  const tick = "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]";
  const rest = (/** @type {string} */ numbers, /** @type {string} */ ends) =>
    `${numbers}| ?${other}+[\\r\\n${ends}]*|${blank}*[\\r\\n]+|${end}`;
  const before = '[^\\r\\n\\p{L}\\p{N}]?';
  const llama3 = (/** @type {string} */ numbers) => `${tick}|${before}\\p{L}+|${rest(numbers, '')}`;
  const upper = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]';
  const lower = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]';
  return {
    'gpt-2': [gpt2],
    'gpt-4o': [
      `${before}${upper}*${lower}+(?:${tick})?|${before}${upper}+${lower}*(?:${tick})?|${rest('\\p{N}{1,3}', '/')}`,
    ],
    smollm: ['\\p{N}', gpt2],
    'llama-bpe': [llama3('\\p{N}{1,3}')],
    qwen2: [llama3('\\p{N}')],
  }[name];
}

/** @param {string} text @param {string} pattern */
function cut(text, pattern) {
  const list = [];
  let at = 0;
  for (const { 0: word, index } of text.matchAll(new RegExp(pattern, 'gu'))) {
    if (index > at) list.push(text.slice(at, index));
    list.push(word);
    at = index + word.length;
  }
  if (at < text.length) list.push(text.slice(at));
  return list;
}

/** @param {string[]} texts @param {PreTokenizer} name @returns {Map<string, number>} number of occurrences by word */
function wordsOf(texts, name) {
  const counts = new Map();
  for (const text of texts) {
    const words = patternsOf(name).reduce((parts, pattern) => parts.flatMap((part) => cut(part, pattern)), [text]);
    for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return counts;
}

/** #hot is filled with at least this number of the most common pairs, or with all pairs that occur more than once. */
const HOT = 1000;

/** Counts pairs of adjacent symbols, and records the words that contain them. A key is left * 2^16 + right. */
class Pairs {
  /** @type {Map<number, number>} */ counts = new Map();
  /** @type {Map<number, Set<number>>} */ places = new Map();
  /** Contains all pairs that occur more than #rest times. @type {Set<number>} */ #hot = new Set();
  #rest = Infinity;

  /** @param {number[]} word @param {number} times @param {number} place */
  add(word, times, place) {
    for (let i = 0; i + 1 < word.length; i++) {
      const key = word[i] * 65536 + word[i + 1];
      const count = (this.counts.get(key) ?? 0) + times;
      this.counts.set(key, count);
      if (count > this.#rest) this.#hot.add(key);
      const places = this.places.get(key);
      if (places) places.add(place);
      else this.places.set(key, new Set([place]));
    }
  }

  /** Returns the most common pair, on ties the one with the lowest ids; undefined if none occurs twice.
   * @returns {number | undefined} */
  best() {
    let best = -1;
    let most = Math.max(1, this.#rest);
    for (const key of this.#hot) {
      const count = this.counts.get(key) ?? 0;
      if (count > most || (count === most && best >= 0 && key < best)) [best, most] = [key, count];
    }
    if (best >= 0 || this.#rest <= 1) return best < 0 ? undefined : best;
    for (const [key, count] of this.counts) if (!count) this.counts.delete(key);
    const list = [...this.counts].sort((a, b) => b[1] - a[1]);
    this.#rest = Math.max(1, (list[HOT]?.[1] ?? 2) - 1); // at least 1, because a pair that occurs once is never merged
    this.#hot = new Set(list.filter(([, count]) => count > this.#rest).map(([key]) => key));
    return this.best();
  }
}

/** @param {number[]} word @param {number} left @param {number} right @param {number} made */
function joined(word, left, right, made) {
  const list = [];
  for (let i = 0; i < word.length; i++) {
    const pair = word[i] === left && word[i + 1] === right;
    list.push(pair ? made : word[i]);
    if (pair) i++;
  }
  return list;
}

/** Trains at most `count` merges. Returns them as pairs of printable pieces. @param {string[]} texts
 * @param {PreTokenizer} name @param {number} count @returns {[string, string][]} */
export function trainMerges(texts, name, count) {
  const pieces = byteCharacters();
  const hidden = new Map(pieces.map((c, id) => [byteOf(c), id]));
  const words = [...wordsOf(texts, name)].map(([text, times]) => ({
    times,
    ids: [...new TextEncoder().encode(text)].map((byte) => /** @type {number} */ (hidden.get(byte))),
  }));
  const pairs = new Pairs();
  words.forEach(({ ids, times }, place) => pairs.add(ids, times, place));
  /** @type {[string, string][]} */
  const merges = [];
  while (merges.length < count) {
    const key = pairs.best();
    if (key === undefined) break;
    const left = Math.floor(key / 65536);
    const right = key % 65536;
    merges.push([pieces[left], pieces[right]]);
    pieces.push(pieces[left] + pieces[right]);
    for (const place of pairs.places.get(key) ?? []) {
      const word = words[place];
      const ids = joined(word.ids, left, right, pieces.length - 1);
      if (ids.length === word.ids.length) continue;
      pairs.add(word.ids, -word.times, place);
      pairs.add(ids, word.times, place);
      word.ids = ids;
    }
    pairs.places.delete(key);
  }
  return merges;
}

/** Returns the byte that a printable character stands for. @param {string} c */
function byteOf(c) {
  const code = c.charCodeAt(0);
  const n = code - 256;
  return n < 0 ? code : n < 33 ? n : n < 67 ? n - 33 + 127 : 173;
}

/** Returns tokenizer.json as an object. Only control tokens (type 3) are `special`.
 * @param {import('./vocab.js').Vocabulary} vocab
 * @param {(type: number) => boolean} isAdded whether pieces of a type are added tokens */
export function tokenizerJson({ pre, pieces, types, merges }, isAdded) {
  const split = (/** @type {string} */ pattern) => ({
    type: 'Split',
    pattern: { Regex: pattern },
    behavior: 'Isolated',
    invert: false,
  });
  const added = pieces
    .map((content, id) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: types[id] === 3,
    }))
    .filter(({ id }) => isAdded(types[id]));
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: added,
    post_processor: null,
    normalizer: pre === 'qwen2' ? { type: 'NFC' } : null,
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        ...patternsOf(/** @type {PreTokenizer} */ (pre)).map(split),
        { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
      ],
    },
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: '',
      end_of_word_suffix: '',
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: pre === 'llama-bpe',
      vocab: Object.fromEntries(pieces.map((piece, id) => [piece, id])),
      merges: merges?.map((pair) => pair.split(' ')),
    },
  };
}
