/* env-browser: the client's side in a browser. */
import { browserPort } from './port-browser.js';

/** @type {import('./env.js').Environment} */
export const browserEnvironment = {
  createWorker: () => {
    return browserPort(new Worker(new URL('./worker.js', import.meta.url), { type: 'module' }));
  },
  describe: (text) => ({ kind: 'url', url: new URL(text, location.href).href }),
};
