/* grammar: worker code for constraints and tools, imported on first use (platform/files.js). */
import { constraintOf, matcherOf, withConstraint } from './engine/constraint.js';
import { jumpForwardTokens } from './engine/jump-forward.js';
import { match } from './engine/matching.js';
import { offer } from './platform/files.js';
import * as tools from './tool-calling/index.js';

export { constraintOf, matcherOf, withConstraint, jumpForwardTokens, match };
export * from './tool-calling/index.js';

offer('grammar', { ...tools, constraintOf, matcherOf, withConstraint, jumpForwardTokens, match });
