/* member-node: a member (member.js) in this process, with a new folder for each run; or in a separate process,
 * `node member-node.js ADDRESS TUNING FOLDER`, which receives its calls as messages. */
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isMain } from '../../tools/support/proc.js';
import { openStore } from '../../js/download/store-node.js';
import * as api from '../../js/index.node.js';
import { environment } from '../../js/platform/env.js';
import { faultyStore } from './inject.js';
import { memberOf } from './member.js';
import { readThrough } from './reading.js';

/** Returns the methods of a member that stores models below `root`. @param {string} address of the model
 * @param {string} root parent of the folders that it creates */
export function nodeMember(address, root) {
  let folder = root;
  const files = {
    async all() {
      await mkdir(folder, { recursive: true });
      const all = new Map();
      for (const name of await readdir(folder)) all.set(name, await readFile(join(folder, name)));
      return all;
    },
    async put(/** @type {Map<string, Uint8Array>} */ wanted) {
      // A run that timed out may still write to its folder, so each run gets a new one.
      folder = await mkdtemp(join(root, 'run-'));
      for (const [name, data] of wanted) await writeFile(join(folder, name), data);
    },
    async end(/** @type {boolean} */ inTime) {
      if (inTime) await rm(folder, { recursive: true, force: true });
    },
  };
  return memberOf({
    api,
    environment,
    address,
    files,
    cacheOf: (fault) => api.openCache(fault ? faultyStore(openStore(folder), fault) : folder),
    read: readThrough,
  });
}

if (isMain(import.meta.url)) {
  const [, , address, tuning, folder] = process.argv;
  environment.tuning = JSON.parse(tuning);
  const member = /** @type {any} */ (nodeMember(address, folder));
  process.on('message', async (/** @type {any} */ [method, ...args]) => {
    process.send?.(
      await member[method](...args).then(
        (/** @type {unknown} */ value) => ({ value }),
        (/** @type {any} */ error) => ({ error: String(error?.stack) }),
      ),
    );
  });
  process.send?.('ready');
}
