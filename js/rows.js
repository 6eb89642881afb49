/* rows: worker code for weights that stay on disk, imported on first use (platform/files.js). */
import { plan } from './engine/rows.js';
import { offer } from './platform/files.js';

export { plan };
offer('rows', { plan });
