/* look: worker code for embeddings, inspection, logits and saved chats, imported on first use (platform/files.js). */
import { embed } from './engine/embed.js';
import { inside } from './engine/inside.js';
import { logits, perplexity } from './engine/logits.js';
import { restore, save, stored } from './engine/saving.js';
import { offer } from './platform/files.js';

export { embed, inside, logits, perplexity, restore, save, stored };

offer('look', { embed, inside, logits, perplexity, restore, save, stored });
