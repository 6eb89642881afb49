/**
 * Tests the page's conversations, without a page: the tree of versions, the messages sent to the model, search, export
 * and import.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { textsOf as textsOfFiles } from '../../web/chat/attachments.js';
import { Conversation } from '../../web/chat/conversation.js';
import { Talk } from '../../web/chat/talk.js';
import { MemoryArchive } from '../../web/history/archive.js';
import { fromJson, toJson, toMarkdown } from '../../web/history/exchange.js';
import { Tree, merged, wordsOf } from '../../web/history/tree.js';
import { titleOf } from '../../web/shell/format.js';
import { addLater } from '../../web/shell/language.js';
import { state } from '../../web/shell/store.js';

await addLater();

/** @param {Tree} tree @param {string | null} parent @param {string} question @param {string} answer */
function turn(tree, parent, question, answer) {
  const asked = tree.add(parent, 'user', question);
  const said = tree.add(asked.id, 'assistant', answer);
  said.state = 'whole';
  return { asked, said };
}

/** @param {{ text: string }[]} said */
const textsOf = (said) => said.map(({ text }) => text);
/** @param {Tree} tree */
const texts = (tree) => textsOf(tree.path());

test('versions are siblings, each with the messages that follow it', () => {
  const tree = new Tree();
  const first = turn(tree, null, 'a', 'A1');
  turn(tree, first.said.id, 'b', 'B');
  const other = tree.add(first.asked.id, 'assistant', 'A2');
  assert.deepEqual(texts(tree), ['a', 'A2']);
  assert.deepEqual(textsOf(tree.versions(other)), ['A1', 'A2']);
  tree.choose(first.said);
  assert.deepEqual(texts(tree), ['a', 'A1', 'b', 'B']);
  const edited = tree.add(first.said.id, 'user', 'b, said differently');
  assert.equal(tree.versions(edited).length, 2);
  assert.deepEqual(texts(tree), ['a', 'A1', 'b, said differently']);
  tree.remove(edited);
  assert.deepEqual(texts(tree), ['a', 'A1', 'b', 'B']);
});

test('the model receives the answered questions, and a mark on cut answers', () => {
  const tree = new Tree();
  const first = turn(tree, null, 'a', 'A');
  const lost = tree.add(first.said.id, 'user', 'nobody answered');
  const second = turn(tree, lost.id, 'b', 'B');
  second.said.state = 'cut';
  assert.deepEqual(tree.messages(), [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'A' },
    { role: 'user', content: 'b' },
    { role: 'assistant', content: 'B', aborted: true },
  ]);
  assert.deepEqual(tree.messages(first.said.id).length, 2);
  assert.deepEqual(tree.messages(null), []);
});

test('the model receives the messages after a point, and files between lines that name them', () => {
  const tree = new Tree();
  const first = turn(tree, null, 'a', 'A');
  const second = turn(tree, first.said.id, '', 'B');
  second.asked.files = [
    { name: 'x.txt', text: 'one\n' },
    { name: 'y', text: 'two' },
  ];
  const file = '--- x.txt ---\none\n--- end of x.txt ---\n\n--- y ---\ntwo\n--- end of y ---';
  assert.deepEqual(
    tree.messages(undefined, second.asked.id).map(({ content }) => content),
    [file, 'B'],
  );
  assert.deepEqual(tree.messages(second.asked.id, second.asked.id), []);
  assert.equal(tree.messages(first.said.id, second.asked.id).length, 2, 'for another branch, all messages are sent');
  const [back] = fromJson(toJson([{ head: head('1', 'T'), body: tree.kept() }]));
  assert.deepEqual(back.body, tree.kept());
});

test('an answer with thoughts is continued in the engine’s chat only if that chat ends with this answer', async () => {
  Object.assign(globalThis, { window: globalThis, addEventListener: () => {} });
  /** @type {string[]} */
  const calls = [];
  const chat = () => ({ continue: () => calls.push('continue'), send: () => calls.push('send') });
  const begin = () => (calls.push('begin'), chat());
  const chatCache = { get: async () => null };
  const talk = new Talk(/** @type {any} */ (null));
  talk.model = /** @type {any} */ ({ info: { chatTemplate: true }, chatCache, chat: begin });
  const tree = new Tree();
  const { asked, said } = turn(tree, null, 'a', 'A1');
  const ask = { tree, head: head('1', 'T'), question: asked };
  await talk.ask({ ...ask, before: null }, {});
  talk.answered('1', asked, said);
  await talk.ask({ ...ask, begin: 'A1', thoughts: 'hm', before: said.id }, {});
  const other = tree.add(asked.id, 'assistant', 'A2');
  await talk.ask({ ...ask, begin: 'A2', thoughts: 'hm', before: other.id }, {});
  assert.deepEqual(calls, ['begin', 'send', 'continue', 'begin', 'continue']);
});

test('a chat that is being saved while its conversation is deleted is deleted, too', async () => {
  const archive = new MemoryArchive();
  const tree = new Tree();
  const { asked, said } = turn(tree, null, 'a', 'A');
  await archive.put(head('1', 'T'), tree.kept());
  const names = new Set();
  const chat = () => ({ send() {}, save: () => new Promise((resolve) => setTimeout(resolve, 20)) });
  const chatCache = {
    get: async () => null,
    put: async (/** @type {string} */ name) => names.add(name),
    list: async () => [...names].map((name) => ({ name })),
    delete: async (/** @type {string} */ name) => names.delete(name),
  };
  const talk = new Talk(/** @type {any} */ ({ archive: Object.assign(archive, { kept: true }) }));
  talk.model = /** @type {any} */ ({ info: { chatTemplate: true }, chatCache, chat });
  await talk.ask({ tree, head: head('1', 'T'), question: asked, before: null }, {});
  talk.answered('1', asked, said);
  talk.leave();
  await archive.remove('1');
  await talk.sweep();
  await talk.settled();
  assert.equal(names.size, 0);
});

test('the tokens in use, the title and a branch are those of the open conversation', async () => {
  class HTMLElement {
    querySelector() {}
  }
  Object.assign(globalThis, { HTMLElement, document: { getElementById: () => new HTMLElement() } });
  /** @type {((tokens: number) => void)[]} */
  const counted = [];
  const count = () => new Promise((resolve) => counted.push(resolve));
  const talk = /** @type {any} */ ({ model: {}, use() {}, async sweep() {}, count });
  const transcript = /** @type {any} */ ({});
  const conversation = new Conversation(transcript, talk);
  turn(conversation.tree, null, 'a', 'A');
  conversation.use(talk.model);
  conversation.tree = new Tree();
  conversation.use(talk.model);
  counted[0](100);
  await new Promise(setImmediate);
  assert.deepEqual([counted.length, state.used], [1, 0]);
  const body = conversation.tree.kept();
  conversation.head = head('1', 'T');
  conversation.join({ head: head('1', 'Renamed in another tab'), body });
  assert.equal(state.title, 'Renamed in another tab');
  const { asked, said } = turn(conversation.tree, null, 'a', '');
  conversation.tree.remove(said);
  conversation.on = { changed() {}, branched: ({ tree }) => assert.deepEqual(texts(tree), [asked.text]) };
  transcript.on.branch(said);
});

test('a stored conversation loads unchanged, and a missing leaf is ignored', () => {
  const tree = new Tree();
  const { said } = turn(tree, null, 'a', 'A');
  turn(tree, said.id, 'b', 'B');
  const again = new Tree(structuredClone(tree.kept()));
  assert.deepEqual(again.kept(), tree.kept());
  assert.deepEqual(texts(tree.branch(said.id)), ['a', 'A']);
  assert.deepEqual(texts(new Tree({ ...tree.kept(), leaf: 'gone' })), []);
});

test('two tabs continue one conversation, and the messages of both are kept', () => {
  const begun = new Tree();
  const first = turn(begun, null, 'one', 'first');
  const [a, b] = [new Tree(begun.kept()), new Tree(begun.kept())];
  turn(a, first.said.id, 'two', 'second');
  turn(b, first.said.id, 'three', 'third');
  const { news } = b;
  const both = merged(a.kept(), b.kept(), news);
  assert.deepEqual(texts(new Tree(both)), ['one', 'first', 'three', 'third']);
  assert.deepEqual(textsOf(both.said), ['one', 'first', 'three', 'third', 'two', 'second']);
  b.settle(news);
  assert.equal(b.join(both.said), true);
  assert.equal(b.join(both.said), false);
  const [, , three] = b.path();
  assert.deepEqual(textsOf(b.versions(three)), ['three', 'two']);
  assert.deepEqual(b.news, { own: [], gone: [], at: news.at });
});

test('if two tabs have different versions of a message, the changed one is kept', () => {
  const begun = new Tree();
  const { asked, said } = turn(begun, null, 'one', 'half');
  said.state = 'partial';
  const [a, b] = [new Tree(begun.kept()), new Tree(begun.kept())];
  const one = /** @type {import('../../web/history/tree.js').Said} */ (a.get(said.id));
  Object.assign(one, { text: 'half of it', state: 'whole' });
  a.touch(one);
  // A tab with a change and a tab without it save in both orders. The change stays in both cases.
  assert.equal(merged(a.kept(), b.kept(), b.news).said[1].text, 'half of it');
  assert.equal(merged(b.kept(), a.kept(), a.news).said[1].text, 'half of it');
  assert.equal(a.join(b.kept().said), false);
  assert.equal(b.join(a.kept().said), true);
  assert.deepEqual(texts(b), ['one', 'half of it']);
  const c = new Tree(b.kept());
  turn(a, said.id, 'two', 'second');
  assert.deepEqual(texts(new Tree(merged(a.kept(), c.kept(), c.news))), ['one', 'half of it', 'two', 'second']);
  for (const { id } of a.path().slice(2).reverse())
    a.remove(/** @type {import('../../web/history/tree.js').Said} */ (a.get(id)));
  // A removed message does not reappear, unless another tab has continued from it.
  a.remove(one);
  assert.deepEqual(
    merged(b.kept(), a.kept(), a.news).said.map(({ id }) => id),
    [asked.id],
  );
  assert.equal(a.join(b.kept().said), false);
  turn(b, said.id, 'two', 'second');
  assert.equal(merged(b.kept(), a.kept(), a.news).said.length, 4);
  // Changes that are made while a conversation is being saved remain marked as unsaved.
  const { news } = b;
  b.touch(/** @type {import('../../web/history/tree.js').Said} */ (b.get(said.id)));
  b.settle(news);
  assert.deepEqual(b.news.own, [said.id]);
});

test('a model, a binary file or a folder cannot be attached as text', async () => {
  const folder = Object.assign(new File([], 'x'), {
    slice: () => folder,
    text: async () => Promise.reject(new Error('NotReadableError')),
    arrayBuffer: async () => Promise.reject(new Error('NotReadableError')),
  });
  for (const bad of [new File(['GGUF3'], 'x'), new File(['a\0'], 'x'), folder]) {
    assert.equal(await textsOfFiles([new File(['a'], 'y'), bad]), null);
  }
  assert.deepEqual(await textsOfFiles([new File(['a'], 'y')]), [{ name: 'y', text: 'a' }]);
});

test('titles are shortened, and texts are split into search words', () => {
  assert.equal(titleOf('  one\n two '), 'one two');
  assert.match(titleOf('word '.repeat(40)), /^(word ){11}word…$/);
  assert.ok(titleOf('x'.repeat(200)).length <= 61);
  assert.doesNotThrow(
    () => encodeURIComponent(titleOf(`x${'🐉'.repeat(40)}`)),
    'a title does not end with half of a surrogate pair',
  );
  assert.deepEqual(wordsOf(['Hello, hello Größe 12', 'مرحبا']), ['hello', 'größe', '12', 'مرحبا']);
  assert.ok(wordsOf(['小さな竜の話']).includes('竜'));
});

/** @param {string} id @param {string} title @param {Partial<import('../../web/history/archive.js').Head>} [more] */
const head = (id, title, more) => ({ id, title, pinned: /** @type {0 | 1} */ (0), created: 1, updated: 1, ...more });

test('the archive sorts, searches by beginnings of words, changes and removes conversations', async () => {
  const archive = new MemoryArchive();
  const body = (/** @type {string} */ text) => {
    const tree = new Tree();
    turn(tree, null, text, 'yes');
    return tree.kept();
  };
  await archive.put(head('1', 'Dragons', { updated: 5 }), body('Where do dragons live?'));
  await archive.put(head('2', 'Boats', { updated: 9 }), body('How do boats swim?'));
  await archive.put(head('3', 'Pinned', { pinned: 1, updated: 2 }), body('dragon boats'));
  const ids = (/** @type {{ id: string }[]} */ heads) => heads.map(({ id }) => id).join('');
  assert.equal(ids(await archive.search('')), '321');
  assert.equal(ids(await archive.search('DRAG')), '31');
  assert.equal(ids(await archive.search('dragon boat')), '3');
  assert.equal(ids(await archive.search('drag elephant')), '');
  assert.equal(ids(await archive.search('bo')), '', 'a short word is not matched as a beginning');
  await archive.change('2', { title: 'Ships', pinned: 1 });
  assert.equal(ids(await archive.search('ship')), '2');
  await archive.setDraft('2', { text: 'half a', files: [] });
  assert.deepEqual(await archive.draft('2'), { text: 'half a', files: [] });
  assert.deepEqual([await archive.has('2'), await archive.has('4')], [true, false]);
  await archive.remove('2');
  assert.equal(await archive.get('2'), null);
  assert.equal(await archive.draft('2'), undefined);
});

test('JSON export and import keep all versions; Markdown has only the shown ones', () => {
  const tree = new Tree();
  const { asked } = turn(tree, null, 'a', 'A1');
  Object.assign(tree.add(asked.id, 'assistant', 'A2'), { state: 'cut', full: true, thoughtMs: 7 });
  const one = { head: head('1', 'T', { system: 'Be brief.', named: true, from: asked.id }), body: tree.kept() };
  const [back] = fromJson(toJson([one]));
  assert.deepEqual(back.body, one.body);
  assert.notEqual(back.head.id, '1', 'an import gets a new id, so that it overwrites nothing');
  assert.deepEqual({ ...back.head, id: '1' }, one.head);
  const markdown = toMarkdown(one);
  assert.match(markdown, /^# T\n[\s\S]*## System prompt\n\nBe brief\.\n\n## You\n\na\n\n## Answer\n\nA2\n$/);
});

test('files that are not exported conversations are rejected', () => {
  const said = { id: 'x', parent: null, role: 'user', text: 'hi', state: 'whole' };
  const file = (/** @type {unknown} */ conversation) =>
    JSON.stringify({ format: 'gemma-wasm conversations', version: 1, conversations: [conversation] });
  const bad = [
    '',
    'not json',
    '[]',
    '{"format":"other"}',
    file(null),
    file({ said: [] }),
    file({ said: [{ ...said, role: 'system' }] }),
    file({ said: [{ ...said, text: 7 }] }),
    file({ said: [{ ...said, files: [{ name: 'x' }] }] }),
    file({ said: [{ ...said, parent: 'x' }] }),
    file({ said: [said, said] }),
    file({ said: [{ ...said, role: 'assistant' }] }),
    file({
      said: [
        { ...said, parent: 'y' },
        { ...said, id: 'y', parent: 'x' },
      ],
    }),
  ];
  for (const text of bad) assert.throws(() => fromJson(text), { name: 'Error', message: 'import.none' }, text);
  const [one] = fromJson(
    file({
      said: [{ ...said, full: 'yes', thoughtMs: '1e999' }],
      leaf: 'gone',
      from: 'gone',
      title: 3,
      pinned: 'yes',
      created: 1e99,
      system: {},
    }),
  );
  assert.deepEqual(one.body.said, [said]);
  assert.equal(one.head.from, undefined);
  assert.equal(one.body.leaf, 'x');
  assert.equal(one.head.title, 'hi');
  assert.equal(one.head.pinned, 0);
  assert.equal(one.head.system, undefined);
  assert.ok(one.head.created <= Date.now());
});
