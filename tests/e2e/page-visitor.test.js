/* Somebody goes through the page in 45 steps, with reloads and kills at random moments; nothing is lost. With more of
 * them, and in Firefox: node tests/e2e/visitor.js. */
import { test } from 'node:test';
import { sharedBrowser } from './helpers.js';
import { visit } from './visitor.js';

test('a visitor loses no message, draft or model', async (t) => {
  /** @type {string[]} */
  const went = [];
  const seed = Date.now() % 1000;
  try {
    await visit(await sharedBrowser('chromium'), { seed, reloads: 10, kills: 2, said: (text) => went.push(text) });
  } catch (error) {
    t.diagnostic(`seed ${seed}: ${went.slice(-3).join('; ')}`);
    throw error;
  }
});
