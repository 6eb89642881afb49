/* saved: reads and writes the bytes of chat.save(): a header of 16 bytes, messages and options as JSON, then the
 * engine's state (src/run/state.h). The header has "gwchat", two zero bytes, and two little-endian integers: at offset
 * 8 the length of the JSON in bytes, at offset 12 the JSON's checksum (FNV-1a, Fowler, Noll and Vo). The bytes are
 * untrusted. The chat checks the messages like any others, and the engine checks its state. */
/** @import { ChatMessage, Prefix } from './protocol.js' */
/** @import { GenerateOptions } from './options.js' */
import { ModelError } from './errors.js';
import { notSaved, savedDiffers, savedNotJson, savedTruncated, savedVersion } from './front-errors.js';
import { SAMPLING } from './generated.js';
import { biasEntries } from './options.js';

const MAGIC = [0x67, 0x77, 0x63, 0x68, 0x61, 0x74, 0, 0];
const HEAD = 16;
/** Current version of the bytes of chat.save(). */
const VERSION = 2;
const MAX_JSON = 1 << 28;
const MAX_IDS = 1 << 20;
const MAX_WHY = 100;

/** Beginnings of the conversation that the KV cache can hold. last: without the last answer; next: with the last
 * answer; why: the reason if there is no `next`.
 * @typedef {{ last?: Prefix, next?: Prefix, why?: string }} Prefixes */
/** A saved chat without the engine's state.
 * @typedef {{ messages: ChatMessage[], options: GenerateOptions, prefixes: Prefixes }} SavedChat */

/** @param {Uint8Array} bytes */
function checksum(bytes) {
  let sum = 0x811c9dc5;
  for (const byte of bytes) sum = Math.imul(sum ^ byte, 0x01000193);
  return sum >>> 0;
}

/** Returns the header and the JSON of a saved chat. The caller appends the engine's state.
 * @param {SavedChat} said @returns {Uint8Array} */
export function packChat({ messages, options, prefixes }) {
  const { logitBias, ...rest } = options;
  const bias = logitBias && { logitBias: biasEntries(logitBias).map(written) };
  const kept = { ...Object.fromEntries(Object.entries(rest).filter(([name]) => keeps(name))), ...bias };
  const json = new TextEncoder().encode(JSON.stringify({ version: VERSION, messages, options: kept, prefixes }));
  const bytes = new Uint8Array(HEAD + json.length);
  const view = new DataView(bytes.buffer);
  bytes.set(MAGIC);
  view.setUint32(8, json.length, true);
  view.setUint32(12, checksum(json), true);
  bytes.set(json, HEAD);
  return bytes;
}

/** Returns whether chat.save() keeps an option of answers. Constraints, tools and callbacks are not saved.
 * @param {string} name */
function keeps(name) {
  return Object.hasOwn({ ...SAMPLING, maxTokens: 0, seed: 0, stop: 0, logprobs: 0, thinking: 0 }, name);
}

/** Replaces a bias of -Infinity by null, because JSON cannot express -Infinity. @param {[number, number]} entry */
const written = ([id, bias]) => [id, bias === -Infinity ? null : bias];

/** Reads the bytes of a saved chat. Throws `bad-saved`. `state` of the result is the engine's state, not checked yet.
 * @param {Uint8Array} bytes
 * @returns {SavedChat & { state: Uint8Array }} */
export function unpackChat(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < HEAD || MAGIC.some((byte, i) => bytes[i] !== byte)) throw notSaved();
  const length = view.getUint32(8, true);
  const end = HEAD + length;
  if (length > MAX_JSON || end > bytes.length) throw savedTruncated(bytes.length, end);
  const json = bytes.subarray(HEAD, end);
  if (checksum(json) !== view.getUint32(12, true)) throw savedDiffers();
  const { messages, options, prefixes } = parsed(json);
  const { logitBias, ...rest } = options;
  const bias = logitBias && { logitBias: new Map(list(logitBias).map(([id, value]) => [id, value ?? -Infinity])) };
  const known = Object.fromEntries(Object.entries(rest).filter(([name]) => keeps(name)));
  return {
    messages,
    options: { ...known, ...bias },
    state: bytes.subarray(end),
    prefixes: {
      last: prefixOf(prefixes.last),
      next: prefixOf(prefixes.next),
      why: typeof prefixes.why === 'string' ? prefixes.why.slice(0, MAX_WHY) : undefined,
    },
  };
}

/** @param {Uint8Array} json @returns {any} */
function parsed(json) {
  try {
    const value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(json));
    const { version, messages, options, prefixes } = value ?? {};
    if (Array.isArray(messages) && version !== VERSION) throw savedVersion(version, VERSION);
    if (Array.isArray(messages)) return { messages, options: options ?? {}, prefixes: prefixes ?? {} };
  } catch (error) {
    // Errors other than ModelError mean that the bytes of the saved chat are not JSON.
    if (error instanceof ModelError) throw error;
  }
  throw savedNotJson();
}

/** @param {any} value @returns {any[][]} */
const list = (value) => (Array.isArray(value) ? value : []).filter(Array.isArray);

/** @param {any} prefix @returns {Prefix | undefined} */
function prefixOf(prefix) {
  const { of = '', text, ids, cut = 0 } = prefix ?? {};
  const fits =
    [of, text].every((value) => typeof value === 'string') &&
    Array.isArray(ids) &&
    ids.length <= MAX_IDS &&
    ids.every((id) => Number.isInteger(id) && id >= 0) &&
    [0, 1, 2, 3].includes(cut);
  return fits ? { of, text, ids, ...(cut && { cut }) } : undefined;
}
