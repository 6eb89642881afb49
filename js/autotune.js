/* autotune: worker code that measures how many threads, and which order of reading weights, are fastest, imported on
 * first use (platform/files.js). */
import { autotune } from './engine/autotune.js';
import { offer } from './platform/files.js';

export { autotune };
offer('autotune', { autotune });
