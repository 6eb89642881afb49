/** sides: the sides of the benchmark: runtimes in Node or in a browser, each with its settings. */
import { newerNode } from '../build/setup.js';

/**
 * @typedef {object} Side
 * @property {string} title
 * @property {'chromium' | 'firefox' | 'node'} where
 * @property {string} driver       module of drivers/ that runs the side
 * @property {string} [peer]       key in peers.js of the packages that it needs
 * @property {string} [variant]    build of gemma-wasm
 * @property {() => string} [node] returns the path of Node, for Node sides
 * @property {boolean} [path]      whether it takes a path instead of a URL
 * @property {boolean} [deep]      whether it is also timed after long contexts, which takes minutes for each
 */

/** @type {Record<string, Side>} */
export const SIDES = {
  'gemma-chromium': { title: 'gemma-wasm, Chromium', where: 'chromium', driver: 'gemma', deep: true },
  'gemma-simd128': { title: 'gemma-wasm, Chromium, simd128', where: 'chromium', driver: 'gemma', variant: 'simd128' },
  'gemma-firefox': { title: 'gemma-wasm, Firefox', where: 'firefox', driver: 'gemma' },
  'gemma-node': {
    title: `gemma-wasm, Node ${process.versions.node.split('.')[0]}`,
    where: 'node',
    driver: 'gemma',
    node: () => process.execPath,
  },
  'gemma-node-new': { title: 'gemma-wasm, Node 22 or newer', where: 'node', driver: 'gemma', node: newerNode },
  'wllama-2.4': { title: 'wllama 2.4.0, Chromium', where: 'chromium', driver: 'wllama2', peer: 'wllama2' },
  'wllama-3.8': { title: 'wllama 3.8.1, Chromium', where: 'chromium', driver: 'wllama3', peer: 'wllama3' },
  'node-llama-wasm': {
    title: 'node-llama-wasm 1.7.15, Chromium',
    where: 'chromium',
    driver: 'node-llama-wasm',
    peer: 'node-llama-wasm',
  },
  native: {
    title: 'native llama.cpp',
    where: 'node',
    driver: 'native',
    peer: 'native',
    path: true,
    deep: true,
    node: () => process.execPath,
  },
};

export const OURS = 'gemma-chromium';
export const QUICK = ['gemma-chromium', 'wllama-2.4'];
