/* The engine's grammars: compares masks with each token tried alone, and texts with an independent acceptor; tests a
 * full DFA cache, jump-forward bytes and malformed grammars. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { Matcher } from '../../js/engine/grammar.js';
import { jumpForwardTokens } from '../../js/engine/jump-forward.js';
import { compile, toBytes } from '../../js/grammar/index.js';
import { lower } from '../../js/grammar/lower.js';
import { Unsupported } from '../../js/grammar/refusal.js';
import { bareEngine, loadedEngine } from './bare-engine.js';
import { testModel } from './models.js';
import { LETTERS, randomGrammar } from '../support/random-grammars.js';
import { randoms } from '../support/random.js';
import { accepts } from '../support/acceptor.js';

/** @type {import('../../js/engine/engine.js').Engine} */
let engine;
let size = 0;
before(async () => {
  engine = await bareEngine(await testModel('tiny'));
  size = engine.number('n_vocab');
});

const bytesOf = (/** @type {string} */ text) => new TextEncoder().encode(text);
const has = (/** @type {Uint32Array} */ mask, /** @type {number} */ id) => ((mask[id >> 5] >>> (id & 31)) & 1) === 1;
/** @param {any} grammar @param {object} [options] */
const matcherOf = (grammar, options) => new Matcher(engine, lower(grammar, options));
/** @param {...any} nodes */
const sequence = (...nodes) => ({ sequence: nodes });
/** @param {any} repeat */
const optional = (repeat) => ({ repeat, min: 0, max: 1 });

/** @param {any} grammar */
function tried(grammar) {
  try {
    return matcherOf(grammar);
  } catch (error) {
    if (error instanceof Unsupported || /** @type {any} */ (error).code === 'bad-format') return null;
    throw error;
  }
}

/** @param {number[]} bytes */
function textOf(bytes) {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
  } catch {
    return null;
  }
}

/** Returns the tokens that the mask allows. Asserts that it allows a token exactly if the matcher accepts the token.
 * @param {any} matcher @param {string} where */
function allowed(matcher, where) {
  const mask = matcher.mask();
  const ids = [];
  for (let id = 0; id < size; id++) {
    assert.equal(has(mask, id), matcher.allows(id), `${where}: token ${id}`);
    if (has(mask, id)) ids.push(id);
  }
  return ids;
}

test('masks of a large vocabulary are right for rules that can end after any character', async () => {
  const engine = await bareEngine(await testModel('gemma-vocab-tiny'));
  for (const [regex, next] of [
    ['.*', 'More. '],
    ['Answer: [A-Za-z ,.]+', 'Answer: well'],
    ['(x[^)]*y)+', 'x words y'],
  ]) {
    const matcher = new Matcher(engine, toBytes({ regex }));
    for (const id of [null, ...engine.encode(next, false)]) {
      assert.ok(id === null || matcher.accept(id));
      const mask = matcher.mask();
      for (let one = 0; one < engine.number('n_vocab'); one += 509)
        assert.equal(has(mask, one), matcher.allows(one), `${regex}: token ${one}`);
    }
    matcher.dispose();
  }
});

test('a token that a grammar names allows only this id, not another id with the same bytes', async () => {
  const engine = await bareEngine(await testModel('gemma-vocab-tiny'));
  const line = engine.encode('\n', false)[0];
  const same = [];
  for (let id = 0; id < 1000; id++) if (String(engine.decode(id, false, 5)) === '10') same.push(id);
  assert.ok(same.length === 2 && same.includes(line), `${same}`);
  const grammarOf = (/** @type {any} */ start) => new Matcher(engine, lower({ rules: { root: start }, start: 'root' }));
  for (const id of same) {
    const matcher = grammarOf({ token: id });
    const mask = matcher.mask();
    assert.deepEqual(
      same.map((one) => [has(mask, one), matcher.allows(one)]),
      same.map((one) => [one === id, one === id]),
    );
    matcher.dispose();
  }
  const matcher = grammarOf({ literal: '\n' });
  const mask = matcher.mask();
  assert.ok(same.every((one) => has(mask, one)));
  matcher.dispose();
});

test("a matcher that is created and disposed of during an answer does not change the answer's constraint", async () => {
  const engine = await loadedEngine(await testModel('gemma-vocab-tiny'));
  const ids = Array.from({ length: 10 }, (_, i) => 300 + ((i * 7919) % 200000));
  const drawn = [];
  for (const [temperature, other] of /** @type {const} */ ([
    [0, false],
    [0, true],
    [1, false],
    [1, true],
  ])) {
    engine.resetSampler();
    engine.setOption('temperature', temperature);
    const matcher = new Matcher(engine, toBytes({ regex: '[a-m]{3,12}' }));
    engine.sync([5]);
    engine.sync(ids);
    engine.call('want_top', 1);
    matcher.want();
    if (other) new Matcher(engine, toBytes({ regex: 'a+' })).dispose();
    while (engine.call('run', 1));
    drawn.push(matcher.draw(false));
    matcher.dispose();
  }
  assert.equal(drawn[1], drawn[0]);
  assert.equal(drawn[3], drawn[2]);
});

test('masks agree with each token tried alone, and complete texts with another acceptor', () => {
  let masks = 0;
  let complete = 0;
  let refused = 0;
  for (let seed = 1; seed <= 160; seed++) {
    const random = randoms(seed);
    const grammar = randomGrammar(random);
    const matcher = tried(grammar);
    refused += Number(!matcher);
    if (!matcher) continue;
    /** @type {number[]} */
    const bytes = [];
    for (let step = 0; step < 12; step++, masks++) {
      const ids = allowed(matcher, `seed ${seed}, step ${step}`);
      const text = textOf(bytes);
      if (text !== null)
        assert.equal(matcher.complete, accepts(grammar, text), `seed ${seed}: ${JSON.stringify(text)}`);
      complete += Number(matcher.complete);
      assert.ok(ids.length || matcher.ended, `seed ${seed}, step ${step}: nothing is allowed`);
      if (!ids.length) break;
      const id = ids[random(ids.length)];
      assert.ok(matcher.accept(id));
      bytes.push(...engine.decode(id, false, 5));
    }
    matcher.dispose();
  }
  assert.ok(masks > 600 && complete > 200 && refused < 16, JSON.stringify({ masks, complete, refused }));
});

test('texts are accepted and rejected as the other acceptor does', () => {
  let yes = 0;
  let no = 0;
  for (let seed = 1000; seed < 1180; seed++) {
    const random = randoms(seed);
    const grammar = randomGrammar(random);
    const matcher = tried(grammar);
    for (let i = 0; matcher && i < 20; i++) {
      matcher.reset();
      /** @type {number[]} */
      const bytes = [];
      for (let step = 0; step < 8 && !matcher.finished; step++) {
        const mask = matcher.mask();
        const start = random(size);
        let id = start;
        do id = (id + 1) % size;
        while (id !== start && !has(mask, id));
        if (!matcher.accept(id) || matcher.ended) break;
        bytes.push(...engine.decode(id, false, 5));
      }
      const letters = [...(textOf(bytes) ?? '')];
      if (i % 2)
        letters.splice(random(letters.length + 1), random(2), ...(random(2) ? [LETTERS[random(LETTERS.length)]] : []));
      const text = letters.join('');
      matcher.reset();
      const got = matcher.acceptBytes(bytesOf(text)) && matcher.complete;
      assert.equal(got, accepts(grammar, text), `seed ${seed}: ${JSON.stringify(text)}`);
      if (got) yes++;
      else no++;
    }
    matcher?.dispose();
  }
  assert.ok(yes > 300 && no > 300, JSON.stringify({ yes, no }));
});

test('a full DFA cache is emptied without changing what matches', () => {
  // A grammar that needs one register for each nesting depth, and therefore far more states than fit into the DFA
  // cache.
  const list = {
    start: 'list',
    rules: {
      list: sequence(
        { literal: '[' },
        { repeat: { choice: [{ rule: 'list' }, { rule: 'word' }] }, min: 0, max: 3000 },
        { literal: ']' },
      ),
      word: { repeat: { chars: [[97, 122]] }, min: 900, max: 100000 },
    },
  };
  const matcher = matcherOf(list);
  const letters = 'abcdefghij'.repeat(40);
  let text = '[';
  for (let round = 0; round < 60; round++) text += `[${letters.repeat(3 + (round % 3))}[`;
  for (let at = 0; at < text.length; at += 64) {
    assert.ok(matcher.acceptBytes(bytesOf(text.slice(at, at + 64))));
    matcher.mask();
  }
  for (let i = 0; i < 121; i++) assert.ok(matcher.acceptBytes(bytesOf(']')), `bracket ${i}`);
  assert.ok(matcher.finished);
  assert.ok(matcher.heapBytes < 32 * 2 ** 20);
  matcher.dispose();
});

test('nesting may be as deep as the text is long', () => {
  const grammar = {
    start: 'list',
    rules: { list: sequence({ literal: '[' }, { repeat: { rule: 'list' }, min: 0, max: Infinity }, { literal: ']' }) },
  };
  const matcher = matcherOf(grammar);
  const deep = 200_000;
  assert.ok(matcher.acceptBytes(bytesOf('['.repeat(deep))));
  matcher.mask();
  assert.ok(matcher.acceptBytes(bytesOf(']'.repeat(deep - 1))));
  assert.ok(!matcher.complete);
  assert.ok(matcher.acceptBytes(bytesOf(']')) && matcher.finished);
  matcher.dispose();
});

test('hostile grammars are matched or rejected, and the engine stays usable', () => {
  const letter = { chars: [[97, 98]] };
  const a = { literal: 'a' };
  const again = { rule: 's' };
  const hostile = {
    ambiguous: sequence(a, optional(sequence(again, optional(again)))),
    endings: sequence(a, optional(again), optional({ literal: 'b' })),
    subsets: sequence({ repeat: letter, min: 0, max: Infinity }, a, ...Array(40).fill(letter)),
    counters: { repeat: { choice: [a, { literal: 'aa' }] }, min: 5000, max: 10000 },
    empty: { repeat: { repeat: optional(a), min: 0, max: Infinity }, min: 3, max: 100000 },
  };
  for (const [name, s] of Object.entries(hostile)) {
    const matcher = tried({ start: 's', rules: { s } });
    try {
      for (let i = 0; matcher && i < 400 && matcher.acceptBytes(bytesOf('a')); i++) if (i % 100 === 0) matcher.mask();
    } catch (error) {
      assert.equal(/** @type {any} */ (error).code, 'bad-format', name);
    }
    matcher?.dispose();
  }
  const matcher = matcherOf(compile({ choices: ['fine'] }));
  assert.ok(matcher.acceptBytes(bytesOf('fine')) && matcher.finished);
  matcher.dispose();
});

test('errors name the rejected construct', () => {
  const left = { start: 'a', rules: { a: { choice: [sequence({ rule: 'a' }, { literal: 'x' }), { literal: 'y' }] } } };
  assert.throws(
    () => lower(left),
    (error) => error instanceof Unsupported && /rule a is left-recursive/.test(error.message),
  );
  const hidden = { start: 'a', rules: { a: sequence(optional({ literal: 'z' }), { rule: 'a' }) } };
  assert.throws(() => lower(hidden), Unsupported);
  const inside = {
    start: 'a',
    rules: {
      a: { both: [{ rule: 'b' }, { literal: '()' }] },
      b: sequence({ literal: '(' }, optional({ rule: 'b' }), { literal: ')' }),
    },
  };
  assert.throws(() => lower(inside), /rule b is recursive, so it cannot be combined/);
  const nothing = { start: 'a', rules: { a: { both: [{ literal: 'x' }, { literal: 'y' }] } } };
  assert.throws(() => lower(nothing), /no text can match/);
});

test('bytes that are not a grammar are rejected with a code', () => {
  const good = lower({
    start: 'a',
    rules: {
      a: sequence({ jsonString: { repeat: { chars: [[32, 0x10ffff]] }, min: 0, max: 900 } }, optional({ rule: 'a' })),
    },
  });
  const refused = (/** @type {Uint8Array} */ bytes) =>
    assert.throws(
      () => new Matcher(engine, bytes),
      (error) => /** @type {any} */ (error).code === 'bad-format' && /\.$/.test(/** @type {any} */ (error).message),
    );
  refused(new Uint8Array(0));
  for (const n of [4, 44, good.length - 4, good.length - 1]) refused(good.subarray(0, n));
  refused(Uint8Array.from([...good, 0, 0, 0, 0]));
  let fine = 0;
  for (let at = 0; at < good.length; at += 4) {
    const bytes = good.slice();
    new DataView(bytes.buffer).setUint32(at, 0xfffffff0, true);
    try {
      const matcher = new Matcher(engine, bytes);
      matcher.mask();
      matcher.dispose();
      fine++;
    } catch (error) {
      assert.equal(/** @type {any} */ (error).code, 'bad-format');
    }
  }
  assert.ok(fine < good.length / 40, `${fine} were taken`);
});

test('jump-forward bytes are the only continuation, and are tokenized like the whole text', () => {
  const schema = {
    type: 'object',
    properties: { city: { type: 'string' }, zip: { enum: ['abcdefgh'] } },
    required: ['city', 'zip'],
    additionalProperties: false,
  };
  const matcher = matcherOf(compile({ schema, whitespace: 'compact' }), { spelling: 'shortest' });
  const before = new TextDecoder().decode(matcher.forced());
  assert.ok('{"city":"'.startsWith(before) || '{"zip":"'.startsWith(before) || before === '{"', before);
  assert.ok(matcher.acceptBytes(bytesOf('{"city":"x","zip":')));
  assert.equal(new TextDecoder().decode(matcher.forced()), '"abcdefgh"}');
  const ids = jumpForwardTokens(engine, matcher, []);
  assert.deepEqual(ids, [...engine.encodeMore(bytesOf('"abcdefgh"}'))]);
  for (const id of ids) assert.ok(matcher.accept(id));
  assert.ok(matcher.finished);
  matcher.dispose();
});

test('garbage collections of a nearly full DFA cache count towards the work budget of a mask', async () => {
  const vocabulary = await bareEngine(await testModel('gemma-vocab-tiny'));
  const grammar = 'root ::= "7" root "y" | b\nb ::= [a-z]* "a" [a-z]{12}';
  const bytes = lower(compile({ grammar }));
  const chunk = bytesOf('7'.repeat(1000));
  /** Returns a matcher that has accepted up to `most` chunks of text, and their number. @param {number} most */
  const filled = (most) => {
    const matcher = new Matcher(vocabulary, bytes);
    let n = 0;
    try {
      while (n < most && matcher.acceptBytes(chunk)) n++;
    } catch (error) {
      assert.match(/** @type {Error} */ (error).message, /needs more than \d+ bytes of memory/);
    }
    return { matcher, n };
  };
  const full = filled(Infinity);
  full.matcher.dispose();
  for (const [n, isRefused] of /** @type {[number, boolean][]} */ ([
    [Math.floor(0.9 * full.n), false],
    [full.n - 1, true],
  ])) {
    const { matcher } = filled(n);
    if (isRefused) assert.throws(() => matcher.mask(), { code: 'bad-format', message: /needs more than \d+ steps/ });
    else matcher.mask();
    matcher.dispose();
  }
  vocabulary.close();
});
