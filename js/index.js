/* gemma-wasm: the entry for browsers. */
import { browserEnvironment } from './env-browser.js';
import { environment } from './env.js';

Object.assign(environment, browserEnvironment);

export * from './public.js';
