/**
 * Quantises floats to GGML's blocks, for tools and tests: F32, F16, BF16, Q4_0 and Q8_0 with the same bytes as ggml's
 * reference quantisers (tests/js/quantise.test.js), the other types approximately (quantise-formats.js). Math.fround
 * rounds to float32 wherever ggml does.
 */
import { GGML_TYPES } from './gguf-write.js';
import { FORMATS, quantiseBlock } from './quantise-formats.js';

const f32 = new Float32Array(1);
const bits = new Uint32Array(f32.buffer);

/** Converts to f16 bits, rounding to nearest, ties to even. @param {number} x */
export function f16Of(x) {
  f32[0] = x;
  const u = bits[0];
  const sign = (u >>> 16) & 0x8000;
  const a = u & 0x7fffffff;
  if (a > 0x7f800000) return sign | 0x7e00;
  if (a >= 0x477ff000) return sign | 0x7c00; // values from 65520 on become infinity
  if (a < 0x38800000) {
    // Subnormal f16 numbers are multiples of 2^-24.
    f32[0] = Math.abs(x);
    const scaled = f32[0] * 16777216;
    const low = Math.floor(scaled);
    const rest = scaled - low;
    return sign | (low + (rest > 0.5 || (rest === 0.5 && low & 1) ? 1 : 0));
  }
  return sign | ((a - 0x38000000 + 0xfff + ((a >>> 13) & 1)) >>> 13);
}

/** Converts f16 bits to their exact value. @param {number} h @returns {number} */
export function f16To(h) {
  const sign = h & 0x8000 ? -1 : 1;
  const e = (h >> 10) & 31;
  const m = h & 1023;
  if (e === 31) return m ? NaN : sign * Infinity;
  return sign * (e ? (1 + m / 1024) * 2 ** (e - 15) : m * 2 ** -24);
}

/** Converts to bf16 bits, rounding to nearest, ties to even. NaN stays NaN. @param {number} x */
function bf16Of(x) {
  f32[0] = x;
  const u = bits[0];
  if ((u & 0x7fffffff) > 0x7f800000) return (u >>> 16) | 64;
  return (u + 0x7fff + ((u >>> 16) & 1)) >>> 16;
}

/** Rounds like C's roundf(): ties away from zero. @param {number} x */
const round = (x) => Math.sign(x) * Math.floor(Math.abs(x) + 0.5);

/** @param {Float32Array} x @param {DataView} out */
function floats32(x, out) {
  for (let i = 0; i < x.length; i++) out.setFloat32(4 * i, x[i], true);
}

/** @param {Float32Array} x @param {DataView} out */
function floats16(x, out) {
  for (let i = 0; i < x.length; i++) out.setUint16(2 * i, f16Of(x[i]), true);
}

/** @param {Float32Array} x @param {DataView} out */
function bfloats16(x, out) {
  for (let i = 0; i < x.length; i++) out.setUint16(2 * i, bf16Of(x[i]), true);
}

/** Quantises to Q4_0: d = (the value furthest from 0) / -8; q = trunc(x / d + 8.5), at most 15.
 * @param {Float32Array} x @param {DataView} out */
function q40(x, out) {
  for (let b = 0; b * 32 < x.length; b++) {
    let furthest = 0;
    for (let i = 0; i < 32; i++) if (Math.abs(x[32 * b + i]) > Math.abs(furthest)) furthest = x[32 * b + i];
    const d = Math.fround(furthest / -8);
    const id = d ? Math.fround(1 / d) : 0;
    const q = (/** @type {number} */ v) => Math.min(15, Math.trunc(Math.fround(Math.fround(v * id) + 8.5)));
    out.setUint16(18 * b, f16Of(d), true);
    for (let i = 0; i < 16; i++) {
      out.setUint8(18 * b + 2 + i, q(x[32 * b + i]) | (q(x[32 * b + 16 + i]) << 4));
    }
  }
}

/** Quantises to Q8_0: d = max |x| / 127; q = round(x / d). @param {Float32Array} x @param {DataView} out */
function q80(x, out) {
  for (let b = 0; b * 32 < x.length; b++) {
    let most = 0;
    for (let i = 0; i < 32; i++) most = Math.max(most, Math.abs(x[32 * b + i]));
    const d = Math.fround(most / 127);
    const id = d ? Math.fround(1 / d) : 0;
    out.setUint16(34 * b, f16Of(d), true);
    for (let i = 0; i < 32; i++) out.setInt8(34 * b + 2 + i, round(Math.fround(x[32 * b + i] * id)));
  }
}

/** @param {string} type @param {Float32Array} x @param {DataView} out */
function formatted(type, x, out) {
  const f = FORMATS[type];
  for (let b = 0; b * f.items < x.length; b++) {
    quantiseBlock(
      f,
      x.subarray(f.items * b, f.items * (b + 1)),
      new DataView(out.buffer, out.byteOffset + f.bytes * b, f.bytes),
      { of: f16Of, to: f16To },
    );
  }
}

/** @type {Record<string, (x: Float32Array, out: DataView) => void>} */
const QUANTISERS = { F32: floats32, F16: floats16, BF16: bfloats16, Q4_0: q40, Q8_0: q80 };

/** Returns the values as blocks of a type. Throws if they do not fill whole blocks.
 * @param {import('./gguf-write.js').TypeName} type @param {Float32Array} x @returns {Uint8Array} */
export function quantise(type, x) {
  const { items, bytes } = GGML_TYPES[type];
  if (x.length % items) throw new Error(`${x.length} values are not a whole number of ${type} blocks.`);
  const out = new Uint8Array((x.length / items) * bytes);
  const view = new DataView(out.buffer);
  if (type in FORMATS) formatted(type, x, view);
  else QUANTISERS[type](x, view);
  return out;
}
