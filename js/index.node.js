/* gemma-wasm: the entry for Node; the same names as index.js. */
import { nodeEnvironment } from './env-node.js';
import { environment } from './env.js';

Object.assign(environment, nodeEnvironment);

export * from './public.js';
