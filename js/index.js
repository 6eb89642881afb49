/* gemma-wasm: the entry for browsers. The URLs of worker scripts are literals, so that bundlers find them. */
import { browserEnvironment } from './platform/env-browser.js';
import { environment } from './platform/env.js';

Object.assign(
  environment,
  browserEnvironment({
    startWorker: () => new Worker(new URL('./worker.js', import.meta.url), { type: 'module' }),
    startThread: () => new Worker(new URL('./thread.js', import.meta.url), { type: 'module' }),
  }),
  // The store is imported on first use, because only pages that list or delete cached models need it.
  {
    openStore: async (/** @type {string | undefined} */ where) => {
      return (await import('./download/store-browser.js')).openStore(where);
    },
  },
);

export * from './public.js';
