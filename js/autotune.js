/* autotune: worker code that measures which numbers of threads and of interleaved streams of weights are fastest,
 * imported on first use (platform/files.js). */
import { autotune } from './engine/autotune.js';
import { offer } from './platform/files.js';

export { autotune };
offer('autotune', { autotune });
