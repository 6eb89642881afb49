/* handles: measures the memory that Chromium keeps for each file system handle that a page releases, in a page without
 * this package. Handles use 64 KB buffers of shared memory, and some buffers stay in use as long as the page's process
 * lives. Linux only. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { launch, peaksBelow } from '../e2e/helpers.js';

const BUFFER = 1 << 16;
/** Expressions that the page evaluates, by the name of their row in the results. */
const CALLS = {
  'folder handle': 'dir()',
  'file handle, with the folder handle known': 'kept.getFileHandle("f")',
  '`File` object, with the file handle known': 'file.getFile()',
  'list of the names in a folder, with the folder handle known': 'names()',
  'all steps: root, folder and file handle, `File` object, and reading a part of it':
    'dir().then((d) => d.getFileHandle("f")).then((f) => f.getFile()).then((b) => b.slice(0, 1000).arrayBuffer())',
  'lock, for comparison': 'navigator.locks.request("a", { ifAvailable: true }, () => 1)',
};
const PAGE = `<!doctype html><title>handles</title><script type="module">
const dir = async () => (await navigator.storage.getDirectory()).getDirectoryHandle('x', { create: true });
const kept = await dir(), file = await kept.getFileHandle('f', { create: true }), writer = await file.createWritable();
await writer.write(new Uint8Array(100_000));
await writer.close();
const names = async () => { for await (const name of kept.keys()) void name; };
const calls = [${Object.values(CALLS)
  .map((call) => `() => ${call}`)
  .join(', ')}];
window.go = async (which, count) => { for (let i = 0; i < count; i++) await calls[which](); };
</script>`;

/** Returns the number of 64 KB buffers that a process and its descendants share, each counted once.
 * @param {number} pid */
function buffers(pid) {
  const seen = new Set();
  for (const one of peaksBelow(pid)) {
    let maps = '';
    try {
      maps = readFileSync(`/proc/${one.pid}/maps`, 'utf8');
    } catch {
      /* The process has just ended. */
    }
    for (const [, from, to, inode, name] of maps.matchAll(/^(\w+)-(\w+) \S+ \S+ \S+ (\d+) +(.*)$/gm)) {
      if (/memfd|\/dev\/shm/.test(name) && parseInt(to, 16) - parseInt(from, 16) === BUFFER) seen.add(inode);
    }
  }
  return seen.size;
}

/** Makes each kind of call `count` times. Rows have the number of buffers that stay in use, and their bytes per call.
 * @param {import('./cases.js').Run} run */
export async function run({ count, after }) {
  const server = createServer((_, response) => response.setHeader('Content-Type', 'text/html').end(PAGE));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  after(() => server.close());
  const browser = await launch('chromium');
  after(() => browser.close());
  const pid = Number(browser.process()?.pid);
  const page = await browser.newPage();
  const devtools = await page.createCDPSession();
  await page.goto(`http://localhost:${/** @type {any} */ (server.address()).port}/`);
  await page.waitForFunction('window.go');
  const go = (/** @type {number} */ which, /** @type {number} */ n) =>
    page.evaluate((i, times) => /** @type {any} */ (window).go(i, times), which, n);
  // The first calls make a new browser release other temporary memory.
  for (const which of Object.keys(CALLS).keys()) await go(which, 500);
  const rows = [];
  for (const [which, name] of Object.keys(CALLS).entries()) {
    const before = buffers(pid);
    await go(which, count);
    await devtools.send('HeapProfiler.collectGarbage');
    const more = buffers(pid) - before;
    rows.push([name, count, more, Math.round((more * BUFFER) / count)]);
  }
  return { counts: { rows: rows.map((row) => row.join(' ')) }, rows };
}
