/* Tests formats: answers match the format, whatever the model prefers. Tests values, partial values and rejected
 * formats, with seeds, log probabilities, stop sequences and every sampler. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { open, refuses } from './helpers.js';

const WILD = { temperature: 5, topK: 0, topP: 1, maxTokens: 400 };
const CARD = {
  type: 'object',
  properties: {
    name: { type: 'string', maxLength: 12 },
    age: { type: 'integer', minimum: 0, maximum: 120 },
    tags: { type: 'array', items: { enum: ['a', 'b c', '"d"'] }, maxItems: 3 },
    email: { type: 'null' },
  },
  required: ['name', 'age', 'tags', 'email'],
  additionalProperties: false,
};

test('with a schema, the value is valid at every temperature, and the text is its JSON', async (t) => {
  const model = await open(t);
  for (const [seed, temperature] of [
    [1, 0],
    [2, 1],
    [3, 5],
    [4, 5],
  ]) {
    const out = model.generate('A card:', { format: { schema: CARD }, ...WILD, temperature, seed });
    let seen = '';
    let before = {};
    for await (const piece of out) {
      seen += piece;
      const part = Object(out.partial());
      assert.ok(
        Object.keys(before).every((name) => name in part),
        'a partial value keeps all earlier keys',
      );
      before = part;
    }
    const { text, value, finishReason } = await out.result();
    assert.equal(seen, text);
    assert.deepEqual([finishReason, JSON.stringify(value)], ['stop', text]);
    assert.deepEqual(out.partial(), value);
    assert.deepEqual(Object.keys(value).sort(), ['age', 'email', 'name', 'tags']);
    assert.ok(Number.isInteger(value.age) && value.age >= 0 && value.age <= 120 && [...value.name].length <= 12);
    assert.ok(
      value.tags.length <= 3 && value.tags.every((/** @type {string} */ tag) => ['a', 'b c', '"d"'].includes(tag)),
    );
  }
});

test('answers match choices, regular expressions, grammars and JSON', async (t) => {
  const model = await open(t);
  for (const seed of [1, 2, 3]) {
    const ask = (/** @type {import('../../js/options.js').Format} */ format) =>
      model.generate('So:', { format, ...WILD, seed }).result();
    const chosen = await ask({ choices: ['yes', 'no', 'perhaps not'] });
    assert.ok(['yes', 'no', 'perhaps not'].includes(chosen.value) && chosen.value === chosen.text, chosen.text);
    for (const regex of ['\\d{4}-\\d{2}-\\d{2}', /\d{4}-\d{2}-\d{2}/]) {
      assert.match((await ask({ regex })).value, /^\d{4}-\d{2}-\d{2}$/);
    }
    const grammar = 'root ::= "[" word ("," word)? "]"\nword ::= [a-c]{1,3}';
    assert.match((await ask({ grammar })).value, /^\[[abc]{1,3}(,[abc]{1,3})?\]$/);
    const pretty = await ask({ schema: CARD, whitespace: 'pretty' });
    assert.equal(pretty.text, JSON.stringify(pretty.value, null, 2));
  }
  const any = await model.generate('So:', { format: 'json', temperature: 1, seed: 5, maxTokens: 2000 }).result();
  if (any.finishReason === 'stop') assert.deepEqual(any.value, JSON.parse(any.text));
});

test('tokens that a grammar names are generated as these tokens, even one that ends other answers', async (t) => {
  const model = await open(t);
  const [end] = await model.tokenize('<end_of_turn>', { special: true });
  for (const [name, id] of [
    ['<unused0>', 5],
    ['<[9]>', 9],
    [`<[${end}]>`, end],
    ['<end_of_turn>', end],
  ]) {
    const grammar = `root ::= "a" ${name} "b"?`;
    const { value, tokens, finishReason } = await model
      .generate('So:', { format: { grammar }, ...WILD, seed: 3 })
      .result();
    assert.deepEqual([finishReason, tokens[1], tokens.length], ['stop', id, value?.endsWith('b') ? 3 : 2]);
  }
  await refuses(model.generate('So:', { format: { grammar: 'root ::= <nobody>' } }).result(), 'bad-format');
});

test('partial() includes a number at the end of an answer only if the answer is complete', async (t) => {
  const model = await open(t);
  const schema = { type: 'integer', minimum: 1e9, maximum: 2e9 };
  const out = model.generate('So:', { format: { schema }, ...WILD, seed: 1 });
  const { value } = await out.result();
  assert.ok(value >= 1e9);
  assert.equal(out.partial(), value);
  const begun = model.generate('So:', { format: { schema }, ...WILD, maxTokens: 1 });
  assert.equal((await begun.result()).finishReason, 'length');
  assert.equal(begun.partial(), undefined);
});

test('an incomplete answer has no value, and its finish reason says why', async (t) => {
  const model = await open(t);
  const out = model.generate('A card:', { format: { schema: CARD }, maxTokens: 6, temperature: 0 });
  const result = await out.result();
  assert.equal(result.finishReason, 'length');
  assert.ok(!('value' in result));
  assert.throws(() => JSON.parse(result.text));
  assert.equal(typeof out.partial(), 'object');
  const stopped = await model.generate('A card:', { format: { schema: CARD }, stop: ':', ...WILD, seed: 1 }).result();
  assert.equal(stopped.finishReason, 'stop-sequence');
  assert.ok(!('value' in stopped));
});

test('unsupported formats are rejected before the first token, with an error that names the part or its position', async (t) => {
  const model = await open(t);
  for (const [format, place] of /** @type {[any, RegExp][]} */ ([
    [{ schema: { properties: { a: { type: 'wrong' } } } }, /\/properties\/a/],
    [{ schema: { $ref: '#/$defs/none' } }, /\$ref/],
    [{ regex: 'a(?=b' }, /offset/],
    [{ regex: '(a)\\1' }, /offset/],
    [{ grammar: 'root ::= other' }, /other/],
    [{ schema: false }, /contradicts itself/],
  ])) {
    const out = model.generate('x', { format });
    const error = await refuses(out.result(), 'bad-format');
    assert.match(`${error.message} ${error.got}`, place, JSON.stringify(format));
    assert.equal(out.partial(), 'schema' in format ? undefined : '');
  }
  assert.ok((await model.generate('x', { maxTokens: 2, temperature: 0 }).result()).tokens.length);
});

test('the same seed gives the same answer, even with log probabilities; logitBias applies', async (t) => {
  const model = await open(t);
  // Disables jump-forward for all answers: jump-forward tokens are not sampled and have no log probabilities, so
  // `logprobs` disables them anyway.
  const options = { format: { schema: CARD }, ...WILD, seed: 11, jumpForward: false };
  const plain = await model.generate('A card:', options).result();
  const { logprobs = [], ...told } = await model.generate('A card:', { ...options, logprobs: 3 }).result();
  assert.deepEqual(told.tokens, plain.tokens);
  assert.equal(logprobs.length, told.tokens.length);
  assert.ok(logprobs.every(({ logprob, top }) => logprob <= 0 && top.every((one) => one.logprob <= 0)));
  for (const liked of ['a', 'b']) {
    const [id] = await model.tokenize(liked);
    const format = { choices: ['a', 'b'] };
    const { value } = await model.generate('So:', { format, logitBias: { [id]: 1000 }, temperature: 0 }).result();
    assert.equal(value, liked);
  }
});

test('greedy answers with and without jump-forward first differ at a jump-forward token', async (t) => {
  const model = await open(t);
  let forced = 0;
  for (const format of [
    { schema: CARD },
    { choices: ['a long way', 'a long road'] },
    { regex: 'id: [0-9]{3}, done' },
    { choices: ['only this'] },
  ]) {
    const options = { format, temperature: 0, maxTokens: 300 };
    const drawn = await model.generate('A card:', { ...options, jumpForward: false }).result();
    const out = model.generate('A card:', options);
    const steps = [];
    for await (const step of out.steps()) steps.push(step);
    const { text, tokens, value } = await out.result();
    assert.deepEqual(
      steps.flatMap(({ ids }) => ids),
      tokens,
    );
    assert.equal(steps.map((step) => step.text).join(''), text);
    const differs = tokens.findIndex((id, i) => id !== drawn.tokens[i]);
    if (differs < 0) assert.equal(text, drawn.text);
    else assert.ok(steps[differs].forced, `token ${differs} of ${text} and of ${drawn.text}`);
    if (format.choices?.length === 1) assert.deepEqual([value, drawn.value], ['only this', 'only this']);
    forced += steps.filter((step) => step.forced).length;
  }
  assert.ok(forced > 20, `only ${forced} jump-forward tokens`);
});

test('a chat keeps a formatted answer as text, and the next answer is unconstrained', async (t) => {
  const model = await open(t);
  const chat = model.chat({ maxTokens: 300, temperature: 0 });
  const { value, text } = await chat.send('Who?', { format: { schema: CARD } }).result();
  assert.deepEqual(chat.messages.at(-1), { role: 'assistant', content: text });
  assert.equal(typeof value.name, 'string');
  const free = await chat.send('And?', { maxTokens: 3 }).result();
  assert.ok(!('value' in free));
});

test('with a tokenizer that adds a leading space, the whole text matches the format', async (t) => {
  const model = await open(t, 'llama2-f32');
  for (const prompt of ['', 'Hi']) {
    for (const seed of [1, 2, 3, 4]) {
      for (const regex of [/^ a$/, /^ {1,3}b$/, /^[ a]{1,6}$/, /^(cat| dog)$/, /^ long and forced$/]) {
        const format = { regex: regex.source.slice(1, -1) };
        const { text, finishReason } = await model.generate(prompt, { format, seed, maxTokens: 40 }).result();
        assert.equal(finishReason, 'stop');
        assert.match(text, regex, JSON.stringify({ prompt, seed }));
      }
    }
  }
  const { value } = await model.generate('', { format: { schema: CARD }, maxTokens: 400, seed: 5 }).result();
  assert.equal(value.email, null);
});

test('a schema of a schema library constrains the answer, and the library parses its value', async (t) => {
  const model = await open(t);
  const number = z.number().int().min(1).max(99);
  const person = z.object({ name: z.string().max(5), age: number.transform((years) => ({ years })) });
  // ArkType's schemas are functions.
  const callable = Object.assign(() => {}, { '~standard': person['~standard'] });
  const hidden = Object.defineProperty({}, '~standard', { value: person['~standard'] });
  for (const schema of [person, callable, hidden]) {
    const { value, text } = await model.generate('A person: ', { format: { schema }, seed: 3 }).result();
    const { name, age } = JSON.parse(text);
    assert.deepEqual(value, { name, age: { years: age } });
  }
  const never = z.object({ n: number.refine(() => false, 'never') });
  const refused = await model.generate('A number: ', { format: { schema: never }, seed: 3 }).result();
  assert.deepEqual([refused.value, refused.issues?.[0].message], [undefined, 'never']);
  await refuses(
    model.generate('x', { format: { schema: { '~standard': { vendor: 'valibot', validate() {} } } } }).result(),
    'bad-option',
  );
});
