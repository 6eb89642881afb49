/* member-page: a member (member.js) in a page. The server has the model beside the page; files are in the origin
 * private file system. */
import * as api from '../../js/index.js';
import { environment } from '../../js/platform/env.js';
import { sleep } from './inject.js';
import { memberOf } from './member.js';

/** The fault that new workers inject into their store. @type {object | undefined} */
let fault;
/** @type {Worker[]} */
const faulty = [];
const Usual = window.Worker;
window.Worker = class extends Usual {
  /** @param {[string | URL, WorkerOptions?]} how */
  constructor(...how) {
    super(...how);
    if (fault) this.postMessage({ fault }), faulty.push(this);
  }
};

const folder = async () => (await navigator.storage.getDirectory()).getDirectoryHandle('gemma-wasm', { create: true });

/** Removes a file. Retries, because a worker that has ended may keep the file open for a moment.
 * @param {FileSystemDirectoryHandle} from @param {string} name */
async function remove(from, name) {
  for (const end = Date.now() + 5000; ; await sleep(20)) {
    try {
      return await from.removeEntry(name);
    } catch (error) {
      if (Date.now() > end || /** @type {any} */ (error).name === 'NotFoundError') throw error;
    }
  }
}

const files = {
  async all() {
    const all = new Map();
    for await (const [name, handle] of /** @type {any} */ (await folder()).entries())
      all.set(name, new Uint8Array(await (await handle.getFile()).arrayBuffer()));
    return all;
  },
  async put(/** @type {Map<string, Uint8Array>} */ wanted) {
    const into = await folder();
    for (const name of (await files.all()).keys()) await remove(into, name);
    for (const [name, data] of wanted) {
      const file = await (await into.getFileHandle(name, { create: true })).createWritable();
      await file.write(/** @type {any} */ (data));
      await file.close();
    }
  },
};

export default memberOf({
  api,
  environment,
  address: new URL('model.gguf', location.href).href,
  files,
  cacheOf(how) {
    fault = how;
    return api.modelCache;
  },
  calm() {
    for (const worker of faulty.splice(0)) worker.postMessage({ fault: { over: true } });
  },
});
