/**
 * check/fuzz-corpus: writes a small file for each way in which a GGUF file can be malformed, and a few valid files that
 * are not models, into tests/fuzz/corpus/malformed/, and their expected errors into tests/vectors/malformed.*. Most
 * kinds of damage are those of llama.cpp's tests/test-gguf.cpp and gguf-py's test_gguf_reader_validation.py; no code is
 * copied. The files are assembled from raw bytes, because gguf-write.js refuses to write malformed files.
 *
 *   node tools/check/fuzz-corpus.js
 */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { at } from '../support/proc.js';

const FOLDER = at('tests', 'fuzz', 'corpus', 'malformed');
const VECTORS = at('tests', 'vectors', 'malformed');
const MAX = 2n ** 64n - 1n;

/** Returns a function that writes an integer in `size` bytes. @param {number} size */
const integer = (size) => (/** @type {number | bigint} */ value) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes.subarray(0, size);
};
const [u8, u16, u32, u64] = [1, 2, 4, 8].map(integer);
/** @param {string} s */
const text = (s) => Buffer.concat([u64(Buffer.byteLength(s)), Buffer.from(s)]);
/** @param {number} version @param {number | bigint} tensors @param {number | bigint} metadata */
const head = (version, tensors, metadata) => [Buffer.from('GGUF'), u32(version), u64(tensors), u64(metadata)];
/** @param {string} key @param {number} type @param {Buffer[]} value */
const pair = (key, type, ...value) => [text(key), u32(type), ...value];
/** @param {string} key @param {number} of @param {number | bigint} count @param {Buffer[]} values */
const array = (key, of, count, ...values) => pair(key, 9, u32(of), u64(count), ...values);
/** @param {string} name @param {(number | bigint)[]} shape @param {number | bigint} offset */
const tensor = (name, shape, offset, type = 0, dims = shape.length) => [
  text(name),
  u32(dims),
  ...shape.map(u64),
  u32(type),
  u64(offset),
];
/** @param {Buffer[]} value */
const oneKey = (...value) => [...head(3, 0, 1), ...value];
/** @param {Buffer[]} info */
const oneTensor = (...info) => [...head(3, 1, 0), ...info];

const ALIGNMENT = 'general.alignment';

const DATA = Buffer.alloc(1088);

/** @param {number} no @param {number} count @param {number} tensors */
const split = (no, count, tensors) => [
  ...pair('split.no', 2, u16(no)),
  ...pair('split.count', 2, u16(count)),
  ...pair('split.tensors.count', 5, u32(tensors)),
];

/** A valid file: one metadata value of every type, arrays, three tensors. @param {number} version */
const good = (version) => [
  ...head(version, 3, 16),
  ...pair('general.architecture', 8, text('gemma3')),
  ...pair('u8', 0, u8(255)),
  ...pair('i8', 1, u8(128)),
  ...pair('u16', 2, u8(1), u8(2)),
  ...pair('i16', 3, u8(255), u8(255)),
  ...pair('u32', 4, u32(0xffffffff)),
  ...pair('i32', 5, u32(0x80000000)),
  ...pair('f32', 6, u32(0x7fc00000)),
  ...pair('bool', 7, u8(1)),
  ...pair('u64', 10, u64(MAX)),
  ...pair('i64', 11, u64(1n << 63n)),
  ...pair('f64', 12, u64(0x7ff0000000000000n)),
  ...pair(ALIGNMENT, 4, u32(64)),
  ...array('tokenizer.ggml.tokens', 8, 3, text('<pad>'), text(''), text('▁a')),
  ...array('tokenizer.ggml.scores', 6, 2, u32(0), u32(0xc0000000)),
  ...array('nothing', 8, 0),
  ...tensor('token_embd.weight', [64, 3], 0),
  ...tensor('v', [7], 768),
  ...tensor('cube', [2, 3, 4, 5], 832),
  DATA,
];

/** @type {Record<string, Buffer[]>} */
const FILES = {
  'good-v2': good(2),
  'good-v3': good(3),
  'header-empty': head(3, 0, 0),
  'header-bad-magic': [Buffer.from('FUGG'), u32(3), u64(0), u64(0)],
  'header-web-page': [Buffer.from('<!doctype html><title>404</title>')],
  'header-version-0': head(0, 0, 0),
  'header-version-1': head(1, 0, 0),
  'header-version-future': head(4, 0, 0),
  'header-big-endian': head(0x03000000, 0, 0),
  'header-bad-n-tensors': head(3, MAX, 0),
  'header-bad-n-kv': head(3, 0, MAX),
  'header-cut': head(3, 0, 0).slice(0, 3),
  'kv-bad-key-size': oneKey(u64(MAX), Buffer.from('key')),
  'kv-key-too-long': oneKey(text('k'.repeat(300)).fill(255, 2, 3), u32(4)),
  'kv-empty-key': oneKey(...pair('', 4, u32(1))),
  'kv-key-with-nul': oneKey(...pair('a\0b', 4, u32(1))),
  'kv-bad-type': oneKey(...pair('key', 13, u32(1))),
  'kv-bad-bool': oneKey(...pair('key', 7, u8(2))),
  'kv-string-too-long': oneKey(...pair('key', 8, u64(1n << 40n))),
  'kv-string-wraps': oneKey(...pair('key', 8, u64(MAX - 7n))),
  'kv-duplicate-key': [...head(3, 0, 2), ...pair('key', 4, u32(1)), ...pair('key', 4, u32(2))],
  'kv-bad-align': oneKey(...pair(ALIGNMENT, 4, u32(33))),
  'kv-zero-align': oneKey(...pair(ALIGNMENT, 4, u32(0))),
  'kv-wrong-type-align': oneKey(...pair(ALIGNMENT, 5, u32(32))),
  'kv-array-align': oneKey(...array(ALIGNMENT, 4, 1, u32(32))),
  'array-bad-type': oneKey(...array('key', 13, 1, u8(1))),
  'array-of-arrays': oneKey(...array('key', 9, 1, u32(4), u64(1), u32(1))),
  'array-bad-count': oneKey(...array('key', 0, MAX)),
  'array-count-times-size-wraps': oneKey(...array('key', 10, 1n << 61n)),
  'array-bad-bool': oneKey(...array('key', 7, 2, u8(1), u8(7))),
  'array-bad-string': oneKey(...array('key', 8, 2, text('fine'), u64(MAX))),
  'array-cut': oneKey(...array('key', 4, 5, u32(1), u32(2))),
  'tensors-bad-name-size': oneTensor(...tensor('blk.0.'.repeat(12), [32], 0)),
  'tensors-empty-name': oneTensor(...tensor('', [32], 0)),
  'tensors-control-name': oneTensor(...tensor('a\nb', [32], 0)),
  'tensors-no-dims': oneTensor(...tensor('t', [], 0)),
  'tensors-bad-n-dims': oneTensor(...tensor('t', [1, 1, 1, 1, 1], 0)),
  'tensors-million-dims': oneTensor(...tensor('t', [1, 1, 1, 1], 0, 0, 1_000_000)),
  'tensors-bad-shape': oneTensor(...tensor('t', [MAX], 0)),
  'tensors-zero-dim': oneTensor(...tensor('t', [32, 0], 0)),
  'tensors-ne-too-big': oneTensor(...tensor('t', [1n << 32n, 1n << 32n], 0)),
  'tensors-product-wraps-to-4': oneTensor(...tensor('t', [4194305, 4194305, 211106198978564n], 0)),
  'tensors-nbytes-too-big': oneTensor(...tensor('t', [1n << 62n], 0)),
  'tensors-bad-type': oneTensor(...tensor('t', [32], 0, 0xffffffff)),
  'tensors-bad-offset': oneTensor(...tensor('t', [32], 33)),
  'tensors-far-offset': oneTensor(...tensor('t', [32], 1n << 63n)),
  'tensors-duplicate-name': [...head(3, 2, 0), ...tensor('t', [32], 0), ...tensor('t', [32], 128)],
  'tensors-inconsistent-align': [...head(3, 1, 1), ...pair(ALIGNMENT, 4, u32(128)), ...tensor('t', [32], 32)],
  'tensors-custom-align': [
    ...head(3, 2, 1),
    ...pair(ALIGNMENT, 4, u32(8)),
    ...tensor('a', [6], 0),
    ...tensor('b', [6], 24),
    DATA,
  ],
  'tensors-cut': oneTensor(...tensor('t', [32], 0).slice(0, 3)),
  'data-mem-size-overflow': [
    ...head(3, 2, 0),
    ...tensor('a', [0x7fffffffffffffc0n], 0, 24),
    ...tensor('b', [0x7fffffffffffffc0n], 0x7fffffffffffffc0n, 24),
  ],
  'tensors-most-dims': oneTensor(...tensor('t', [1, 1, 1, 1], 0, 0, 0xffffffff)),
  'tensors-bytes-too-big': oneTensor(...tensor('t', [2, 1n << 59n], 0, 27)),
  'tensors-bad-align': [
    ...head(3, 2, 1),
    ...pair(ALIGNMENT, 4, u32(8)),
    ...tensor('a', [6], 0),
    ...tensor('b', [6], 28),
  ],
  'data-bad-align': [...head(3, 2, 0), ...tensor('a', [31], 0), ...tensor('b', [32], 124), DATA],
  'data-inconsistent-align': [
    ...head(3, 2, 1),
    ...pair(ALIGNMENT, 4, u32(256)),
    ...tensor('a', [32], 0),
    ...tensor('b', [32], 128),
    DATA,
  ],
  'data-not-enough': [...head(3, 1, 0), ...tensor('a', [1 << 20], 0), DATA],
  'split-alone': [...head(3, 0, 3), ...split(0, 3, 5)],
  'split-second-alone': [...head(3, 0, 3), ...split(1, 3, 5)],
  'split-no-beyond-count': [...head(3, 0, 3), ...split(7, 3, 5)],
  'split-of-none': [...head(3, 0, 3), ...split(0, 0, 5)],
  'split-of-too-many': [...head(3, 0, 3), ...split(0, 65535, 5)],
};

/** Error codes that loading the files must report, each with a pattern of file names; the first match counts. Valid
 * files fail, too, because they lack data that a model needs. @type {Record<string, RegExp>} */
const EXPECTED = {
  'bad-magic': /^header-(bad-magic|web-page)/,
  'bad-version': /^header-(version|big-endian)/,
  'bad-count': /^(header-bad-n|array-bad-count|array-count)/,
  truncated: /-cut$/,
  duplicate: /duplicate/,
  'missing-key': /^(good|header-empty|data-not-enough|tensors-custom-align|split-of-none)/,
  'unsupported-type': /^tensors-bad-type/,
  'bad-split': /^split-/,
  'tensor-range': /^(tensors|data)-(bad-offset|far-offset|inconsistent-align|bad-align)/,
  'bad-shape': /^(data-mem-size|tensors-(no-dims|bad-n-dims|m|bad-shape|zero-dim|ne-|product|nbytes|bytes))/,
  'bad-metadata': /^(kv|array|tensors)-/,
};
const codeOf = (/** @type {string} */ name) =>
  /** @type {[string, RegExp]} */ (Object.entries(EXPECTED).find(([, pattern]) => pattern.test(name)))[0];

/** Returns bytes as a C string literal of several lines. @param {Buffer} bytes */
function literal(bytes) {
  const parts = Array.from(bytes, (b, i) => {
    const c = String.fromCharCode(b);
    const digit = /[0-9]/.test(String.fromCharCode(bytes[i + 1] ?? 0));
    return /[\w .,<>!/-]/.test(c) ? c : `\\${digit ? b.toString(8).padStart(3, '0') : b.toString(8)}`;
  });
  return (parts.join('').match(/(?:\\[0-7]{1,3}|[^\\]){1,60}/g) ?? []).map((line) => `\n    "${line}"`).join('');
}

mkdirSync(FOLDER, { recursive: true });
for (const old of readdirSync(FOLDER)) rmSync(`${FOLDER}/${old}`);
const rows = Object.entries(FILES).map(([name, parts]) => ({ name, code: codeOf(name), bytes: Buffer.concat(parts) }));
for (const { name, bytes } of rows) writeFileSync(`${FOLDER}/${name}.gguf`, bytes);
writeFileSync(
  `${VECTORS}.json`,
  `${JSON.stringify(Object.fromEntries(rows.map(({ name, code }) => [name, code])), null, 1)}\n`,
);
writeFileSync(
  `${VECTORS}.inc`,
  rows.map(({ name, code, bytes }) => `{ "${name}", "${code}", ${bytes.length},${literal(bytes)} },\n`).join(''),
);
console.log(`${rows.length} files in tests/fuzz/corpus/malformed`);
