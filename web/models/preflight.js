/**
 * preflight: reads from a model's header how large the file and the memory will be, before its weights are fetched. If
 * it does not fit, offers what would.
 * @module
 */
import { ModelError, inspectModel } from '../../js/index.js';
import { PageError } from '../shell/errors.js';
import { bytes, count } from '../shell/format.js';
import { PRESETS, addressOf, choiceOfPreset } from './presets.js';
import { room, storedBytes } from './stored.js';

/** @import { Choice } from '../shell/store.js' */
/** @typedef {{ contextLength?: number, threads?: number }} Options */
/** @typedef {{ label: string, choice: Choice }} Remedy */

const ADDRESSABLE = 2 ** 32;
/** A tab should not take more of the memory. */
const SHARE = 0.8;
const SHORTEST = 512;
const EVEN = 1024;

/** Returns what this browser is likely to give, in bytes. Only Chromium tells how much memory there is. */
export function memoryLimit() {
  const { deviceMemory } = /** @type {{ deviceMemory?: number }} */ (navigator);
  return Math.min(ADDRESSABLE, deviceMemory ? deviceMemory * SHARE * 2 ** 30 : ADDRESSABLE);
}

/** Files on this device and the page's own model need no download. @param {Choice} choice */
export function isDownload({ source, kind }) {
  return !kind && !(source instanceof File) && !Array.isArray(source);
}

/** Refuses a model that cannot answer. @param {{ embedding?: unknown }} info */
export function mustAnswer({ embedding }) {
  if (embedding) throw new ModelError('not-generative', 'This model makes vectors of texts and cannot answer.');
}

/** Returns facts from the header; throws Unfit if the model does not fit.
 * @param {Choice} choice @param {Options} options @param {AbortSignal} signal @returns {Promise<string[]>} */
export async function preflight(choice, options, signal) {
  const { source, token, sha256 } = choice;
  const wanted = { ...options, signal, ...(token && { token }), ...(sha256 && { sha256 }) };
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
  if (!isDownload(choice)) return [`${bytes(memory)} of memory`];
  const { stored: here = 0, total = 0 } = (await storedBytes(addressOf(source))) ?? {};
  const left = Math.max(0, info.fileBytes - here);
  const { usage: counted, quota } = await room();
  const usage = Math.max(0, counted - (total - here)); // browsers count a begun file at its full size
  const facts = [`${bytes(left)} to download`, `${bytes(memory)} of memory`];
  if (here) facts.splice(1, 0, `${bytes(here)} are here already`);
  if (quota && left > quota - usage) facts.push(`too large to keep: the browser has room for ${bytes(quota - usage)}`);
  return facts;
}

export class Unfit extends PageError {
  /** @param {number} memory @param {Remedy[]} remedies */
  constructor(memory, remedies) {
    super(
      `This model needs ${bytes(memory)} of memory, more than this browser can be expected to give.`,
      `The limit here is about ${bytes(memoryLimit())}. ${remedies.length ? 'This would fit:' : 'Pick a smaller model.'}`,
    );
    this.remedies = remedies;
  }
}

/** @typedef {{ kv: number, total: number }} Memory */

/**
 * Offers a shorter context, if that is enough; smaller files; or to try all the same.
 * @param {Choice} choice @param {{ contextLength: number, memory: Memory, fileBytes: number }} info
 * @param {(contextLength: number) => Promise<Memory>} need
 */
async function remedies(choice, { contextLength, memory, fileBytes }, need) {
  /** @type {Remedy[]} */
  const found = [];
  const shorter = await longestContext(contextLength, memory, need);
  if (shorter) {
    found.push({
      label: `A context of ${count(shorter.contextLength)} tokens (${bytes(shorter.total)})`,
      choice: { ...choice, contextLength: shorter.contextLength },
    });
  }
  for (const preset of smallerFiles(Math.min(fileBytes, memoryLimit()))) {
    found.push({ label: `${preset.name} (${bytes(preset.bytes)})`, choice: choiceOfPreset(preset) });
  }
  if (memory.total <= ADDRESSABLE) found.push({ label: 'Try all the same', choice: { ...choice, anyway: true } });
  return found;
}

/**
 * Returns the longest context that fits, a power of two; null: none does. From EVEN on, where the sliding windows are
 * full, the cache grows evenly, so that two figures tell all others.
 * @param {number} most @param {Memory} atMost @param {(contextLength: number) => Promise<Memory>} need
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

/** Returns the two largest that are clearly smaller. @param {number} limit */
function smallerFiles(limit) {
  const fitting = PRESETS.filter((preset) => !preset.gated && preset.bytes * 1.2 < limit);
  return fitting.sort((a, b) => b.bytes - a.bytes).slice(0, 2);
}

/** Offers less after the browser has refused the memory. @param {Choice} choice @returns {Remedy[]} */
export function afterRefusal(choice) {
  const limit = Math.min(choice.bytes ?? ADDRESSABLE, memoryLimit());
  const files = smallerFiles(limit).map((preset) => ({
    label: `${preset.name} (${bytes(preset.bytes)})`,
    choice: choiceOfPreset(preset),
  }));
  const context = { label: `A context of ${count(SHORTEST)} tokens`, choice: { ...choice, contextLength: SHORTEST } };
  return choice.contextLength === SHORTEST ? files : [context, ...files];
}
