/* rows: the part of the worker for weights that stay on disk (platform/files.js). */
import { refuse, rowsOf, skip } from './engine/rows.js';
import { offer } from './platform/files.js';

export { refuse, rowsOf, skip };
offer('rows', { refuse, rowsOf, skip });
