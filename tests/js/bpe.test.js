/**
 * Compares token ids of byte-level BPE with @huggingface/tokenizers: at least 20,000 texts for each pre-tokenizer, each
 * decoded again. The vocabularies are trained here on the TypeScript compiler's messages in thirteen languages. Also
 * tests Llama 2's tokenizer, which adds a space before a text.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { loadModel } from '../../js/index.node.js';
import { byteCharacters, tokenizerKeys, vocabularyOf } from '../../tools/models/bpe-vocab.js';
import { tokenizerJson, trainMerges } from '../../tools/models/train-bpe.js';
import { planned } from './bare-engine.js';
import { MODELS, modelBytes } from './models.js';
import { Oracle, decodesRepeats, encoderOf } from './oracle.js';
import { comparable, texts } from './texts.js';

const COUNT = 21_000;
const MERGES = 8000;
const TRAINED_ON = 100_000;
const CONTROL = 3;
const USER = 4;
const BUILD = fileURLToPath(new URL('../../build/', import.meta.url));
const TINY = { ...MODELS.tiny, architecture: /** @type {const} */ ('gemma3'), chatTemplate: null };
/** Texts at the borders of pre-tokenizer rules: contractions, line breaks among spaces, upper and lower case,
 * characters that only some definitions count as white space, numbers, marks. */
const ODD = [
  ..."'s 'S 'LL 're don't".split(' '),
  ...[' ', '  ', '\n', '\r\n'],
  ...'\t\u0085\ufeff\u3000\u00a0\u1680\u180e\u200b',
  ..."1 12 1234 ٣ Ⅷ ½ ² a Äpfel 日本 é e\u0301 \u0301 ! ... () \u2028 _ '".split(' '),
  ...[" '", '\u0000'],
  ...'😀 ǅ ª ʰ \u0903 \u20e3 HTTPServer X //'.split(' '),
];

/** Combining marks, and characters that NFC joins or reorders with some of the marks that follow. */
const MARKS = '\u0301 \u0338 \u0327\u0301 \u0301\u0327 \u3099 \u1161 \u11a8 \u05bc \u0307\u0323'.split(' ');
const BASES = [...'eA<>=\u30ab\u1100\uac00\u05d0\u212b\u2126\u0958\ufb2cq \n\u037e\u1fef\u{2f800}'];

function readMessages() {
  const lib = dirname(createRequire(import.meta.url).resolve('typescript'));
  const languages = readdirSync(lib, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  assert(languages.length >= 10, 'the TypeScript package has messages in at least ten languages');
  return languages.map(({ name }) => readFileSync(join(lib, name, 'diagnosticMessages.generated.json'), 'utf8'));
}

/** Returns trained BPE merges, cached in build/oracle under a name that changes with the trainer and the texts.
 * @param {import('../../tools/models/train-bpe.js').PreTokenizer} name @param {string[]} books
 * @returns {[string, string][]} */
function mergesOf(name, books) {
  const short = books.map((book) => book.slice(0, TRAINED_ON));
  const hash = createHash('sha256').update(short.join());
  for (const tool of ['train-bpe', 'bpe-vocab'])
    hash.update(readFileSync(new URL(`../../tools/models/${tool}.js`, import.meta.url)));
  const file = join(BUILD, 'oracle', `merges-${name}-${hash.digest('hex').slice(0, 16)}.json`);
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8'));
  const merges = trainMerges(short, name, MERGES);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify(merges));
  return merges;
}

/** @param {import('../../tools/models/train-bpe.js').PreTokenizer} name @param {string[]} books */
function trainedVocab(name, books) {
  const merges = mergesOf(name, books);
  const vocab = vocabularyOf(name, 256 + merges.length + 400, 1);
  const special = [...vocab.pieces.keys()].filter((id) => vocab.types[id] !== 1);
  const normal = [...byteCharacters(), ...merges.map((pair) => pair.join(''))];
  const next = normal.values();
  const pieces = vocab.pieces.map((piece, id) =>
    special.includes(id) ? piece : (next.next().value ?? `unused ${id}`),
  );
  return { ...vocab, pieces, merges: merges.map((pair) => pair.join(' ')) };
}

/** Returns the bytes of a model's file. @param {import('../../tools/models/vocab.js').Vocabulary} vocab
 * @param {import('../../tools/models/bpe-vocab.js').TokenizerName} name */
function fileWith(vocab, name) {
  return modelBytes({
    ...TINY,
    vocab: vocab.pieces.length,
    tokenizer: name,
    edit(made) {
      const others = made.metadata.filter(([key]) => !key.startsWith('tokenizer.ggml.'));
      made.metadata.splice(0, Infinity, ...others, ...tokenizerKeys(vocab));
    },
  });
}

for (const name of /** @type {const} */ (['gpt-2', 'gpt-4o', 'llama-bpe', 'smollm', 'qwen2'])) {
  describe(`byte-level BPE, ${name}`, () => {
    /** @type {Awaited<ReturnType<typeof loadModel>>} */ let model;
    /** @type {Buffer} */ let file;
    /** @type {Oracle} */ let plain;
    /** @type {Oracle} */ let special;
    /** @type {import('../../tools/models/vocab.js').Vocabulary} */ let vocab;
    const books = readMessages();
    /** Returns the text that decoding must give for the tokens of a text. Qwen's tokenizer normalises texts to NFC.
     * @param {string} text */
    const read = (text) => (name === 'qwen2' ? text.normalize() : text);

    before(async () => {
      vocab = trainedVocab(name, books);
      plain = new Oracle({ name, parts: () => [tokenizerJson(vocab, (type) => type === USER), {}] });
      special = new Oracle({
        name: `special-${name}`,
        parts: () => [tokenizerJson(vocab, (type) => type === USER || type === CONTROL), {}],
      });
      file = await fileWith(vocab, name);
      model = await loadModel(file);
    });
    after(async () => {
      plain?.save();
      special?.save();
      await model?.dispose();
    });

    it(`encodes ${COUNT} texts like the reference tokenizer, and decodes them again`, async (t) => {
      const list = texts({ count: COUNT, seed: 20261122, books, pieces: ODD });
      // If Node has another version of Unicode than the engine (17.0), leaves out texts with characters that Node does
      // not assign: the reference tokenizers may classify these differently.
      const known = [...list].filter((text) => process.versions.unicode === '17.0' || !/\p{Cn}/u.test(text));
      assert(known.length >= 20_000 || process.versions.unicode !== '17.0');
      t.diagnostic(await plain.compare(encoderOf(await planned(file)), known, read));
    });

    it('encodes a long text like the reference tokenizer, and decodes it again', async (t) => {
      const text = comparable(books.map((book) => book.slice(50_000, 150_000)).join('\n'));
      t.diagnostic(await plain.compareLong(model, text, read));
    });

    it('encodes characters that NFC changes like the reference tokenizer, in prompts of all kinds', async () => {
      const own = vocab.pieces.map(String).filter((_, id) => vocab.types[id] === USER);
      const added = ['', ...own.slice(0, 4), '<b>', '<|im_end|>'];
      for (const text of MARKS.flatMap((mark) =>
        BASES.flatMap((base) => added.map((piece) => `${base}${mark}a${piece}${mark}${base}`)),
      )) {
        for (const [how, oracle] of /** @type {const} */ ([
          [false, plain],
          [true, special],
        ])) {
          const got = await model.tokenize(text, { special: how });
          assert.deepEqual(got, await oracle.ids(text), JSON.stringify(text));
        }
      }
      const many = 'e\u0301\u0327 \u1100\u1161\u11a8'.repeat(20_000);
      assert.deepEqual(await model.tokenize(many), await model.tokenize(read(many)));
      assert.equal(await model.countTokens(many), await model.countTokens(read(many)));
      const { accepted } = await model.debug.matches({ regex: 'e\u0301' }, 'e\u0301');
      assert.ok(accepted, 'a format is compared with the text before normalisation');
    });

    it('encodes and decodes 256 KB of one repeated character', async () => {
      await decodesRepeats(model, ['a', ' ', '\n', '1', '\u0301', '哈', '\u200d', '<|']);
    });

    it('never encodes the name of a control token in a text as that token', async () => {
      const names = vocab.pieces.map(String).filter((_, id) => vocab.types[id] === CONTROL);
      for (const text of [...names, names.join(''), names.join(' a\n'), `a${names[0]}1 ${names.at(-1)}`]) {
        const ids = Array.from(await model.tokenize(text));
        assert.deepEqual(
          ids.filter((id) => vocab.types[id] === CONTROL),
          [],
          text,
        );
        assert.equal(await model.detokenize(ids), text);
        assert.deepEqual(Array.from(await model.tokenize(text, { special: true })), await special.ids(text), text);
      }
    });
  });
}

describe("the space that Llama 2's tokenizer adds before a text", () => {
  /** @type {Awaited<ReturnType<typeof loadModel>>} */ let model;
  const vocab = vocabularyOf('llama', 1024, 1);

  before(async () => {
    model = await loadModel(await fileWith({ ...vocab, addSpacePrefix: true }, 'llama'));
  });
  after(() => model?.dispose());

  it('is added by encoding and removed by decoding, and no other space changes', async () => {
    const some = [...texts({ count: 2000, seed: 9, books: [], pieces: [] })];
    for (const text of [
      '',
      'a',
      ' a',
      '  a',
      '\n',
      '\n\n a',
      'a\n\nb',
      'é',
      '<b>a</b> <td>  x',
      ' ',
      '  ',
      '\u2581',
      ...some,
    ]) {
      assert.equal(await model.detokenize(await model.tokenize(text)), text, JSON.stringify(text));
    }
    const [first] = await model.tokenize('a');
    const [, second] = await model.tokenize('ta');
    assert.notEqual(first, second);
    assert.equal(await model.detokenize(Array.from(await model.tokenize('a', { bos: true }))), 'a');
  });

  it('does not make streamed text differ from the decoded whole', async () => {
    const prompt = 'the ';
    const answer = model.generate(prompt, { maxTokens: 40, temperature: 1, seed: 5 });
    let streamed = '';
    for await (const piece of answer) streamed += piece;
    const { tokens, text } = await answer.result();
    const ids = Array.from(await model.tokenize(prompt));
    const whole = await model.detokenize([...ids, ...tokens]);
    assert.equal(streamed, text);
    assert(whole.startsWith(prompt + text.replace(/\ufffd+$/u, '')), JSON.stringify([whole, text]));
  });
});
