/* gemma-wasm/prompt-api in browsers: the Prompt API's `LanguageModel` on a model of the page's choice. Names the scripts of
 * the workers as index.js does. */
import { browserEnvironment } from './platform/env-browser.js';
import { environment } from './platform/env.js';

Object.assign(
  environment,
  browserEnvironment({
    startWorker: () => new Worker(new URL('./worker.js', import.meta.url), { type: 'module' }),
    startThread: () => new Worker(new URL('./thread.js', import.meta.url), { type: 'module' }),
  }),
  // Loaded later: only pages that list or delete cached models need it.
  { openStore: async () => (await import('./download/store-browser.js')).openStore() },
);

export { createLanguageModel, install } from './prompt-api/create.js';
export { CreateMonitor } from './prompt-api/events.js';
export { LanguageModel } from './prompt-api/session.js';
