/* look: the part of the worker that is loaded when it is first used (platform/files.js): vectors of texts, a look
 * inside, saved conversations. */
import { embed } from './engine/embed.js';
import { inside } from './engine/inside.js';
import { logits, perplexity } from './engine/logits.js';
import { restore, save, stored } from './engine/saving.js';
import { offer } from './platform/files.js';

export { embed, inside, logits, perplexity, restore, save, stored };

offer('look', { embed, inside, logits, perplexity, restore, save, stored });
