/* A scripted visitor (tests/lab/visitor.js) goes through the page, with reloads and kills of the tab at random moments;
 * nothing is lost. `node tests/lab/run.js visitor` does more of that, in Firefox too. WebKit, if installed, omits
 * steps that need stored models. */
import { test } from 'node:test';
import { launch } from './helpers.js';
import { inWindow, visit, visitInWebKit } from '../lab/visitor.js';
import { noWebKit } from './webkit.js';

test('a visitor loses no message, draft or model', async (t) => {
  /** @type {string[]} */
  const went = [];
  const browser = await launch('chromium'); // Not the shared browser: all pages of this browser are killed.
  t.after(() => browser.close());
  try {
    await visit(inWindow(browser), { reloads: 10, kills: 2, said: (text) => went.push(text) });
  } catch (error) {
    t.diagnostic(went.slice(-3).join('; '));
    throw error;
  }
});

test('a visitor loses no message or draft in WebKit, which stores no models here: reloads only', {
  skip: noWebKit() || false,
}, async (t) => {
  /** @type {string[]} */
  const went = [];
  try {
    await visitInWebKit({ reloads: 6, said: (text) => went.push(text) });
  } catch (error) {
    t.diagnostic(went.slice(-3).join('; '));
    throw error;
  }
});
