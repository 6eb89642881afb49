/* deaths: the engine's worker, or a helper thread, dies in a browser, at random moments and in several ways. Calls end
 * within five seconds, an idle model reports the loss by itself, and the next answer, from a new worker, is right. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { loadModel } from '../../js/index.node.js';
import { testModel } from '../js/models.js';
import { randoms } from '../support/random.js';
import { HARM } from './inject.js';
import { openLab, openPlace } from './place.js';

/** @import { Member, Place } from './place.js' */

const WITHIN_MS = 5000;
const PROMPT = 'a prompt of some length';
const SHORT = { maxTokens: 20, seed: 2, logitBias: { 1: -1e30, 8: -1e30 } };

const SCRIPT = `
  const lab = window.lab = { workers: [] };
  const Usual = window.Worker;
  window.Worker = class extends Usual { constructor(...how) { super(...how); lab.workers.push(this); } };
  const essence = ({ text, tokens, finishReason }) => ({ text, tokens, finishReason });
  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  lab.open = async (options) => {
    lab.model = await gemma.loadModel(new URL('model.gguf', location.href), { threads: 3, cache: false, ...options });
    return lab.model.info.threads;
  };
  lab.answer = async (prompt, options) => essence(await lab.model.generate(prompt, options).result());
  lab.harm = (how, chance) => {
    const [worker, ...threads] = lab.workers.slice(-3);
    if (how === 'terminate') worker.terminate();
    else if (how === 'thread') threads[Math.floor(chance * threads.length)].terminate();
    else if (how === 'threads') threads.forEach((thread) => thread.terminate());
    else worker.postMessage({ harm: how });
  };
  /* Breaks a worker or thread. Returns the ms until each call failed, or 'right' for a call that succeeded. With idle,
   * no call is running, and the model must report the loss by itself. */
  lab.moment = async (how, idle, chance, endless) => {
    const { model } = lab, calls = [], { lost } = model;
    if (!idle) {
      calls.push(model.generate('y', { ...endless, maxTokens: 400 }).result(), model.generate('z', endless).result(),
        model.debug.perplexity('some text '.repeat(30)));
    }
    await wait(chance * 150);
    const before = performance.now();
    lab.harm(how, chance);
    if (idle) calls.push(lost.then((error) => { throw error; }));
    return Promise.all(calls.map((call) => call.then(() => 'right', (error) => {
      return error.code === 'worker-failed' ? performance.now() - before : String(error.code + error.stack);
    })));
  };
  /* Simulates a suspension of the page for an hour: its clocks advance, its timers do not run for ms milliseconds, and
   * the worker keeps running. */
  lab.sleep = (ms) => {
    const hour = 3600e3, now = performance.now.bind(performance), today = Date.now;
    performance.now = () => now() + hour;
    Date.now = () => today() + hour;
    for (const end = now() + ms; now() < end;);
  };
`;

const IDLE_WAYS = ['terminate', 'exit', 'freeze', 'throw', 'trap'];
const WAYS = [...IDLE_WAYS, 'thread', 'threads'];

/** Starts a server whose pages can break their workers on command. Returns the server and the answer of an undisturbed
 * engine. */
export async function openDoomed() {
  const file = await testModel('tiny');
  const model = await loadModel(file, { threads: 1 });
  const { text, tokens, finishReason } = await model.generate(PROMPT, SHORT).result();
  await model.dispose();
  return {
    lab: await openLab(await readFile(file), { script: SCRIPT, before: HARM }),
    expected: { text, tokens, finishReason },
  };
}

/** Loads the model in a new tab. Returns a function that runs a function in this tab.
 * @param {Place} place @param {object} [options] of loadModel() */
export async function openModel(place, options = { restart: true }) {
  const { run } = await place.member();
  await run((given) => /** @type {any} */ (window).lab.open(given), options);
  return run;
}

/** Breaks a worker or thread at a random moment. Returns the number of calls, the number of failed calls, and the
 * longest time in ms until a call failed.
 * @param {Member['run']} run
 * @param {{ expected: any, how: string, idle: boolean, chance: number, within?: number }} death `chance`, 0 to 1,
 * chooses the moment; `within`: time limit of calls in ms */
export async function moment(run, { expected, how, idle, chance, within = WITHIN_MS }) {
  const ended = await run((...args) => /** @type {any} */ (window).lab.moment(...args), how, idle, chance, SHORT);
  const lost = ended.filter((/** @type {any} */ end) => end !== 'right');
  for (const ms of lost) assert.ok(typeof ms === 'number' && ms < within, `${how}${idle ? ', idle' : ''}: ${ms}`);
  assert.ok(!idle || lost.length === 1, 'an idle model reports the loss');
  const again = await run((...args) => /** @type {any} */ (window).lab.answer(...args), PROMPT, SHORT);
  assert.deepEqual(again, expected, how);
  // The death of an idle thread is not noticed until the thread has work.
  if (how.startsWith('thread')) await run(() => /** @type {any} */ (window).lab.model.restart());
  return { calls: ended.length, lost: lost.length, longest: Math.max(0, ...lost) };
}

/** Breaks a worker `count` times, every fourth time while the model is idle. Throws at the first wrong result.
 * @param {import('./cases.js').Run} run */
export async function run({ side, count, seed, after }) {
  const { lab, expected } = await openDoomed();
  after(lab.close);
  const place = await openPlace(side, lab);
  after(place.close);
  const page = await openModel(place);
  const random = randoms(seed);
  const counts = { moments: 0, calls: 0, lost: 0, longest: 0, idle: 0 };
  for (; counts.moments < count; counts.moments++) {
    const idle = counts.moments % 4 === 3;
    const ways = idle ? IDLE_WAYS : WAYS;
    const how = ways[(idle ? counts.moments >> 2 : counts.moments) % ways.length];
    const { calls, lost, longest } = await moment(page, { expected, how, idle, chance: random() });
    counts.calls += calls;
    counts.lost += lost;
    counts.longest = Math.max(counts.longest, longest);
    counts.idle += Number(idle);
  }
  const { moments, calls, lost, longest, idle } = counts;
  return { counts, rows: [[place.name, moments, calls, lost, (longest / 1000).toFixed(1), idle, moments]] };
}
