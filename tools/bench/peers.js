/**
 * peers: installs the packages that the benchmark compares with into build/peers, each on first use (network).
 */
import { mkdirSync, readFileSync, writeFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { at, must } from '../support/proc.js';

const FOLDER = at('build', 'peers');
export const MODULES = join(FOLDER, 'node_modules');

/** Suffix of the npm package with node-llama-cpp's prebuilt binaries for this platform. */
const NATIVE = /** @type {Record<string, string>} */ ({
  'linux-x64': 'linux-x64',
  'linux-arm64': 'linux-arm64',
  'darwin-arm64': 'mac-arm64-metal',
  'darwin-x64': 'mac-x64',
  'win32-x64': 'win-x64',
})[`${process.platform}-${process.arch}`];

/** `as`: the package's folder in node_modules. @typedef {{ name: string, version: string, as?: string }} Package */

/** @type {Record<string, Package[]>} */
export const PEERS = {
  wllama2: [{ name: '@wllama/wllama', version: '2.4.0', as: 'wllama2' }],
  wllama3: [{ name: '@wllama/wllama', version: '3.8.1', as: 'wllama3' }],
  'node-llama-wasm': [{ name: '@fugood/node-llama-wasm', version: '1.7.15' }],
  onnx: [{ name: 'onnxruntime-web', version: '1.30.0' }],
  native: [
    { name: 'node-llama-cpp', version: '3.22.1' },
    ...(NATIVE ? [{ name: `@node-llama-cpp/${NATIVE}`, version: '3.22.1' }] : []),
  ],
};

/** Starts native llama.cpp. Returns it, and the exports of node-llama-cpp. @param {number} maxThreads */
export async function startLlama(maxThreads) {
  const bindings = await import(pathToFileURL(join(MODULES, 'node-llama-cpp', 'dist', 'index.js')).href);
  const settings = { gpu: false, build: 'never', skipDownload: true, logLevel: bindings.LlamaLogLevel.error };
  return { bindings, llama: await bindings.getLlama({ ...settings, maxThreads }) };
}

/** @param {Package} wanted */
function installed({ name, version, as = name }) {
  const file = join(MODULES, as, 'package.json');
  return existsSync(file) && JSON.parse(readFileSync(file, 'utf8')).version === version;
}

/** Returns whether all packages of a peer are in build/peers, with exactly the listed versions. @param {string} peer */
export const isInstalled = (peer) => PEERS[peer].every(installed);

/** Installs missing packages. Omits node-llama-cpp's optional dependencies, which are binaries for other machines.
 * @param {string[]} peers */
export async function install(peers) {
  const missing = peers.flatMap((peer) => PEERS[peer]).filter((wanted) => !installed(wanted));
  if (!missing.length) return;
  const specs = missing.map(({ name, version, as }) => `${as ? `${as}@npm:` : ''}${name}@${version}`);
  console.error(`installing ${specs.join(', ')} into build/peers`);
  mkdirSync(FOLDER, { recursive: true });
  const manifest = join(FOLDER, 'package.json');
  if (!existsSync(manifest)) writeFileSync(manifest, '{ "private": true }\n');
  const flags = ['--save-exact', '--ignore-scripts', '--omit=optional', '--no-audit', '--no-fund'];
  await must('peers', 'npm', ['install', ...flags, ...specs], { cwd: FOLDER });
}
