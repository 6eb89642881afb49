/* Tests downloads from a server that fails on purpose: every load ends with the right model or an error with a code,
 * hardly any byte is fetched twice, and bytes of two versions of the file are never mixed. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { Download } from '../../js/download/download.js';
import { environment } from '../../js/platform/env.js';
import { Remote, TUNING } from '../../js/download/http.js';
import { CODES, ModelError, inspectModel, loadModel } from '../../js/index.node.js';
import { pumpOf } from '../../js/download/pump.js';
import { bytes, expected, expectedOther, load, other, sha256Of, tune } from './downloads.js';
import { faultyServer } from './faulty-server.js';
import { randoms } from '../support/random.js';
import { refuses, serveWith, wrong } from './helpers.js';
import { testModel } from './models.js';

const SEGMENT = 1 << 18;
const OPTIONS = { threads: 1, cache: false };
/** A way to request ranges. `usual`: fault of every request, such as a delay, because a fast server gets longer
 * ranges. `stallEvery`: in the test of stalls, every n-th request stalls. `loads`: number of loads with random
 * faults.
 * @typedef {{ how: string, tuning: Partial<Tuning>, usual: Fault, stallEvery: number, loads: number }} Way */
/** @type {Way} */
const PIECES = { how: 'in pieces', tuning: { alone: Infinity }, usual: {}, stallEvery: 4, loads: 20 };
/** @type {Way} */
const LONG = {
  how: 'in long ranges',
  tuning: { alone: 0, least: 1 << 16, most: 1 << 16, spare: 0 },
  usual: { slow: 1 },
  stallEvery: 12,
  loads: 12,
};
const ONE = { how: 'as one piece', tuning: { alone: 0 } };

/** @param {ModelSource} source @param {LoadOptions} [options] */
const logitsOf = async (source, options) => (await load(source, { cache: false, ...options })).logits;

for (const { how, tuning, runs } of [
  { ...PIECES, runs: 3 },
  { ...ONE, runs: 3 },
  { ...LONG, runs: 1 },
]) {
  test(`${runs * 18} connections cut at random offsets, ${how}: the model is right each time, at most 1 % is fetched twice`, (t) => {
    tune(t, tuning);
    return cutConnections(t, runs);
  });
}

/** @param {import('node:test').TestContext} t @param {number} runs */
async function cutConnections(t, runs) {
  const random = randoms(2025);
  /** @type {number[]} */
  let cuts = [];
  let made = 0;
  // A large file, because a broken connection loses up to 64 KB that arrived but were not read yet.
  const large = await readFile(await testModel('medium'));
  const right = await logitsOf(new Uint8Array(large));
  const server = await faultyServer(t, large, (_, { headers }) => {
    const [first, last] = (headers.range ?? '').match(/\d+/g)?.map(Number) ?? [];
    const cut = cuts.findIndex((at) => at > first && at <= last);
    if (cut < 0) return {};
    made++;
    return { killAt: cuts.splice(cut, 1)[0] - first };
  });
  for (let run = 0; run < runs; run++) {
    cuts = Array.from({ length: 18 }, () => Math.floor(random() * large.length)).sort((a, b) => a - b);
    server.forget();
    assert.deepEqual(await logitsOf(server.url), right);
    assert.ok(server.sent <= large.length * 1.01, `run ${run}: ${server.sent} bytes sent of ${large.length}`);
  }
  assert.ok(made >= runs * 17, `${made} cuts`);
}

test('at most three ranges are fetched at the same time', async (t) => {
  let now = 0;
  let most = 0;
  const server = await faultyServer(t, bytes, () => ({ slow: 2 }));
  server.server.prependListener('request', (_, response) => {
    most = Math.max(most, ++now);
    response.on('close', () => {
      now--;
    });
  });
  await logitsOf(server.url);
  assert.equal(most, 3);
});

for (const way of [PIECES, LONG]) {
  for (const [what, run] of Object.entries({
    'stalled requests are cut off and retried': stalls,
    'a server that stops supporting ranges, or sends ranges that were not requested, is handled': goneRanges,
    'a wrong length is reported by an error with a code': lies,
    'versions of a file that changes during the download are never mixed': changes,
    '429 and 503 are retried after the time in Retry-After': refusals,
    'any mix of faults ends with the right model or an error with a code': chaos,
  })) {
    test(`${way.how}: ${what}`, (t) => {
      tune(t, way.tuning);
      return run(t, way);
    });
  }
}

/** @param {TestContext} t @param {Way} way */
async function stalls(t, { usual, stallEvery }) {
  tune(t, { stallMs: 300 });
  const server = await faultyServer(t, bytes, (n) => (n % stallEvery === 1 ? { stallAt: 10_000 } : {}), usual);
  assert.deepEqual(await logitsOf(server.url), expected);
}

test('a silent server is reported before the request is retried', async (t) => {
  tune(t, { stallMs: 3_600_000, toldMs: 60 });
  for (const fault of [{ wait: 3_600_000 }, { stallAt: 10_000 }]) {
    const server = await faultyServer(t, bytes, () => fault);
    const control = new AbortController();
    /** @type {Progress[]} */ const reports = [];
    const onProgress = (/** @type {Progress} */ report) => {
      reports.push(report);
      if (reports.length > 4 && reports.at(-1)?.loaded === reports.at(-3)?.loaded) control.abort();
    };
    await refuses(loadModel(server.url, { ...OPTIONS, onProgress, signal: control.signal }), 'aborted');
    assert.ok(
      reports.every(({ phase, notice }) => phase === 'fetch' && !notice),
      JSON.stringify(reports),
    );
  }
});

test('a server that stalls again and again after a few bytes is not retried forever', async (t) => {
  tune(t, { stallMs: 60, segment: 1 << 17 });
  const server = await faultyServer(t, bytes, (n) => (n < 2 ? {} : { stallAt: 40_000 }));
  // Each connection delivers a third of a range. If each range had its own count of attempts, the model would arrive
  // after a hundred stalls. On a busy machine, the download may also fail because a response begins too late.
  await refuses(logitsOf(server.url, { cache: false }), ['truncated', 'network-error']);
});

test('without ranges, the file is read as one stream; after a break, the whole file is requested again', async (t) => {
  const server = await faultyServer(t, bytes, (n) => ({
    noRanges: true,
    ...(n < 3 && { killAt: 1_000_000 * (n + 1) }),
  }));
  assert.deepEqual(await logitsOf(server.url), expected);
  assert.equal(server.seen.length, 3 + (bytes.length > 3_000_000 ? 1 : 0));
});

/** @param {TestContext} t @param {Way} way */
async function goneRanges(t, { usual }) {
  for (const fault of [{ noRanges: true }, { shift: 100 }, { headers: { 'Content-Range': '' } }]) {
    const server = await faultyServer(t, bytes, (n) => (n < 4 ? {} : fault), usual);
    if (!fault.noRanges) server.state.faults = (n, { headers }) => (n < 4 || !headers.range ? {} : fault);
    assert.deepEqual(await logitsOf(server.url), expected, JSON.stringify(fault));
    // After a response with the whole file, the download requests nothing more.
    const whole = server.seen.filter(({ range }) => !range).length;
    assert.equal(whole, fault.noRanges ? 0 : 1, `${whole} requests for the whole file, ${JSON.stringify(fault)}`);
  }
}

test('only one of several concurrent ranges falls back to reading the whole file', async (t) => {
  tune(t, PIECES.tuning);
  const server = await faultyServer(t, bytes);
  // The server sends wrong bytes for the first and the last of three concurrent ranges. The middle one arrives
  // quickly.
  server.state.faults = (_, { headers: { range } }) => {
    const segment = Math.floor(Number(range?.match(/=(\d+)/)?.[1]) / SEGMENT);
    return !range ? { slow: 5 } : segment === 2 || segment > 3 ? { shift: 100 } : {};
  };
  assert.ok(bytes.length > 5 * SEGMENT);
  assert.deepEqual(await logitsOf(server.url), expected);
  assert.equal(server.seen.filter(({ range }) => !range).length, 1);
});

test('the length of a gzip response is not taken for that of the file', async (t) => {
  const server = await faultyServer(t, bytes, () => ({ gzip: true }));
  assert.deepEqual(await logitsOf(server.url), expected);
});

/** @param {TestContext} t @param {Way} way */
async function lies(t, { usual }) {
  const server = await faultyServer(t, bytes, () => ({ noRanges: true, lie: 5000 }), usual);
  const error = await refuses(loadModel(server.url, { ...OPTIONS, sha256: 'a'.repeat(64) }), 'truncated');
  assert.deepEqual([error.expected, error.got], [`${bytes.length + 5000} bytes`, `${bytes.length} bytes`]);
  server.state.faults = (n) => (n > 5 ? { lie: 5000 } : {});
  server.forget();
  await refuses(loadModel(server.url, OPTIONS), 'source-changed');
}

/** @param {TestContext} t @param {Way} way */
async function changes(t, { usual }) {
  for (const ranges of [true, false]) {
    const server = await faultyServer(
      t,
      bytes,
      (n) => ({
        noRanges: !ranges,
        ...(n >= 2 ? { bytes: other, etag: '"two"' } : { killAt: ranges ? undefined : 1_000_000 }),
      }),
      usual,
    );
    await refuses(loadModel(server.url, OPTIONS), 'source-changed');
    assert.deepEqual(await logitsOf(server.url), expectedOther);
  }
}

test('without an ETag or Last-Modified, bytes of two responses are never combined', async (t) => {
  const none = { headers: { ETag: '', 'Last-Modified': '' } };
  const server = await faultyServer(t, bytes, () => none);
  assert.deepEqual(await logitsOf(server.url), expected);
  server.state.faults = (n) => ({ ...none, killAt: n < 2 ? 1_000_000 : undefined });
  server.forget();
  await refuses(loadModel(server.url, OPTIONS), 'truncated', /version/);
  // With a digest, a download may combine bytes of different versions of the file, because it can verify the complete
  // file.
  const sha256 = sha256Of(bytes);
  server.forget();
  assert.deepEqual(await logitsOf(server.url, { sha256 }), expected);
});

/** @param {TestContext} t @param {Way} way */
async function refusals(t, { usual }) {
  const soon = new Date(Date.now() - 1000).toUTCString();
  const later = { status: 429, headers: { 'Retry-After': '0' } };
  // The last fault occurs twice, because one of them may hit a range that is requested ahead and retried immediately.
  const faults = [{ status: 503 }, { status: 429, headers: { 'Retry-After': soon } }, {}, later, later];
  const server = await faultyServer(t, bytes, (n) => faults[n] ?? {}, usual);
  /** @type {string[]} */ const notices = [];
  const onProgress = (/** @type {Progress} */ { notice }) => notice && notices.push(notice.code);
  assert.deepEqual(await logitsOf(server.url, { onProgress }), expected);
  assert.ok(notices.filter((code) => code === 'retry').length >= 3, String(notices));
  server.state.faults = () => ({ status: 429, headers: { 'Retry-After': '3600' } });
  await refuses(loadModel(server.url, OPTIONS), 'http-error', /429.*3600 s/);
}

test('a server that stays down is reported by an error with a code, and a later load works', async (t) => {
  const server = await faultyServer(t, bytes, (n) => (n < 3 ? {} : { killAt: 0 }));
  await refuses(loadModel(server.url, OPTIONS), ['truncated', 'network-error']);
  server.state.faults = () => ({});
  assert.deepEqual(await logitsOf(server.url), expected);
});

/** @param {TestContext} t @param {Way} way */
async function chaos(t, { usual, loads }) {
  const random = randoms(7);
  const kinds = [
    () => ({ killAt: Math.floor(random() * SEGMENT) }),
    () => ({ status: 500 }),
    () => ({ noRanges: true }),
    () => ({ noRanges: true, killAt: Math.floor(random() * bytes.length) }),
    () => ({ shift: 1 }),
    () => ({ lie: 10 }),
    () => ({ gzip: true }),
    () => ({ bytes: other, etag: '"two"' }),
    () => ({ headers: { ETag: 'W/"one"' } }),
    () => ({ status: 416 }),
    () => ({ headers: { 'Content-Range': 'bytes 5-1/x' } }),
    () => ({ bytes: other.subarray(0, 9), etag: '"three"' }),
  ];
  /** @type {Record<string, number>} */
  const ends = {};
  for (let run = 0; run < loads; run++) {
    const share = run % 2 ? 0.01 : 0.3;
    const fault = () => (random() < share ? kinds[Math.floor(random() * kinds.length)]() : {});
    const server = await faultyServer(t, bytes, fault, usual);
    const end = await logitsOf(server.url).catch((error) => error);
    if (end instanceof ModelError)
      assert.ok(Object.hasOwn(CODES, end.code) && end.code !== 'worker-failed', `${end.stack}`);
    else
      assert.ok(
        [expected, expectedOther].some((right) => right.every((x, i) => Object.is(x, end[i]))),
        `run ${run}: another model`,
      );
    ends[end.code ?? 'a model'] = (ends[end.code ?? 'a model'] ?? 0) + 1;
    await server.close();
  }
  t.diagnostic(JSON.stringify(ends));
  assert.ok(ends['a model'] > loads / 8);
}

/** @param {string} url @param {object} tuning */
async function readAll(url, tuning) {
  /** @type {string[]} */ const notices = [];
  const download = new Download(
    { url, tuning: { ...environment.tuning, ...tuning } },
    wrong({
      readOnly: false,
      hash: sha256Of,
      counted() {},
      notice: (/** @type {string} */ code) => notices.push(code),
    }),
  );
  await download.open();
  download.planned(bytes.length);
  const pieces = [];
  for (let piece; (piece = await download.next()); ) pieces.push(Buffer.from(piece));
  await download.close();
  assert.equal(Buffer.compare(Buffer.concat(pieces), bytes), 0);
  return notices;
}

/** Tuning for a server (PACED) whose responses begin after 100 ms and deliver a range in 240 ms, so that a range
 * requested ahead arrives before the previous range ends. */
const FEW = { ...LONG.tuning, least: 1 << 19, most: 1 << 19 };
const PACED = { wait: 100, slow: 30 };

test('long ranges: the next one is requested while the current one arrives', async (t) => {
  const server = await faultyServer(t, bytes, () => PACED);
  let now = 0;
  let twice = 0;
  server.server.prependListener('request', (_, response) => {
    if (++now > 1) twice++;
    assert.ok(now <= 2);
    response.on('close', () => {
      now--;
    });
  });
  await readAll(server.url, FEW);
  assert.ok(twice >= 2 && twice >= server.seen.length - 3, `${twice} of ${server.seen.length}`);
  assert.equal(server.sent, bytes.length);
});

test('if a server allows one request at a time, one early request is refused, and nothing is retried', async (t) => {
  const wanted = (/** @type {string} */ range) => {
    const [first, last] = range.split(/\D+/).slice(1).map(Number);
    return last - first + 1;
  };
  const refusals = new Set();
  const server = await faultyServer(t, bytes, () => {
    const busy = server.seen.slice(0, -1).some((one) => !refusals.has(one) && one.sent < wanted(one.range));
    if (!busy) return PACED;
    refusals.add(server.seen.at(-1));
    return { status: 503 };
  });
  assert.deepEqual(await readAll(server.url, FEW), []);
  assert.equal(refusals.size, 1);
});

test('an early request is closed when the server stops supporting ranges', async (t) => {
  /** @type {HttpResponse[]} */ const responses = [];
  let sent = Infinity;
  const server = await faultyServer(t, bytes, (n) => {
    if (n === 2) setTimeout(() => responses[1].destroy(), 5);
    return n < 2 ? PACED : n === 2 ? { stallAt: 1 } : { noRanges: true, slow: 5 };
  });
  server.server.prependListener('request', (_, response) => responses.push(response));
  server.server.on('request', (_, response) => {
    if (responses.length === 3)
      response.on('close', () => {
        sent = server.seen[3]?.sent ?? 0;
      });
  });
  assert.deepEqual(await readAll(server.url, FEW), ['retry']);
  assert.equal(server.seen.length, 4);
  assert.ok(sent < bytes.length / 2, `${sent} bytes were sent in the response with the whole file`);
});

test('ranges stay valid if the clock stands still', async (t) => {
  const server = await faultyServer(t, bytes);
  t.mock.method(performance, 'now', () => 1000);
  await readAll(server.url, LONG.tuning);
  for (const { range } of server.seen) assert.match(range, /^bytes=\d+-\d+$/);
});

test('failed requests do not count for the latency', async (t) => {
  const server = await faultyServer(t, bytes, (n) => (n ? { wait: 50 } : { status: 503 }));
  const remote = new Remote({ url: server.url }, TUNING);
  await refuses(remote.ask(0, 1), 'http-error');
  assert.equal(remote.latency, Infinity);
  (await remote.ask(0, 1)).close();
  assert.ok(remote.latency > 45, `${remote.latency} ms`);
});

test('reading a stream that has ended allocates no memory', async () => {
  const pump = pumpOf(new ReadableStream({ start: (controller) => controller.close() }));
  const before = process.memoryUsage().arrayBuffers;
  for (let i = 0; i < 64; i++) assert.equal(await pump(), null);
  assert.ok(process.memoryUsage().arrayBuffers - before < 16 << 20);
});

test('inspectModel() fetches little more than the header', async (t) => {
  const big = await readFile(await testModel('medium'));
  tune(t, { segment: 4 << 20 });
  const server = await faultyServer(t, big, () => ({ slow: 10 }));
  const { info } = await inspectModel(server.url);
  assert.equal(info.fileBytes, big.length);
  assert.equal(server.seen.length, 1);
  assert.ok(server.sent < 2_000_000, `${server.sent} bytes`);
});

test('a token is sent only to the host of the URL, in a header', async (t) => {
  const files = await faultyServer(t, bytes);
  /** @type {any[]} */
  const asked = [];
  const hub = await serveWith(t, ({ url, headers }, response) => {
    asked.push({ url, headers });
    response.writeHead(302, { Location: `${files.url}?X-Amz-Signature=SIGNATURE` }).end();
  });
  const url = `${hub.replace('127.0.0.1', 'localhost')}/owner/name/resolve/main/model.gguf`;
  const headers = { 'X-Secret': 'hf_SECRET', Authorization: 'Basic SECRET' };
  assert.deepEqual(await logitsOf(url, { token: 'hf_SECRET', headers }), expected);
  assert.ok(asked.every((one) => one.headers.authorization === 'Bearer hf_SECRET' && one.headers['x-secret']));
  assert.ok(asked.every((one) => !one.url.includes('SECRET')));
  assert.ok(files.seen.length > 3);
  assert.ok(
    files.seen.every((one) => !one.headers.authorization && !one.headers['x-secret'] && !one.url.includes('SECRET')),
  );
  // After the first request, requests go directly to the redirect's target, until the target refuses one.
  assert.equal(asked.length, 1);
  files.forget();
  files.state.faults = (n) => (n === 5 ? { status: 403 } : {});
  assert.deepEqual(await logitsOf(url, { token: 'hf_SECRET' }), expected);
  assert.ok(asked.length >= 2 && asked.length <= 6, `${asked.length} requests`);
});

test('if the target of a redirect refuses or breaks every connection, the original URL is requested again', async (t) => {
  tune(t, PIECES.tuning);
  for (const fault of [{ status: 403, wait: 100 }, { raw: '' }]) {
    const first = await faultyServer(t, bytes, (n) => (n < 3 ? {} : fault));
    const second = await faultyServer(t, bytes);
    const hub = await serveWith(t, (_, response) => {
      response.writeHead(302, { Location: (first.seen.length < 3 ? first : second).url }).end();
    });
    assert.deepEqual(await logitsOf(`${hub}/model.gguf`), expected);
    assert.ok(first.seen.length > 3 && second.seen.length > 3);
  }
});

test('if a server answers range requests with status 416, the whole file is requested', async (t) => {
  const server = await faultyServer(t, bytes, (n, { headers }) => {
    return headers.range ? { status: 416 } : n === 1 ? { status: 503 } : {};
  });
  assert.deepEqual(await logitsOf(server.url), expected);
  assert.equal(server.seen.length, 3);
});

test('ranges are requested even if the scheme of the URL is in upper case', async (t) => {
  const server = await faultyServer(t, bytes);
  assert.deepEqual(await logitsOf(server.url.replace('http', 'HTTP')), expected);
  assert.ok(server.seen.every(({ range }) => range));
});

test("the digest in Hugging Face's X-Linked-Etag is checked", async (t) => {
  const right = sha256Of(bytes);
  for (const body of [bytes, other]) {
    const server = await faultyServer(t, body, () => ({ headers: { 'X-Linked-Etag': `"${right}"` } }));
    if (body === bytes) assert.deepEqual(await logitsOf(server.url), expected);
    else assert.equal((await refuses(loadModel(server.url, OPTIONS), 'sha256-mismatch')).expected, right);
  }
});
