/**
 * Tests the output of the build (exports and imports of the four modules), and the server of the tests and of
 * `npm start`: folders, headers, ranges, and paths that try to leave the served folder.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { byteRange, contentSecurityPolicy, serve } from '../../tools/serve.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const VARIANTS = ['simd128', 'simd128-threads', 'relaxed', 'relaxed-threads'];

/**
 * Returns the names in a wasm module's import and export sections. Parses the module itself, because a Node version may
 * not know all of the module's instructions.
 * @param {Uint8Array} bytes
 */
function interfaceOf(bytes) {
  let at = 8;
  const number = () => {
    let value = 0;
    let shift = 0;
    let byte;
    do {
      byte = bytes[at++];
      value += (byte & 127) * 2 ** shift;
      shift += 7;
    } while (byte & 128);
    return value;
  };
  const name = () => {
    const length = number();
    return Buffer.from(bytes.subarray(at, (at += length))).toString();
  };
  const limits = () => {
    if (number() & 1) number();
    number();
  };
  /** @type {string[]} */
  const imports = [];
  const exports = [];
  while (at < bytes.length) {
    const section = bytes[at++];
    const end = number() + at;
    for (let i = 0, n = section === 2 || section === 7 ? number() : 0; i < n; i++) {
      if (section === 7) {
        exports.push(name());
        at++;
        number();
      } else {
        imports.push(`${name()}.${name()}`);
        const kind = bytes[at++];
        if (kind === 0) number();
        else if (kind === 2) limits();
        else assert.fail(`import ${imports.at(-1)} of kind ${kind}`);
      }
    }
    at = end;
  }
  return { imports: imports.sort(), exports: new Set(exports) };
}

const listed = fs.readFileSync(path.join(ROOT, 'src/exports.txt'), 'utf8').trim().split('\n');

test('exports.txt names functions that the headers declare, each once and in order', () => {
  const headers = fs
    .readdirSync(path.join(ROOT, 'src'), { recursive: true })
    .map(String)
    .filter((file) => file.endsWith('.h'))
    .map((file) => fs.readFileSync(path.join(ROOT, 'src', file), 'utf8'))
    .join('\n');
  const missing = listed.filter((name) => !new RegExp(`\\b${name}\\(`).test(headers));
  assert.deepEqual(missing, []);
  assert.deepEqual(listed, [...new Set(listed)].sort());
});

for (const variant of VARIANTS) {
  test(`${variant}: exports what exports.txt lists, and imports only memory and its growth`, () => {
    const found = interfaceOf(fs.readFileSync(path.join(ROOT, 'js', `gemma-${variant}.wasm`)));
    assert.deepEqual(
      listed.filter((name) => !found.exports.has(name)),
      [],
    );
    assert.ok(found.exports.has('_emscripten_stack_restore'));
    const imports = found.imports.filter((name) => name !== 'env.emscripten_resize_heap');
    assert.deepEqual(imports, ['env.memory']);
  });
}

test('npm run fuzz runs every harness', () => {
  const tool = fs.readFileSync(new URL('../../tools/check/fuzz.js', import.meta.url), 'utf8');
  const listed = [...tool.matchAll(/^ {2}(\w+): \{ length/gm)].map(([, name]) => name).sort();
  const harnesses = fs
    .readdirSync(new URL('../fuzz/', import.meta.url))
    .flatMap((name) => /^fuzz_(\w+)\.c$/.exec(name)?.[1] ?? []);
  assert.deepEqual(listed, harnesses.sort());
});

test('byteRange() parses valid ranges, and detects unsatisfiable and malformed ones', () => {
  assert.deepEqual(byteRange('bytes=0-9', 100), [0, 9]);
  assert.deepEqual(byteRange('bytes=90-', 100), [90, 99]);
  assert.deepEqual(byteRange('bytes=90-400', 100), [90, 99]);
  assert.deepEqual(byteRange('bytes=-10', 100), [90, 99]);
  assert.deepEqual(byteRange('bytes=-400', 100), [0, 99]);
  assert.equal(byteRange('bytes=100-', 100), 'bad');
  assert.equal(byteRange('bytes=-0', 100), 'bad');
  assert.equal(byteRange('bytes=0-', 0), 'bad');
  for (const whole of [undefined, 'bytes=-', 'bytes=5-2', 'bytes=0-1,4-5', 'items=0-1']) {
    assert.equal(byteRange(whole, 100), null, String(whole));
  }
});

/** @type {string} */
let folder;
/** @type {import('../../tools/serve.js').Running} */
let server;

before(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'gw-serve-'));
  for (const name of ['page', 'models', 'page/.git']) fs.mkdirSync(path.join(folder, name));
  fs.writeFileSync(path.join(folder, 'secret.txt'), 'secret');
  fs.writeFileSync(path.join(folder, 'page/index.html'), '<p>hello</p>');
  fs.writeFileSync(path.join(folder, 'page/.git/config'), 'secret');
  fs.writeFileSync(path.join(folder, 'page/a.wasm'), '0123456789');
  fs.writeFileSync(path.join(folder, 'page/empty.txt'), '');
  fs.writeFileSync(path.join(folder, 'models/m.gguf'), 'GGUF');
  fs.symlinkSync('../secret.txt', path.join(folder, 'page/link.txt'));
  server = await serve({ root: path.join(folder, 'page'), mounts: { '/models/': path.join(folder, 'models') } });
});

after(async () => {
  await server.close();
  fs.rmSync(folder, { recursive: true });
});

/**
 * Sends a request with an unchanged path, which fetch() would normalise.
 * @param {string} where @param {http.RequestOptions} [options]
 * @returns {Promise<{ status: number | undefined, headers: http.IncomingHttpHeaders, body: string }>}
 */
function ask(where, options = {}) {
  return new Promise((done, fail) => {
    http
      .request({ host: 'localhost', port: server.port, path: where, ...options }, async (response) => {
        let body = '';
        for await (const piece of response) body += piece;
        done({ status: response.statusCode, headers: response.headers, body });
      })
      .on('error', fail)
      .end();
  });
}

test('the server sends the isolation headers, the security policy and the right content types', async () => {
  const { status, headers, body } = await ask('/?x=1');
  assert.equal(status, 200);
  assert.equal(body, '<p>hello</p>');
  assert.equal(headers['cross-origin-opener-policy'], 'same-origin');
  assert.equal(headers['cross-origin-embedder-policy'], 'require-corp');
  assert.equal(headers['content-security-policy'], contentSecurityPolicy);
  assert.match(contentSecurityPolicy, /(^|; )frame-ancestors 'self'(;|$)/);
  assert.equal(headers['content-type'], 'text/html; charset=utf-8');
  assert.equal((await ask('/a.wasm')).headers['content-type'], 'application/wasm');
  const model = await ask('/models/m.gguf');
  assert.equal(model.headers['content-type'], 'application/octet-stream');
  assert.equal(model.body, 'GGUF');
});

test("the policies of the server and of the page allow the page's inline script by its hash", () => {
  const html = fs.readFileSync(path.join(ROOT, 'web/static/index.html'), 'utf8');
  const [, script] = /<script>(.*?)<\/script>/s.exec(html) ?? [];
  const hash = `'sha256-${createHash('sha256').update(script).digest('base64')}'`;
  const [allowed] = /script-src [^;]*/.exec(contentSecurityPolicy) ?? [];
  assert.equal(allowed, `script-src 'self' ${hash} 'wasm-unsafe-eval'`);
  assert.ok(html.includes(`; ${allowed};`), 'the policy in index.html has the same script-src');
});

test('the server handles ranges, HEAD, ETag and an empty file', async () => {
  const part = await ask('/a.wasm', { headers: { range: 'bytes=2-4' } });
  assert.deepEqual([part.status, part.body, part.headers['content-range']], [206, '234', 'bytes 2-4/10']);
  const past = await ask('/a.wasm', { headers: { range: 'bytes=10-' } });
  assert.deepEqual([past.status, past.headers['content-range']], [416, 'bytes */10']);
  const head = await ask('/a.wasm', { method: 'HEAD' });
  assert.deepEqual([head.status, head.body, head.headers['content-length']], [200, '', '10']);
  const tag = String(head.headers.etag);
  assert.equal((await ask('/a.wasm', { headers: { 'if-none-match': tag } })).status, 304);
  const changed = await ask('/a.wasm', { headers: { range: 'bytes=2-4', 'if-range': '"other"' } });
  assert.deepEqual([changed.status, changed.body], [200, '0123456789']);
  assert.equal((await ask('/a.wasm', { headers: { range: 'bytes=2-4', 'if-range': tag } })).status, 206);
  const empty = await ask('/empty.txt');
  assert.deepEqual([empty.status, empty.body, empty.headers['content-length']], [200, '', '0']);
});

test('the server sends compressed copies to clients that accept them, and marks files with a hash in their names as immutable', async () => {
  const name = 'page/assets/app-0123456789.js';
  fs.mkdirSync(path.join(folder, 'page/assets'));
  for (const [ending, text] of [
    ['', 'plain'],
    ['.br', 'brotli'],
    ['.gz', 'gzip'],
  ]) {
    fs.writeFileSync(path.join(folder, name + ending), text);
  }
  const where = `/${name.slice('page/'.length)}`;
  for (const [accepted, coding, body] of [
    ['gzip, deflate, br', 'br', 'brotli'],
    ['br;q=0, gzip;q=0.5', 'gzip', 'gzip'],
    ['', undefined, 'plain'],
  ]) {
    const { headers, body: got } = await ask(where, { headers: { 'accept-encoding': accepted } });
    assert.deepEqual([headers['content-encoding'], headers.vary, got], [coding, 'Accept-Encoding', body]);
    assert.equal(headers['content-type'], 'text/javascript; charset=utf-8');
    assert.equal(headers['cache-control'], 'public, max-age=31536000, immutable');
  }
  const other = await ask('/a.wasm');
  assert.deepEqual([other.headers.vary, other.headers['cache-control']], [undefined, 'no-cache']);
});

test('a compressed copy that is a symbolic link out of the folder is not sent', async () => {
  fs.writeFileSync(path.join(folder, 'page/linked.js'), 'plain');
  for (const ending of ['br', 'gz']) fs.symlinkSync('../secret.txt', path.join(folder, `page/linked.js.${ending}`));
  const { headers, body } = await ask('/linked.js', { headers: { 'accept-encoding': 'gzip, br' } });
  assert.deepEqual([headers['content-encoding'], body], [undefined, 'plain']);
});

test("only requests for this machine's names and addresses are answered", async () => {
  const port = server.port;
  const own = os.hostname();
  const status = async (/** @type {string} */ host) => (await ask('/', { headers: { host } })).status;
  for (const host of [
    `localhost:${port}`,
    'LOCALHOST',
    'a.localhost',
    `127.0.0.1:${port}`,
    `[::1]:${port}`,
    '192.168.0.7',
  ]) {
    assert.equal(await status(host), 200, host);
  }
  for (const host of [
    `rebound.example:${port}`,
    'localhost.example',
    '127.0.0.1.example',
    '[::1].example',
    'notlocalhost',
    'localhost:80@rebound.example',
  ]) {
    assert.equal(await status(host), 421, host);
  }
  const refused = await ask('/', { headers: { host: 'rebound.example' } });
  assert.deepEqual([refused.status, refused.body.includes('hello')], [421, false]);
  assert.match(refused.body, /--host NAME/);
  const everywhere = await serve({ root: path.join(folder, 'page'), host: '0.0.0.0' });
  try {
    for (const [host, wanted] of /** @type {const} */ ([
      [own, 200],
      [`${own}.local`, 200],
      ['rebound.example', 421],
    ])) {
      assert.equal((await ask('/', { port: everywhere.port, headers: { host } })).status, wanted, host);
    }
  } finally {
    await everywhere.close();
  }
});

test("a missing file gets the folder's 404.html with status 404", async () => {
  fs.writeFileSync(path.join(folder, 'page/404.html'), '<p>not here</p>');
  try {
    const { status, headers, body } = await ask('/assets/gone-0123456789.wasm');
    assert.deepEqual([status, headers['content-type'], body], [404, 'text/html; charset=utf-8', '<p>not here</p>']);
    assert.equal(headers['cache-control'], 'no-cache');
    assert.equal((await ask('/gone', { method: 'HEAD' })).body, '');
  } finally {
    fs.rmSync(path.join(folder, 'page/404.html'));
  }
});

test('a long file and ranges of it arrive intact; clients that disconnect early do no harm', async () => {
  const bytes = Buffer.alloc(3_000_001).map((_, i) => (i * 7919) >> 8);
  fs.writeFileSync(path.join(folder, 'page/long.bin'), bytes);
  const ranges = [
    [0, bytes.length - 1],
    [1, 1_000_000],
    [262_143, 786_433],
  ];
  for (const [from, to] of ranges) {
    const answer = await fetch(`${server.url}long.bin`, { headers: { range: `bytes=${from}-${to}` } });
    const part = Buffer.from(await answer.arrayBuffer());
    assert.equal(Buffer.compare(bytes.subarray(from, to + 1), part), 0, `${from} to ${to}`);
  }
  for (let i = 0; i < 3; i++) {
    await new Promise((done) => {
      const request = http.get(`${server.url}long.bin`, (response) => response.once('data', () => request.destroy()));
      request.on('close', done);
      request.on('error', () => {});
    });
  }
  assert.equal((await ask('/long.bin')).headers['content-length'], '3000001');
});

test('the server refuses paths outside its folders, hidden files, and methods other than GET and HEAD', async () => {
  const outside = [
    '/../secret.txt',
    '/%2e%2e/secret.txt',
    '/..%2fsecret.txt',
    '/models/../../secret.txt',
    '/models/..%2f..%2fsecret.txt',
    '/..%5csecret.txt',
    '/link.txt',
    '/.git/config',
    '/%00',
    '/%',
    '/nothing',
  ];
  for (const where of outside) {
    const { status, body } = await ask(where);
    assert.deepEqual([status, body], [404, 'Not found\n'], where);
  }
  assert.equal((await ask('/', { method: 'POST' })).status, 405);
});

test('if the port is busy, the next one is used; isolation and policy can be turned off', async () => {
  const second = await serve({
    root: folder,
    port: server.port,
    nextPort: true,
    isolation: false,
    headers: { 'Content-Security-Policy': '' },
  });
  try {
    assert.ok(second.port > server.port);
    const { headers } = await fetch(`${second.url}secret.txt`);
    assert.equal(headers.get('cross-origin-opener-policy'), null);
    assert.equal(headers.get('content-security-policy'), null);
  } finally {
    await second.close();
  }
  await assert.rejects(serve({ root: folder, port: server.port }), { code: 'EADDRINUSE' });
});

test('the check of the wording fails if it finds no files', () => {
  const { status, stdout } = spawnSync(process.execPath, ['tools/check/prose.js', 'missing'], { cwd: ROOT });
  assert.equal(status, 1, String(stdout));
});
