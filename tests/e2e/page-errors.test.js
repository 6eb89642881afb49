/**
 * Tests failures on the page: each one is shown with a remedy and, under "Details", the sentence that the command line
 * prints, and the page stays usable.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { sleep } from '../lab/inject.js';
import { badModel, testModel } from '../js/models.js';
import {
  ANSWERED,
  FAILED,
  PICKING,
  READY,
  ask,
  assertReady,
  fill,
  focused,
  loadAddress,
  modelAddress,
  onlyIn,
  pageIn,
  press,
  say,
  setOptions,
  submitAddress,
  suite,
  textOf,
  until,
  untilText,
  valueOf,
} from './helpers.js';

const CLI = fileURLToPath(new URL('../../js/cli.js', import.meta.url));

/** Returns what the command line prints if it cannot answer with the model at an address. @param {string} url
 * @returns {Promise<string>} */
const printed = (url) =>
  new Promise((resolve) => {
    const args = [CLI, 'generate', url, '--prompt', 'Hello', '--no-cache'];
    execFile(process.execPath, args, (_, __, text) => resolve(text.trim().split('\n').at(-1) ?? ''));
  });

/** Answers range requests at 1 MB/s until the time `until` (in ms since 1970), and then with status 503.
 * @param {import('node:http').IncomingMessage} request @param {import('node:http').ServerResponse} response
 * @param {Uint8Array} bytes @param {number} until */
async function slowly(request, response, bytes, until) {
  if (Date.now() > until) return void response.writeHead(503).end();
  const [, start = 0, last = bytes.length - 1] =
    /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? '')?.map(Number) ?? [];
  const range = `bytes ${start}-${last}/${bytes.length}`;
  response.writeHead(206, { 'Content-Length': last + 1 - start, 'Content-Range': range, ETag: '"1"' });
  for (let at = start; at <= last && Date.now() < until; at += 1 << 16) {
    response.write(bytes.subarray(at, Math.min(at + (1 << 16), last + 1)));
    await sleep(60);
  }
  if (Date.now() < until) response.end();
  else response.destroy();
}

/** Returns a server hook for addresses that fail on purpose: error statuses, lost connections, damaged models.
 * @returns {Promise<import('../../tools/serve.js').Options['intercept']>} */
async function trouble() {
  const whole = readFileSync(await testModel('tiny'));
  const embedding = readFileSync(await testModel('embed-small-q4_0'));
  const large = readFileSync(await testModel('parity-f32'));
  let since = 0;
  return async (request, response) => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    if (url.pathname.startsWith('/status/')) {
      response.writeHead(Number(url.pathname.slice(8))).end('no');
    } else if (url.pathname === '/dropped') {
      response.writeHead(200, { 'Content-Length': whole.length });
      response.write(whole.subarray(0, whole.length >> 1), () => setTimeout(() => response.destroy(), 50));
    } else if (url.pathname === '/stops') {
      since ||= Date.now();
      await slowly(request, response, large, since + 3000);
    } else if (url.pathname === '/embedding') {
      response.end(embedding);
    } else if (url.pathname.startsWith('/bad/')) {
      response.end((await badModel(decodeURIComponent(url.pathname.slice(5)))).bytes);
    } else {
      return false;
    }
    return true;
  };
}

/** @type {[string, RegExp, RegExp][]} */
const CASES = [
  ['/status/404', /File not found/, /\(http-error\)$/m],
  ['/status/401', /requires you to sign in[\s\S]*token/, /\(http-error\)$/m],
  ['/status/403', /don’t have access[\s\S]*licence/, /\(http-error\)$/m],
  ['/status/429', /Too many requests/, /\(http-error\)$/m],
  ['/status/503', /server had an error/, /\(http-error\)$/m],
  ['/dropped', /read completely|incomplete|could not be reached/, /\((read-error|truncated|network-error)\)$/m],
  ['/bad/a web page', /not a GGUF file/, /\(bad-magic\)$/m],
  ['/bad/cut in the data', /incomplete[\s\S]*Try again/, /\(truncated\)$/m],
  ['/bad/unknown architecture', /cannot run models of this kind/, /mamba.* \(unsupported-architecture\)$/m],
  ['/bad/unknown type', /isn’t supported yet/, /\(unsupported-type\)$/m],
  ['/bad/missing tensor', /part of the model is missing/, /\(missing-tensor\)$/m],
  ['/bad/no tokenizer', /no vocabulary/, /\(missing-tokenizer\)$/m],
  ['/embedding', /can’t chat/, /\(not-generative\)$/m],
];

const test = suite('errors', async (name) => pageIn(name, { intercept: await trouble() }));
/** Tests only the page's own code, in one browser. @type {typeof test} */
const testInOne = (name, run) => test(name, run, onlyIn('chromium'));

test('each faulty file or server gives an error with a remedy and a code, and the next load works', async ({
  name,
  open,
}) => {
  // Expected console errors: browsers log failed requests.
  const page = await open('', { expected: /Failed to load resource|NetworkError|ERR_/ });
  // The engine and the page find the faults of files themselves, in every browser alike.
  const cases = onlyIn('chromium').includes(name) ? CASES : CASES.filter(([address]) => !address.startsWith('/bad/'));
  for (const [address, words, details] of cases) {
    await loadAddress(page, address);
    assert.match(await textOf(page, FAILED), words, address);
    assert.match(await page.$eval('.error pre', (pre) => pre.textContent ?? ''), details, address);
    assert.equal(
      await textOf(page, `${FAILED} .about`),
      decodeURIComponent(address).replace(/.*\//, ''),
      'which model',
    );
    assert.equal(await page.$eval('body', (body) => body.dataset.state), 'picking');
  }
  await loadAddress(page, await modelAddress('tiny'));
  await assertReady(page);
  assert.equal(await page.$(FAILED), null, 'the old error is gone');
});

testInOne('the details are closed, and have the sentence that the command line prints', async ({ open, server }) => {
  const page = await open('', { expected: /Failed to load resource/ });
  for (const path of ['/status/404', '/bad/unknown%20architecture']) {
    const url = server.url.replace(/\/$/, '') + path;
    await loadAddress(page, url);
    const details = await page.$eval('.error details', ({ open, lastChild }) => [open, lastChild?.textContent]);
    assert.deepEqual([details[0], `gemma-wasm: ${details[1]}`], [false, await printed(url)]);
  }
});

test('offline, an error offers to try again, and gives no advice about the server', async ({ open }) => {
  const page = await open('', { expected: /Failed to load resource|NetworkError|ERR_|reach/ });
  const online = (/** @type {boolean} */ on) =>
    page.evaluate((value) => {
      Object.defineProperty(navigator, 'onLine', { value, configurable: true });
    }, on);
  await online(false);
  await loadAddress(page, 'http://localhost:9/tiny.gguf');
  assert.match(await textOf(page, FAILED), /device is offline/);
  assert.doesNotMatch(await textOf(page, `${FAILED} > p:not(.about)`), /CORS/);
  await online(true);
  await press(page, `${FAILED} > button`, 'Try again');
  await untilText(page, '.error', /could not be reached[^]*CORS/);
});

testInOne(
  'if the engine stops, one error appears and the model can be loaded again; until then each button says why it cannot work',
  async ({ open }) => {
    const page = await open('', {
      expected: /died/,
      before: () => {
        const workers = /** @type {Worker[]} */ ([]);
        Object.assign(window, {
          workers,
          Worker: class extends Worker {
            /** @param {string | URL} url @param {WorkerOptions} [options] */
            constructor(url, options) {
              super(url, options);
              workers.push(this);
            }
          },
        });
      },
    });
    await loadAddress(page, await modelAddress('tiny'));
    await setOptions(page, { maxTokens: 4 });
    await ask(page, 'Hello');
    await page.evaluate(() => {
      /** @type {HTMLTextAreaElement} */ (document.querySelector('#input')).value = 'Again';
      /** @type {HTMLFormElement} */ (document.querySelector('#composer')).requestSubmit();
      for (const worker of /** @type {any} */ (window).workers) {
        worker.terminate();
        worker.onerror?.(new ErrorEvent('error', { message: 'died' }));
      }
    });
    await until(page, 'body[data-state="reading"]');
    assert.equal((await page.$$(FAILED)).length, 1);
    assert.equal(await page.$('#chooser[open]'), null);
    assert.match(await textOf(page, FAILED), /engine stopped working/);
    for (const text of ['Try again', 'Edit']) {
      await press(page, '#log button', text);
      assert.match(await textOf(page, '#failures'), /No model is loaded/, text);
      await press(page, '#failures button', 'Dismiss');
    }
    assert.match(await textOf(page, '#model-card'), /Reload model/);
    await press(page, `${FAILED} > button`, 'Reload model');
    await until(page, READY);
    await press(page, `${FAILED} > button`, 'Try again');
    await until(page, ANSWERED);
    assert.equal((await page.$$('.from-model')).length, 2);
  },
);

testInOne(
  'no rate and no remaining time are shown once the device is offline, or while a server fails',
  async ({ open }) => {
    const page = await open('', { expected: /Failed to load resource|NetworkError|ERR_/ });
    await submitAddress(page, '/stops');
    await until(page, '#loading-rate:not(:empty)');
    const offline = await page.evaluate(() => {
      dispatchEvent(new Event('offline'));
      return ['rate', 'left'].map((id) => document.querySelector(`#loading-${id}`)?.textContent);
    });
    assert.deepEqual(offline, ['', '']);
    await until(page, '#loading-notice:not([hidden])');
    const shown = () =>
      page.$eval(
        '#loading-rate',
        (one) => one.textContent + (document.querySelector('#loading-left')?.textContent ?? ''),
      );
    assert.equal(await shown(), '');
    await sleep(1500);
    assert.equal(await shown(), '');
  },
);

testInOne('wrong input is reported before anything is loaded', async ({ open }) => {
  const page = await open();
  /** @type {[string, Record<string, string>, RegExp][]} */
  const cases = [
    ['#web-form', { 'web-url': 'http://example.com/model.gguf' }, /Only https/],
    ['#web-form', { 'web-url': '' }, /not a valid URL/],
    ['#hub-form', { 'hub-repo': 'gemma', 'hub-file': 'x.gguf' }, /owner\/name/],
    ['#hub-form', { 'hub-repo': 'a/b', 'hub-file': '' }, /file name is missing/],
  ];
  for (const [form, fields, words] of cases) {
    for (const [id, value] of Object.entries(fields)) await fill(page, `#${id}`, value);
    await page.$eval(form, (one) => /** @type {HTMLFormElement} */ (one).requestSubmit());
    await untilText(page, FAILED, words);
    await until(page, PICKING);
  }
});

testInOne('a message longer than the context is reported, and the chat stays usable', async ({ openWith }) => {
  const page = await openWith('tiny', { query: '?context=64' });
  await setOptions(page, { maxTokens: 4 });
  await fill(page, '#input', 'word '.repeat(100));
  await say(page, '');
  await until(page, FAILED);
  assert.match(await textOf(page, FAILED), /too long for the model’s context/);
  await page.click('.error > button');
  assert.match(await valueOf(page, '#input'), /^(word ?){100}$/, 'the message returns to the field, to be shortened');
  await fill(page, '#input', '');
  await say(page, 'Hi');
  await until(page, ANSWERED);
  assert.match(await textOf(page, '.question-foot .versions'), /2\/2/, 'the new message is a version of the long one');
  await fill(page, '#input', 'word '.repeat(100));
  await say(page, '');
  await until(page, FAILED);
  await ask(page, 'Hi again');
  assert.equal((await page.$$('.unanswered')).length, 1, 'the message without an answer is marked');
});

test('without COOP and COEP the page runs on one thread and says why', async ({ name }) => {
  const { openWith } = await pageIn(name, { isolation: false });
  const page = await openWith('tiny');
  assert.match(await textOf(page, '#chat-notice'), /one thread[\s\S]*Cross-Origin-Opener-Policy/);
  await setOptions(page, { maxTokens: 5, temperature: 0 });
  await ask(page, 'Hi');
  await page.click('#settings-toggle');
  assert.match(await textOf(page, '#info'), /1\sthread/);
});

/** Runs in the page before its scripts: keeps the first message to a worker and delivers none, so that no request
 * leaves the page. */
function keepMessage() {
  Worker.prototype.postMessage = function (/** @type {unknown} */ message) {
    /** @type {any} */ (window).sent ??= JSON.stringify(message);
  };
}

testInOne('an access token is sent in a header of one load, and is not stored', async ({ open }) => {
  const page = await open('', { before: keepMessage });
  await press(page, '#presets button', 'Enter token…');
  assert.equal(await focused(page), 'token');
  assert.match(await textOf(page, '#token-form'), /accept the licence[\s\S]*google\/gemma-3-1b-it-qat-q4_0-gguf/);
  await page.keyboard.type('hf_secret');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => 'sent' in window);
  const { sent, kept } = await page.evaluate(() => ({
    sent: JSON.parse(/** @type {any} */ (window).sent),
    kept: JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie + location.href,
  }));
  assert.doesNotMatch(kept, /hf_secret/);
  assert.match(JSON.stringify(sent), /Bearer hf_secret/);
  assert.doesNotMatch(sent.source[0].url, /secret/);
  assert.match(sent.source[0].url, /^https:\/\/huggingface\.co\/google\/gemma-3-1b-it-qat-q4_0-gguf\/resolve\/main\//);
  assert.equal(await valueOf(page, '#token'), '');
  await page.click('#loading-cancel');
  await until(page, PICKING);
});

testInOne('a preset shows its size and is checked against its hash', async ({ open }) => {
  const page = await open('', { before: keepMessage });
  assert.match(await textOf(page, '#presets li'), /Gemma 3 270M[\s\S]*292\sMB/);
  await page.click('#presets li button');
  await page.waitForFunction(() => 'sent' in window);
  const sent = await page.evaluate(() => /** @type {any} */ (window).sent);
  assert.match(sent, /gemma-3-270m-it-Q8_0\.gguf/);
  assert.match(sent, /0ef57d2c838458a1952664260dcba38e5bdda37494f3af732f06e4add24068e3/);
});
