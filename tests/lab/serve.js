/* serve: a server in its own process under load: many callers at once, disconnects at random moments, thousands of
 * requests, and the throughput of several callers. */
import { randoms } from '../support/random.js';
import { chatBody, metricsOf, post, residentBytes, startServing } from '../support/serving.js';
/** @import { Serving } from '../support/serving.js' */

const CALLERS = 200;
/** Number of disconnects that are made one at a time, to measure the time until the server is idle. */
const MEASURED = 50;
const MAX_ABORT_MS = 100;
const LANES = 8;
/** Limit on memory late in the run, as a multiple of the memory early in it. */
const GROWTH = 1.1;
/** Tokens per answer and number of rounds in the measurement of throughput. */
const TOKENS = 128;
const ROUNDS = 25;
/** A word of every prompt, which must not appear in the server's log. */
const MARK = 'Rumpelstiltskin';
/** Biases that rule out end tokens, so that answers reach `max_tokens`. */
const ENDLESS = { 1: -100, 5: -100 };

/** @typedef {{ counts: Record<string, any>, broken: string[], rows: unknown[][] }} Part */

/** @param {object} [more] */
const bodyOf = (more) => chatBody({ messages: [{ role: 'user', content: `A story of ${MARK}.` }], ...more });

/** @param {number} count @param {number} lanes @param {(i: number) => Promise<void>} f */
async function inLanes(count, lanes, f) {
  let next = 0;
  const lane = async () => {
    while (next < count) await f(next++);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

/** @param {number[]} values @param {number} share */
const percentile = (values, share) => values.toSorted((a, b) => a - b)[Math.ceil(share * values.length) - 1] ?? NaN;

/** Waits until no request is running or waiting. Returns the time in ms, or Infinity after 20 s.
 * @param {Serving} server */
async function untilIdle({ url }) {
  const began = performance.now();
  for (;;) {
    const { gemma_wasm_requests_running: running, gemma_wasm_requests_waiting: waiting } = await metricsOf(url);
    const ms = performance.now() - began;
    if (!running && !waiting) return ms;
    if (ms > 20_000) return Infinity;
  }
}

/** Sends the requests of all callers at once. Each must be answered completely, or refused with the status 429.
 * @param {Serving} server @returns {Promise<Part>} */
async function callers({ url }) {
  const statuses = /** @type {Record<string, number>} */ ({});
  let without = 0;
  const call = async (/** @type {number} */ i) => {
    const body = bodyOf({ max_tokens: 40, stream: i % 2 === 0 });
    const response = await post(`${url}/v1/chat/completions`, body);
    const text = await response.text();
    const isWhole = /finish_reason":"(stop|length)"/.test(text);
    const what = response.status === 200 && !isWhole ? 'cut off' : String(response.status);
    statuses[what] = (statuses[what] ?? 0) + 1;
    if (response.status === 429 && !response.headers.get('retry-after')) without++;
  };
  await Promise.all(Array.from({ length: CALLERS }, (_, i) => call(i)));
  const { 200: answered = 0, 429: refused = 0 } = statuses;
  const isRight = answered > 0 && answered + refused === CALLERS && !without;
  return {
    counts: statuses,
    broken: isRight ? [] : [`callers: ${JSON.stringify(statuses)}, ${without} without Retry-After`],
    rows: [['requests at the same time', CALLERS, `${answered} answered, ${refused} refused with status 429`]],
  };
}

/** @param {Serving} server @param {number} count @param {number} seed @returns {Promise<Part>} */
async function disconnects(server, count, seed) {
  const random = randoms(seed);
  const bodies = /** @type {[string, object][]} */ ([
    ['/v1/chat/completions', bodyOf({ max_tokens: 1500, stream: true, logit_bias: ENDLESS })],
    ['/v1/chat/completions', bodyOf({ max_tokens: 1500, logit_bias: ENDLESS })],
    ['/api/chat', { model: 'storyteller', messages: bodyOf().messages, options: { num_predict: 1500 } }],
    ['/api/generate', { model: 'storyteller', prompt: MARK, raw: true, options: { num_predict: 1500 } }],
  ]);
  const abandon = async (/** @type {number} */ ms) => {
    const [path, body] = bodies[random(bodies.length)];
    const control = new AbortController();
    const timer = setTimeout(() => control.abort(), ms);
    await post(server.url + path, body, { signal: control.signal })
      .then((response) => response.text())
      .catch(() => {});
    clearTimeout(timer);
  };
  await inLanes(count, LANES, () => abandon(random() * 120));
  const idle = await untilIdle(server);
  const times = /** @type {number[]} */ ([]);
  for (let i = 0; i < MEASURED; i++) {
    await abandon(20 + random() * 100);
    times.push(await untilIdle(server));
  }
  const { status } = await post(`${server.url}/v1/chat/completions`, bodyOf({ max_tokens: 5 }));
  const [median, worst] = [percentile(times, 0.5), percentile(times, 1)];
  const isRight = idle < Infinity && status === 200;
  return {
    counts: { idleAfterMs: Math.round(idle), medianMs: Math.round(median), worstMs: Math.round(worst) },
    broken: [
      ...(isRight ? [] : [`disconnects: idle after ${idle} ms, then status ${status}`]),
      ...(median <= MAX_ABORT_MS ? [] : [`disconnects: an answer ends ${median} ms after its client left`]),
    ],
    rows: [
      ['disconnects', count, `the server is idle ${Math.round(idle)} ms after the last disconnect`],
      [
        'time from a disconnect to an idle server',
        MEASURED,
        `median ${median.toFixed(0)} ms, at most ${worst.toFixed(0)} ms`,
      ],
    ],
  };
}

/** @param {Serving} server @param {number} count @returns {Promise<Part>} */
async function requests({ url, pid }, count) {
  const { messages } = bodyOf();
  const kinds = /** @type {[number, string, (() => unknown)?][]} */ ([
    [200, '/v1/chat/completions', () => bodyOf({ max_tokens: 8, stream: true })],
    [200, '/v1/chat/completions', () => bodyOf({ max_tokens: 8 })],
    [200, '/api/chat', () => ({ model: 'storyteller', messages, options: { num_predict: 8 } })],
    [200, '/v1/chat/completions', () => bodyOf({ max_tokens: 8, n: 1, seed: 1 })],
    [404, '/v1/chat/completions', () => bodyOf({ model: 'none' })],
    [400, '/v1/chat/completions', () => []],
    [200, '/v1/models'],
    [404, '/nothing'],
  ]);
  const wrong = /** @type {Record<string, number>} */ ({});
  const memory = /** @type {{ at: number, resident: number, heap: number, engine: number }[]} */ ([]);
  await inLanes(count, LANES, async (i) => {
    const [expected, path, body] = kinds[i % kinds.length];
    const response = await (body ? post(url + path, body()) : fetch(url + path));
    await response.text();
    if (response.status !== expected) wrong[response.status] = (wrong[response.status] ?? 0) + 1;
    if (i % Math.ceil(count / 200) === 0) {
      const metrics = await metricsOf(url);
      const heap = metrics.gemma_wasm_process_heap_bytes;
      const engine = metrics['gemma_wasm_heap_bytes{model="storyteller"}'];
      memory.push({ at: i / count, resident: residentBytes(pid), heap, engine });
    }
  });
  /** @param {'resident' | 'heap' | 'engine'} name @param {number} from @param {number} to */
  const median = (name, from, to) => {
    const values = memory.filter(({ at }) => at >= from && at < to).map((sample) => sample[name]);
    return percentile(values, 0.5) / 1e6;
  };
  const names = /** @type {const} */ (['resident', 'heap', 'engine']);
  const sides = names.map((name) => ({ name, early: median(name, 0.2, 0.4), late: median(name, 0.8, 1) }));
  const words = { resident: 'resident memory', heap: 'JavaScript heap', engine: 'heap of the engine' };
  return {
    counts: { wrong, memory: sides },
    broken: [
      ...Object.entries(wrong).map(([status, times]) => `requests: ${times} with the status ${status}`),
      ...sides.filter(({ early, late }) => late > GROWTH * early).map(({ name }) => `requests: ${words[name]} grew`),
    ],
    rows: sides.map(({ name, early, late }) => {
      const result = `${early.toFixed(1)} MB in the second fifth, ${late.toFixed(1)} MB in the last`;
      return [`requests: ${words[name]}`, count, result];
    }),
  };
}

/** Compares the tokens per second of four callers with those of one, alternately. @param {Serving} server
 * @returns {Promise<Part>} */
async function throughput({ url }) {
  const rate = async (/** @type {number} */ lanes) => {
    const began = performance.now();
    let tokens = 0;
    await inLanes(8, lanes, async () => {
      const body = bodyOf({ max_tokens: TOKENS, logit_bias: ENDLESS, stream: false });
      const { usage } = await (await post(`${url}/v1/chat/completions`, body)).json();
      tokens += usage.completion_tokens;
    });
    return (1000 * tokens) / (performance.now() - began);
  };
  const rates = /** @type {[number, number][]} */ ([]);
  for (let i = 0; i < ROUNDS; i++) {
    // Alternating the order cancels a drift of the machine's speed.
    const first = i % 2 ? await rate(4) : 0;
    const one = await rate(1);
    rates.push([one, first || (await rate(4))]);
  }
  const ratio = percentile(
    rates.map(([one, four]) => four / one),
    0.5,
  );
  const [one, four] = [0, 1].map((side) =>
    percentile(
      rates.map((pair) => pair[side]),
      0.5,
    ).toFixed(0),
  );
  return {
    counts: { one, four, ratio: Number(ratio.toFixed(3)) },
    broken: ratio >= 1 ? [] : [`throughput: four callers get ${ratio.toFixed(3)} of the throughput of one`],
    rows: [['throughput of 4 callers', ROUNDS, `${ratio.toFixed(2)} x that of one: ${four} and ${one} tokens/s`]],
  };
}

/** Tests the parts one after the other with one server, and searches its log for texts of requests.
 * @param {import('./cases.js').Run} run `count`: requests, with a tenth as many disconnects; `kind`: pattern for names
 * of parts */
export async function run({ count, seed, kind }) {
  const server = await startServing();
  const parts = {
    callers: () => callers(server),
    disconnects: () => disconnects(server, Math.round(count / 10), seed),
    requests: () => requests(server, count),
    throughput: () => throughput(server),
  };
  const all = /** @type {Part[]} */ ([]);
  for (const [name, part] of Object.entries(parts)) {
    if (!new RegExp(kind).test(name)) continue;
    all.push(await part());
    console.error(name, JSON.stringify(all.at(-1)?.counts));
  }
  const status = await server.stop();
  const lines = server.log().trim().split('\n').length;
  const leaks = server.log().split(MARK).length - 1;
  return {
    counts: Object.assign({ lines }, ...all.map(({ counts }) => counts)),
    broken: [
      ...all.flatMap(({ broken }) => broken),
      ...(leaks ? [`the log has text of ${leaks} requests`] : []),
      ...(status === 0 ? [] : [`the server ended with ${status}`]),
    ],
    rows: [
      ...all.flatMap(({ rows }) => rows),
      ...(kind ? [] : [['log lines, searched for text of requests', lines, `found ${leaks} times`]]),
    ],
  };
}
