/** greedy-page: runs greedy-follow.js in a browser, with the package's entry for browsers. */
import { loadModel } from '../../js/index.js';
import { follow } from './greedy-follow.js';

Object.assign(globalThis, {
  /** @param {string} url @param {number} threads @param {import('./greedy-follow.js').Led} led */
  follow: (url, threads, led) => follow(loadModel, url, { threads, cache: false }, led),
});
