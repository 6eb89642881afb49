/* many-cores: makes the engine see more cores than it can use, as in a container with a CPU limit. */
import { syncBuiltinESMExports } from 'node:module';
import workers from 'node:worker_threads';

/** Makes workers that start after this call see `cores` as the number of processor cores. @param {number} cores */
export function pretendCores(cores) {
  const script = `require('node:os').availableParallelism = () => ${cores}; require('node:module').syncBuiltinESMExports();`;
  const start = (/** @type {string | URL} */ file) => `${script} import(${JSON.stringify(String(file))});`;
  const { Worker } = workers;
  /** @type {any} */ (workers).Worker = class extends Worker {
    constructor(/** @type {string | URL} */ file, /** @type {object} */ options) {
      super(start(file), { ...options, eval: true });
    }
  };
  syncBuiltinESMExports();
}
