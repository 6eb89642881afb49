/**
 * presets: the public Gemma files that the page offers, with the sizes and hashes of the published files. `about`:
 * the size is approximate, and the hash unknown.
 * @module
 */

/**
 * @typedef {object} Preset
 * @property {string} name
 * @property {`preset.${'270m' | '1b' | 'qat' | 'gemma4' | 'q4_0' | 'unsloth' | '8bit' | 'bf16'}`} note   key of a text
 * @property {string} repo
 * @property {string} file
 * @property {number} bytes
 * @property {number} [memory]   bytes in memory with a context of 4096 tokens, if a part of the file stays on disk
 * @property {boolean} [about]
 * @property {string} [sha256]
 * @property {boolean} [gated]   needs an accepted licence and an access token
 * @property {boolean} [more]    shown only on demand
 */

/** @import { Choice } from '../shell/store.js' */

/** @type {Preset[]} */
export const PRESETS = [
  {
    name: 'Gemma 3 270M',
    note: 'preset.270m',
    repo: 'ggml-org/gemma-3-270m-it-GGUF',
    file: 'gemma-3-270m-it-Q8_0.gguf',
    bytes: 291545600,
    sha256: '0ef57d2c838458a1952664260dcba38e5bdda37494f3af732f06e4add24068e3',
  },
  {
    name: 'Gemma 3 1B',
    note: 'preset.1b',
    repo: 'ggml-org/gemma-3-1b-it-GGUF',
    file: 'gemma-3-1b-it-Q4_K_M.gguf',
    bytes: 806058240,
    sha256: '8ccc5cd1f1b3602548715ae25a66ed73fd5dc68a210412eea643eb20eb75a135',
  },
  {
    name: 'Gemma 3 1B QAT (Google)',
    note: 'preset.qat',
    repo: 'google/gemma-3-1b-it-qat-q4_0-gguf',
    file: 'gemma-3-1b-it-q4_0.gguf',
    bytes: 1003541152,
    sha256: '95e5b8d891cd6a794f66c2a6fb59a41e9562b4660560b854274eceffb628b22a',
    gated: true,
  },
  {
    name: 'Gemma 4 E2B (Google)',
    note: 'preset.gemma4',
    repo: 'google/gemma-4-E2B-it-qat-q4_0-gguf',
    file: 'gemma-4-E2B_q4_0-it.gguf',
    bytes: 3349516256,
    memory: 1.53e9,
    sha256: 'fa401b55b07ee70a54c6dae3903c783a6e65064312529ea57175cb5f8dec6634',
  },
  {
    name: 'Gemma 4 E4B (Google)',
    note: 'preset.gemma4',
    repo: 'google/gemma-4-E4B-it-qat-q4_0-gguf',
    file: 'gemma-4-E4B_q4_0-it.gguf',
    bytes: 5154941280,
    memory: 3.06e9,
    sha256: '676c35070db6dbe52f93e9c864ee0fba4eddea94b9c875d9cb10daff453fbaee',
    more: true,
  },
  {
    name: 'Gemma 3 1B, Q4_0',
    note: 'preset.q4_0',
    repo: 'unsloth/gemma-3-1b-it-GGUF',
    file: 'gemma-3-1b-it-Q4_0.gguf',
    bytes: 720e6,
    about: true,
    more: true,
  },
  {
    name: 'Gemma 3 1B, Q4_K_M by Unsloth',
    note: 'preset.unsloth',
    repo: 'unsloth/gemma-3-1b-it-GGUF',
    file: 'gemma-3-1b-it-Q4_K_M.gguf',
    bytes: 806058272,
    sha256: '8270790f3ab69fdfe860b7b64008d9a19986d8df7e407bb018184caa08798ebd',
    more: true,
  },
  {
    name: 'Gemma 3 1B, 8-bit',
    note: 'preset.8bit',
    repo: 'unsloth/gemma-3-1b-it-GGUF',
    file: 'gemma-3-1b-it-Q8_0.gguf',
    bytes: 1.07e9,
    about: true,
    more: true,
  },
  {
    name: 'Gemma 3 1B, BF16',
    note: 'preset.bf16',
    repo: 'unsloth/gemma-3-1b-it-GGUF',
    file: 'gemma-3-1b-it-BF16.gguf',
    bytes: 2.01e9,
    about: true,
    more: true,
  },
];

/** Splits the address of a file on Hugging Face; returns null for other addresses.
 * @param {string} url @returns {{ repo: string, file: string, revision?: string } | null} */
export function hubAddress(url) {
  const match = /^https:\/\/huggingface\.co\/([\w.-]+\/[\w.-]+)\/resolve\/([^/]+)\/([^?#]+)/.exec(url);
  if (!match) return null;
  try {
    const [repo, revision, file] = match.slice(1).map(decodeURIComponent);
    return { repo, file, ...(revision !== 'main' && { revision }) };
  } catch {
    return null;
  }
}

/** Decodes a part of an address; returns it unchanged if it is malformed. @param {string} text */
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns the URL of a model, to compare models in lists; '' for files of the user.
 * @param {Choice['source']} source */
export function addressOf(source) {
  if (typeof source === 'string') return source;
  if (!('repo' in source)) return '';
  const { repo, file, revision = 'main' } = source;
  const path = file.split('/').map(encodeURIComponent).join('/');
  return `https://huggingface.co/${repo}/resolve/${encodeURIComponent(revision)}/${path}`;
}

/** Returns the largest preset that probably fits into a tab with room to spare. Counts the whole file, because all of
 * it must be downloaded. @param {number} limit   bytes */
export function recommended(limit) {
  const fitting = PRESETS.filter((preset) => !preset.gated && !preset.more && preset.bytes * 1.5 < limit);
  return fitting.sort((a, b) => b.bytes - a.bytes)[0];
}

/** Returns the preset for a file on Hugging Face, or undefined if there is none or a revision is named.
 * @param {{ repo?: string, file?: string, revision?: string }} source */
export function presetOf({ repo, file, revision }) {
  return revision ? undefined : PRESETS.find((p) => p.repo === repo && p.file === file);
}

/** Returns the number of bytes by which to judge whether a file fits into memory.
 * @param {{ bytes: number, repo?: string, file?: string, revision?: string }} file */
export const memoryOf = (file) => presetOf(file)?.memory ?? file.bytes;

/** Returns the choice of a preset. Its size is unknown if the preset's is approximate.
 * @param {Preset} preset @returns {Choice} */
export function choiceOfPreset(preset) {
  return {
    source: { repo: preset.repo, file: preset.file },
    label: preset.name,
    bytes: preset.about ? undefined : preset.bytes,
    sha256: preset.sha256,
  };
}
