/* sequences: worker code that generates several answers at a time, imported on first use (platform/files.js). */
import { Sequences } from './engine/sequences.js';
import { offer } from './platform/files.js';

export { Sequences };
offer('sequences', { Sequences });
