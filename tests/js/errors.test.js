/* Tests error codes: every code that C or JavaScript can throw is in the table; errors keep their fields between
 * threads. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { CODES, ModelError, failure, messageOf } from '../../js/errors.js';
import { MAX_THREADS, packError, unpackError } from '../../js/protocol.js';

test('every code of the engine is listed in CODES', async () => {
  const header = await readFile(new URL('../../src/base/base.h', import.meta.url), 'utf8');
  const names = [...header.matchAll(/X\(GW_E_\w+, -\d+, "([\w-]+)",/g)].map((m) => m[1]);
  assert.ok(names.length > 15, `found ${names.length} codes in base.h`);
  assert.deepEqual(
    names.filter((name) => !(name in CODES)),
    [],
  );
});

test('every code that the package throws is listed in CODES', async () => {
  const { readdir } = await import('node:fs/promises');
  const directory = new URL('../../js/', import.meta.url);
  const used = new Set();
  for (const file of (await readdir(directory, { recursive: true })).filter((name) => name.endsWith('.js'))) {
    const source = await readFile(new URL(file, directory), 'utf8');
    for (const [, code] of source.matchAll(/new ModelError\(\s*'([\w-]+)'/g)) used.add(code);
  }
  assert.ok(used.size > 10, `found ${used.size} codes in js/`);
  assert.deepEqual(
    [...used].filter((code) => !(code in CODES)),
    [],
  );
});

test('an error has a message, a code, a kind and details', () => {
  const error = new ModelError('bad-option', 'topK is wrong.', { expected: 'an integer', got: 1.5 });
  const { message, code, kind, expected, got } = error;
  assert.deepEqual([message, code, kind, expected, got], ['topK is wrong.', 'bad-option', 'option', 'an integer', 1.5]);
  assert.ok(error instanceof Error);
});

test('errors keep their fields when they are sent between threads', () => {
  const error = new ModelError('truncated', 'file', { expected: 10, got: 0, cause: new Error('why') });
  const copy = unpackError(structuredClone(packError(error)));
  assert.ok(copy instanceof ModelError);
  assert.equal(copy.message, error.message);
  assert.equal(copy.code, 'truncated');
  assert.equal(copy.kind, 'file');
  assert.equal(copy.expected, 10);
  // A cause keeps its message, however often it is sent.
  const again = unpackError(packError(copy));
  for (const { cause } of [copy, again]) assert.equal(String(cause), 'Error: why');
  const { code, message } = unpackError(packError(new TypeError('bug.')));
  assert.deepEqual(
    [code, message],
    ['worker-failed', 'The engine failed: bug. Call restart(), or load the model again.'],
  );
});

test('a message quotes errors of other realms without the name of their class', () => {
  const { message } = failure('read-error', 'x could not be read', runInNewContext("new TypeError('gone.')"));
  assert.equal(message, 'x could not be read: gone.');
  assert.equal(messageOf({ message: 'posted' }), 'posted');
  assert.equal(messageOf(new RangeError()), 'RangeError');
  for (const thrown of [undefined, null, 7, 'text']) assert.equal(messageOf(thrown), String(thrown));
});

test('an error of another copy or realm of the package is a ModelError', () => {
  const fields = { code: 'aborted', kind: 'state', expected: '', got: '' };
  const foreign = runInNewContext("(fields) => Object.assign(new Error('stopped'), fields)")(fields);
  assert.ok(foreign instanceof ModelError);
  assert.equal(failure('read-error', 'x', foreign), foreign);
  for (const other of [undefined, null, 7, new Error('x'), { code: 'aborted' }])
    assert.ok(!(other instanceof ModelError));
});

test('MAX_THREADS is the limit of the engine', async () => {
  const header = await readFile(new URL('../../src/base/base.h', import.meta.url), 'utf8');
  assert.equal(header.match(/GW_MAX_THREADS = (\d+)/)?.[1], String(MAX_THREADS));
});
