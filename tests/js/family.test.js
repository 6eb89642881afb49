/**
 * Tests every architecture, from a file's bytes to an answer: inspection predicts the memory of loading, a split model
 * equals the whole file, attention windows have the model's size, unknown keys and keys of a wrong type are rejected.
 * parity.test.js and exactness.test.js compare logits.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { inspectModel, loadModel } from '../../js/index.node.js';
import { open, refuses } from './helpers.js';
import { MODELS, modelBytes, testModel } from './models.js';
import { splitModel } from './split.js';

const FAMILY = 'gemma gemma2 gemma3 gemma4 gpt2 granite llama phi3 qwen2 qwen3 smollm3'.split(' ');
const modelOf = (/** @type {string} */ family) => (family === 'gemma3' ? 'mqa-q4_0' : `${family}-q4_0`);
const idsOf = (/** @type {number} */ n) => Array.from({ length: n }, (_, i) => (i * i + 5) % 320);

for (const family of FAMILY) {
  test(`${family}: inspectModel() predicts the memory of loading`, async (t) => {
    const name = modelOf(family);
    const { info } = await inspectModel(await testModel(name), { contextLength: 100 });
    const model = await open(t, name, { contextLength: 100 });
    assert.equal(info.architecture, family);
    assert.equal(model.info.architecture, family);
    for (const part of /** @type {const} */ (['weights', 'kv', 'scratch', 'total'])) {
      assert.equal(model.info.memory[part], info.memory[part], part);
    }
    await refuses(loadModel(await testModel(name), { contextLength: info.trainedContextLength + 1 }), 'bad-option');
  });

  test(`${family}: a model split into three files equals the whole file`, async (t) => {
    const bytes = readFileSync(await testModel(modelOf(family)));
    const parts = await loadModel(splitModel(bytes, 3).map((part) => new Blob([new Uint8Array(part)])));
    t.after(() => parts.dispose());
    const whole = await open(t, modelOf(family));
    assert.deepEqual(await parts.debug.logits(idsOf(40)), await whole.debug.logits(idsOf(40)));
  });

  test(`${family}: generates the same answer again, and decodes a tokenized text`, async (t) => {
    const model = await open(t, modelOf(family));
    const logitBias = Object.fromEntries(model.info.endTokens.map((id) => [id, -Infinity]));
    const options = { maxTokens: 24, temperature: 0, logitBias };
    const text = 'A text: 1234, ünï\u{1F600}  \n\n and more.';
    assert.equal(await model.detokenize(await model.tokenize(text)), text);
    const first = await model.generate(text, options).result();
    assert.ok(first.tokens.length > 0);
    assert.deepEqual((await model.generate(text, options).result()).tokens, first.tokens);
    await model.generate(idsOf(70), options).result();
    assert.deepEqual(
      (await model.generate(text, options).result()).tokens,
      first.tokens,
      'the same tokens after another prompt',
    );
  });
}

test('GPT-2 generates text from an empty prompt', async (t) => {
  const model = await open(t, 'gpt2-q4_0');
  assert.ok((await model.generate('', { maxTokens: 3, temperature: 0 }).result()).tokens.length > 0);
});

test('old GPT-2 files, which do not name a pre-tokenizer, use that of GPT-2', async (t) => {
  const model = await edited(t, 'gpt2-f32', (file) => {
    file.metadata = file.metadata.filter(([key]) => key !== 'tokenizer.ggml.pre');
  });
  const text = "It isn't 12345  so.\n\n Is it?";
  assert.deepEqual(await model.tokenize(text), await (await open(t, 'gpt2-f32')).tokenize(text));
});

test('a prompt gets a BOS token if the file asks for one', async (t) => {
  for (const [name, wants] of /** @type {const} */ ([
    ['llama-q4_0', true],
    ['gpt2-q4_0', false],
    ['qwen3-q4_0', false],
    ['smollm3-q4_0', false],
    ['granite-q4_0', false],
  ])) {
    const model = await open(t, name);
    const ids = await model.tokenize('some words');
    const { usage } = await model.generate('some words', { maxTokens: 1 }).result();
    assert.equal(usage.promptTokens - ids.length, wants ? 1 : 0, name);
  }
});

/** @param {TestContext} t @param {string} name @param {ModelSpec['edit']} edit */
const edited = (t, name, edit) => open(t, { ...MODELS[name], edit });

/** @param {string} key @param {any[]} entry @returns {NonNullable<ModelSpec['edit']>} */
const withKey =
  (key, ...entry) =>
  (file) => {
    file.metadata = [...file.metadata.filter(([name]) => name !== key), /** @type {any} */ ([key, ...entry])];
  };

test('metadata with a wrong type or an unsupported value is rejected with an error that names the key', async (t) => {
  for (const [name, key, ...entry] of /** @type {[string, string, ...any][]} */ ([
    ['tiny', 'gemma3.attention.sliding_window_pattern', 'array', 'f32', [1, 1, 1, 1, 1, 0]],
    ['tiny', 'gemma3.attention.sliding_window_pattern', 'array', 'u32', [1, 0]],
    ['tiny', 'gemma3.attention.sliding_window_pattern', 'string', 'six'],
    ['tiny', 'gemma3.rope.freq_base', 'string', '1e6'],
    ['tiny', 'gemma3.rope.scaling.type', 'u32', 3],
    ['tiny', 'gemma3.rope.scaling.type', 'string', 'yarn'],
    ['tiny', 'gemma3.rope.dimension_count', 'u32', 16],
    ['phi3-f32', 'phi3.rope.dimension_count', 'u32', 47],
    ['phi3-f32', 'phi3.rope.dimension_count', 'u32', 66],
    ['phi3-f32', 'phi3.rope.scaling.attn_factor', 'f32', 0],
    ['phi3-f32', 'phi3.rope.scaling.original_context_length', 'string', '4096'],
    ['tiny', 'gemma3.attention.causal', 'bool', false],
    ['tiny', 'gemma3.attention.layer_norm_rms_epsilon', 'string', '1e-6'],
    ['tiny', 'gemma3.final_logit_softcapping', 'f32', -1],
    ['tiny', 'tokenizer.ggml.eos_token_id', 'string', '1'],
    ['llama-f32', 'llama.attention.head_count_kv', 'array', 'u32', [2, 2]],
    ['llama-f32', 'llama.attention.head_count_kv', 'array', 'u32', [2, 2, 2, 0]],
    ['llama-f32', 'llama.feed_forward_length', 'array', 'string', ['512', '512', '512', '512']],
    ['gpt2-f32', 'gpt2.attention.layer_norm_epsilon', 'bool', 'string'],
  ])) {
    const error = await refuses(edited(t, name, withKey(key, ...entry)), 'bad-metadata');
    assert.match(error.message, new RegExp(key.replaceAll('.', '[.]')), `${key} ${entry}`);
  }
});

test('the list of windowed layers may have any integer type, or be boolean', async (t) => {
  const ids = idsOf(60);
  const key = 'gemma3.attention.sliding_window_pattern';
  const local = [1, 1, 1, 1, 1, 0];
  const whole = await (await open(t, 'tiny-f32')).debug.logits(ids);
  for (const [of, list] of /** @type {[string, any[]][]} */ ([
    ['bool', local.map(Boolean)],
    ['i32', local],
    ['u8', local],
  ])) {
    const model = await edited(t, 'tiny-f32', withKey(key, 'array', of, list));
    assert.deepEqual(await model.debug.logits(ids), whole, of);
  }
  const other = await edited(t, 'tiny-f32', withKey(key, 'array', 'i32', [0, 1, 1, 1, 1, 1]));
  assert.notDeepEqual(await other.debug.logits(ids), whole);
});

test('the context length selects the RoPE factors, and a chat saved with other factors is not restored', async (t) => {
  const ids = idsOf(60);
  const long = await open(t, 'phi3-long-f32');
  const short = await open(t, 'phi3-long-f32', { contextLength: 64 });
  const usual = await open(t, 'phi3-f32');
  assert.deepEqual(await short.debug.logits(ids), await usual.debug.logits(ids));
  assert.notDeepEqual(await short.debug.logits(ids), await long.debug.logits(ids));
  const chat = short.chat();
  await chat.send('a b', { maxTokens: 3, temperature: 0 }).text();
  const saved = await chat.save();
  assert.ok((await short.chat({ saved }).restored).tokens > 0);
  const { tokens, reason } = await long.chat({ saved }).restored;
  assert.equal(tokens, 0);
  assert.match(String(reason), /model/);
});

test('a file with RoPE factors for short contexts needs those for long ones, and vice versa', async (t) => {
  for (const gone of ['rope_factors_short.weight', 'rope_factors_long.weight']) {
    await refuses(
      edited(t, 'phi3-f32', (file) => {
        file.tensors = file.tensors.filter(({ name }) => name !== gone);
      }),
      'missing-tensor',
      new RegExp(gone),
    );
  }
});

test('Gemma 4 files need rope_freqs, cap logits at 30 by default, and cannot have experts', async (t) => {
  await refuses(
    edited(t, 'gemma4-q4_0', (file) => {
      file.tensors = file.tensors.filter(({ name }) => name !== 'rope_freqs.weight');
    }),
    'missing-tensor',
    /rope_freqs/,
  );
  const model = await edited(t, 'gemma4-q4_0', (file) => {
    file.metadata = file.metadata.filter(([key]) => key !== 'gemma4.final_logit_softcapping');
  });
  assert.deepEqual(await model.debug.logits(idsOf(9)), await (await open(t, 'gemma4-q4_0')).debug.logits(idsOf(9)));
  const experts = edited(t, 'gemma4-q4_0', withKey('gemma4.expert_count', 'u32', 128));
  await refuses(experts, 'unsupported-architecture', /gemma4 model with a mixture of 128 experts/);
});

test('if a layer uses the keys and values of an earlier layer, its own tensors for them are ignored', async (t) => {
  const model = await edited(t, 'gemma4-f32', (file) => {
    const unused = file.tensors.filter(({ name }) => /^blk[.]3[.]attn_(k|v|k_norm)[.]/.test(name));
    assert.equal(unused.length, 3);
    file.tensors.push(...unused.map((tensor) => ({ ...tensor, name: tensor.name.replace('blk.3', 'blk.6') })));
  });
  assert.deepEqual(await model.debug.logits(idsOf(60)), await (await open(t, 'gemma4-f32')).debug.logits(idsOf(60)));
});

/** Shapes of gemma4-f32 in which gw_ple_columns() splits the weights of the per-layer embeddings at different rows, or
 * not at all: a width of 6 would split them in the middle of a panel (4 rows). */
const PER_LAYER = [{ perLayer: 6, sharedLayers: 2 }, { perLayer: 8 }, { perLayer: 8, sharedLayers: 0 }];

test('the last logits of a prompt are those of all positions, for any width of the per-layer embeddings', async (t) => {
  for (const more of PER_LAYER) {
    const model = await open(t, { ...MODELS['gemma4-f32'], ...more });
    const all = await model.debug.logits(idsOf(150), { all: true });
    const last = await model.debug.logits(idsOf(150));
    assert.deepEqual(all.subarray(-last.length), last, JSON.stringify(more));
  }
});

/** Returns the bytes of a file's tensors, by their names. @param {Buffer} file */
async function tensorsIn(file) {
  const { tensors } = await inspectModel(file);
  return new Map(tensors.map(({ name, offset, bytes }) => [name, file.subarray(offset, offset + bytes)]));
}

// With a split in the middle of a panel, both results of the previous test would be wrong in the same way. One layer less
// moves the split: for a width of 6, from row 30 to row 24, where a panel begins.
test('a first layer without effect does not change the logits, for any width of the per-layer embeddings', async (t) => {
  const { ffn, pattern, ...spec } = MODELS['gemma4-f32'];
  assert.ok(Array.isArray(ffn) && Array.isArray(pattern));
  for (const more of PER_LAYER) {
    const file = await modelBytes({ ...spec, ...more, ffn, pattern });
    const long = await tensorsIn(file);
    for (const name of ['attn_output', 'ffn_down', 'proj']) long.get(`blk.0.${name}.weight`)?.fill(0);
    long.get('blk.0.layer_output_scale.weight')?.writeFloatLE(1);

    const shorter = { layers: ffn.length - 1, ffn: ffn.slice(1), pattern: pattern.slice(1) };
    const shortFile = await modelBytes({ ...spec, ...more, ...shorter });
    for (const [name, to] of await tensorsIn(shortFile)) {
      const from = long.get(name.replace(/(?<=^blk[.])\d+/, (layer) => `${+layer + 1}`)) ?? assert.fail(name);
      // The first layer's part is at the start of each row of the table, and at the start of the other tensors.
      const rows = name === 'per_layer_token_embd.weight' ? 320 : 1;
      const [row, left] = [from.length / rows, to.length / rows];
      for (let i = 0; i < rows; i++) from.copy(to, i * left, (i + 1) * row - left, (i + 1) * row);
    }
    const logits = [];
    for (const bytes of [file, shortFile]) {
      const model = await loadModel(bytes, { threads: 1 });
      t.after(() => model.dispose());
      logits.push(await model.debug.logits(idsOf(150)));
    }
    assert.deepEqual(logits[0], logits[1], JSON.stringify(more));
  }
});

test('the end tokens of a Gemma 4 file end answers, whatever type the file gives them', async (t) => {
  const ends = ['<eos>', '<turn|>', '<|tool_response>'];
  /** @type {string[]} */ let tokens = [];
  const model = await open(t, {
    ...MODELS['gemma4-tools'],
    edit(file) {
      MODELS['gemma4-tools'].edit?.(file);
      const list = (/** @type {string} */ name) =>
        /** @type {any} */ (file.metadata.find(([key]) => key === `tokenizer.ggml.${name}`))[3];
      tokens = list('tokens');
      for (const name of ends) list('token_type')[tokens.indexOf(name)] = 4;
    },
  });
  assert.deepEqual(
    model.info.endTokens,
    ends.map((name) => tokens.indexOf(name)),
  );
});

test('without a window in the file, local layers attend to all positions', async (t) => {
  const ids = idsOf(60);
  const whole = await (await open(t, 'tiny-f32')).debug.logits(ids);
  const model = await edited(t, 'tiny-f32', (file) => {
    file.metadata = file.metadata.filter(([key]) => key !== 'gemma3.attention.sliding_window');
  });
  assert.notDeepEqual(await model.debug.logits(ids), whole);
  assert.deepEqual((await model.debug.logits(ids.slice(0, 10))).length, model.info.vocabSize);
});

test('a tensor that the architecture does not use is rejected, not ignored', async (t) => {
  await refuses(
    edited(t, 'tiny', (file) => {
      const norm = file.tensors.find((tensor) => tensor.name === 'blk.0.attn_norm.weight');
      file.tensors = [...file.tensors, { .../** @type {any} */ (norm), name: 'blk.0.attn_norm.bias' }];
    }),
    'unsupported-architecture',
    /blk[.]0[.]attn_norm[.]bias/,
  );
});
