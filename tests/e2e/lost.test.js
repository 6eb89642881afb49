/* Runs a part of the fault-injection case `deaths` (tests/lab): workers and threads die, and tabs are suspended. */
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { moment, openDoomed, openModel } from '../lab/deaths.js';
import { openPlace } from '../lab/place.js';
import { randoms } from '../support/random.js';
import { sharedBrowser, suite } from './helpers.js';

/** Length in ms of a tab's simulated suspension: longer than the silence after which a worker counts as lost. */
const SLEEP_MS = 4600;

/** @type {Awaited<ReturnType<typeof openDoomed>>} */ let doomed;
before(async () => {
  doomed = await openDoomed();
});
after(() => doomed.lab.close());

const dies = (
  /** @type {import('../lab/place.js').Member['run']} */ run,
  /** @type {string} */ how,
  /** @type {boolean} */ idle,
  /** @type {number} */ chance,
) => moment(run, { expected: doomed.expected, how, idle, chance, within: Infinity });

const test = suite('lost workers', async (name) => {
  const place = await openPlace(name, doomed.lab, { shared: await sharedBrowser(name) });
  const page = (/** @type {object | undefined} */ options = undefined) => openModel(place, options);
  return { page, close: () => place.close() };
});

test('the loss of a worker is reported, during calls and while idle, and the next answer is right', async ({
  page,
}, t) => {
  const seed = Date.now();
  t.diagnostic(`seed ${seed}`);
  const random = randoms(seed);
  await Promise.all(
    [
      ['freeze', false],
      ['thread', false],
      ['exit', true],
    ].map(async ([how, idle]) => {
      const chance = random();
      await dies(await page(), String(how), Boolean(idle), chance);
    }),
  );
  // After a loss, calls without output yet are repeated, so the number of failed calls varies. With `trap` the model is
  // idle and reports the loss by itself.
  const run = await page();
  for (const how of ['trap', 'throw']) await dies(run, how, how === 'trap', random());
});

test('without `restart` all calls fail with the same error, and restart() makes the model usable again', async ({
  page,
}) => {
  const run = await page({});
  const { codes, again } = await run(
    async (prompt, options) => {
      const { lab } = /** @type {any} */ (window);
      const { model } = lab;
      const calls = [model.generate('y', { ...options, maxTokens: 400 }).result(), model.debug.logits([2, 300])];
      lab.harm('throw');
      const errors = await Promise.all(calls.map((call) => call.catch((/** @type {any} */ error) => error)));
      errors.push(await model.lost, await model.tokenize('x').catch((/** @type {any} */ error) => error));
      await model.restart();
      return { codes: errors.map(({ code }) => code), again: await lab.answer(prompt, options) };
    },
    'a prompt of some length',
    { maxTokens: 20, seed: 2, logitBias: { 1: -1e30, 8: -1e30 } },
  );
  assert.deepEqual([...new Set(codes)], ['worker-failed']);
  assert.deepEqual(again, doomed.expected);
});

test('a tab that was suspended for an hour works afterwards, during a call and while idle', async ({ page }) => {
  const run = await page({});
  const waking = await run(
    async (ms, prompt, options) => {
      const { lab } = /** @type {any} */ (window);
      const call = lab.answer(prompt, options);
      lab.sleep(ms);
      const first = await call;
      lab.sleep(ms / 100);
      await new Promise((resolve) => {
        setTimeout(resolve, 1000);
      });
      return [first, await lab.answer(prompt, options)];
    },
    SLEEP_MS,
    'a prompt of some length',
    { maxTokens: 20, seed: 2, logitBias: { 1: -1e30, 8: -1e30 } },
  );
  assert.deepEqual(waking, [doomed.expected, doomed.expected]);
});
