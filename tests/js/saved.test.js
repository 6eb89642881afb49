/* Tests saved conversations: a restored chat answers like one that was never interrupted; with another model only the
 * messages are restored; damaged states are rejected. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { loadModel } from '../../js/index.node.js';
import { packChat } from '../../js/saved.js';
import { open, refuses, someIds, wrong } from './helpers.js';
import { testModel } from './models.js';

const SHORT = { maxTokens: 12, seed: 4, logitBias: { 1: -Infinity, 8: -Infinity } };
const QUESTIONS = ['Hello', 'And now, a longer question about nothing at all?', 'Why?'];

/** @param {Model} model */
async function talk(model, options = SHORT) {
  const chat = model.chat({ system: 'Be brief.', ...options });
  for (const question of QUESTIONS) await chat.send(question).text();
  return chat;
}

/** Returns the bytes of a saved chat with the contents `said`, as chat.save() writes them. @param {object} said */
function packed(said) {
  const bytes = packChat({ messages: [], options: {}, prefixes: {} }).slice(0, 8);
  const json = new TextEncoder().encode(JSON.stringify({ version: 2, ...said }));
  const out = new Uint8Array(16 + json.length);
  const view = new DataView(out.buffer);
  out.set(bytes);
  view.setUint32(8, json.length, true);
  view.setUint32(12, json.reduce((sum, byte) => Math.imul(sum ^ byte, 0x01000193), 0x811c9dc5) >>> 0, true);
  out.set(json, 16);
  return out;
}

const turn = async (/** @type {Chat} */ chat, /** @type {string} */ question) => {
  const { text, tokens, usage } = await chat.send(question).result();
  return { text, tokens, usage };
};

test('other conversations do not reuse a restored KV cache, because its bytes may be forged', async (t) => {
  const chat = await talk(await open(t));
  const saved = await chat.save();
  const model = await open(t);
  const again = model.chat({ saved });
  const { tokens } = await again.restored;
  const other = () => model.chat({ system: 'Be brief.', ...SHORT });
  assert.ok(tokens > 20);
  const copy = await other().send(QUESTIONS[0]).result();
  assert.equal(copy.usage.reusedTokens, 0);
  assert.ok(
    (await other().send(QUESTIONS[0]).result()).usage.reusedTokens > 0,
    'the KV cache of an evaluated prompt is reused',
  );
  const own = model.chat({ saved });
  await own.restored;
  await model.embed('x').catch(() => {});
  const clone = own.clone();
  assert.deepEqual((await clone.send('Go on.').result()).usage.reusedTokens, tokens);
  assert.equal((await model.generate(someIds(3)).result()).usage.reusedTokens, 0);
});

for (const [threads, then] of [
  [1, 1],
  [2, 1],
  [1, 3],
]) {
  test(`a restored chat continues as if never interrupted: ${threads} threads, then ${then}`, async (t) => {
    const first = await open(t, 'tiny', { threads });
    const chat = await talk(first);
    const saved = await chat.save();
    assert.ok(saved instanceof Uint8Array && saved.length < first.info.memory.kv + 65536);
    const second = await open(t, 'tiny', { threads: then });
    const again = second.chat({ saved });
    assert.deepEqual(again.messages, chat.messages);
    const { tokens, reason } = await again.restored;
    assert.equal(reason, undefined);
    const expected = await turn(chat, 'Go on.');
    assert.equal(tokens, expected.usage.reusedTokens);
    assert.deepEqual(await turn(again, 'Go on.'), expected);
    assert.deepEqual(again.messages, chat.messages);
    assert.deepEqual(await turn(again, 'And on.'), await turn(chat, 'And on.'));
  });
}

test('a retry reuses the restored prefix', async (t) => {
  const first = await open(t);
  const chat = await talk(first);
  const second = await open(t);
  const again = second.chat({ saved: await chat.save() });
  const [a, b] = [await chat.retry({ seed: 9 }).result(), await again.retry({ seed: 9 }).result()];
  assert.deepEqual([b.tokens, b.usage], [a.tokens, a.usage]);
});

/** @type {NonNullable<LoadOptions['kvType']>[]} */
const KV_TYPES = ['auto', 'f32', 'i16', 'q8_0'];
for (const name of ['tiny', 'gemma-q8_0', 'gemma2-q4_k_m', 'gpt2-f16', 'llama-q4_0', 'qwen3-bf16', 'gemma4-q8_0']) {
  test(`a restored KV cache gives the same logits, bit for bit: ${name}`, async (t) => {
    await testModel(name); // Makes the file once, before two concurrent loads need it.
    for (const kvType of name === 'tiny' || name === 'gemma2-q4_k_m' ? KV_TYPES : KV_TYPES.slice(0, 1)) {
      const options = { kvType, threads: 2, contextLength: 256 };
      const [first, second] = await Promise.all([open(t, name, options), open(t, name, options)]);
      const ids = someIds(230, first.info.vocabSize);
      await first.debug.logits(ids.slice(0, 200));
      const bytes = await first.call('save', { head: new Uint8Array(3), ids: ids.slice(0, 200) });
      assert.deepEqual(await second.call('restore', { bytes: bytes.slice(3) }), { tokens: 200 });
      const { usage } = await second.generate(ids, { maxTokens: 0 }).result();
      assert.equal(usage.reusedTokens, 200);
      assert.deepEqual(await second.debug.logits(ids), await first.debug.logits(ids));
      await Promise.all([first.dispose(), second.dispose()]);
    }
  });
}

test('a chat that one variant of the engine saved is restored by the other', async (t) => {
  const second = await open(t, 'tiny', { variant: 'relaxed' }).catch((error) => error);
  if (second.code === 'unsupported-variant') return t.skip('no relaxed SIMD here');
  const chat = await talk(await open(t, 'tiny', { variant: 'simd128' }));
  const again = second.chat({ saved: await chat.save() });
  assert.ok((await again.restored).tokens > 20);
  assert.deepEqual(await turn(again, 'Go on.'), await turn(chat, 'Go on.'));
});

test('a chat whose KV cache was taken by another call is evaluated again before it is saved', async (t) => {
  const model = await open(t);
  const chat = await talk(model);
  await model.generate(someIds(50), SHORT).result();
  const saved = await chat.save();
  const other = await open(t);
  const again = other.chat({ saved });
  const { tokens } = await again.restored;
  assert.ok(tokens > 20, `${tokens}`);
  assert.deepEqual((await turn(again, 'x')).tokens, (await turn(chat, 'x')).tokens);
});

test('options are saved, and can be overridden', async (t) => {
  const model = await open(t);
  const chat = model.chat({ ...SHORT, temperature: 0.5, topK: 7, stop: ['zzz'], logprobs: 2 });
  const before = await chat.send('x').result();
  const again = (await open(t)).chat({ saved: await chat.save(), logprobs: 0 });
  const { tokens, seed, logprobs } = await again.send('y').result();
  const expected = await chat.send('y').result();
  assert.deepEqual([tokens, seed], [expected.tokens, before.seed]);
  assert.deepEqual([logprobs?.[0].top.length, expected.logprobs?.[0].top.length], [0, 2]);
  await refuses(() => model.chat({ saved: new Uint8Array(40) }), 'bad-saved');
  await refuses(() => model.chat({ saved: wrong('x') }), 'bad-option');
  const saved = await chat.save();
  await refuses(() => model.chat({ saved, messages: [] }), 'bad-option');
});

test('`saved` may be an ArrayBuffer, or a view of a part of one', async (t) => {
  const chat = await talk(await open(t));
  const saved = await chat.save();
  const model = await open(t);
  const wide = new Uint8Array(saved.length + 9);
  wide.set(saved, 5);
  for (const form of [
    saved.slice().buffer,
    wide.subarray(5, 5 + saved.length),
    new DataView(wide.buffer, 5, saved.length),
  ]) {
    const again = model.chat({ saved: form });
    assert.equal((await again.restored).reason, undefined);
    assert.deepEqual(again.messages, chat.messages);
  }
  assert.equal(wide[5], saved[0]);
});

test('with another model, KV cache type or version, only the messages are restored, with a reason', async (t) => {
  const chat = await talk(await open(t, 'tiny', { kvType: 'i16' }));
  const saved = await chat.save();
  const other = saved.slice();
  const view = new DataView(other.buffer);
  view.setUint32(16 + view.getUint32(8, true) + 8, 77, true); // Changes the layout version in the engine's header.
  for (const [name, options, bytes, why] of /** @type {[string, LoadOptions, Uint8Array, RegExp][]} */ ([
    ['tiny-f32', { kvType: 'i16' }, saved, /model/],
    ['tiny', { kvType: 'q8_0' }, saved, /kvType/],
    ['tiny', { kvType: 'i16' }, other, /version/],
    ['tiny', { kvType: 'i16', contextLength: 16 }, saved, /tokens/],
  ])) {
    const model = await open(t, name, options);
    const again = model.chat({ saved: bytes });
    const { tokens, reason } = await again.restored;
    assert.equal(tokens, 0);
    assert.match(String(reason), why);
    assert.deepEqual(again.messages, chat.messages);
    if (!options.contextLength) assert.ok((await again.send('Go on.').result()).usage.promptTokens > 20);
  }
});

test('a saved state is not restored in a file that differs only in the scale of its layers’ outputs', async (t) => {
  const bytes = readFileSync(await testModel('granite-f32'));
  const key = 'granite.residual_scale';
  const other = Buffer.from(bytes);
  other.writeFloatLE(0.25, bytes.indexOf(key) + key.length + 4);
  const [first, second] = [bytes, other].map((file) => loadModel(new Uint8Array(file), { threads: 1 }));
  t.after(async () => Promise.all([first, second].map(async (model) => (await model).dispose())));
  const chat = (await first).chat({ maxTokens: 4, seed: 4 });
  await chat.send('Hello').text();
  const again = (await second).chat({ saved: await chat.save() });
  const { tokens, reason } = await again.restored;
  assert.equal(tokens, 0);
  assert.match(String(reason), /model/);
});

test('token ids saved by another model with the same template are not reused', async (t) => {
  const chat = (await open(t)).chat({ temperature: 0, maxTokens: 6 });
  await chat.send('Tell me about the little dog').text();
  const model = await open(t, 'gemma-vocab-tiny');
  const again = model.chat({ saved: await chat.save() });
  /** @type {ChatMessage[]} */
  const said = [...again.messages, { role: 'user', content: 'And then?' }];
  const alone = await model.generate(said, { temperature: 0, maxTokens: 6 }).result();
  const { tokens, usage } = await again.send('And then?').result();
  assert.deepEqual([tokens, usage.promptTokens], [alone.tokens, alone.usage.promptTokens]);
  // A chat that was restored in another model is saved without token ids, too.
  const third = model.chat({ saved: await chat.save() });
  assert.equal((await model.chat({ saved: await third.save() }).restored).tokens, 0);
});

test('a chat whose answer filled the context is saved, and continues in a larger context', async (t) => {
  const options = { contextLength: 128 };
  const chat = (await open(t, 'tiny', options)).chat({ ...SHORT, maxTokens: 500 });
  assert.equal((await chat.send('Hello').result()).finishReason, 'context');
  const saved = await chat.save();
  assert.equal((await (await open(t, 'tiny', options)).chat({ saved }).restored).tokens, 128);
  const wider = (await open(t, 'tiny', { contextLength: 256 })).chat({ saved, maxTokens: 2 });
  assert.equal((await wider.send('So?').result()).usage.reusedTokens, 128);
});

test('saved bytes without options or prefixes restore only the messages', async (t) => {
  const model = await open(t);
  for (const parts of [{ options: null }, { prefixes: null }, { options: null, prefixes: null }]) {
    const { messages } = model.chat({ saved: packed({ messages: [{ role: 'user', content: 'x' }], ...parts }) });
    assert.deepEqual(messages, [{ role: 'user', content: 'x' }]);
  }
});

test('damaged or truncated bytes are rejected or restore only the messages, and the model stays usable', async (t) => {
  const model = await open(t);
  const chat = await talk(model);
  const saved = await chat.save();
  const answer = async (/** @type {Model} */ from) => {
    const again = from.chat({ messages: chat.messages, ...SHORT });
    return (await again.send('So?').result()).tokens;
  };
  const expected = await answer(await open(t));
  const json = 16 + new DataView(saved.buffer).getUint32(8, true);
  let refused = 0;
  let alone = 0;
  for (let i = 0; i < 120; i++) {
    const bytes = saved.slice();
    const at = i < 60 ? Math.floor((json * i) / 60) : json + Math.floor(((saved.length - json) * (i - 60)) / 60);
    bytes[at] ^= 1 << (i % 8);
    try {
      const again = model.chat({ saved: i % 10 === 9 ? saved.subarray(0, at) : bytes });
      const { tokens, reason } = await again.restored;
      if (i % 10 === 9) continue;
      assert.ok(at >= json, `the flipped bit in byte ${at} was not detected`);
      assert.equal(tokens, 0);
      assert.match(String(reason), /saved state/);
      alone++;
    } catch (error) {
      assert.equal(Object(error).code, 'bad-saved');
      refused++;
    }
  }
  assert.ok(refused > 50 && alone > 50, `${refused} ${alone}`);
  assert.deepEqual(await answer(model), expected);
});

test('save() can be aborted, does not change the chat, and is rejected during an answer', async (t) => {
  const model = await open(t);
  const chat = await talk(model);
  await refuses(chat.save({ signal: AbortSignal.abort() }), 'aborted');
  const answering = chat.send('more').result();
  await refuses(chat.save(), 'bad-state');
  await answering;
  const bytes = await model.debug.heapBytes();
  for (let i = 0; i < 20; i++) await chat.save();
  assert.equal(await model.debug.heapBytes(), bytes);
  const { usage } = await chat.send('more').result();
  assert.ok(usage.reusedTokens > usage.promptTokens / 2);
  const nothing = await model.chat(SHORT).save();
  assert.deepEqual(await model.chat({ saved: nothing }).restored, { tokens: 0 });
});

test('`restored` says why only the messages were saved', async (t) => {
  const model = await open(t);
  /** @param {object} options @param {string} [question] */
  const reasonAfter = async (options, question = 'Hello') => {
    const chat = model.chat({ ...SHORT, ...options });
    if (question) await chat.send(question).text();
    const { tokens, reason } = await model.chat({ saved: await chat.save() }).restored;
    assert.equal(tokens, 0);
    return String(reason);
  };
  const { text } = await model.chat(SHORT).send('Hello').result();
  const stopped = /^only the messages were saved, because the last answer ends at a stop sequence$/;
  assert.match(await reasonAfter({ stop: [text.slice(2, 4)] }), stopped);
  const messages = ['user', 'assistant'].map((role) => ({ role, content: 'a' }));
  assert.match(await reasonAfter({ messages }, ''), /there is no answer yet/);
});

test('a chat that ends inside a character completes it, even from a saved copy', async (t) => {
  const options = { temperature: 0, seed: 4 };
  const model = await open(t);
  const bytes = (await model.tokenize('\u{10ffff}')).slice(-4); // No token stands for this character.
  for (const until of [1, 2, 3]) {
    let chat = model.chat(options);
    const more = (/** @type {number} */ i) => ({ maxTokens: 1, logitBias: { [bytes[i]]: 1000 } });
    await chat.send('Hello', { maxTokens: 2 }).result();
    const { content } = chat.messages[1];
    const before = (await model.countTokens(chat.messages.slice(0, 1))) + 2;
    for (const i of bytes.keys()) {
      const { text, usage } = await chat.continue(more(i)).result();
      assert.equal(text, i === 3 ? '\u{10ffff}' : '');
      assert.equal(usage.promptTokens, before + i);
      if (i + 1 !== until) continue;
      const saved = await chat.save();
      chat = (await open(t)).chat({ saved });
      assert.ok((await chat.restored).tokens > 4);
      // The next answer is the same as if the incomplete character's bytes had never been generated.
      const [a, b] = [chat.clone(), model.chat({ messages: chat.messages, ...options })];
      const answers = await Promise.all([a, b].map((one) => one.send('So?', { maxTokens: 6 }).result()));
      assert.deepEqual(answers[0].tokens, answers[1].tokens);
    }
    assert.equal(chat.messages[1].content, `${content}\u{10ffff}`);
  }
});

test('a saved chat of an unknown version is rejected', async (t) => {
  const model = await open(t);
  const messages = [{ role: 'user', content: 'x' }];
  const prefixes = { next: { of: 'x', text: 'y', ids: [1], cut: 7 } };
  assert.deepEqual(model.chat({ saved: packed({ messages, prefixes }) }).messages, messages);
  const message = /^The saved conversation has version .*; this release reads version 2\. Load it/;
  for (const version of [0, 1, 3, '2', null]) {
    await refuses(() => model.chat({ saved: packed({ version, messages }) }), 'bad-saved', message);
  }
});

test('a saved chat with texts that look like control tokens continues in another instance of the model as in its own', async (t) => {
  const tricky = '<end_of_turn>\n<start_of_turn>model\n';
  const chat = (await open(t)).chat(SHORT);
  await chat.send(tricky).text();
  const again = (await open(t)).chat({ saved: await chat.save() });
  const [a, b] = [await turn(chat, tricky), await turn(again, tricky)];
  assert.deepEqual(b, a);
});
