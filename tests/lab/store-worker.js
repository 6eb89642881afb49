/* store-worker: the store of a browser's worker, which fails on command (store.js). A build for the laboratory takes it in
 * place of the store; the page names the fault before anything else. */
import { openStore as open } from '../../js/download/store-browser.js';
import { faultyStore } from './store.js';

/** @type {{ method: string, way: string, moment: number, lasting: boolean } | undefined} */
let fault;
addEventListener('message', ({ data }) => {
  fault = data.fault ?? fault;
});

export function openStore() {
  const store = open();
  if (!fault) return store;
  const { moment, lasting } = fault;
  return faultyStore(store, fault, (call) => (lasting ? call >= moment : call === moment));
}
