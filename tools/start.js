/**
 * start: `npm start`. Installs what is missing, builds the modules and the page, and serves it.
 *
 *   npm start -- [--port N] [--host H] [--open] [--no-isolation]
 */
import { spawn } from 'node:child_process';
import { parseArgs } from 'node:util';
import { Trouble, at, cli } from './proc.js';
import { ensure, goals } from './setup.js';
import { serve } from './serve.js';

const USAGE = 'npm start -- [--port N] [--host H] [--open] [--no-isolation]';

/** @returns {{ port: number, host: string, open: boolean, isolation: boolean }} */
function options() {
  try {
    const { values } = parseArgs({ options: {
      port: { type: 'string', default: '8080' },
      host: { type: 'string', default: 'localhost' },
      open: { type: 'boolean', default: false },
      'no-isolation': { type: 'boolean', default: false },
    } });
    const port = Number(values.port);
    if (!Number.isInteger(port) || port < 0 || port > 65535) throw new Error(`--port ${values.port} is not a port`);
    return { port, host: values.host, open: values.open, isolation: !values['no-isolation'] };
  } catch (error) {
    throw new Trouble(`${/** @type {Error} */ (error).message}\nUsage: ${USAGE}`);
  }
}

/** Opens the person's browser; no harm if there is none. @param {string} url */
function openBrowser(url) {
  /** @type {Record<string, [string, ...string[]]>} */
  const ways = { darwin: ['open'], win32: ['cmd', '/c', 'start'] };
  const [program, ...args] = ways[process.platform] ?? ['xdg-open'];
  spawn(program, [...args, url], { stdio: 'ignore', detached: true }).on('error', () => {}).unref();
}

await cli(async () => {
  const { port, host, open, isolation } = options();
  await ensure(goals.serve);
  const server = await serve({
    root: at('build', 'page'), mounts: { '/models/': at('build', 'models') }, port, host, isolation, nextPort: true,
  });
  if (port && server.port !== port) console.log(`Port ${port} is busy: taking ${server.port}.`);
  console.log(`\n  gemma-wasm: ${server.url}\n\n  Ctrl+C stops it.`);
  if (open) openBrowser(server.url);
});
