/**
 * start: `npm start`. Installs missing tools, builds the wasm modules and the page, and serves the page. If
 * nothing has changed since the last build, it only serves the page.
 *
 *   npm start -- [--port N] [--host H] [--open] [--no-isolation]
 */
import { spawn } from 'node:child_process';
import { readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Trouble, at, cli, parseOptions } from './support/proc.js';
import { ensure, goals } from './build/setup.js';
import { serve } from './serve.js';

const USAGE = 'npm start -- [--port N] [--host H] [--open] [--no-isolation]';

/** @returns {{ port: number, host: string, open: boolean, isolation: boolean }} */
function options() {
  try {
    const { values } = parseOptions({ port: '8080', host: 'localhost', open: false, 'no-isolation': false });
    const port = Number(values.port);
    if (!Number.isInteger(port) || port < 0 || port > 65535)
      throw new Error(`--port must be an integer from 0 to 65535 (got ${values.port}).`);
    return { port, host: values.host, open: values.open, isolation: !values['no-isolation'] };
  } catch (error) {
    throw new Trouble(`${/** @type {Error} */ (error).message}\nUsage: ${USAGE}`);
  }
}

/** Files and folders that the page is built from. */
const INPUTS = [
  'src',
  'js',
  'web',
  'examples/search',
  'models/storyteller',
  'cmake',
  'CMakeLists.txt',
  'CMakePresets.json',
  'package-lock.json',
  'tools/build/setup.js',
  'tools/build/page.js',
  'tools/build/package.js',
  'tools/serve.js',
];
const MADE = /\.wasm$/;
/** File whose times say when the last build began (mtime) and ended (ctime). Every build of the page removes it. */
const STAMP = at('build', 'page', '.started');

/** Returns whether no file at or below a path has changed since the last build began. The build itself writes wasm
 * modules, so these must not have changed since it ended.
 * @param {string} path @param {{ mtimeMs: number, ctimeMs: number }} stamp @returns {boolean} */
function unchanged(path, stamp) {
  const facts = statSync(path, { throwIfNoEntry: false });
  if (!facts) return true;
  if (facts.isDirectory()) return readdirSync(path).every((name) => unchanged(join(path, name), stamp));
  return facts.mtimeMs < (MADE.test(path) ? stamp.ctimeMs : stamp.mtimeMs);
}

async function prepare() {
  const stamp = statSync(STAMP, { throwIfNoEntry: false });
  if (stamp && INPUTS.every((path) => unchanged(at(path), stamp))) return;
  const begun = new Date();
  await ensure(goals.serve);
  writeFileSync(STAMP, '');
  utimesSync(STAMP, begun, begun);
}

/** @param {string} url */
function openBrowser(url) {
  /** @type {Record<string, [string, ...string[]]>} */
  const ways = { darwin: ['open'], win32: ['cmd', '/c', 'start'] };
  const [program, ...args] = ways[process.platform] ?? ['xdg-open'];
  spawn(program, [...args, url], { stdio: 'ignore', detached: true })
    .on('error', () => {})
    .unref();
}

await cli(async () => {
  const { port, host, open, isolation } = options();
  await prepare();
  const server = await serve({
    root: at('build', 'page'),
    mounts: { '/models/': at('build', 'models') },
    port,
    host,
    isolation,
    nextPort: true,
  });
  if (port && server.port !== port) console.log(`Port ${port} is in use. Using ${server.port} instead.`);
  console.log(`\n  gemma-wasm: ${server.url}\n\n  Press Ctrl+C to stop the server.`);
  if (open) openBrowser(server.url);
});
