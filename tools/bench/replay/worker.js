/** worker: the engine worker of browsers, with an engine that replays texts (../replay.js). */
import '../../../js/worker.js';

// Exported, because bundlers leave out modules that are imported for their side effects only (package.json).
export { set } from '../replay.js';
