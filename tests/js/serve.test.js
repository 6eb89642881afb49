/* Tests the server: the requests that it refuses, its queue, aborts, metrics, log and shutdown. For long runs: `node
 * tests/lab/run.js serve`. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { send } from '../../js/serve/exchange.js';
import { Guard } from '../../js/serve/guard.js';
import { checkServeOptions } from '../../js/serve/options.js';
import { startServer } from '../../js/serve/server.js';
import { chatBody, metricsOf, post, raw, startServing, statusOf } from '../support/serving.js';
import { open, refuses, serveWith, sleep, until } from './helpers.js';
import { STORYTELLER } from './models.js';
/** @import { ServeOptions } from '../../js/serve/options.js' */
/** @import { LogLine } from '../../js/serve/app.js' */

const LONG = chatBody({ max_tokens: 1500, logit_bias: { 1: -100, 5: -100 } });
/** Returns the head of a chat request. @param {string[]} lines more headers */
const head = (...lines) =>
  `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${lines.join('\r\n')}\r\n\r\n`;

/** @param {TestContext} t @param {ServeOptions} [options] @param {object} [limits] */
async function serving(t, options, limits) {
  const model = await open(t, 'storyteller');
  const lines = /** @type {LogLine[]} */ ([]);
  const server = await startServer(
    { storyteller: model },
    { port: 0, ...options },
    { limits, log: (l) => lines.push(l) },
  );
  t.after(() => server.close(0));
  return { ...server, lines, port: Number(new URL(server.url).port), chat: `${server.url}/v1/chat/completions` };
}

test('host, origin and path decide whether a request is answered', async (t) => {
  const { port } = await serving(t, { cors: ['https://app.example'] });
  const get = (/** @type {string} */ target, /** @type {string[]} */ ...headers) => {
    const all = [...(headers.some((line) => /^host:/i.test(line)) ? [] : [`Host: localhost:${port}`]), ...headers];
    return raw(port, `GET ${target} HTTP/1.1\r\n${all.join('\r\n')}\r\nConnection: close\r\n\r\n`);
  };
  const cases = /** @type {[number, string, ...string[]][]} */ ([
    [200, '/health'],
    [200, '/v1/models'],
    [200, '/v1/models', `Host: 127.0.0.1:${port}`],
    [200, '/v1/models', `Host: [::1]:${port}`],
    [200, '/v1/models', 'Host: LOCALHOST.'],
    [200, '/v1/models', `Origin: http://localhost:${port}`],
    [200, '/v1/models', 'Origin: https://app.example'],
    [200, `http://localhost:${port}/health`],
    // A DNS rebinding attack sends the attacker's host name in the header Host.
    [403, '/v1/models', 'Host: attacker.example'],
    [403, '/v1/models', `Host: attacker.example:${port}`],
    [403, '/health', 'Host: localhost.attacker.example'],
    [403, '/health', 'Host: 192.168.1.5'],
    [403, '/health', 'Host:'],
    [403, 'http://attacker.example/health'],
    [403, 'http://localhost@attacker.example/health'],
    [400, '/health', 'Host: localhost', 'Host: attacker.example'],
    // Pages of origins that the server does not allow.
    [403, '/v1/models', 'Origin: https://attacker.example'],
    [403, '/v1/models', 'Origin: null'],
    [403, '/v1/models', 'Origin: http://localhost:1'],
    [403, '/v1/models', 'Origin: https://app.example.attacker.example'],
    [403, '/api/tags', 'Origin: file://'],
    // paths
    [404, `${'/'.repeat(2)}v1/models`],
    [404, '/v1//models'],
    [404, '/v1%2Fmodels'],
    [404, '/V1/models'],
    [404, '/etc/passwd'],
    [400, '/v1/../metrics'],
    [400, '/v1/%2e%2E/metrics'],
    [400, '/..'],
    [400, '/v1/.'],
    [400, '/v1/models%'],
    [400, '/v1/models%zz'],
    [400, '/\\..\\metrics'],
    [400, '/metrics#fragment'],
    [400, '*'],
    [400, 'metrics'],
    [400, 'https://localhost/health'],
    [414, `/${'a'.repeat(3000)}`],
    [431, '/health', `X-Large: ${'a'.repeat(20_000)}`],
    [400, '/health', 'Bad Header: x'],
  ]);
  for (const [status, target, ...headers] of cases) {
    assert.equal(
      statusOf(await get(target, ...headers)),
      status,
      `${target.slice(0, 60)} ${headers.join().slice(0, 60)}`,
    );
  }
  assert.equal(statusOf(await raw(port, 'GET /health HTTP/1.1\r\n\r\n')), 400, 'no Host');
  const asked = (/** @type {string} */ host) => {
    return /** @type {any} */ ({ url: '/health', headers: { host }, rawHeaders: ['Host', host] });
  };
  const local = new Guard({ host: '::1' });
  assert.equal(local.admit(asked('[::1]:8080')).path, '/health');
  assert.throws(() => local.admit(asked('192.168.1.5')), { code: 'host_not_allowed' });
  assert.equal(statusOf(await raw(port, 'nonsense\r\n\r\n')), 400);
  const connected = await raw(port, `CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n`, 500);
  assert.equal(connected, '', 'CONNECT closes the connection');
});

test('pages of the listed origins pass the preflight and can read responses', async (t) => {
  const { chat, url } = await serving(t, { cors: ['https://app.example', 'app://notes'], apiKey: 'sesame' });
  const preflight = (/** @type {string} */ origin) =>
    fetch(chat, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,x-a',
      },
    });
  const allowed = await preflight('https://app.example');
  assert.equal(allowed.status, 204);
  assert.equal(allowed.headers.get('access-control-allow-origin'), 'https://app.example');
  assert.equal(allowed.headers.get('access-control-allow-headers'), 'authorization,x-a');
  assert.equal((await preflight('app://notes')).status, 204);
  const foreign = await preflight('https://attacker.example');
  assert.equal(foreign.status, 403);
  assert.equal(foreign.headers.get('access-control-allow-origin'), null);
  const refused = await fetch(`${url}/v1/models`, { headers: { origin: 'https://app.example' } });
  assert.equal(refused.status, 401, 'the error has CORS headers, so that a page can read it');
  assert.equal(refused.headers.get('access-control-allow-origin'), 'https://app.example');
});

test('with an API key, requests need it', async (t) => {
  const { url } = await serving(t, { apiKey: 'sesame' });
  const status = async (/** @type {string} */ path, /** @type {string} */ authorization) =>
    (await fetch(url + path, { headers: { authorization } })).status;
  for (const wrong of ['', 'Bearer', 'Bearer sesam', 'Bearer sesame2', 'Basic sesame', 'sesame', 'Bearer Sesame']) {
    for (const path of ['/v1/models', '/api/tags', '/metrics', '/nothing']) {
      assert.equal(await status(path, wrong), 401, `${path} ${wrong}`);
    }
  }
  for (const path of ['/v1/models', '/api/tags', '/metrics']) assert.equal(await status(path, 'Bearer sesame'), 200);
  assert.equal(await status('/health', ''), 200);
  assert.deepEqual(await (await fetch(`${url}/health`)).json(), { status: 'ok' });
  const body = await (await fetch(`${url}/v1/models`)).json();
  assert.equal(body.error.code, 'invalid_api_key');
  assert.match((await (await fetch(`${url}/api/tags`)).json()).error, /API key/);
});

test('request bodies are limited in size and time', async (t) => {
  const { port, chat } = await serving(t, {}, { bodyBytes: 2000, bodyMs: 400, headersMs: 400 });
  const cases = /** @type {[number, string][]} */ ([
    [413, head('Content-Length: 5000') + 'x'.repeat(5000)],
    [413, `${head('Transfer-Encoding: chunked')}1000\r\n${'x'.repeat(4096)}\r\n0\r\n\r\n`],
    [413, head('Content-Length: 999999999999')],
    [408, `${head('Content-Length: 100')}{"model":`],
    [408, `${head('Transfer-Encoding: chunked')}1\r\n{\r\n`],
    [408, 'POST /v1/chat/completions HTTP/1.1\r\nHost: loc'],
    [400, head('Content-Length: -1')],
    [400, head('Content-Length: 4', 'Transfer-Encoding: chunked')],
    [400, `${head('Connection: close', 'Content-Length: 7')}{"model`],
    [400, `${head('Connection: close', 'Content-Length: 2')}[]`],
    [400, head('Connection: close', 'Content-Length: 0')],
    [405, 'DELETE /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'],
    [405, 'GET /api/chat HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'],
    [405, 'TRACE /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'],
  ]);
  const replies = await Promise.all(cases.map(([, text]) => raw(port, text, 4000)));
  assert.deepEqual(
    replies.map(statusOf),
    cases.map(([status]) => status),
  );
  assert.deepEqual(
    replies.slice(-3).map((reply) => /^allow: (.*)\r$/im.exec(reply)?.[1]),
    ['GET, HEAD', 'POST', 'GET'],
  );
  const large = await post(chat, chatBody({ user: 'x'.repeat(5000) }));
  assert.equal(large.status, 413);
  assert.equal((await large.json()).error.code, 'request_too_large');
  assert.equal((await post(chat, chatBody({ max_tokens: 1 }))).status, 200);
});

test('a body that arrives slowly does not occupy the queue', async (t) => {
  const { port, chat } = await serving(t, { queue: 1 });
  const body = JSON.stringify(chatBody({ max_tokens: 1 }));
  const slow = connect(port, '127.0.0.1');
  t.after(() => slow.destroy());
  const reply = text(slow);
  slow.write(head('Connection: close', `Content-Length: ${body.length}`) + body.slice(0, 10));
  await sleep(50);
  assert.equal((await post(chat, chatBody({ max_tokens: 1 }))).status, 200);
  slow.write(body.slice(10));
  assert.equal(statusOf(await reply), 200);
});

test('each of many requests is answered, or gets status 429 with Retry-After', async (t) => {
  const { chat, url } = await serving(t, { queue: 5 });
  const all = await Promise.all(
    Array.from({ length: 30 }, (_, i) => post(i % 2 ? chat : `${chat}/`, chatBody({ max_tokens: 60 }))),
  );
  const counts = { 200: 0, 429: 0 };
  for (const response of all) {
    const body = await response.json();
    counts[/** @type {200} */ (response.status)]++;
    if (response.status === 200) assert.ok(body.choices[0].message.content);
    else {
      assert.equal(body.error.code, 'rate_limit_exceeded');
      assert.ok(Number(response.headers.get('retry-after')) >= 1);
    }
  }
  assert.equal(counts[200] + counts[429], 30);
  assert.ok(counts[200] >= 5 && counts[429] > 0, JSON.stringify(counts));
  const metrics = await metricsOf(url);
  for (const status of /** @type {const} */ ([200, 429])) {
    const name = `gemma_wasm_requests_total{route="/v1/chat/completions",status="${status}"}`;
    assert.equal(metrics[name], counts[status]);
  }
  assert.equal(metrics.gemma_wasm_requests_waiting, 0);
  assert.equal(metrics.gemma_wasm_requests_running, 0);
});

test('a disconnect ends the answer, in the queue and at the engine', async (t) => {
  const { chat, lines, running, url } = await serving(t);
  const bodies = /** @type {[string, object][]} */ ([
    [chat, { ...LONG, stream: true }],
    [chat, LONG],
    [`${url}/api/chat`, { model: 'storyteller', messages: LONG.messages, options: { num_predict: 1500 } }],
  ]);
  const disconnected = async (/** @type {string} */ address, /** @type {object} */ body) => {
    const controls = Array.from({ length: 4 }, () => new AbortController());
    const calls = controls.map(({ signal }) => post(address, body, { signal }));
    const ended = Promise.allSettled(calls.map(async (call) => (await call).text()));
    // Only a streamed response begins during the answer, with the first token.
    await (body === LONG ? sleep(60) : calls[0]);
    for (const control of controls) control.abort();
    const ms = await until(() => running() === 0, 5000);
    assert.ok((await ended).some(({ status }) => status === 'rejected'));
    return ms;
  };
  for (const [address, body] of bodies) {
    t.diagnostic(`ended after ${(await disconnected(address, body)).toFixed(0)} ms`);
  }
  const most = Math.max(...lines.map(({ usage }) => usage.completionTokens));
  assert.ok(most > 0 && most < 1500, `${most} tokens`);
  assert.equal((await post(chat, chatBody({ max_tokens: 2 }))).status, 200);
});

test('a client that does not read is disconnected, and its answer ends', async (t) => {
  let pulled = 0;
  let cancelled = false;
  const body = new ReadableStream({
    pull(controller) {
      pulled += 1 << 16;
      controller.enqueue(new Uint8Array(1 << 16));
    },
    cancel() {
      cancelled = true;
    },
  });
  const url = await serveWith(t, (req, res) => void send(res, new Response(body), 300));
  const socket = connect(Number(new URL(url).port), '127.0.0.1').pause();
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
  t.after(() => socket.destroy());
  await until(() => cancelled, 5000);
  assert.ok(pulled > 1 << 20 && pulled < 64 << 20, `${pulled} bytes were read: as much as fits into buffers`);
});

test('a client that reads slowly does not delay others', async (t) => {
  const { chat, port, running } = await serving(t);
  const body = JSON.stringify({ ...LONG, max_tokens: 500, stream: true });
  const socket = connect(port, '127.0.0.1').pause();
  socket.write(head(`Content-Length: ${body.length}`) + body);
  await until(() => running() === 1, 5000);
  assert.equal((await post(chat, chatBody({ max_tokens: 5 }))).status, 200);
  await until(() => running() === 0, 5000);
  socket.destroy();
});

test('metrics count requests and tokens', async (t) => {
  const { chat, url } = await serving(t);
  const { usage } = await (await post(chat, chatBody({ max_tokens: 5 }))).json();
  await (await post(chat, chatBody({ max_tokens: 5, stream: true }))).text();
  const metrics = await metricsOf(url);
  assert.equal(metrics['gemma_wasm_requests_total{route="/v1/chat/completions",status="200"}'], 2);
  assert.equal(metrics['gemma_wasm_tokens_total{kind="prompt"}'], 2 * usage.prompt_tokens);
  assert.equal(metrics['gemma_wasm_tokens_total{kind="completion"}'], 10);
  const histogram = 'gemma_wasm_request_duration_seconds';
  assert.equal(metrics[`${histogram}_bucket{route="/v1/chat/completions",le="+Inf"}`], 2);
  assert.equal(metrics[`${histogram}_count{route="/v1/chat/completions"}`], 2);
  assert.ok(metrics['gemma_wasm_heap_bytes{model="storyteller"}'] > 5e6);
});

test('closing ends running answers after the grace time, and cuts off unfinished requests', async (t) => {
  const { chat, url, port, close, running } = await serving(t, {}, { bodyMs: 3_600_000 });
  const unfinished = raw(port, `${head('Content-Length: 9')}{`, 3_600_000);
  const answer = post(chat, { ...LONG, stream: true }).then((response) => response.text());
  const ollama = post(`${url}/api/chat`, { ...LONG, model: 'storyteller', stream: false });
  await until(() => running() === 3, 5000);
  await close(50);
  assert.doesNotMatch(await answer.catch(() => ''), /"finish_reason":"length"/);
  const { status } = await ollama;
  assert.equal(status, 503);
  await unfinished;
});

test('options out of range are refused', async () => {
  const wrong = [
    { port: -1 },
    { port: 1.5 },
    { host: '' },
    { queue: 0 },
    { cors: ['example.com'] },
    { allowHost: ['a:1'] },
    { apiKey: '' },
  ];
  for (const options of wrong) await refuses(() => checkServeOptions(options), 'bad-option');
});

test('the serve command: several models, no text of a request in the log, an orderly shutdown', async () => {
  const secret = 'Xyzzy';
  const args = [STORYTELLER, STORYTELLER, '--name', 'one', '--name', 'two', '--threads', '1'];
  const server = await startServing(args, { GEMMA_WASM_API_KEY: `key${secret}` });
  const headers = { authorization: `Bearer key${secret}`, 'user-agent': secret };
  const list = await (await fetch(`${server.url}/v1/models`, { headers })).json();
  assert.deepEqual(
    list.data.map((/** @type {{ id: string }} */ { id }) => id),
    ['one', 'two'],
  );
  const said = { messages: [{ role: 'user', content: secret }] };
  for (const model of ['one', 'two', secret]) {
    const { status } = await post(`${server.url}/v1/chat/completions`, chatBody({ model, ...said }), { headers });
    assert.equal(status, model === secret ? 404 : 200);
  }
  await fetch(`${server.url}/${secret}?${secret}`, { headers });
  await fetch(`${server.url}/v1/models/${secret}`, { headers });
  await post(`${server.url}/v1/chat/completions`, `{${secret}`, { headers });
  await post(`${server.url}/api/chat`, { model: 'one', ...said, options: { [secret]: 1 } }, { headers });
  await fetch(`${server.url}/v1/models`, {
    headers: { authorization: `Bearer ${secret}`, origin: `http://${secret}` },
  });
  await raw(server.port, `GET /${secret} HTTP/1.1\r\nHost: ${secret}\r\nConnection: close\r\n\r\n`);
  // After SIGTERM, the server finishes running answers and refuses new requests.
  const long = await post(
    `${server.url}/v1/chat/completions`,
    { ...LONG, max_tokens: 400, model: 'one', stream: true },
    { headers },
  );
  server.kill('SIGTERM');
  const text = await long.text();
  assert.match(text, /"finish_reason":"length"[^]*\[DONE\]/);
  assert.equal(await server.exited, 0, server.log());
  assert.ok(!server.log().includes(secret), server.log());
  assert.match(server.log(), /^\S+Z POST \/v1\/chat\/completions 200 \d+ ms, \d+ \+ \d+ tokens$/m);
  assert.match(server.log(), /^\S+Z GET other 403 \d+ ms$/m);
});

test('the serve command: a second signal ends it immediately', async () => {
  const server = await startServing([STORYTELLER, '--threads', '1', '--quiet', '--host', '0.0.0.0']);
  const calls = Array.from({ length: 20 }, () => post(`http://127.0.0.1:${server.port}/v1/chat/completions`, LONG));
  const ended = Promise.allSettled(calls);
  await sleep(300);
  server.kill('SIGINT');
  await until(() => server.log().includes('Stopping'), 5000);
  server.kill('SIGINT');
  assert.equal(await server.exited, 130);
  assert.ok((await ended).some(({ status }) => status === 'rejected'));
  assert.match(server.log(), /Warning: every machine that can reach 0\.0\.0\.0/);
  assert.doesNotMatch(server.log(), /POST/);
});

test('the serve command: a port in use and wrong names are explained', async (t) => {
  const { port } = await serving(t);
  const failure = (/** @type {string[]} */ ...args) =>
    startServing([STORYTELLER, '--threads', '1', ...args]).then(
      () => assert.fail('it started'),
      (/** @type {Error} */ { message }) => message,
    );
  assert.match(await failure('--port', String(port)), /ended with 1: .*Port \d+ of 127\.0\.0\.1 is in use/s);
  assert.match(
    await failure('--name', 'a', '--name', 'b'),
    /ended with 2: .*--name must be given once for each model/s,
  );
  assert.match(await failure('--name', 'a b'), /ended with 2: .*cannot be the name of a model/s);
  assert.match(await failure('--cors', 'example.com'), /ended with 2: .*`cors` must be an origin/s);
  assert.match(await failure(STORYTELLER), /ended with 2: .*Two models have the name "storyteller"/s);
});
