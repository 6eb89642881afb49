/* autotune: worker code that measures which number of threads and which order of reading weights are fastest. The
 * worker imports this module when it first needs it (platform/files.js). */
import { autotune } from './engine/autotune.js';
import { offer } from './platform/files.js';

export { autotune };
offer('autotune', { autotune });
