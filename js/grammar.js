/* grammar: worker code for constraints and tools, imported on first use (platform/files.js). */
import * as compilers from './grammar/index.js';
import { ordered } from './grammar/ordered.js';
import { constraintOf, matcherOf } from './engine/constraint.js';
import { jumpForwardTokens } from './engine/jump-forward.js';
import { match } from './engine/matching.js';
import { offer } from './platform/files.js';
import * as tools from './tool-calling/index.js';

const engine = { constraintOf, matcherOf, jumpForwardTokens, match };

export * from './grammar/index.js';
export { constraintOf, matcherOf, jumpForwardTokens, match, ordered };
export * from './tool-calling/index.js';

offer('grammar', { ...compilers, ...tools, ...engine, ordered });
