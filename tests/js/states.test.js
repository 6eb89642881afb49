/* Tests chatCache. A stored chat continues in another model instance without re-evaluation. Entries that belong to
 * other models, or are damaged, incomplete or oversized, never give a wrong chat. Model files are not deleted. */
import assert from 'node:assert/strict';
import { readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { openCache } from '../../js/index.node.js';
import { openStore } from '../../js/download/store-node.js';
import { randoms } from '../support/random.js';
import { newFolder, open, refuses } from './helpers.js';
import { faultyStore } from '../lab/inject.js';

const OPTIONS = { maxTokens: 8, seed: 4, logitBias: { 1: -Infinity, 8: -Infinity } };

/** @param {TestContext} t */
function place(t) {
  const folder = newFolder(t);
  return { folder, cache: openCache(folder) };
}

/** @param {Model} model */
async function talk(model, questions = ['Hello']) {
  const chat = model.chat(OPTIONS);
  for (const question of questions) await chat.send(question).text();
  return chat;
}

const turn = async (/** @type {Chat} */ chat, /** @type {string} */ question) => {
  const { text, tokens, usage } = await chat.send(question).result();
  return { text, tokens, usage };
};

const states = async (/** @type {string} */ folder) =>
  (await readdir(folder)).filter((name) => name.endsWith('.state'));

/** @param {Model['chatCache']} chatCache */
const namesIn = async (chatCache) => (await chatCache.list()).map(({ name }) => name);

test('4096 tokens continue in another model instance without re-evaluation, bit for bit', async (t) => {
  const { folder, cache } = place(t);
  const options = { cache, contextLength: 4400 };
  const first = await open(t, 'deep', options);
  const words = Array.from({ length: 4000 }, (_, i) => 'abcdefgh'[(i * i) % 8]);
  const chat = first.chat(OPTIONS);
  let text = '';
  for (let at = 0, size = 0; size < 4096; at = (at + 500) % 4000) {
    text += words.slice(at, at + 500).join(' ');
    size = await first.countTokens([{ role: 'user', content: text }]);
    if (size > 4300) text = text.slice(0, Math.floor((text.length * 4200) / size));
  }
  await chat.send(text).text();
  const saved = await chat.save();
  assert.ok(saved.length < first.info.memory.kv + 65536);
  await first.chatCache.put('long', saved);
  const second = await open(t, 'deep', options);
  const got = await second.chatCache.get('long');
  assert.deepEqual(got, saved);
  const again = second.chat({ saved: got });
  const { tokens, reason } = await again.restored;
  assert.equal(reason, undefined);
  assert.ok(tokens >= 4096, `${tokens}`);
  const expected = await turn(chat, 'Go on.');
  assert.equal(expected.usage.reusedTokens, tokens);
  assert.deepEqual(await turn(again, 'Go on.'), expected);
  const ids = [...Array(12).keys()].map((i) => 300 + i);
  const past = (await second.tokenize(text)).slice(0, 100);
  assert.deepEqual(await second.debug.logits([...past, ...ids]), await first.debug.logits([...past, ...ids]));
  assert.deepEqual((await states(folder)).length, 1);
});

test('stored chats are listed, replaced and deleted; model files are left alone', async (t) => {
  const { folder, cache } = place(t);
  const model = await open(t, 'tiny', { cache });
  await writeFile(join(folder, 'aa-bb.gguf'), 'a copy, or not');
  const chat = await talk(model);
  const { chatCache } = model;
  assert.equal(await chatCache.get('none'), undefined);
  const saved = await chat.save();
  await chatCache.put('a', saved);
  await chatCache.put('b', new Uint8Array(saved).buffer);
  await chat.send('more').text();
  const more = await chat.save();
  await chatCache.put('a', more);
  const [first, second] = await chatCache.list();
  assert.deepEqual(await chatCache.estimate(), { usage: first.bytes + second.bytes });
  assert.deepEqual([first.name, first.bytes, first.fits, second.name], ['a', more.length, true, 'b']);
  assert.ok(Math.abs(Number(first.lastUsed) - Date.now()) < 60_000);
  assert.deepEqual([await chatCache.get('a'), await chatCache.get('b')], [more, saved]);
  assert.deepEqual(await namesIn(chatCache), ['b', 'a']);
  assert.deepEqual(
    (await cache.list()).map(({ key }) => key),
    ['aa-bb.gguf'],
  );
  await refuses(cache.delete((await states(folder))[0]), 'bad-option');
  await chatCache.delete('b');
  assert.deepEqual(await namesIn(chatCache), ['a']);
  await cache.clear();
  assert.deepEqual(await readdir(folder), await states(folder));
  await chatCache.clear();
  assert.deepEqual(await readdir(folder), []);
});

test('another model or KV cache type finds an entry that does not fit, and prefers its own', async (t) => {
  const { cache } = place(t);
  const made = await open(t, 'tiny', { cache, kvType: 'i16' });
  const saved = await (await talk(made, ['Hello', 'Why?'])).save();
  await made.chatCache.put('x', saved);
  for (const [name, options] of /** @type {[string, LoadOptions][]} */ ([
    ['tiny-f32', { kvType: 'i16' }],
    ['tiny', { kvType: 'q8_0' }],
  ])) {
    const model = await open(t, name, { cache, ...options });
    assert.deepEqual(
      (await model.chatCache.list()).map(({ fits }) => fits),
      [false],
    );
    assert.deepEqual(await model.chatCache.get('x'), saved);
    const own = await (await talk(model, ['Mine'])).save();
    await model.chatCache.put('x', own);
    assert.deepEqual([await model.chatCache.get('x'), await made.chatCache.get('x')], [own, saved]);
    await model.chatCache.delete('x');
    await made.chatCache.put('x', saved);
  }
});

test('all chats together stay within the limit: the least recently used go first', async (t) => {
  const { folder, cache } = place(t);
  const model = await open(t, 'tiny', { cache });
  const saved = await (await talk(model)).save();
  await model.chatCache.put('a', saved);
  const [file] = await states(folder);
  const limited = await open(t, 'tiny', {
    cache,
    chatCacheBytes: Math.floor(3.5 * (await stat(join(folder, file))).size),
  });
  for (const name of ['a', 'b', 'c']) await limited.chatCache.put(name, saved);
  assert.deepEqual(await limited.chatCache.get('a'), saved);
  await limited.chatCache.put('d', saved);
  assert.deepEqual(await namesIn(limited.chatCache), ['d', 'a', 'c']);
  await limited.chatCache.put('a', saved);
  assert.equal((await states(folder)).length, 3);
  const narrow = await open(t, 'tiny', { cache, chatCacheBytes: saved.length - 1 });
  await refuses(narrow.chatCache.put('e', saved), 'cache-failed');
  assert.equal((await states(folder)).length, 3);
});

test('entries under other names are read once, not with each put() and get()', async (t) => {
  const { folder, cache } = place(t);
  const model = await open(t, 'tiny', { cache });
  const saved = await (await talk(model)).save();
  const store = openStore(folder);
  for (let i = 0; i < 20; i++) await model.chatCache.put(`other ${i}`, saved);
  /** @type {string[]} */ const read = [];
  const counting = {
    ...store,
    /** @type {Store['read']} */
    read: (name, at, into) => (read.push(name), store.read(name, at, into)),
  };
  const { chatCache } = await open(t, 'tiny', { cache: openCache(counting) });
  const others = new Set(await states(folder));
  /** Returns the number of reads of other entries since the last call. */
  const readOthers = () => read.splice(0).filter((name) => others.has(name)).length;
  for (let i = 0; i < 3; i++) {
    await chatCache.put('mine', saved);
    assert.equal(readOthers(), i ? 0 : 20);
    assert.deepEqual(await chatCache.get('mine'), saved);
    assert.equal(readOthers(), 0);
  }
});

test('flipped bits and cut-off ends: messages are right or rejected, keys and values right or unused', async (t) => {
  const { folder, cache } = place(t);
  const model = await open(t, 'tiny', { cache });
  const chat = await talk(model, ['Hello', 'Why?']);
  const random = randoms(5);
  await model.chatCache.put('x', await chat.save());
  const { tokens: whole } = await model.chat({ saved: await model.chatCache.get('x') }).restored;
  const [name] = await states(folder);
  const file = join(folder, name);
  const bytes = await readFile(file);
  const counts = { right: 0, alone: 0, refused: 0, gone: 0 };
  for (let i = 0; i < 300; i++) {
    const broken = Buffer.from(bytes);
    const at = random(bytes.length);
    const cut = i % 10 === 9;
    broken[at] ^= 1 << (i % 8);
    await writeFile(file, cut ? broken.subarray(0, at) : broken);
    const got = await model.chatCache.get('x').catch((error) => error);
    if (got instanceof Error) {
      assert.equal(Object(got).code, 'bad-saved');
      assert.match(got.message, /^The saved chat "x" is damaged/);
      assert.equal((await model.chatCache.list())[0].name, 'x');
      counts.refused++;
      continue;
    }
    if (!got) {
      assert.ok(cut, `with a flipped bit in byte ${at}, the entry is missing instead of corrupt`);
      counts.gone++;
      continue;
    }
    const again = model.chat({ saved: got });
    const { tokens } = await again.restored;
    assert.deepEqual(again.messages, chat.messages);
    assert.ok(tokens === 0 || tokens === whole, `${tokens} tokens restored with a flipped bit in byte ${at}`);
    counts[tokens ? 'right' : 'alone']++;
  }
  assert.ok(counts.right > 20 && counts.alone > 50 && counts.refused > 5 && counts.gone > 5, JSON.stringify(counts));
  await model.chatCache.put('x', await chat.save());
  assert.equal((await states(folder)).length, 1);
});

for (const [method, way] of [
  ['write', 'throws'],
  ['write', 'writes a half'],
  ['write', 'writes nothing'],
  ['write', 'has no room'],
  ['flush', 'throws'],
  ['list', 'throws'],
  ['read', 'returns wrong bytes'],
  ['read', 'throws'],
  ['remove', 'throws'],
]) {
  test(`a store whose ${method} ${way}: the saved chat remains, or an error with a code is thrown`, async (t) => {
    const { folder, cache } = place(t);
    const model = await open(t, 'tiny', { cache });
    const chat = await talk(model);
    const saved = await chat.save();
    await model.chatCache.put('x', saved);
    for (let moment = 0; moment < 4; moment++) {
      const store = faultyStore(openStore(folder), { method, way, moment, lasting: true });
      const broken = await open(t, 'tiny', { cache: openCache(store) });
      const [put, got] = [
        await broken.chatCache.put('x', saved).catch((error) => error),
        await broken.chatCache.get('x').catch((error) => error),
      ];
      for (const result of [put, got])
        assert.ok(
          !(result instanceof Error) || ['cache-failed', 'bad-saved'].includes(Object(result).code),
          result?.stack,
        );
      if (got instanceof Uint8Array) assert.deepEqual(broken.chat({ saved: got }).messages, chat.messages);
      assert.deepEqual(await model.chatCache.get('x'), saved, `from call ${moment}`);
    }
  });
}

test('a chat whose file another process removes or replaces is written or read again', async (t) => {
  const { folder } = place(t);
  const store = openStore(folder);
  let flushes = 0;
  const flush = async (/** @type {string} */ name) => void (flushes++ || (await rm(join(folder, name))));
  const model = await open(t, 'tiny', { cache: openCache({ ...store, flush }) });
  const saved = await (await talk(model)).save();
  await model.chatCache.put('x', saved);
  let looks = 0;
  const size = async (/** @type {string} */ name) => (looks++ ? store.size(name) : 0);
  const reader = await open(t, 'tiny', { cache: openCache({ ...store, size }) });
  assert.deepEqual(await reader.chatCache.get('x'), saved);
});

test('chatCache needs a cache, rejects other bytes, and can be aborted', async (t) => {
  const { cache } = place(t);
  const model = await open(t, 'tiny', { cache });
  const chat = await talk(model);
  const without = await open(t, 'tiny', { cache: false });
  await refuses(without.chatCache.get('x'), 'bad-state');
  await refuses(model.chatCache.put('x', new Uint8Array(100)), 'bad-saved');
  await refuses(model.chatCache.put('', await chat.save()), 'bad-option');
  await refuses(model.chatCache.put('x'.repeat(201), await chat.save()), 'bad-option');
  await refuses(model.chatCache.put('x', await chat.save(), { signal: AbortSignal.abort() }), 'aborted');
  assert.equal(await model.chatCache.get('x'), undefined);
});
