/* Tests the page's state store without a page: the order of phases, change notifications, and that only the latest of
 * several calls counts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { enter, latest, state, update, watch } from '../../web/shell/store.js';

test('only the transitions of the table of phases are allowed; a rejected one changes nothing', () => {
  assert.equal(state.phase, 'opening');
  assert.throws(() => enter('ready', { busy: true }), /ready cannot follow opening/);
  assert.deepEqual([state.phase, state.busy], ['opening', false]);
  for (const phase of /** @type {const} */ (['reading', 'loading', 'loading', 'ready', 'picking'])) enter(phase);
  assert.throws(() => enter('ready'), /ready cannot follow picking/);
  assert.throws(() => enter('opening'), /opening cannot follow picking/);
});

test('a watcher runs once for each update in which one of its values has changed', () => {
  /** @type {unknown[]} */
  const seen = [];
  watch(['id', 'title'], () => seen.push([state.id, state.title]));
  update({ id: 'a', title: 'A', used: 1 });
  update({ id: 'a', used: 2 });
  update({ title: 'B' });
  assert.deepEqual(seen, [
    ['a', 'A'],
    ['a', 'B'],
  ]);
});

test('a watcher may change the state, and the others see all changes', () => {
  /** @type {unknown[]} */
  const seen = [];
  watch(['panel'], () => state.panel === 'inside' && update({ library: false }));
  watch(['library', 'panel'], () => seen.push([state.library, state.panel]));
  update({ library: true });
  update({ panel: 'inside' });
  assert.deepEqual(seen.at(-1), [false, 'inside']);
});

test('of overlapping calls, only the latest is current', () => {
  const [one, other] = [latest(), latest()];
  const first = one();
  assert.ok(first());
  const second = one();
  other();
  assert.deepEqual([first(), second()], [false, true]);
});
