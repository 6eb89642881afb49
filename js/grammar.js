/* grammar: the part of the worker for constraints and tools (platform/files.js). */
import * as compilers from './grammar/index.js';
import { ordered } from './grammar/ordered.js';
import { constraintOf } from './engine/constraint.js';
import { Grammar } from './engine/grammar.js';
import { jumpForwardTokens } from './engine/jump-forward.js';
import { match } from './engine/matching.js';
import { offer } from './platform/files.js';
import * as tools from './tool-calling/index.js';

const engine = { constraintOf, Grammar, jumpForwardTokens, match };

export * from './grammar/index.js';
export { constraintOf, Grammar, jumpForwardTokens, match, ordered };
export * from './tool-calling/index.js';

offer('grammar', { ...compilers, ...tools, ...engine, ordered });
