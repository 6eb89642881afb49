/**
 * presets: the public Gemma 3 files that the page offers. Sizes and hashes are those of the
 * published files; where only the order of size is known, `about` is set and the hash is left out.
 * @module
 */

/**
 * @typedef {object} Preset
 * @property {string} name
 * @property {string} note       what it is good for, in a few words
 * @property {string} repo
 * @property {string} file
 * @property {number} bytes
 * @property {boolean} [about]   the size is approximate
 * @property {string} [sha256]
 * @property {boolean} [gated]   needs an accepted licence and an access token
 * @property {string} [unreadable]   why this version cannot read it yet
 * @property {boolean} [more]    shown only on demand
 */

/** K-quants are not among the types that the engine reads so far (src/quant.c). */
const K_QUANTS = 'Its weights are K-quants, which this version cannot read yet.';

/** @type {Preset[]} */
export const PRESETS = [
  {
    name: 'Gemma 3 270M', note: '8-bit. Small and quick, to try things out.',
    repo: 'ggml-org/gemma-3-270m-it-GGUF', file: 'gemma-3-270m-it-Q8_0.gguf',
    bytes: 291545600, sha256: '0ef57d2c838458a1952664260dcba38e5bdda37494f3af732f06e4add24068e3',
  },
  {
    name: 'Gemma 3 1B', note: '4-bit. The one to chat with.',
    repo: 'unsloth/gemma-3-1b-it-GGUF', file: 'gemma-3-1b-it-Q4_0.gguf',
    bytes: 720e6, about: true,
  },
  {
    name: 'Gemma 3 1B, Google’s own 4-bit', note: 'Trained for 4 bits, the best of its size. Needs a licence and a token.',
    repo: 'google/gemma-3-1b-it-qat-q4_0-gguf', file: 'gemma-3-1b-it-q4_0.gguf',
    bytes: 1003541152, sha256: '95e5b8d891cd6a794f66c2a6fb59a41e9562b4660560b854274eceffb628b22a',
    gated: true,
  },
  {
    name: 'Gemma 3 1B, 8-bit', note: 'Closer to the original, slower.',
    repo: 'unsloth/gemma-3-1b-it-GGUF', file: 'gemma-3-1b-it-Q8_0.gguf',
    bytes: 1.07e9, about: true, more: true,
  },
  {
    name: 'Gemma 3 1B, BF16', note: 'The original weights. Large and slow.',
    repo: 'unsloth/gemma-3-1b-it-GGUF', file: 'gemma-3-1b-it-BF16.gguf',
    bytes: 2.01e9, about: true, more: true,
  },
  {
    name: 'Gemma 3 1B, Q4_K_M', note: 'Mixed 4 to 6 bits, by ggml-org.',
    repo: 'ggml-org/gemma-3-1b-it-GGUF', file: 'gemma-3-1b-it-Q4_K_M.gguf',
    bytes: 806058240, sha256: '8ccc5cd1f1b3602548715ae25a66ed73fd5dc68a210412eea643eb20eb75a135',
    more: true, unreadable: K_QUANTS,
  },
  {
    name: 'Gemma 3 1B, Q4_K_M', note: 'Mixed 4 to 6 bits, by Unsloth.',
    repo: 'unsloth/gemma-3-1b-it-GGUF', file: 'gemma-3-1b-it-Q4_K_M.gguf',
    bytes: 806058272, sha256: '8270790f3ab69fdfe860b7b64008d9a19986d8df7e407bb018184caa08798ebd',
    more: true, unreadable: K_QUANTS,
  },
];

/** What is known about a file that someone typed by hand. @param {string} repo @param {string} file */
export function presetOf(repo, file) {
  return PRESETS.find((p) => p.repo === repo && p.file === file);
}
