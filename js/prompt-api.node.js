/* gemma-wasm/prompt-api in Node. Exports the same names as prompt-api.js. */
import { openStore } from './download/store-node.js';
import { nodeEnvironment } from './platform/env-node.js';
import { environment } from './platform/env.js';

Object.assign(
  environment,
  nodeEnvironment(() => new URL('./worker.node.js', import.meta.url)),
  { openStore },
);

export { createLanguageModel, install } from './prompt-api/create.js';
export { CreateMonitor } from './prompt-api/events.js';
export { LanguageModel } from './prompt-api/session.js';
