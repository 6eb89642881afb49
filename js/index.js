/* gemma-wasm: the entry for browsers. Names the scripts of the workers, so that bundlers see them and find them
 * beside it. */
import { browserEnvironment } from './platform/env-browser.js';
import { environment } from './platform/env.js';

Object.assign(
  environment,
  browserEnvironment({
    startWorker: () => new Worker(new URL('./worker.js', import.meta.url), { type: 'module' }),
    startThread: () => new Worker(new URL('./thread.js', import.meta.url), { type: 'module' }),
  }),
  // Only pages that list or delete stored models need it here.
  { openStore: async () => (await import('./download/store-browser.js')).openStore() },
);

export * from './public.js';
