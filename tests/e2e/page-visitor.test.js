/* Somebody goes through the page in 45 steps, with reloads and kills at random moments; nothing is lost. With more of
 * them, and in Firefox: node tests/e2e/visitor.js. */
import { test } from 'node:test';
import { launch } from './helpers.js';
import { visit } from './visitor.js';

test('a visitor loses no message, draft or model', async (t) => {
  /** @type {string[]} */
  const went = [], browser = await launch('chromium');   // one of its own: all its pages are killed
  t.after(() => browser.close());
  try {
    await visit(browser, { reloads: 10, kills: 2, said: (text) => went.push(text) });
  } catch (error) {
    t.diagnostic(went.slice(-3).join('; '));
    throw error;
  }
});
