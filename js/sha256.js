/* sha256: FIPS 180-4, fed piece by piece, because WebCrypto digests only whole buffers.
 * Used in browsers; Node has its own. */

const K = constants(64, 1 / 3);
const INITIAL = constants(8, 1 / 2);

/** First 32 bits of the fractional parts of roots of the first primes.
 * @param {number} count @param {number} power */
function constants(count, power) {
  /** @type {number[]} */
  const primes = [];
  for (let n = 2; primes.length < count; n++) if (primes.every((p) => n % p)) primes.push(n);
  return Int32Array.from(primes, (p) => ((p ** power) % 1) * 2 ** 32 | 0);
}

/** @param {number} x @param {number} n bits to the right */
const turn = (x, n) => x >>> n | x << 32 - n;

export class Sha256 {
  #state = INITIAL.slice();
  #block = new Uint8Array(64);
  #view = new DataView(this.#block.buffer);
  #words = new Int32Array(64);
  #used = 0;
  #length = 0;

  /** @param {Uint8Array} bytes */
  update(bytes) {
    this.#length += bytes.length;
    for (let at = 0; at < bytes.length;) {
      const n = Math.min(64 - this.#used, bytes.length - at);
      this.#block.set(bytes.subarray(at, at + n), this.#used);
      this.#used += n;
      at += n;
      if (this.#used === 64) this.#compress();
    }
  }

  hex() {
    const tail = new DataView(new ArrayBuffer((119 - this.#used) % 64 + 9));
    tail.setUint8(0, 0x80);
    tail.setBigUint64(tail.byteLength - 8, BigInt(this.#length * 8));
    this.update(new Uint8Array(tail.buffer));
    return Array.from(this.#state, (x) => (x >>> 0).toString(16).padStart(8, '0')).join('');
  }

  #compress() {
    const w = this.#words;
    for (let i = 0; i < 16; i++) w[i] = this.#view.getInt32(i * 4);
    for (let i = 16; i < 64; i++) {
      const a = w[i - 15], b = w[i - 2];
      const s0 = turn(a, 7) ^ turn(a, 18) ^ a >>> 3;
      const s1 = turn(b, 17) ^ turn(b, 19) ^ b >>> 10;
      w[i] = w[i - 16] + s0 + w[i - 7] + s1 | 0;
    }
    const s = this.#state;
    let a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
    for (let i = 0; i < 64; i++) {
      const s1 = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25);
      const t1 = h + s1 + (e & f ^ ~e & g) + K[i] + w[i] | 0;
      const s0 = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22);
      const t2 = s0 + (a & b ^ a & c ^ b & c) | 0;
      h = g; g = f; f = e; e = d + t1 | 0; d = c; c = b; b = a; a = t1 + t2 | 0;
    }
    s[0] += a; s[1] += b; s[2] += c; s[3] += d; s[4] += e; s[5] += f; s[6] += g; s[7] += h;
    this.#used = 0;
  }
}
