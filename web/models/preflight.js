/**
 * preflight: reads from a model's header the file size and the memory that it needs, before its weights are fetched. If
 * it does not fit, offers alternatives that do.
 * @module
 */
import { ModelError, inspectModel } from '../../js/index.js';
import { PageError } from '../shell/errors.js';
import { bytes } from '../shell/format.js';
import { t } from '../shell/language.js';
import { PRESETS, addressOf, choiceOfPreset, memoryOf } from './presets.js';
import { room, storedBytes } from './stored.js';

/** @import { Choice } from '../shell/store.js' */
/** @typedef {{ contextLength?: number, threads?: number }} Options */
/** @typedef {{ label: string, choice: Choice }} Remedy */

const ADDRESSABLE = 2 ** 32;
/** Share of the device's memory that a tab should take at most. */
const SHARE = 0.8;
/** Memory that a model needs, as a multiple of its file size. The excess is for the KV cache. */
const BESIDE = 1.1;
const SHORTEST = 512;
const EVEN = 1024;

/** Returns the memory that this browser is likely to give, in bytes. Only Chromium reports the device's memory. */
export function memoryLimit() {
  const { deviceMemory } = /** @type {{ deviceMemory?: number }} */ (navigator);
  return Math.min(ADDRESSABLE, deviceMemory ? deviceMemory * SHARE * 2 ** 30 : ADDRESSABLE);
}

/** Returns the tag of a file that probably does not fit into memory, or '' for other files.
 * @param {number} size   bytes, as of memoryOf() */
export const tooLarge = (size) => (size * BESIDE < memoryLimit() ? '' : t('too-large'));

/** Returns whether a model must be downloaded. Files, stored models and the page's own model need no download.
 * @param {Choice} choice */
export function isDownload({ source, kind }) {
  return !kind && !(source instanceof File) && !Array.isArray(source);
}

/** Throws `not-generative` for an embedding model. @param {{ embedding?: unknown }} info */
export function mustAnswer({ embedding }) {
  if (embedding) throw new ModelError('not-generative', 'This model only embeds texts; it cannot answer.');
}

/** Returns texts about the download and the memory; throws Unfit if the model does not fit into memory.
 * @param {Choice} choice @param {Options} options @param {AbortSignal} signal @returns {Promise<string[]>} */
export async function preflight(choice, options, signal) {
  const { source, token, sha256 } = choice;
  const wanted = { ...options, signal, token, sha256 };
  const { info } = await inspectModel(source, wanted);
  mustAnswer(info);
  const memory = info.memory.total;
  if (memory > memoryLimit() && !choice.anyway) {
    throw new Unfit(
      memory,
      await remedies(choice, info, async (contextLength) => {
        return (await inspectModel(source, { ...wanted, contextLength })).info.memory;
      }),
    );
  }
  if (!isDownload(choice)) return [t('need.memory', { size: bytes(memory) })];
  const { stored: here = 0, total = 0 } = (await storedBytes(addressOf(source))) ?? {};
  const left = Math.max(0, info.fileBytes - here);
  const { usage: counted, quota } = await room();
  const usage = Math.max(0, counted - (total - here)); // browsers count a partial file at its full size
  const facts = [t('need.download', { size: bytes(left) }), t('need.memory', { size: bytes(memory) })];
  if (here) facts.splice(1, 0, t('need.here', { size: bytes(here) }));
  if (quota && left > quota - usage) facts.push(t('need.no-room', { size: bytes(quota - usage) }));
  return facts;
}

/** The error for a model that does not fit into memory. Offers a shorter context or other models, if these fit. */
export class Unfit extends PageError {
  /** @param {number} memory @param {Remedy[]} remedies */
  constructor(memory, remedies) {
    super(
      'unfit.title',
      { size: bytes(memory), limit: bytes(memoryLimit()) },
      remedies.length ? 'unfit.fits' : 'unfit.smaller',
    );
    this.remedies = remedies;
  }
}

/** @typedef {{ resident: number, total: number }} Memory */

/**
 * Returns remedies for a model that is too large: a shorter context, if that suffices; smaller files; trying anyway.
 * @param {Choice} choice @param {{ contextLength: number, memory: Memory }} info
 * @param {(contextLength: number) => Promise<Memory>} need
 */
async function remedies(choice, { contextLength, memory }, need) {
  /** @type {Remedy[]} */
  const found = [];
  const shorter = await longestContext(contextLength, memory, need);
  if (shorter) {
    found.push({
      label: t('unfit.context', { n: shorter.contextLength, size: bytes(shorter.total) }),
      choice: { ...choice, contextLength: shorter.contextLength },
    });
  }
  found.push(...smallerFiles(memory.resident));
  if (memory.total <= ADDRESSABLE) found.push({ label: t('unfit.anyway'), choice: { ...choice, anyway: true } });
  return found;
}

/**
 * Returns the longest context that fits, a power of two; null if none does. From EVEN tokens on, where the sliding
 * windows are full, the KV cache grows linearly, so two values determine all others.
 * @param {number} most   tokens, too many to fit @param {Memory} atMost   that they need
 * @param {(contextLength: number) => Promise<Memory>} need
 */
async function longestContext(most, atMost, need) {
  for (const least of [EVEN, SHORTEST].filter((length) => length < most)) {
    const { total } = await need(least);
    const room = memoryLimit() - total;
    if (room < 0) continue;
    const more = least === EVEN ? (room * (most - EVEN)) / (atMost.total - total) : 0;
    const contextLength = 2 ** Math.floor(Math.log2(Math.min(most - 1, least + more)));
    return { contextLength, total: (await need(contextLength)).total };
  }
  return null;
}

/** @param {number} size   bytes @returns {Remedy[]} */
function smallerFiles(size) {
  const limit = Math.min(size, memoryLimit());
  const fitting = PRESETS.filter((preset) => !preset.gated && memoryOf(preset) * 1.2 < limit);
  const largest = fitting.sort((a, b) => b.bytes - a.bytes).slice(0, 2);
  return largest.map((preset) => ({
    label: t('download.name-size', { name: preset.name, size: bytes(preset.bytes) }),
    choice: choiceOfPreset(preset),
  }));
}

/** Returns smaller choices after the browser has refused the memory. @param {Choice} choice @returns {Remedy[]} */
export function afterRefusal(choice) {
  const files = smallerFiles(memoryOf({ ...Object(choice.source), bytes: choice.bytes ?? ADDRESSABLE }));
  const context = { label: t('unfit.context.only', { n: SHORTEST }), choice: { ...choice, contextLength: SHORTEST } };
  return choice.contextLength === SHORTEST ? files : [context, ...files];
}
