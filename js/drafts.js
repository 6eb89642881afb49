/* drafts: worker code for speculative decoding (the option `draft`), imported on first use (platform/files.js). */
import { Drafts } from './engine/drafts.js';
import { offer } from './platform/files.js';

export { Drafts };
offer('drafts', { Drafts });
