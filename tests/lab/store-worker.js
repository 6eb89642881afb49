/* store-worker: replaces js/download/store-browser.js in the lab's workers. Its store fails as a message from the page
 * says, which comes before all others. */
import { openStore as open } from '../../js/download/store-browser.js';
import { faultyStore } from './inject.js';

/** @type {import('./inject.js').StoreFault | undefined} */
let fault;
addEventListener('message', ({ data }) => {
  fault = data.fault ?? fault;
});

export const openStore = () => faultyStore(open(), fault);
