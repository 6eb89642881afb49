/* gemma-wasm: the entry for Node. Exports the same names as index.js. */
import { openStore } from './download/store-node.js';
import { nodeEnvironment } from './platform/env-node.js';
import { environment } from './platform/env.js';

Object.assign(
  environment,
  nodeEnvironment(() => new URL('./worker.node.js', import.meta.url)),
  { openStore },
);

export * from './public.js';
