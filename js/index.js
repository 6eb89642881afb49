/* gemma-wasm: the entry for browsers. Names the scripts of the workers, so that bundlers see them and find them
 * beside it. */
import { openStore } from './download/store-browser.js';
import { browserEnvironment } from './platform/env-browser.js';
import { environment } from './platform/env.js';

Object.assign(
  environment,
  browserEnvironment({
    startWorker: () => new Worker(new URL('./worker.js', import.meta.url), { type: 'module' }),
    startThread: () => new Worker(new URL('./thread.js', import.meta.url), { type: 'module' }),
  }),
  { openStore },
);

export * from './public.js';
