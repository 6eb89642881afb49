/**
 * onnx: makes an ONNX file with EmbeddingGemma's matrices in int8 with random values, like transformers.js' q8 files:
 * DynamicQuantizeLinear quantises each input to bytes, MatMulInteger multiplies it. Attention, norms and embedding are
 * missing, so its time is a lower bound. File format: onnx.proto3 of the ONNX project, IR 8, opset 13.
 */
import { randoms } from '../../tests/support/random.js';

const INT = 2;
const INTS = 7;
const FLOAT = 1;
const INT8 = 3;

/** @param {number} value @returns {number[]} */
const varint = (value) => (value < 128 ? [value] : [(value % 128) + 128, ...varint(Math.floor(value / 128))]);

/** Returns a protobuf field: a number, or bytes with their length. @param {number} field @param {number | string |
 * Uint8Array} value */
function item(field, value) {
  if (typeof value === 'number') return Buffer.from([...varint(field * 8), ...varint(value)]);
  const bytes = Buffer.from(value);
  return Buffer.concat([Buffer.from([...varint(field * 8 + 2), ...varint(bytes.length)]), bytes]);
}

/** @param {(Buffer | Buffer[])[]} parts */
const join = (...parts) => Buffer.concat(parts.flat());

/** @param {string} type @param {string[]} inputs @param {string[]} outputs @param {Buffer[]} attributes */
const node = (type, inputs, outputs, attributes = []) =>
  item(
    1,
    join(
      inputs.map((name) => item(1, name)),
      outputs.map((name) => item(2, name)),
      item(3, outputs[0]),
      item(4, type),
      attributes.map((attribute) => item(5, attribute)),
    ),
  );

/** @param {string} name @param {number} type @param {number[]} shape @param {Uint8Array} data */
const tensor = (name, type, shape, data) =>
  item(
    5,
    join(
      shape.map((size) => item(1, size)),
      item(2, type),
      item(8, name),
      item(9, data),
    ),
  );

/** @param {string} name @param {number[]} shape of floats */
const value = (name, shape) =>
  join(
    item(1, name),
    item(2, item(1, join(item(1, FLOAT), item(2, join(shape.map((size) => item(1, item(1, size)))))))),
  );

/** @param {number} count @param {number} seed */
function randomBytes(count, seed) {
  const words = new Uint32Array(Math.ceil(count / 4));
  const random = randoms(seed);
  return new Uint8Array(words.map(() => random(2 ** 32)).buffer, 0, count);
}

/** Returns the file's bytes. Its input and its output are floats of the shape [rows, width].
 * @param {{ rows: number, layers: number, width: number, kv: number, ff: number, dense: number }} shape */
export function embeddingMatrices({ rows, layers, width, kv, ff, dense }) {
  /** @type {Buffer[]} */
  const parts = [
    tensor('wscale', FLOAT, [], new Uint8Array(Float32Array.of(1e-4).buffer)),
    tensor('wzero', INT8, [], Uint8Array.of(0)),
  ];
  let matrices = 0;
  const rounded = (/** @type {string} */ x) => {
    parts.push(
      node('DynamicQuantizeLinear', [x], [`${x}.q`, `${x}.s`, `${x}.z`]),
      node('Mul', [`${x}.s`, 'wscale'], [`${x}.ss`]),
    );
  };
  const product = (/** @type {string} */ x, /** @type {number} */ from, /** @type {number} */ to) => {
    const w = `w${matrices++}`;
    const y = `${x}.${w}`;
    parts.push(
      tensor(w, INT8, [from, to], randomBytes(from * to, matrices)),
      node('MatMulInteger', [`${x}.q`, w, `${x}.z`, 'wzero'], [`${y}.i`]),
      node('Cast', [`${y}.i`], [`${y}.f`], [join(item(1, 'to'), item(3, FLOAT), item(20, INT))]),
      node('Mul', [`${y}.f`, `${x}.ss`], [y]),
    );
    return y;
  };
  const added = (/** @type {string} */ a, /** @type {string} */ b) => {
    parts.push(node('Add', [a, b], [`${a}+`]));
    return `${a}+`;
  };
  let x = 'input';
  for (let i = 0; i < layers; i++) {
    rounded(x);
    const q = product(x, width, width);
    const both = added(product(x, width, kv), product(x, width, kv));
    // Includes keys and values in the result, so that the runtime does not optimise their computation away.
    parts.push(node('ReduceMean', [both], [`${both}m`], [join(item(1, 'axes'), item(8, 1), item(20, INTS))]));
    rounded(q);
    const o = added(product(q, width, width), `${both}m`);
    rounded(o);
    const h = added(product(o, width, ff), product(o, width, ff));
    rounded(h);
    x = product(h, ff, width);
  }
  rounded(x);
  const wide = product(x, width, dense);
  rounded(wide);
  const out = product(wide, dense, width);
  const shape = [rows, width];
  const graph = join(parts, item(2, 'matrices'), item(11, value('input', shape)), item(12, value(out, shape)));
  return join(item(1, 8), item(7, graph), item(8, join(item(1, ''), item(2, 13))));
}
