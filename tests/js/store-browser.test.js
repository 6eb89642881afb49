/* Tests the browser's store on a fake file system, which allows one writing handle or several reading handles per file.
 * tests/e2e/download.test.js tests the real rule in browsers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openStore } from '../../js/download/store-browser.js';
import { sleep } from './helpers.js';

const NAME = 'ab.gguf';
const BIG = 1 << 17;

/** @extends {Map<string, StoredFile>} */
class Files extends Map {
  /** @param {string} name */
  at(name) {
    return /** @type {StoredFile} */ (this.get(name));
  }
}

/** @typedef {{ bytes: Uint8Array<ArrayBuffer>, writers: number, readers: number, kind?: string }} StoredFile */

const none = () => new DOMException('none', 'NotFoundError');
const locked = () => new DOMException('locked', 'NoModificationAllowedError');

class Handle {
  #file;
  /** @type {'readers' | 'writers' | ''} */ #kind;
  /** @param {StoredFile} file @param {'readers' | 'writers'} kind @param {{ opened: number, most: number }} seen */
  constructor(file, kind, seen) {
    this.#file = file;
    this.#kind = kind;
    file[kind]++;
    seen.opened++;
    seen.most = Math.max(seen.most, file.readers + file.writers);
  }
  #alive() {
    if (!this.#kind) throw new DOMException('closed', 'InvalidStateError');
    return this.#file;
  }
  getSize() {
    return this.#alive().bytes.length;
  }
  read(/** @type {Uint8Array} */ into, /** @type {{ at: number }} */ { at }) {
    const part = this.#alive().bytes.subarray(at, at + into.length);
    into.set(part);
    return part.length;
  }
  write(/** @type {Uint8Array} */ bytes, /** @type {{ at: number }} */ { at }) {
    const file = this.#alive();
    if (this.#kind === 'readers') throw locked();
    const grown = new Uint8Array(Math.max(file.bytes.length, at + bytes.length));
    grown.set(file.bytes);
    grown.set(bytes, at);
    file.bytes = grown;
    return bytes.length;
  }
  flush() {
    if (this.#kind === 'readers') throw locked();
    this.#alive();
  }
  close() {
    if (this.#kind) this.#file[this.#kind]--;
    this.#kind = '';
  }
}

/** Returns a Blob of a stored file. The next `seen.changed` reads of the Blob fail, as after a change of the file.
 * @param {StoredFile} file @param {{ changed: number }} seen */
function blobOf(file, seen) {
  const blob = new Blob([file.bytes]);
  const { slice } = blob;
  blob.slice = (/** @type {any} */ ...part) =>
    Object.assign(slice.apply(blob, part), {
      stream() {
        throw new Error('A small read must not use a stream.');
      },
      ...(seen.changed-- > 0 && {
        async arrayBuffer() {
          throw new DOMException('changed', 'NotReadableError');
        },
      }),
    });
  return blob;
}

/** Returns a store on a fake private file system that opens handles with a delay. @param {TestContext} t */
function origin(t) {
  /** @type {Files} */
  const files = new Files();
  const seen = { opened: 0, most: 0, folders: 0, handles: 0, changed: 0 };
  /** Number of the store's current folder. Deleting the site's data starts a new folder. */
  let life = 0;
  const folderOf = (/** @type {number} */ born) => ({
    async getFileHandle(/** @type {string} */ name, /** @type {{ create?: boolean }} */ { create }) {
      await sleep(1);
      seen.handles++;
      if (born !== life || (!files.has(name) && !create)) throw none();
      if (!files.has(name)) files.set(name, { bytes: new Uint8Array(), writers: 0, readers: 0 });
      const there = () => {
        if (!files.has(name)) throw none();
        return files.at(name);
      };
      return {
        async getFile() {
          return blobOf(there(), seen);
        },
        async createSyncAccessHandle({ mode = 'readwrite' } = {}) {
          await sleep(2);
          const file = there();
          const reads = mode === 'read-only';
          if (file.writers || (file.readers && !reads)) throw locked();
          return new Handle(file, reads ? 'readers' : 'writers', seen);
        },
      };
    },
    async removeEntry(/** @type {string} */ name) {
      if (!files.has(name)) throw none();
      const { writers, readers } = files.at(name);
      if (writers + readers) throw locked();
      files.delete(name);
    },
    async *entries() {
      if (born !== life) throw none();
      for (const [name, { kind = 'file' }] of files) yield [name, { kind }];
    },
  });
  const root = {
    async getDirectoryHandle() {
      seen.folders++;
      return folderOf(life);
    },
  };
  const before = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  const value = { storage: { getDirectory: async () => root } };
  Object.defineProperty(globalThis, 'navigator', { configurable: true, value });
  const timer = setInterval(() => {}, 1000); // keeps the process alive, which the store's pauses do not
  t.after(() => {
    clearInterval(timer);
    if (before) Object.defineProperty(globalThis, 'navigator', before);
    else Reflect.deleteProperty(globalThis, 'navigator');
  });
  const clearSite = () => {
    files.clear();
    life++;
  };
  return { files, seen, clearSite, store: openStore() };
}

const open = (/** @type {Files} */ files) => [files.at(NAME).writers, files.at(NAME).readers];
/** Writes bytes at an offset, and closes the file. @param {Store} store @param {Uint8Array} bytes */
async function put(store, bytes, at = 0) {
  await store.write(NAME, at, bytes);
  await store.close?.(NAME);
}

test('a file that changed since it was opened is opened again', async (t) => {
  const { store, seen } = origin(t);
  await put(store, Uint8Array.of(1, 2, 3));
  for (const failures of [1, 3]) {
    seen.changed = failures;
    const into = new Uint8Array(3);
    assert.equal(await store.read(NAME, 0, into), 3);
    assert.deepEqual([...into], [1, 2, 3]);
  }
  seen.changed = Infinity;
  await assert.rejects(store.read(NAME, 0, new Uint8Array(3)), { name: 'NotReadableError' });
});

test('concurrent writers of one file open it once', async (t) => {
  const { files, seen, store } = origin(t);
  await Promise.all([0, 1, 2].map((at) => store.write(NAME, at, Uint8Array.of(at + 1))));
  assert.deepEqual([seen.opened, open(files)], [1, [1, 0]]);
  assert.deepEqual([...files.at(NAME).bytes], [1, 2, 3]);
  await store.close?.(NAME);
  assert.deepEqual(open(files), [0, 0]);
});

test('concurrent readers of one file open it once, and leave nothing open', async (t) => {
  const { files, seen, store } = origin(t);
  await put(store, new Uint8Array(BIG).fill(7));
  const rooms = [0, 1, 2].map(() => new Uint8Array(BIG));
  await Promise.all(rooms.map((room) => store.read(NAME, 0, room)));
  assert.ok(rooms.every((room) => room.every((byte) => byte === 7)));
  assert.deepEqual([seen.opened, open(files)], [2, [0, 1]]);
  await store.flush?.(NAME);
  await store.remove(NAME);
  assert.equal(files.has(NAME), false);
});

test('a waiting reader yields to a writer, and then reads its bytes', async (t) => {
  const { files, store } = origin(t);
  await put(store, new Uint8Array(BIG).fill(7));
  const room = new Uint8Array(BIG);
  const behind = new Uint8Array(BIG);
  const [count] = await Promise.all([
    store.read(NAME, 0, room),
    store.write(NAME, 0, Uint8Array.of(9)),
    store.read(NAME, 0, behind),
  ]);
  assert.deepEqual([count, room[0], room[1]], [BIG, 7, 7]);
  assert.deepEqual([behind[0], behind[1], open(files)], [9, 7, [1, 0]]);
});

test('a lock of another tab is awaited; a lock that stays is reported, and the next call tries again', async (t) => {
  const { files, store } = origin(t);
  await put(store, Uint8Array.of(1));
  files.at(NAME).writers = 1;
  const later = store.write(NAME, 0, Uint8Array.of(2));
  await sleep(150);
  files.at(NAME).writers = 0;
  await later;
  assert.deepEqual([...files.at(NAME).bytes], [2]);
  await store.close?.(NAME);
  files.at(NAME).writers = 1;
  await assert.rejects(store.write(NAME, 0, Uint8Array.of(3)), { name: 'NoModificationAllowedError' });
  files.at(NAME).writers = 0;
  await store.write(NAME, 0, Uint8Array.of(3));
  assert.deepEqual([...files.at(NAME).bytes], [3]);
  assert.equal(await store.size(NAME), 1);
});

test('small reads use no stream, which would stay open', async (t) => {
  origin(t);
  const store = openStore();
  const bytes = Uint8Array.from({ length: 300 }, (_, i) => i);
  const into = new Uint8Array(100);
  await put(store, bytes);
  assert.equal(await store.read(NAME, 50, into), 100);
  assert.deepEqual(into, bytes.slice(50, 150));
  assert.equal(await store.read(NAME, 250, into), 50, 'a read at the end of the file returns the rest');
});

test('the folder and each file are requested once, because Chromium never frees all of a handle', async (t) => {
  const { seen, store } = origin(t);
  const into = new Uint8Array(10);
  const bytes = Uint8Array.from({ length: 100 }, (_, i) => i);
  await put(store, bytes);
  for (let at = 0; at < 50; at++) {
    assert.equal(await store.size(NAME), 100);
    assert.equal(await store.read(NAME, at, into), 10);
    assert.deepEqual([into[0], await store.list()], [at, [NAME]]);
  }
  assert.deepEqual([seen.folders, seen.handles], [1, 1]);
});

test('files that another tab removed, alone or with the data of the site, are missing, and can be written again', async (t) => {
  const { files, clearSite, store } = origin(t);
  const bytes = Uint8Array.of(1, 2, 3);
  for (const gone of [() => files.delete(NAME), clearSite, clearSite]) {
    await put(store, bytes);
    assert.equal(await store.size(NAME), 3);
    gone();
    assert.deepEqual([await store.size(NAME), await store.list()], [0, []]);
    await assert.rejects(store.read(NAME, 0, new Uint8Array(2)), { name: 'NotFoundError' });
    await assert.rejects(store.remove(NAME), { name: 'NotFoundError' });
    await put(store, bytes);
    gone();
    await put(store, bytes, 1);
    assert.deepEqual([...files.at(NAME).bytes], [0, 1, 2, 3]);
    await store.remove(NAME);
  }
});

test('folders are not listed, so that no caller removes them as copies', async (t) => {
  const { store, files } = origin(t);
  await store.write(NAME, 0, new Uint8Array(1));
  files.set('cd.gguf', /** @type {any} */ ({ kind: 'directory' }));
  assert.deepEqual(await store.list(), [NAME]);
});

test('the path of a folder is refused in browsers, because the store would use the default cache instead', () => {
  assert.throws(() => openStore('folder'), { code: 'bad-option' });
});
