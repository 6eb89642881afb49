/* rows: worker code for weights that stay on disk, imported on first use (platform/files.js). */
import { postpone, refuse, rowsOf, skip } from './engine/rows.js';
import { offer } from './platform/files.js';

export { postpone, refuse, rowsOf, skip };
offer('rows', { postpone, refuse, rowsOf, skip });
