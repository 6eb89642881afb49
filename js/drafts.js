/* drafts: the part of the worker for guessed tokens (platform/files.js). */
import { Drafts } from './engine/drafts.js';
import { offer } from './platform/files.js';

export { Drafts };
offer('drafts', { Drafts });
