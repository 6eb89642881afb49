/* ai-sdk-calls: calls from the AI SDK's documentation with models of gemma-wasm/ai-sdk, in Node and in pages. */
import { MODELS } from './ai-sdk/models.js';
import { OBJECTS } from './ai-sdk/objects.js';
import { STREAM } from './ai-sdk/stream.js';
import { TEXT } from './ai-sdk/text.js';
import { TOOLS } from './ai-sdk/tools.js';
import { UI } from './ai-sdk/ui.js';

/** All calls by name. Each call throws if its result is wrong. @type {import('./ai-sdk/given.js').Calls} */
export const CALLS = { ...TEXT, ...STREAM, ...OBJECTS, ...TOOLS, ...MODELS, ...UI };
