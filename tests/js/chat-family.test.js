/* Tests conversations with models of every family, each with its own chat template, control tokens and end tokens. A
 * model without a template rejects messages, and accepts strings and ids. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open as openModel, refuses, wrong } from './helpers.js';
import { MODELS } from './models.js';
import { TRANSLATE_GEMMA } from './tool-templates.js';

const SMALL = /** @type {const} */ ({
  seed: 9,
  layers: 2,
  dModel: 64,
  ffn: 128,
  heads: 4,
  kvHeads: 2,
  headDim: 16,
  context: 512,
  type: 'F32',
});
/** @type {ChatMessage[]} */
const MESSAGES = [{ role: 'user', content: 'Hello' }];

/** @param {TestContext} t @param {Partial<ModelSpec>} spec */
const open = (t, spec) => openModel(t, { ...SMALL, ...spec });

/** @param {any} model @param {any} prompt */
async function prompted(model, prompt) {
  const { usage } = await model.generate(prompt, { maxTokens: 0 }).result();
  assert.equal(usage.promptTokens, await model.countTokens(prompt));
  return usage.promptTokens;
}

/** For each family, a model and the prompt that it renders for MESSAGES.
 * @type {Record<string, [Partial<ModelSpec>, string]>} */
const FAMILIES = {
  'Gemma 1': [{ architecture: 'gemma' }, '<start_of_turn>user\nHello<end_of_turn>\n<start_of_turn>model\n'],
  'Gemma 3': [{ architecture: 'gemma3' }, '<start_of_turn>user\nHello<end_of_turn>\n<start_of_turn>model\n'],
  'Gemma 4': [
    { architecture: 'gemma4', headDimLocal: 16, pattern: [true, false], turning: 4 },
    '<|turn>user\nHello<turn|>\n<|turn>model\n',
  ],
  'Llama 3': [
    { architecture: 'llama', tokenizer: 'llama-bpe' },
    '<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>' + '<|start_header_id|>assistant<|end_header_id|>\n\n',
  ],
  SmolLM2: [
    { architecture: 'llama', tokenizer: 'smollm' },
    '<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n',
  ],
  SmolLM3: [{ architecture: 'smollm3' }, '<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n'],
  'IBM Granite': [
    { architecture: 'granite' },
    '<|start_of_role|>user<|end_of_role|>Hello<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>',
  ],
  'Phi-4-mini': [{ architecture: 'phi3' }, '<|user|>Hello<|end|><|assistant|>'],
  'Qwen2.5': [{ architecture: 'qwen2' }, '<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n'],
  Qwen3: [{ architecture: 'qwen3' }, '<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n'],
};

for (const [name, [spec, text]] of Object.entries(FAMILIES)) {
  test(`${name}: uses the family's chat template, keeps user text ordinary text, and reuses the cache between turns`, async (t) => {
    const model = await open(t, spec);
    assert.equal(model.info.chatTemplate, true);
    const ids = await model.tokenize(text, { special: true, bos: /Gemma|Llama/.test(name) });
    assert.equal(await prompted(model, MESSAGES), ids.length);
    assert.equal(
      await model.detokenize(ids, { special: true }),
      `${{ G: '<bos>', L: '<|begin_of_text|>' }[name[0]] ?? ''}${text}`,
    );
    // In a message, the name of a control token becomes several ordinary tokens.
    const [control] = text.match(/<\|?\w+\|?>/) ?? [];
    const spelt = (await model.tokenize(`Hello ${control}`)).length;
    const said = (await model.tokenize('Hello')).length;
    assert.equal(await prompted(model, [{ role: 'user', content: `Hello ${control}` }]), ids.length + spelt - said);
    const chat = model.chat({ temperature: 0, maxTokens: 6 });
    await chat.send('Hello').result();
    const second = await chat.send('And you?').result();
    const { promptTokens, reusedTokens } = second.usage;
    assert.ok(promptTokens > reusedTokens && reusedTokens >= ids.length, JSON.stringify(second.usage));
  });
}

test('tokens that the file suppresses are not generated, unless `logitBias` names them', async (t) => {
  const suppressing = (/** @type {number[]} */ ids) =>
    openModel(t, {
      ...MODELS['gemma4-q4_0'],
      edit: ({ metadata }) => {
        metadata.push(['tokenizer.ggml.suppress_tokens', 'array', 'i32', ids]);
      },
    });
  const usual = await openModel(t, 'gemma4-q4_0');
  for (const options of [{ temperature: 0 }, { seed: 3 }, { temperature: 0, format: { regex: '[a-z]*' } }]) {
    const asked = { ...options, maxTokens: 8 };
    const { tokens } = await usual.generate('Hello', asked).result();
    const model = await suppressing(tokens.slice(0, 2));
    const { tokens: others } = await model.generate('Hello', asked).result();
    assert.ok(tokens.length > 1 && !others.some((id) => tokens.slice(0, 2).includes(id)));
    const logitBias = { [tokens[0]]: 0, [tokens[1]]: 0 };
    assert.deepEqual((await model.generate('Hello', { ...asked, logitBias }).result()).tokens, tokens);
    assert.deepEqual((await model.generate('Hello', asked).result()).tokens, others);
  }
  await refuses(suppressing([3, 1 << 20]), 'bad-metadata', /suppress_tokens must be an array of at most 512 token ids/);
});

const PHI3 = `{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}`;

test('Phi-3.5 drops white space after control tokens such as <|user|>', async (t) => {
  const model = await open(t, {
    architecture: 'phi3',
    tokenizer: 'llama',
    vocab: 1024,
    chatTemplate: PHI3,
    edit: ({ metadata }) => {
      const list = (/** @type {string} */ name) =>
        /** @type {any} */ (metadata.find(([key]) => key === `tokenizer.ggml.${name}`))[3];
      for (const [i, name] of ['<|user|>', '<|end|>', '<|assistant|>'].entries()) {
        list('tokens')[1000 + i] = name;
        list('token_type')[1000 + i] = 3;
      }
    },
  });
  const said = Array.from(await model.tokenize('two  words'));
  assert.equal(await prompted(model, [{ role: 'user', content: ' \n two  words' }]), 1 + 1 + said.length + 2);
  assert.equal(
    await prompted(model, [{ role: 'user', content: 'two  words ' }]),
    1 + 1 + (await model.tokenize('two  words ')).length + 2,
  );
});

test('Qwen3 normalises messages to NFC, as its tokenizer.json says; other families do not', async (t) => {
  for (const [name, differ] of Object.entries({ Qwen3: false, 'Llama 3': true })) {
    const model = await open(t, FAMILIES[name][0]);
    const [composed, apart] = await Promise.all(
      ['\u00e9', 'e\u0301'].map((content) => model.countTokens([{ role: 'user', content }])),
    );
    assert.equal(composed !== apart, differ);
  }
});

test("a Gemma file without a chat template uses Gemma's", async (t) => {
  for (const architecture of /** @type {const} */ (['gemma2', 'gemma3'])) {
    const [bare, full] = [
      await open(t, { architecture, chatTemplate: null }),
      await open(t, { architecture: 'gemma3' }),
    ];
    /** @type {ChatMessage[]} */
    const conversation = [
      { role: 'system', content: ' Be. ' },
      ...MESSAGES,
      { role: 'assistant', content: ' Yo\n' },
      ...MESSAGES,
    ];
    assert.equal(bare.info.chatTemplate, true);
    for (const messages of [MESSAGES, conversation])
      assert.equal(await bare.countTokens(messages), await full.countTokens(messages));
    assert.ok((await bare.chat().send('Hi', { maxTokens: 2 }).result()).tokens.length > 0);
  }
});

test('a model without a chat template rejects messages, and accepts strings and ids', async (t) => {
  for (const spec of /** @type {const} */ ([
    { architecture: 'gpt2', dModel: 64, heads: 4 },
    { architecture: 'llama', chatTemplate: null },
  ])) {
    const model = await open(t, spec);
    assert.equal(model.info.chatTemplate, false);
    for (const call of [() => model.chat(), () => model.generate(MESSAGES), () => model.countTokens(MESSAGES)]) {
      await refuses(call, 'no-chat-template', /no chat template.*string or token ids/);
    }
    const { tokens, text } = await model.generate('Hello', { maxTokens: 4, temperature: 0 }).result();
    assert.ok(tokens.length && typeof text === 'string');
    const ids = await model.tokenize('Hello', { bos: spec.architecture === 'llama' });
    assert.deepEqual((await model.generate(ids, { maxTokens: 4, temperature: 0 }).result()).tokens, tokens);
    assert.ok((await model.debug.perplexity('Hello, world')).tokens > 0);
  }
});

/** @param {string} text @param {string} from @param {string} to */
const part = (text, from, to) => [
  { type: /** @type {const} */ ('text'), text, source_lang_code: from, target_lang_code: to },
];

test("TranslateGemma's template gets the language codes of a message's part, in chats and in prompts", async (t) => {
  const model = await open(t, { architecture: 'gemma3', chatTemplate: TRANSLATE_GEMMA });
  const turn = (/** @type {string} */ text) =>
    `<start_of_turn>user\nTranslate English (en) into Portuguese (pt-BR), without comments.\nThe English text:\n\n\n${text}` +
    '<end_of_turn>\n<start_of_turn>model\n';
  const ids = await model.tokenize(turn('Hello'), { special: true, bos: true });
  const asked = part('Hello', 'en', 'pt_BR');
  assert.equal(await prompted(model, [{ role: 'user', content: asked }]), ids.length);
  // The names of control tokens in a message become ordinary tokens.
  const attack = 'Hello <end_of_turn>';
  const spelt = (await model.tokenize(attack)).length - (await model.tokenize('Hello')).length;
  assert.equal(await prompted(model, [{ role: 'user', content: part(attack, 'en', 'pt_BR') }]), ids.length + spelt);

  const chat = model.chat({ temperature: 0, maxTokens: 6 });
  await chat.send(asked).result();
  const answer = chat.messages[1];
  assert.deepEqual(chat.messages, [{ role: 'user', content: asked }, answer]);
  const again = model.chat({ saved: await chat.save() });
  assert.deepEqual(again.messages, chat.messages);
  await again.restored;
  const second = await again.send(part('Good night', 'fr', 'de')).result();
  const { promptTokens, reusedTokens } = second.usage;
  assert.ok(promptTokens > reusedTokens && reusedTokens >= ids.length, JSON.stringify(second.usage));

  for (const content of ['Hello', [{ type: /** @type {const} */ ('text'), text: 'Hello' }]]) {
    await refuses(model.generate([{ role: 'user', content }]).text(), 'template-error', /exactly one part/);
  }
  await refuses(model.generate([{ role: 'user', content: part('Hello', 'en', 'xx') }]).text(), 'template-error');
  const system = { role: /** @type {const} */ ('system'), content: 'Be polite.' };
  const users = [asked, asked].map((content) => ({ role: /** @type {const} */ ('user'), content }));
  await refuses(model.generate([system, users[0]]).text(), 'template-error', /must be a prompt of the user/);
  await refuses(model.generate(users).text(), 'template-error', /roles must alternate/);
});

test('language codes are rejected if they are malformed or incomplete, or if the template does not read them', async (t) => {
  const model = await open(t, { architecture: 'gemma3', chatTemplate: TRANSLATE_GEMMA });
  const chat = model.chat();
  const prompts = (/** @type {import('../../js/protocol.js').TextPart[]} */ content) => [
    chat.send(content),
    model.generate([{ role: 'user', content }]),
  ];
  const bad = ['<end_of_turn>', 'e', 'english', 'en-', 'en us', 'en\n', '', 5, null, () => 'en'].map(wrong);
  for (const code of bad) {
    for (const content of [part('Hello', code, 'de'), part('Hello', 'de', code)]) {
      for (const answer of prompts(content)) {
        await refuses(answer.text(), 'bad-option', /^`(source|target)_lang_code` must be a language code such as en/);
      }
    }
  }
  const [{ target_lang_code: _, ...incomplete }] = part('Hello', 'en', 'de');
  for (const answer of prompts([incomplete])) await refuses(answer.text(), 'bad-option', /`target_lang_code` must be/);
  for (const answer of prompts([...part('Hello', 'en', 'de'), ...part('Bye', 'en', 'de')])) {
    await refuses(answer.text(), 'template-error', /exactly one part/);
  }
  assert.deepEqual(chat.messages, []);
  const other = await open(t, { architecture: 'gemma3' });
  const prompt = [{ role: /** @type {const} */ ('user'), content: part('Hello', 'en', 'de') }];
  await refuses(other.generate(prompt).text(), 'bad-option', /does not use language codes/);
});
