/* metrics: counts requests, tokens and durations, and writes them as Prometheus text (exposition format 0.0.4). */
/** @import { Model } from '../model.js' */
/** @import { Queue } from './queue.js' */
/** @import { Usage } from '../protocol.js' */

/** Upper bounds of the histogram of request durations, in seconds. */
const BUCKETS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const PREFIX = 'gemma_wasm_';
/** Longest wait for the worker of a model to report its heap size, in ms. */
const HEAP_MS = 500;

/** @typedef {{ counts: number[], sum: number, total: number }} Histogram */

/** @param {Record<string, string>} labels */
function labelled(labels) {
  const escaped = (/** @type {string} */ text) => text.replace(/[\\"]/g, '\\$&').replace(/\n/g, '\\n');
  const all = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return all.length ? `{${all}}` : '';
}

/** A value of a metric with its labels. @typedef {[labels: Record<string, string>, value: number, suffix?: string]}
 * Sample */

/** @param {string} name @param {string} type @param {string} help @param {Sample[]} samples */
function metric(name, type, help, samples) {
  const lines = samples.map(([labels, value, suffix = '']) => `${PREFIX}${name}${suffix}${labelled(labels)} ${value}`);
  return [`# HELP ${PREFIX}${name} ${help}`, `# TYPE ${PREFIX}${name} ${type}`, ...lines].join('\n');
}

/** The counters of one server since its start. */
export class Metrics {
  /** @type {Map<string, Sample>} */
  #requests = new Map();
  /** @type {Map<string, Histogram>} */
  #durations = new Map();
  #tokens = { prompt: 0, reused: 0, completion: 0 };
  /** Last known heap size of each model, in bytes. @type {Map<string, number>} */
  #heaps = new Map();

  /** Counts a finished request. @param {{ route: string, status: number, seconds: number }} request */
  request({ route, status, seconds }) {
    const key = `${route} ${status}`;
    const [labels, count] = this.#requests.get(key) ?? [{ route, status: String(status) }, 0];
    this.#requests.set(key, [labels, count + 1]);
    const histogram = this.#durations.get(route) ?? { counts: BUCKETS.map(() => 0), sum: 0, total: 0 };
    this.#durations.set(route, histogram);
    histogram.sum += seconds;
    histogram.total++;
    BUCKETS.forEach((bound, i) => {
      if (seconds <= bound) histogram.counts[i]++;
    });
  }

  /** Adds the tokens of a finished answer. @param {Usage} usage */
  answer({ promptTokens, reusedTokens, completionTokens }) {
    this.#tokens.prompt += promptTokens;
    this.#tokens.reused += reusedTokens;
    this.#tokens.completion += completionTokens;
  }

  /** Returns all metrics. Waits for the models' heap sizes, at most HEAP_MS.
   * @param {Record<string, Model>} models @param {Queue} queue */
  async text(models, queue) {
    await this.#readHeaps(models);
    const { rss, heapUsed } = process.memoryUsage();
    const tokens = Object.entries(this.#tokens).map(([kind, count]) => /** @type {Sample} */ ([{ kind }, count]));
    const heaps = [...this.#heaps].map(([model, bytes]) => /** @type {Sample} */ ([{ model }, bytes]));
    const gauge = (/** @type {string} */ name, /** @type {string} */ help, /** @type {number} */ value) =>
      metric(name, 'gauge', help, [[{}, value]]);
    const all = [
      metric('requests_total', 'counter', 'Number of finished requests.', [...this.#requests.values()]),
      metric(
        'request_duration_seconds',
        'histogram',
        'Seconds from the arrival of a request to the last byte of its answer.',
        this.#histograms(),
      ),
      metric(
        'tokens_total',
        'counter',
        'Tokens by kind: prompt; reused, the part of prompt from the KV cache; completion.',
        tokens,
      ),
      gauge('requests_waiting', 'Requests that wait in the queue.', queue.waiting),
      gauge('requests_running', 'Requests that are being answered.', queue.running),
      metric('heap_bytes', 'gauge', "WebAssembly memory of each model's engine, in bytes.", heaps),
      gauge('process_resident_bytes', 'Resident memory of the server process, in bytes.', rss),
      gauge('process_heap_bytes', 'JavaScript heap of the server process, in bytes.', heapUsed),
    ];
    return `${all.join('\n')}\n`;
  }

  /** @returns {Sample[]} */
  #histograms() {
    return [...this.#durations].flatMap(([route, { counts, sum, total }]) => [
      ...counts.map((count, i) => /** @type {Sample} */ ([{ route, le: String(BUCKETS[i]) }, count, '_bucket'])),
      [{ route, le: '+Inf' }, total, '_bucket'],
      [{ route }, sum, '_sum'],
      [{ route }, total, '_count'],
    ]);
  }

  /** Updates the heap sizes of the models. Keeps the last value of a model whose worker does not reply in time.
   * @param {Record<string, Model>} models */
  async #readHeaps(models) {
    const late = new Promise((resolve) => setTimeout(resolve, HEAP_MS).unref());
    const reads = Object.entries(models).map(async ([id, model]) => {
      this.#heaps.set(id, await model.debug.heapBytes());
    });
    await Promise.race([late, Promise.allSettled(reads)]);
  }
}
