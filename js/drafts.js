/* drafts: worker code for speculative decoding (the options `draft` and `draftModel`), imported on first use
 * (platform/files.js). */
import { loadDraftModel } from './engine/draft-model.js';
import { Drafts } from './engine/drafts.js';
import { offer } from './platform/files.js';

export { Drafts, loadDraftModel };
offer('drafts', { Drafts, loadDraftModel });
