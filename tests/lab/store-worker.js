/* store-worker: replaces js/download/store-browser.js in the lab's workers. The first message from the page says how
 * its store fails. */
import { openStore as open } from '../../js/download/store-browser.js';
import { faultyStore } from './inject.js';

/** @type {import('./inject.js').StoreFault | undefined} */
let fault;
addEventListener('message', ({ data }) => {
  fault = data.fault ?? fault;
});

export const openStore = () => faultyStore(open(), fault);
