/**
 * serve: a static file server for the page, for tests and for development.
 * It does not use `sirv`, because tests need ranges, limited rates, faults and several folders from the same server.
 *
 *   node tools/serve.js [--root DIR] [--port N] [--host H] [--no-isolation]
 *
 * It answers GET and HEAD requests with byte ranges and ETags, sends a content security policy and the headers of
 * cross-origin isolation (which threads need), and serves no file outside its folders. It rejects requests for other
 * host names, and sends 404.html for missing files, if it exists. From a site of build/site.js it sends compressed
 * copies, and marks unchanging files as immutable.
 *
 * The policy allows the page's own scripts, workers and wasm only. Users may load a model from any URL, so the page may
 * fetch from any https host, and by http from this machine.
 */
import { mkdir, open, readFile, realpath, stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { extname, join, relative, resolve, sep } from 'node:path';
import { ISOLATION } from '../js/platform/isolation.js';
import { at, cli, isMain, parseOptions } from './support/proc.js';

export const contentSecurityPolicy = [
  "default-src 'self'",
  // Hash of the inline script in index.html.
  "script-src 'self' 'sha256-1hA1QAh/zIC0UWwFSdM1bE4vQ+LskydElX4lSw1e/4w=' 'wasm-unsafe-eval'",
  "worker-src 'self'",
  "connect-src 'self' https: http://localhost:* http://127.0.0.1:*",
  "frame-ancestors 'self'", // effective only in headers: <meta> elements ignore this directive
].join('; ');

/** The headers that any host of the page should send. */
export const pageHeaders = { ...ISOLATION, 'Content-Security-Policy': contentSecurityPolicy };

/** Paths of files whose names have a hash of their content. */
const UNCHANGING = /\/assets\/[^/]+-[0-9a-f]{10}\.\w+$/;
export const FOR_EVER = 'public, max-age=31536000, immutable';
/** Compressed copies that build/site.js writes beside a file, smallest first. */
const COPIES = [
  { coding: 'br', ending: '.br' },
  { coding: 'gzip', ending: '.gz' },
];

const CHUNK = 256 << 10;

/** @type {Record<string, string>} */
export const types = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.map': 'application/json',
  '.webmanifest': 'application/manifest+json',
  '.wasm': 'application/wasm',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.webp': 'image/webp',
  '.ico': 'image/x-icon',
  '.txt': 'text/plain; charset=utf-8',
  '.gguf': 'application/octet-stream',
};

/**
 * @typedef {object} Options
 * @property {string} root                        folder served at "/"
 * @property {Record<string, string>} [mounts]    more folders, by path ("/models/")
 * @property {number} [port]                      0 (default): any free port
 * @property {string} [host]                      default localhost: other machines cannot connect
 * @property {boolean} [isolation]                sends the headers COOP and COEP (default true)
 * @property {boolean} [nextPort]                 tries the next ports if this one is in use
 * @property {Record<string, string>} [headers]   sent with every response; '' removes a default header
 * @property {(request: import('node:http').IncomingMessage, response: import('node:http').ServerResponse)
 *   => boolean | Promise<boolean>} [intercept]   for tests: returns true if it has sent the response
 *
 * @typedef {{ url: string, port: number, server: import('node:http').Server, close: () => Promise<void> }} Running
 */

/**
 * Parses a Range header. Returns [first, last], null for the whole file, or 'bad' if the range is outside the file.
 * Requests for several ranges get the whole file.
 * @param {string | undefined} header
 * @param {number} size
 * @returns {[number, number] | null | 'bad'}
 */
export function byteRange(header, size) {
  const match = header?.match(/^bytes=(\d*)-(\d*)$/);
  if (!match || (match[1] === '' && match[2] === '')) return null;
  if (match[1] === '') {
    const count = Math.min(Number(match[2]), size);
    return count > 0 ? [size - count, size - 1] : 'bad';
  }
  const first = Number(match[1]);
  const last = match[2] === '' ? size - 1 : Math.min(Number(match[2]), size - 1);
  if (match[2] !== '' && Number(match[2]) < first) return null;
  return first < size ? [first, last] : 'bad';
}

/**
 * Returns the file of a request's path, or null if there is none. Hidden files and links out of the folder are never
 * found.
 * @param {string} path
 * @param {Map<string, string>} folders    by prefix, longest first
 */
async function find(path, folders) {
  let name;
  try {
    name = decodeURIComponent(path);
  } catch {
    return null;
  }
  if (/[\0\\]/.test(name) || name.split('/').some((part) => part.startsWith('.'))) return null;
  for (const [prefix, folder] of folders) {
    if (name.startsWith(prefix)) return inside(folder, name.slice(prefix.length));
  }
  return null;
}

/** @param {string} folder @param {string} name */
async function inside(folder, name) {
  try {
    const top = await realpath(folder);
    let file = await realpath(join(top, name));
    if ((await stat(file)).isDirectory()) file = await realpath(join(file, 'index.html'));
    const facts = await stat(file);
    return file.startsWith(top + sep) && facts.isFile() ? { file, facts, top } : null;
  } catch {
    return null;
  }
}

/** Finds the compressed copy of a file that the client accepts, if there is one. A copy that links out of the folder is
 * not used.
 * @param {{ file: string, top: string }} found @param {string} [accepted]   Accept-Encoding */
async function copyOf({ file, top }, accepted = '') {
  const known = accepted
    .split(',')
    .map((one) => one.replace(/\s/g, ''))
    .filter((one) => !/;q=0(\.0*)?$/.test(one))
    .map((one) => one.split(';')[0]);
  const copies = await Promise.all(
    COPIES.map(async ({ coding, ending }) => ({ coding, found: await inside(top, relative(top, file + ending)) })),
  );
  const varies = copies.some(({ found }) => found);
  return { varies, copy: copies.find(({ coding, found }) => found && known.includes(coding)) };
}

/**
 * Returns a test for Host headers. A web site can point its own name at this machine (DNS rebinding), and its scripts
 * could then read what this server sends. Numeric addresses cannot be redirected like this, so all are accepted.
 * @param {string} bound   the host that the server listens on
 */
function hostTest(bound) {
  const own = hostname().toLowerCase();
  const names = new Set(['localhost', bound.toLowerCase()]);
  if (['0.0.0.0', '::'].includes(bound)) [own, `${own}.local`].forEach((name) => names.add(name));
  return (/** @type {string | undefined} */ header = '') => {
    const name = header.replace(/:\d*$/, '').toLowerCase();
    return names.has(name) || name.endsWith('.localhost') || isIP(name.replace(/^\[(.*)\]$/, '$1')) > 0;
  };
}

/** @param {Options} options */
function commonHeaders({ isolation = true, headers = {} }) {
  const all = {
    ...(isolation ? ISOLATION : {}),
    'Content-Security-Policy': contentSecurityPolicy,
    'Cross-Origin-Resource-Policy': 'same-origin',
    'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'no-referrer',
    'Cache-Control': 'no-cache',
    ...headers,
  };
  return Object.entries(all).filter(([, value]) => value !== '');
}

/**
 * @param {import('node:http').IncomingMessage} request
 * @param {import('node:http').ServerResponse} response
 * @param {Map<string, string>} folders
 */
async function answer(request, response, folders) {
  const head = request.method === 'HEAD';
  if (!head && request.method !== 'GET') {
    response.setHeader('Allow', 'GET, HEAD');
    return void response.writeHead(405).end();
  }
  const path = (request.url ?? '/').split('?')[0];
  const found = await find(path, folders);
  if (!found) {
    const page = await find('/404.html', folders);
    response.setHeader('Content-Type', types[page ? '.html' : '.txt']);
    return void response.writeHead(404).end(head ? undefined : page ? await readFile(page.file) : 'Not found\n');
  }
  const { varies, copy } = await copyOf(found, request.headers['accept-encoding']);
  if (varies) response.setHeader('Vary', 'Accept-Encoding');
  if (copy) response.setHeader('Content-Encoding', copy.coding);
  if (UNCHANGING.test(path) && response.hasHeader('Cache-Control')) response.setHeader('Cache-Control', FOR_EVER);
  const { file, facts } = copy?.found ?? found;
  const tag = `"${facts.size.toString(36)}-${Math.trunc(facts.mtimeMs).toString(36)}"`;
  response.setHeader('ETag', tag);
  response.setHeader('Last-Modified', facts.mtime.toUTCString());
  response.setHeader('Accept-Ranges', 'bytes');
  response.setHeader('Content-Type', types[extname(found.file)] ?? 'application/octet-stream');
  if (request.headers['if-none-match']?.includes(tag)) return void response.writeHead(304).end();

  const asked = request.headers['if-range'] && request.headers['if-range'] !== tag ? undefined : request.headers.range;
  const range = byteRange(asked, facts.size);
  if (range === 'bad') {
    response.setHeader('Content-Range', `bytes */${facts.size}`);
    return void response.writeHead(416).end();
  }
  const [start, end] = range ?? [0, facts.size - 1];
  if (range) response.setHeader('Content-Range', `bytes ${start}-${end}/${facts.size}`);
  response.setHeader('Content-Length', end - start + 1);
  response.writeHead(range ? 206 : 200);
  if (head || end < start) return void response.end();
  await send(file, start, end + 1, response);
}

/**
 * Sends the bytes of a file from `start` to before `end`. Two buffers alternate: one is filled while the other is sent.
 * createReadStream() would allocate memory for every 64 KB and need three times the processor time.
 * @param {string} file @param {number} start @param {number} end @param {import('node:http').ServerResponse} response
 */
async function send(file, start, end, response) {
  const gone = new Promise((_, fail) => {
    response.on('close', () => fail(new Error('The client closed the connection.')));
  });
  gone.catch(() => {});
  const handle = await open(file);
  try {
    const size = Math.min(CHUNK, end - start);
    const turns = [0, 1].map(() => ({ buffer: Buffer.allocUnsafeSlow(size), sent: Promise.resolve() }));
    for (let at = start, turn = 0; at < end; turn ^= 1) {
      const { buffer, sent } = turns[turn];
      await Promise.race([sent, gone]);
      const { bytesRead } = await handle.read(buffer, 0, Math.min(size, end - at), at);
      if (!bytesRead) throw new Error('The file was truncated while it was sent.');
      at += bytesRead;
      turns[turn].sent = new Promise((done) => {
        response.write(buffer.subarray(0, bytesRead), () => done());
      });
    }
    response.end();
  } finally {
    await handle.close();
  }
}

/**
 * Listens on the port or, while ports are in use, on one of the next `tries` ports.
 * @param {import('node:http').Server} server @param {number} port @param {string} host @param {number} tries
 * @returns {Promise<void>}
 */
function listen(server, port, host, tries) {
  return new Promise((done, fail) => {
    server.once('error', (/** @type {NodeJS.ErrnoException} */ error) => {
      if (error.code !== 'EADDRINUSE' || tries === 0 || port >= 65535) return fail(error);
      listen(server, port + 1, host, tries - 1).then(done, fail);
    });
    server.listen(port, host, () => {
      server.removeAllListeners('error');
      done();
    });
  });
}

/**
 * Starts the server. Rejects if it cannot listen on the port or, with `nextPort`, on any of the 20 ports after it.
 * @param {Options} options
 * @returns {Promise<Running>}
 */
export async function serve(options) {
  const { root, mounts = {}, port = 0, host = 'localhost', nextPort = false, intercept } = options;
  const prefixes = Object.entries({ ...mounts, '/': root }).sort(([a], [b]) => b.length - a.length);
  const folders = new Map(prefixes.map(([prefix, folder]) => [prefix, resolve(folder)]));
  const common = commonHeaders(options);
  const known = hostTest(host);
  const server = createServer(async (request, response) => {
    try {
      if (!known(request.headers.host)) {
        response.writeHead(421, { 'Content-Type': types['.txt'] });
        return void response.end(
          'This server does not answer for this host name. Start it with --host NAME to use the name.\n',
        );
      }
      for (const [name, value] of common) response.setHeader(name, value);
      if (intercept && (await intercept(request, response))) return;
      await answer(request, response, folders);
    } catch {
      response.destroy();
    }
  });
  await listen(server, port, host, nextPort ? 20 : 0);
  const real = /** @type {import('node:net').AddressInfo} */ (server.address()).port;
  const name = host === '0.0.0.0' || host === '::' ? 'localhost' : host;
  return {
    url: `http://${name.includes(':') ? `[${name}]` : name}:${real}/`,
    port: real,
    server,
    close: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}

if (isMain(import.meta.url)) {
  await cli(async () => {
    const defaults = { root: at('build', 'page'), port: 8080, host: 'localhost', 'no-isolation': false };
    const { values } = parseOptions(defaults);
    await mkdir(at('build', 'models'), { recursive: true });
    const { url } = await serve({
      ...values,
      mounts: { '/models/': at('build', 'models') },
      isolation: !values['no-isolation'],
      nextPort: true,
    });
    console.log(url);
  });
}
