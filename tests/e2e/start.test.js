/* Tests `npm start`, and measures the time to the first word. `npm start` rebuilds dist/ and the page, so no test that
 * reads them may run at the same time. */
import { spawn } from 'node:child_process';
import path from 'node:path';
import { before, test } from 'node:test';
import { BROWSERS, FAILED, READY, assertReady, openTab, root, sharedBrowser, until } from './helpers.js';

/** @returns {Promise<{ url: string, stop: () => void, begun: number }>} */
function start() {
  const begun = performance.now();
  const child = spawn(process.execPath, [path.join(root, 'tools/start.js'), '--port', '0'], { cwd: root });
  return new Promise((done, fail) => {
    let shown = '';
    child.stdout.on('data', (data) => {
      shown += data;
      const [url] = /http:\S+/.exec(shown) ?? [];
      if (url) done({ url, stop: () => child.kill(), begun });
    });
    child.stderr.on('data', (data) => {
      shown += data;
    });
    child.on('exit', () => fail(new Error(shown)));
  });
}

before(async () => {
  (await start()).stop(); // The first start may have to build, so it is not measured.
});

for (const name of BROWSERS) {
  test(`${name}, npm start serves a page whose storyteller answers`, async (t) => {
    const { url, stop, begun } = await start();
    try {
      const address = performance.now() - begun;
      const tab = await openTab(await sharedBrowser(name), 'about:blank');
      await tab.page.goto(url);
      if (!(await tab.page.$('meta[name="storyteller"]'))) return t.skip('there is no models/storyteller/');
      await until(tab.page, `${READY}, ${FAILED}`);
      await assertReady(tab.page);
      const ready = performance.now() - begun;
      await tab.page.click('.suggestions button');
      await tab.page.waitForFunction(() => /\S/.test(document.querySelector('.from-model .md')?.textContent ?? ''), {
        polling: 5,
      });
      const word = performance.now() - begun;
      console.log(
        `${name}: address after ${address.toFixed(0)} ms, ready after ${ready.toFixed(0)} ms, ` +
          `first word after ${word.toFixed(0)} ms`,
      );
      await tab.close();
    } finally {
      stop();
    }
  });
}
