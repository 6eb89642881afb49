/* sequences: the part of the worker for several answers at a time (platform/files.js). */
import { Sequences } from './engine/sequences.js';
import { offer } from './platform/files.js';

export { Sequences };
offer('sequences', { Sequences });
