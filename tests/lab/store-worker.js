/* store-worker: replaces js/download/store-browser.js in workers of tests/lab. The first message from the page says how
 * the store fails, a later one ends the fault. */
import { openStore as open } from '../../js/download/store-browser.js';
import { faultyStore } from './inject.js';

/** @type {import('./inject.js').StoreFault | undefined} */
let fault;
addEventListener('message', ({ data }) => {
  fault = data.fault ? Object.assign(fault ?? {}, data.fault) : fault;
});

/** Returns the store, with the current fault if there is one. Later messages still change that fault. */
export const openStore = () => faultyStore(open(), fault);
