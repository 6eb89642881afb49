/** Tests gemma-wasm/search: results equal to an exhaustive search, files, rejected arguments. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ModelError, SearchIndex, deleteIndex, openIndex } from '../../js/search.node.js';
import { passagesOf } from '../../examples/search/passages.js';
import { Texts } from '../../examples/search/texts.js';
import { openFolder } from '../../js/search/folder-node.js';
import { openWith } from '../../js/search/open.js';
import { pack } from '../../js/search/segments.js';
import { randoms } from '../support/random.js';
import { flipIndex } from '../lab/flipping.js';
import { newFolder, refuses, wrong } from './helpers.js';

/** @param {number} n @param {number} dimensions */
function vectorsOf(n, dimensions, seed = 1) {
  const next = randoms(seed);
  const some = Array.from({ length: 8 }, () => Array.from({ length: dimensions }, () => next() - 0.5));
  return Array.from({ length: n }, (_, i) => {
    const v = Float32Array.from(some[i % 8], (x) => x + (next() - 0.5) * (i % 3));
    const length = Math.hypot(...v);
    return v.map((x) => x / length);
  });
}

/** @param {Float32Array} a @param {Float32Array} b */
const product = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

/** @param {Map<string, Float32Array>} all @param {Float32Array} query */
function nearest(all, query, count = 10) {
  return [...all]
    .map(([id, vector]) => ({ id, score: product(vector, query) }))
    .sort((a, b) => b.score - a.score)
    .slice(0, count);
}

/** @param {{ id: string }[]} items */
const idsOf = (items) => items.map(({ id }) => id);

test('query() finds the same as comparing all vectors, in any number of dimensions', async () => {
  for (const dimensions of [1, 5, 16, 100, 256, 768]) {
    const index = await openIndex({ dimensions });
    const all = new Map(vectorsOf(1500, dimensions).map((vector, i) => [`${i}`, vector]));
    const items = [...all].map(([id, vector]) => ({ id, vector }));
    await index.add(items.slice(0, 700));
    await index.add(items.slice(700));
    assert.equal(index.size, 1500);
    for (const query of vectorsOf(20, dimensions, 9)) {
      for (const count of [1, 10]) {
        const mine = index.query(query, { count });
        const theirs = nearest(all, query, count);
        assert.deepEqual(
          mine.map(({ score }) => score),
          theirs.map(({ score }) => score),
          `${dimensions} dimensions`,
        );
        if (dimensions > 5) assert.deepEqual(mine, theirs);
      }
    }
  }
});

test('vectors may have any length, even 0', async () => {
  const index = await openIndex({ dimensions: 32 });
  const vectors = vectorsOf(200, 32).map((v, i) => v.map((x) => x * (i % 7) * 1e3));
  await index.add(vectors.map((vector, i) => ({ id: `${i}`, vector })));
  const [query] = vectorsOf(1, 32, 4);
  const scores = vectors
    .map((vector) => product(vector, query))
    .sort((a, b) => b - a)
    .slice(0, 5);
  assert.deepEqual(
    index.query(query, { count: 5 }).map(({ score }) => score),
    scores,
  );
  assert.equal(index.query(query, { count: 1000 }).length, 200);
  assert.equal(index.query(new Float32Array(32)).length, 10);
});

test('adding an id again replaces its item, deleting removes it', async () => {
  const index = await openIndex({ dimensions: 16 });
  const [a, b, c] = vectorsOf(3, 16);
  assert.deepEqual(index.query(a), []);
  await index.add([
    { id: 'a', vector: a, data: { page: 1 } },
    { id: 'b', vector: b },
  ]);
  await index.add({ id: 'a', vector: c, data: 'new' });
  assert.equal(index.size, 2);
  assert.deepEqual(index.get('a'), { id: 'a', vector: c, data: 'new' });
  assert.deepEqual(index.list(), [{ id: 'a', data: 'new' }, { id: 'b' }]);
  assert.deepEqual(await index.estimate(), { usage: index.size * index.dimensions * 4 });
  assert.equal(index.query(c)[0].data, 'new');
  await index.delete(['a', 'not there']);
  assert.deepEqual(idsOf(index.query(c)), ['b']);
  assert.equal(index.get('a'), undefined);
  assert.deepEqual(index.list(), [{ id: 'b' }]);
  const data = { page: 1 };
  await index.add([{ id: 'c', vector: a, data }]);
  data.page = 2;
  const hits = () => index.query(a, { count: 1 });
  assert.deepEqual(hits(), [{ id: 'c', score: product(a, a), data: { page: 1 } }]);
  for (const one of [...hits(), index.get('c'), ...index.list()]) if (one?.data) one.data.page = 3;
  assert.deepEqual(hits()[0].data, { page: 1 }, 'changes of a result do not reach the index');
});

test('an index in a folder can be opened again, even after many changes', async (t) => {
  const folder = newFolder(t);
  const dimensions = 24;
  const all = new Map();
  const vectors = vectorsOf(300, dimensions);
  const index = await openIndex({ dimensions, folder });
  const next = randoms(3);
  for (let turn = 0; turn < 80; turn++) {
    const i = next(300);
    const id = `${i % 60}`;
    if (turn % 5 === 4) {
      await index.delete(id);
      all.delete(id);
    } else {
      await index.add({ id, vector: vectors[i], data: { turn } });
      all.set(id, vectors[i]);
    }
  }
  assert.ok(readdirSync(folder).length < 40, 'files were merged');
  const again = await openIndex({ dimensions, folder });
  assert.equal(again.size, all.size);
  for (const query of vectorsOf(10, dimensions, 7)) {
    assert.deepEqual(
      again.query(query).map(({ id, score }) => ({ id, score })),
      nearest(all, query),
    );
  }
  await again.clear();
  assert.equal((await openIndex({ dimensions, folder })).size, 0);
});

test('concurrent changes are applied one after another', async (t) => {
  const folder = newFolder(t);
  const index = await openIndex({ dimensions: 8, folder });
  const vectors = vectorsOf(50, 8);
  await Promise.all(vectors.map((vector, i) => index.add({ id: `${i}`, vector })));
  assert.equal(index.size, 50);
  assert.equal((await openIndex({ dimensions: 8, folder })).size, 50);
});

/** Copies a folder's files. Returns a function that restores them, as after a crash. @param {string} folder */
function copyOf(folder) {
  const all = readdirSync(folder).map((name) => ({
    path: join(folder, name),
    bytes: readFileSync(join(folder, name)),
  }));
  return () => all.forEach(({ path, bytes }) => writeFileSync(path, bytes));
}

/** @param {string} folder */
async function idsIn(folder) {
  return idsOf((await openIndex({ dimensions: 2, folder })).list()).sort();
}

/** Returns an item's vector as a new index reads it. @param {string} folder @param {string} id */
async function vectorIn(folder, id) {
  return [...((await openIndex({ dimensions: 2, folder })).get(id)?.vector ?? [])];
}

/** Adds and deletes an item so often that an index merges its files.
 * @param {import('../../js/search/index.js').SearchIndex} index */
async function busy(index, turns = 20) {
  for (let i = 0; i < turns; i++) {
    await index.add({ id: 'busy', vector: [0, i] });
    await index.delete('busy');
  }
}

test('merging files loses nothing that another index wrote into the folder', async (t) => {
  const folder = newFolder(t);
  const options = { dimensions: 2, folder };
  const first = await openIndex(options);
  const other = await openIndex(options);
  await first.add([
    { id: 'changed', vector: [1, 1] },
    { id: 'twice', vector: [1, 1] },
  ]);
  const later = await openIndex(options);
  await other.add({ id: 'before', vector: [1, 0] });
  await later.add({ id: 'changed', vector: [7, 7] });
  await busy(first);
  await first.add({ id: 'twice', vector: [2, 2] });
  await other.add({ id: 'after', vector: [0, 1] });
  await busy(first);
  assert.deepEqual(await idsIn(folder), ['after', 'before', 'changed', 'twice']);
  assert.deepEqual(await vectorIn(folder, 'changed'), [7, 7], 'the later change is kept');
  assert.deepEqual(await vectorIn(folder, 'twice'), [2, 2]);
  await busy(later);
  assert.deepEqual(
    await vectorIn(folder, 'twice'),
    [2, 2],
    'an index object that has read the old item merges the newer one',
  );
});

test('a deleted item does not reappear from an index that still has it, nor after a crash', async (t) => {
  const folder = newFolder(t);
  const options = { dimensions: 2, folder };
  const first = await openIndex(options);
  await first.add(['a', 'b', 'c'].map((id) => ({ id, vector: [1, 1] })));
  const other = await openIndex(options);
  const restore = copyOf(folder);
  await first.delete('a');
  await Promise.all([busy(first), busy(other)]);
  assert.deepEqual(await idsIn(folder), ['b', 'c']);
  restore();
  assert.deepEqual(await idsIn(folder), ['b', 'c'], 'restored old files do not bring items back');
  await busy(other);
  assert.deepEqual(await idsIn(folder), ['b', 'c']);
  const third = await openIndex(options);
  await other.add({ id: 'new', vector: [1, 1] });
  await third.clear();
  assert.deepEqual(await idsIn(folder), ['new'], 'clear() deletes only the items that the index object has read');
  await Promise.all([busy(first), busy(other)]);
  restore();
  assert.deepEqual(await idsIn(folder), ['new']);
});

test('a deletion removes the item that its index knew; a newer item with this id stays', async (t) => {
  const folder = newFolder(t);
  const options = { dimensions: 2, folder };
  const first = await openIndex(options);
  await first.add({ id: 'a', vector: [1, 1] });
  const other = await openIndex(options);
  await other.add({ id: 'a', vector: [2, 2] });
  await first.delete('a');
  assert.deepEqual(await vectorIn(folder, 'a'), [2, 2]);
  await busy(first);
  await busy(other);
  assert.deepEqual(await vectorIn(folder, 'a'), [2, 2]);
  const last = first.add({ id: 'b', vector: [1, 1] });
  await first.delete('b');
  await last;
  assert.deepEqual(await idsIn(folder), ['a'], 'an item can be deleted before its addition is written');
});

/** @type {Promise<WebAssembly.Module>} */ let engine;
const compile = () =>
  (engine ??= WebAssembly.compile(readFileSync(new URL('../../js/gemma-simd128.wasm', import.meta.url))));
/** @param {import('../../js/search/segments.js').Folder} files */
const openOn = (files) =>
  openWith({ dimensions: 2, folder: 'any' }, { compile, openFolder: async () => files, place: 'folder' });

test('several indexes on one folder, with random changes, hold all that was added and not deleted', async () => {
  const next = randoms(11);
  /** @type {Map<string, any>} */
  const files = new Map();
  /** Items that an index must contain: for each id, the last number that was added. @type {Map<string, number>} */
  const there = new Map();
  const open = () =>
    openOn({
      list: async () => [...files.keys()],
      read: async (name) => files.get(name) ?? null,
      write: async (name, { buffer }) => void files.set(name, buffer),
      remove: async (name) => void files.delete(name),
    });
  const tabs = [await open(), await open(), await open()];
  for (let turn = 0; turn < 500; turn++) {
    const who = next(3);
    const index = tabs[who];
    const known = index.list();
    if (next() < 0.03) {
      tabs[who] = await open();
    } else if (next() < 0.4 && known.length) {
      const { id, data } = known[next(known.length)];
      await index.delete(id);
      if (there.get(id) === data) there.delete(id);
    } else if (next() < 0.01) {
      for (const { id, data } of known) if (there.get(id) === data) there.delete(id);
      await index.clear();
    } else {
      const id = `${who}-${next(30)}`;
      const before = new Map(files);
      await index.add({ id, vector: [turn, 1], data: turn });
      there.set(id, turn);
      // Restores removed files, as if the index had crashed before it removed them.
      if (next() < 0.1) for (const [name, bytes] of before) files.set(name, bytes);
    }
  }
  const index = await open();
  const found = index.list().map(({ id, data }) => [id, data]);
  assert.deepEqual(found.sort(), [...there].sort());
  for (const [id, data] of there) assert.equal(index.get(id)?.vector[0], data);
});

test('clear() reports files that cannot be removed, and no change is lost', async (t) => {
  const folder = newFolder(t);
  const files = await openFolder(folder);
  const remove = async () => {
    throw new Error('locked');
  };
  const index = await openOn({ ...files, remove });
  await busy(index);
  await index.add({ id: 'kept', vector: [1, 1] });
  assert.deepEqual(await idsIn(folder), ['kept']);
  await refuses(index.clear(), 'index-failed');
  assert.deepEqual(await idsIn(folder), []);
});

test('an index that is opened while another one merges files has all items', async (t) => {
  const folder = newFolder(t);
  const options = { dimensions: 2, folder };
  const other = await openIndex(options);
  await other.add([
    { id: 'kept', vector: [1, 1] },
    { id: 'gone', vector: [1, 1] },
  ]);
  const files = await openFolder(folder);
  let lists = 0;
  /** Lists the folder's files. Right after each of the first calls has listed them, another index changes the files. */
  const list = async () => {
    const names = await files.list();
    if (lists++ === 0) await other.delete('gone');
    if (lists <= 3) await busy(other, 17);
    return names;
  };
  const late = await openOn({ ...files, list });
  assert.deepEqual(late.list(), [{ id: 'kept' }]);
  await busy(late);
  assert.deepEqual(await idsIn(folder), ['kept']);
});

test('a write that fails leaves no unfinished file', async (t) => {
  const folder = newFolder(t);
  const files = await openFolder(folder);
  mkdirSync(join(folder, 'a.vectors'));
  await assert.rejects(files.write('a.vectors', new Uint8Array(4)));
  assert.deepEqual(readdirSync(folder), ['a.vectors']);
});

test('an item for which there is no memory is not stored', async (t) => {
  const folder = newFolder(t);
  const full = () => {
    throw new Error('full');
  };
  const index = new SearchIndex(wrong({ reserve: full }), 1, await openFolder(folder));
  await assert.rejects(index.add({ id: 'a', vector: [1] }), /full/);
  assert.deepEqual(readdirSync(folder), []);
});

test('files without a checksum, with the highest number or with NaN are rejected by name', async (t) => {
  const folder = newFolder(t);
  const options = { dimensions: 2, folder };
  const put = (/** @type {string} */ name, /** @type {number[]} */ vector) => {
    const bytes = pack({ dimensions: 2, entries: [{ id: 'a' }], deleted: [] }, Float32Array.from(vector), name);
    writeFileSync(join(folder, name), bytes);
  };
  writeFileSync(join(folder, '00000003-aaaaaaaa.vectors'), 'GWV1{}  ');
  const corrupt = /^00000003-aaaaaaaa\.vectors is corrupt, .* add its items again\.$/;
  await refuses(openIndex(options), 'index-failed', corrupt);
  await refuses(deleteIndex(wrong({})), 'bad-option');
  writeFileSync(join(folder, 'notes.txt'), 'not of the index');
  await deleteIndex({ folder });
  assert.deepEqual(readdirSync(folder), ['notes.txt']);
  put('99999999-aaaaaaaa.vectors', [0, 0]);
  const index = await openIndex(options);
  const highest = /^No file can follow 99999999-aaaaaaaa\.vectors, which has the highest number/;
  await refuses(index.add({ id: 'b', vector: [1, 1] }), 'index-failed', highest);
  put('00000001-aaaaaaaa.vectors', [NaN, 1]);
  const infinite = /^00000001-aaaaaaaa\.vectors has a vector that is not finite/;
  await refuses(openIndex(options), 'index-failed', infinite);
});

test('every flipped bit of an index is rejected with the name of its file', async (t) => {
  assert.deepEqual(await flipIndex(t, 400, 3), { refused: 400, same: 0, silent: 0 });
});

test('damaged files are rejected with their name, files of other dimensions with the right number; unfinished ones are ignored', async (t) => {
  const folder = newFolder(t);
  const index = await openIndex({ dimensions: 8, folder });
  await index.add({ id: 'a', vector: vectorsOf(1, 8)[0] });
  writeFileSync(join(folder, '00000002-00000000.vectors.tmp'), 'half');
  assert.equal((await openIndex({ dimensions: 8, folder })).size, 1);
  const remedy = /of 8 dimensions, not 16\. Pass `dimensions: 8` to openIndex\(\) and to embed\(\)/;
  await refuses(openIndex({ dimensions: 16, folder }), 'index-failed', remedy);
  const [name] = readdirSync(folder);
  const whole = readFileSync(join(folder, name));
  for (const damaged of [
    whole.subarray(0, 5),
    whole.subarray(0, 40),
    whole.subarray(0, -4),
    Buffer.from('GWV1{}'),
    Buffer.concat([whole, Buffer.alloc(4)]),
  ]) {
    writeFileSync(join(folder, name), damaged);
    const error = await refuses(openIndex({ dimensions: 8, folder }), 'index-failed');
    assert.ok(error.message.includes(name));
  }
  assert.ok(existsSync(join(folder, name)), 'no file is removed');
});

test('an invalid vector, id or option is rejected', async (t) => {
  const index = await openIndex({ dimensions: 4 });
  const vector = [1, 2, 3, 4];
  const strange = [
    [1, 2, 3],
    [1, 2, 3, NaN],
    [1, 2, 3, Infinity],
    [1, 2, 3, 1e39],
    [1n, 2n, 3n, 4n],
    undefined,
    null,
    'text',
  ];
  for (const vector of strange) {
    await refuses(index.add({ id: 'a', vector: wrong(vector) }), 'bad-option');
    assert.throws(() => index.query(wrong(vector)), ModelError);
  }
  for (const item of [
    { id: 1, vector },
    null,
    'a',
    { id: 'a', vector, data: 1n },
    { id: 'a', vector, data: () => {} },
  ]) {
    await refuses(index.add(wrong(item)), 'bad-option');
  }
  await refuses(index.add(wrong({ id: 'a', vector, text: 'lost' })), 'bad-option', /`text`.*id, vector, data/);
  assert.equal(index.size, 0);
  for (const id of [undefined, 5, [null]]) await refuses(index.delete(wrong(id)), 'bad-option');
  for (const options of [{}, null, undefined, { dimensions: 0 }, { dimensions: 5000 }, { dimensions: 4, path: 'x' }]) {
    await refuses(openIndex(wrong(options)), 'bad-option');
  }
  await refuses(openIndex({ dimensions: wrong('64') }), 'bad-option', /\(got "64"\)/);
  for (const folder of [5, '', null]) {
    await refuses(openIndex({ dimensions: 4, folder: wrong(folder) }), 'bad-option', /^`folder` must be a path/);
  }
  for (const options of [{ count: 0 }, { count: 1.5 }, { count: '3' }, { limit: 1 }, null, 5]) {
    assert.throws(() => index.query(vector, wrong(options)), { code: 'bad-option' });
  }
  assert.throws(() => index.query(vector, wrong({ count: '3' })), /\(got "3"\)/);
  assert.throws(() => index.query(vector, wrong({ limit: 1 })), /`limit`.*count/);
  const file = join(newFolder(t), 'file');
  writeFileSync(file, '');
  await refuses(openIndex({ dimensions: 4, folder: file }), 'index-failed');
});

test('the search example splits texts into passages without losing text', () => {
  const text =
    '# One\n\nShort.\n\nAlso short.\n\n## Two\r\n\r\n' +
    'A sentence of some words. '.repeat(90) +
    '\n\n' +
    'x'.repeat(9000);
  const passages = passagesOf(text, 'a.md');
  assert.deepEqual(passages[0], { title: 'a.md: One', text: '# One\n\nShort.\n\nAlso short.' });
  assert.equal(passages[1].title, 'a.md: Two');
  assert.ok(passages.slice(1, -1).every((passage) => passage.text.length <= 702));
  assert.equal(
    passages
      .map((passage) => passage.text)
      .join('')
      .match(/sentence/g)?.length,
    90,
  );
  const dots = `.NET is here . . . ${'A word. '.repeat(90)}`.trim();
  const cut = passagesOf(dots, 'b.md').map((passage) => passage.text);
  assert.equal(cut.join('').replace(/\s/g, ''), dots.replace(/\s/g, ''));
  assert.deepEqual(passagesOf(' \n\n ', 'empty'), []);
});

/** @param {string} name */
function maker(name, onRead = () => {}) {
  /** @param {{ text: string }[]} list */
  const vectors = (list) => list.map(({ text }) => Float32Array.of(text.length, text.charCodeAt(0), 1, 0));
  return {
    model: /** @type {any} */ (name),
    dimensions: 4,
    atOnce: 2,
    passages: async (/** @type {{ text: string }[]} */ list) => {
      onRead();
      return vectors(list);
    },
    question: async (/** @type {string} */ text) => vectors([{ text }])[0],
  };
}

test('the search example stores a text completely or not at all, and replaces the text of the same name', async () => {
  const dimensions = 4;
  const texts = new Texts(await openIndex({ dimensions }));
  const long = 'A sentence of some words. '.repeat(200);
  texts.by = maker('one');
  const many = await texts.add('a.md', `# One\n\n${long}\n\n# Two\n\n${long}`);
  assert.ok(many > 10);
  assert.equal(await texts.add('b#1.txt', 'Short.'), 1);
  const lists = () => [...texts.all()].map(([name, passages]) => [name, passages.map(({ at }) => at)]);
  const whole = [
    ['a.md', Array.from({ length: many }, (_, i) => i)],
    ['b#1.txt', [0]],
  ];
  assert.deepEqual(lists(), whole);
  const end = new AbortController();
  const seen = /** @type {number[]} */ ([]);
  await assert.rejects(
    texts.add('c.md', long, {
      signal: end.signal,
      onProgress: (done) => {
        seen.push(done);
        if (done) end.abort();
      },
    }),
    { name: 'AbortError' },
  );
  assert.deepEqual(seen.slice(0, 2), [0, 2]);
  assert.deepEqual(lists(), whole, 'an aborted addition changes nothing');
  assert.equal(await texts.add('a.md', '# Now\n\nShorter.'), 1);
  assert.deepEqual(lists(), [
    ['a.md', [0]],
    ['b#1.txt', [0]],
  ]);
  assert.deepEqual(
    (await texts.nearest('Short.')).map(({ name, at, title }) => [name, at, title]),
    [
      ['b#1.txt', 0, 'b#1.txt'],
      ['a.md', 0, 'a.md: Now'],
    ],
  );
  await texts.delete('a.md');
  assert.deepEqual(lists(), [['b#1.txt', [0]]]);
});

test('of concurrent additions of a text, the last one is stored completely; each model reads the same text once', async () => {
  let reads = 0;
  const dimensions = 4;
  const texts = new Texts(await openIndex({ dimensions }));
  const long = 'A sentence of some words. '.repeat(200);
  texts.by = maker('one', () => {
    reads++;
  });
  const said = () => [...texts.all()].map(([name, passages]) => [name, passages.map(({ text }) => text)]);
  await Promise.all([texts.add('a.md', long), texts.add('a.md', 'Short.')]);
  assert.deepEqual(said(), [['a.md', ['Short.']]]);
  reads = 0;
  await Promise.all([texts.add('b.md', 'Two.'), texts.add('b.md', 'Two.')]);
  assert.deepEqual(said(), [
    ['a.md', ['Short.']],
    ['b.md', ['Two.']],
  ]);
  assert.equal(reads, 1);
  texts.by = maker('other', () => {
    reads++;
  });
  assert.equal(await texts.add('b.md', 'Two.'), 1);
  assert.equal(reads, 2, 'with another model, all vectors are computed again');
  assert.equal(await texts.add('b.md', ''), 0);
  assert.deepEqual(said(), [['a.md', ['Short.']]], 'the old passages are deleted');
  await Promise.all([texts.add('a.md', long), texts.delete('a.md')]);
  assert.deepEqual(said(), []);
});
