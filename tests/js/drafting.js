/**
 * Generates answers without a worker, for tests, with a draft model that drafts in every step.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { LOAD } from '../../js/engine/engine.js';
import { DraftModel } from '../../js/engine/draft-model.js';
import { Drafts } from '../../js/engine/drafts.js';
import { generate } from '../../js/engine/jobs.js';
import { PromptEncoder } from '../../js/engine/prompt-encoder.js';
import { Runner } from '../../js/engine/runner.js';
import * as grammar from '../../js/grammar.js';
import { postable } from '../../js/options.js';
import { features } from '../../js/platform/features.js';
import { feed, loadedEngine } from './bare-engine.js';

export const platform = /** @type {any} */ ({ yield: async () => {} });
export const TIMES = [0, 1e6, 1e6, 1e6, 1e6]; // ms of a step, by its number of tokens: drafts always save time
export const FREE = { room: 3, times: TIMES, answered: 0, position: 0 };
export const RUNNING = { aborted: false };

/** A draft model that always drafts as many tokens as possible, and counts them. */
class Eager extends DraftModel {
  drafted = 0;
  accepted = 0;

  /** @param {readonly number[]} ids @param {any} how @param {any} job */
  draft(ids, how, job) {
    return super.draft(ids, { ...how, times: TIMES }, job);
  }

  /** @param {number} size @param {number} accepted */
  judge(size, accepted) {
    this.drafted += size;
    this.accepted += accepted;
  }
}

/** Returns engines of a model and of its draft model, in one heap. @param {TestContext} t @param {string} path
 * @param {string} draftPath @param {number} [threads] @param {number} [context] of the draft model */
export async function pair(t, path, draftPath, threads = 1, context = 512) {
  const native = await loadedEngine(path, features().relaxed ? 'relaxed' : 'simd128', { threads });
  t.after(() => native.close());
  const draft = native.beside();
  const file = await readFile(draftPath);
  feed(draft, file, LOAD.PLAN);
  const isAssistant = draft.call('pair', native.number('address')) > 0;
  draft.reserve(Math.min(context, draft.number('context_length')));
  feed(draft, file, LOAD.READY);
  return { native, draft, isAssistant };
}

/** Returns a function that generates an answer with the draft model, or without. @param {TestContext} t
 * @param {string} path @param {string} draftPath @param {number} [threads] */
export async function answering(t, path, draftPath, threads) {
  const { native, draft, isAssistant } = await pair(t, path, draftPath, threads, 256);
  const draftModel = new Eager(draft, platform, native.number('n_vocab'), isAssistant);
  /** @type {Record<string, object>} */
  const parts = { grammar, drafts: { Drafts } };
  const load = async (/** @type {string} */ name) => parts[name];
  const runner = new Runner(native, platform);
  const encoder = new PromptEncoder(native, load, () => {});
  const context = { runner, encoder, contextLength: native.number('n_ctx'), chatCacheBytes: 0, load };
  const answer = async (/** @type {any} */ prompt, /** @type {any} */ options, /** @type {any} */ more = {}) => {
    const job = { id: 0, aborted: false, unacked: 0, post() {}, stalled: async () => {}, othersWait: () => true };
    const args = { ...postable({ maxTokens: 30, ...options }), prompt };
    const { tokens, text, finishReason } = await generate(/** @type {any} */ ({ ...context, ...more }), job, args);
    return { tokens, text, finishReason };
  };
  return { answer, draftModel };
}

/** Returns ids below 305 that rarely repeat. @param {number} n @param {number} [seed] */
export const idsOf = (n, seed = 0) => Array.from({ length: n }, (_, i) => 5 + ((i * i * 7919 + seed * 104729) % 300));

export const SAMPLINGS = [
  { temperature: 0 },
  { temperature: 0, frequencyPenalty: 0.5, presencePenalty: 0.5 },
  { temperature: 1 },
  { temperature: 0.4, topK: 0, topP: 1, repetitionPenalty: 1.2, logitBias: { 9: 3 } },
  { temperature: 0.5, maxTokens: 4 },
];

/** Chats, aborts an answer, generates two answers at a time, and continues a saved chat, greedily and sampled. Returns
 * the texts, and the number of draft tokens of the answers that were generated alone. @param {Model} model */
export async function talk(model) {
  const texts = /** @type {string[]} */ ([]);
  let draftedTokens = 0;
  for (const temperature of [0, 1]) {
    const options = { temperature, seed: 3, maxTokens: 40 };
    const chat = model.chat(options);
    texts.push(await chat.send('a b c d e f g').text());
    const control = new AbortController();
    let count = 0;
    const cut = model.generate(idsOf(30), { ...options, signal: control.signal });
    for await (const _ of cut) if (++count === 3) control.abort();
    const whole = await model.generate(idsOf(30), options).result();
    draftedTokens += whole.timings.draftedTokens ?? 0;
    assert.ok(whole.text.startsWith((await cut.result()).text));
    const both = await Promise.all([
      model.generate(idsOf(20), options).text(),
      model.generate(idsOf(20, 7), options).text(),
    ]);
    const again = model.chat({ ...options, saved: await chat.save() });
    await again.restored;
    texts.push(whole.text, ...both, await again.send('h i j').text(), await chat.send('h i j').text());
  }
  return { texts, draftedTokens };
}
