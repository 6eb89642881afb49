/**
 * Quantises floats to GGML's blocks of Q4_1, Q5_0, Q5_1, Q2_K … Q6_K, IQ4_NL and IQ4_XS. Scales follow from the range
 * of the values, without the search of ggml's quantisers, which is enough for random weights. tests/js/parity.test.js
 * checks the layouts against other implementations. Every JavaScript engine makes the same bytes.
 *
 * @typedef {object} Format
 * @property {number} items    columns per block
 * @property {number} bytes
 * @property {number} bits     bits per quant
 * @property {number} sub      columns that share a scale
 * @property {number} [offset] the quant of the value 0; without it, the block has mins
 * @property {boolean} [table] whether quants are indices of VALUES
 * @property {number} [most]   largest sub-scale; without it, scales are f16
 * @property {number} [mostMin] largest integer min; without it, mins are f16
 * @property {number} [half]   offset of the f16 numbers, if they are not at the beginning
 * @property {(out: DataView, b: Parts) => void} put
 * @typedef {{ d: number, m: number, scale: number[], min: number[], code: Uint8Array }} Parts
 *   d, m: f16 bits; scale, min: small integers; code: quants
 */
const VALUES = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/** Copies the bits `mask` << `from` of quant codes[i] to bit `to` of byte out[at + i].
 * @param {DataView} out @param {number} at @param {Uint8Array} codes
 * @param {number} from @param {number} mask @param {number} to */
function or(out, at, codes, from, mask, to) {
  codes.forEach((code, i) => out.setUint8(at + i, out.getUint8(at + i) | (((code >> from) & mask) << to)));
}

/** Writes 32 quants of 4 bits: 16 into the low halves of 16 bytes, then 16 into the high halves.
 * @param {DataView} out @param {number} at @param {Uint8Array} code */
function nibbles(out, at, code, first = 0) {
  or(out, at, code.subarray(first, first + 16), 0, 15, 0);
  or(out, at, code.subarray(first + 16, first + 32), 0, 15, 4);
}

/** Writes 256 quants of 4 bits: of every 64, 32 into the low halves of 32 bytes, 32 into the high halves. */
function longNibbles(/** @type {DataView} */ out, /** @type {number} */ at, /** @type {Uint8Array} */ code) {
  for (let j = 0; j < 8; j++) or(out, at + 32 * (j >> 1), code.subarray(32 * j, 32 * j + 32), 0, 15, 4 * (j & 1));
}

/** Writes bit 4 of 32 quants as a 32-bit number. */
function fifthBits(/** @type {DataView} */ out, /** @type {number} */ at, /** @type {Uint8Array} */ code) {
  let bits = 0;
  for (let i = 0; i < 32; i++) bits |= (code[i] >> 4) << i;
  out.setInt32(at, bits, true);
}

/** Writes the low 2 bits of 256 quants: four quants per byte. */
function pairs(/** @type {DataView} */ out, /** @type {number} */ at, /** @type {Uint8Array} */ code) {
  for (let j = 0; j < 8; j++) or(out, at + 32 * (j >> 2), code.subarray(32 * j, 32 * j + 32), 0, 3, 2 * (j & 3));
}

const halves = (/** @type {DataView} */ out, /** @type {number} */ at, /** @type {number[]} */ ...values) =>
  values.forEach((v, i) => out.setUint16(at + 2 * i, v, true));

/** Packs 8 scales and 8 mins of 6 bits into 12 bytes, as Q4_K and Q5_K do. */
function sixBits(/** @type {DataView} */ out, /** @type {number} */ at, /** @type {Parts} */ { scale, min }) {
  for (let i = 0; i < 4; i++) {
    out.setUint8(at + i, scale[i] | ((scale[4 + i] >> 4) << 6));
    out.setUint8(at + 4 + i, min[i] | ((min[4 + i] >> 4) << 6));
    out.setUint8(at + 8 + i, (scale[4 + i] & 15) | ((min[4 + i] & 15) << 4));
  }
}

/** @type {Record<string, Format>} */
export const FORMATS = {
  Q4_1: {
    items: 32,
    bytes: 20,
    bits: 4,
    sub: 32,
    put(out, b) {
      halves(out, 0, b.d, b.m);
      nibbles(out, 4, b.code);
    },
  },
  Q5_0: {
    items: 32,
    bytes: 22,
    bits: 5,
    sub: 32,
    offset: 16,
    put(out, b) {
      halves(out, 0, b.d);
      fifthBits(out, 2, b.code);
      nibbles(out, 6, b.code);
    },
  },
  Q5_1: {
    items: 32,
    bytes: 24,
    bits: 5,
    sub: 32,
    put(out, b) {
      halves(out, 0, b.d, b.m);
      fifthBits(out, 4, b.code);
      nibbles(out, 8, b.code);
    },
  },
  Q2_K: {
    items: 256,
    bytes: 84,
    half: 80,
    bits: 2,
    sub: 16,
    most: 15,
    mostMin: 15,
    put(out, b) {
      b.scale.forEach((s, i) => out.setUint8(i, s | (b.min[i] << 4)));
      pairs(out, 16, b.code);
      halves(out, 80, b.d, b.m);
    },
  },
  Q3_K: {
    items: 256,
    bytes: 110,
    half: 108,
    bits: 3,
    sub: 16,
    offset: 4,
    most: 31,
    put(out, b) {
      for (let j = 0; j < 8; j++) or(out, 0, b.code.subarray(32 * j, 32 * j + 32), 2, 1, j);
      pairs(out, 32, b.code);
      const six = Uint8Array.from(b.scale, (s) => s + 32);
      or(out, 96, six.subarray(0, 8), 0, 15, 0);
      or(out, 96, six.subarray(8, 16), 0, 15, 4);
      for (let j = 0; j < 4; j++) or(out, 104, six.subarray(4 * j, 4 * j + 4), 4, 3, 2 * j);
      halves(out, 108, b.d);
    },
  },
  Q4_K: {
    items: 256,
    bytes: 144,
    bits: 4,
    sub: 32,
    most: 63,
    mostMin: 63,
    put(out, b) {
      halves(out, 0, b.d, b.m);
      sixBits(out, 4, b);
      longNibbles(out, 16, b.code);
    },
  },
  Q5_K: {
    items: 256,
    bytes: 176,
    bits: 5,
    sub: 32,
    most: 63,
    mostMin: 63,
    put(out, b) {
      halves(out, 0, b.d, b.m);
      sixBits(out, 4, b);
      for (let j = 0; j < 8; j++) or(out, 16, b.code.subarray(32 * j, 32 * j + 32), 4, 1, j);
      longNibbles(out, 48, b.code);
    },
  },
  Q6_K: {
    items: 256,
    bytes: 210,
    half: 208,
    bits: 6,
    sub: 16,
    offset: 32,
    most: 127,
    put(out, b) {
      for (let h = 0; h < 2; h++) {
        for (let j = 0; j < 4; j++) {
          or(out, 64 * h + 32 * (j & 1), b.code.subarray(128 * h + 32 * j, 128 * h + 32 * j + 32), 0, 15, 4 * (j >> 1));
          or(out, 128 + 32 * h, b.code.subarray(128 * h + 32 * j, 128 * h + 32 * j + 32), 4, 3, 2 * j);
        }
      }
      b.scale.forEach((s, i) => out.setInt8(192 + i, s));
      halves(out, 208, b.d);
    },
  },
  IQ4_NL: {
    items: 32,
    bytes: 18,
    bits: 4,
    sub: 32,
    offset: 127,
    table: true,
    put(out, b) {
      halves(out, 0, b.d);
      nibbles(out, 2, b.code);
    },
  },
  IQ4_XS: {
    items: 256,
    bytes: 136,
    bits: 4,
    sub: 32,
    offset: 127,
    table: true,
    most: 31,
    put(out, b) {
      const six = Uint8Array.from(b.scale, (s) => s + 32);
      halves(
        out,
        0,
        b.d,
        six.reduce((bits, s, i) => bits | ((s >> 4) << (2 * i)), 0),
      );
      six.forEach((s, i) => out.setUint8(4 + (i >> 1), out.getUint8(4 + (i >> 1)) | ((s & 15) << (4 * (i & 1)))));
      for (let j = 0; j < 8; j++) nibbles(out, 8 + 16 * j, b.code, 32 * j);
    },
  },
};

const clamp = (/** @type {number} */ x, /** @type {number} */ low, /** @type {number} */ high) =>
  Math.min(high, Math.max(low, Math.floor(x + 0.5)));

/** Returns the unrounded scale (a) and min (b) of a group of values. In formats with mins, quants cover the whole range
 * of the values. In other formats, the value furthest from 0 becomes the lowest quant.
 * @param {Format} f @param {Float32Array} x */
function wish(f, x) {
  let low = 0;
  let high = 0;
  for (const v of x) {
    low = Math.min(low, v);
    high = Math.max(high, v);
  }
  if (f.offset === undefined) return { a: (high - low) / (2 ** f.bits - 1), b: low };
  return { a: (-low >= high ? low : high) / -f.offset, b: 0 };
}

/** Rounds values to multiples of a step, the largest to `most`. Returns the f16 bits of the step, and the multiples.
 * @param {number[]} list @param {number | undefined} most
 * @param {{ of: (x: number) => number, to: (h: number) => number }} f16 */
function steps(list, most, f16) {
  if (!most) return { unit: f16.of(list[0]), counts: [1] };
  const unit = f16.of(list.reduce((a, b) => Math.max(a, Math.abs(b)), 0) / most);
  const one = f16.to(unit);
  return { unit, counts: list.map((v) => (one ? clamp(v / one, -most, most) : 0)) };
}

/** Returns the quant that is nearest to `v`, a value divided by its scale. @param {Format} f @param {number} v */
function nearest(f, v) {
  if (!f.table) return clamp(v + (f.offset ?? 0), 0, 2 ** f.bits - 1);
  let best = 0;
  for (let i = 1; i < 16; i++) if (Math.abs(VALUES[i] - v) < Math.abs(VALUES[best] - v)) best = i;
  return best;
}

/** Quantises the values x of one block and writes the block to `out`, which must be zeros.
 * @param {Format} f @param {Float32Array} x @param {DataView} out
 * @param {{ of: (x: number) => number, to: (h: number) => number }} f16 */
export function quantiseBlock(f, x, out, f16) {
  const wishes = [];
  for (let i = 0; i < f.items; i += f.sub) wishes.push(wish(f, x.subarray(i, i + f.sub)));
  const { unit: d, counts: scale } = steps(
    wishes.map(({ a }) => a),
    f.most,
    f16,
  );
  // Super-blocks store mins with the opposite sign, because dequantisation subtracts them.
  const sign = f.mostMin ? -1 : 1;
  const { unit: m, counts: min } = steps(
    wishes.map(({ b }) => sign * b),
    f.mostMin,
    f16,
  );
  const code = new Uint8Array(f.items);
  for (let i = 0; i < f.items; i++) {
    const s = Math.floor(i / f.sub);
    const a = f16.to(d) * scale[s];
    const b = f.offset === undefined ? sign * f16.to(m) * min[s] : 0;
    code[i] = nearest(f, a ? (x[i] - b) / a : 0);
  }
  f.put(out, { d, m, scale, min, code });
}
