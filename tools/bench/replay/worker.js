/** worker: the browser's engine worker, with an engine that replays reference answers (../replay.js). */
import '../../../js/worker.js';

// Exported, because bundlers drop modules that are imported only for their side effects (package.json).
export { set } from '../replay.js';
