/* grammar: the part of the worker for constraints and tools (platform/files.js). */
import * as compilers from './grammar/index.js';
import { ordered } from './grammar/ordered.js';
import { match } from './engine/matching.js';
import { offer } from './platform/files.js';
import * as tools from './tool-calling/index.js';

export * from './grammar/index.js';
export { match, ordered };
export * from './tool-calling/index.js';

offer('grammar', { ...compilers, ...tools, match, ordered });
