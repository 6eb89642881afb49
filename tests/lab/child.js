/* child: a process of its own that loads, saves or deletes, and may be killed while it does.
 *   node child.js load URL FOLDER TUNING        says { kept, sum } when it has loaded, on one line
 *   node child.js save URL FOLDER TUNING        keeps conversations under one name, one after the other
 *   node child.js delete FOLDER */
import { createHash } from 'node:crypto';
import { loadModel, openCache } from '../../js/index.node.js';
import { environment } from '../../js/platform/env.js';
import { ROUNDS, conversation } from './talking.js';

const [what, ...args] = process.argv.slice(2);

/** @param {string} url @param {string} folder @param {string} tuning */
async function load(url, folder, tuning) {
  environment.tuning = JSON.parse(tuning);
  const model = await loadModel(url, { threads: 1, cache: openCache(folder) });
  const logits = await model.logits([2, 300, 310]);
  console.log(JSON.stringify({ kept: model.info.cache, sum: createHash('sha256').update(logits).digest('hex') }));
  await model.dispose();
}

/** The same as tests/lab/kills-node.js expects. @param {string} url @param {string} folder @param {string} tuning */
async function save(url, folder, tuning) {
  environment.tuning = JSON.parse(tuning);
  const model = await loadModel(url, { threads: 1, cache: openCache(folder) });
  for (let round = 0; round < ROUNDS; round++) {
    const chat = await conversation(model, round);
    await model.stateCache.put('x', await chat.save());
  }
  await model.dispose();
}

if (what === 'save') await save(args[0], args[1], args[2]);
else if (what === 'load') await load(args[0], args[1], args[2]);
else await openCache(args[0]).clear();
