/* pending-call: a call of this tab, from when it is made until it is answered, however many engines that takes. Where an
 * engine was lost the next one is asked the same; what it says of an answer that had been given is not given again.
 * That is exact: the same ids and seed give the same bytes. It is compared nevertheless: a template may say what time
 * it is. */
/** @import { Connection } from '../rpc/connection.js' */
/** @import { Calls, Event, GenerateAnswer, GenerateArgs, Step } from '../protocol.js' */
import { GemmaError } from '../errors.js';

/** Who was asked, and the call's number there. @typedef {{ connection: Connection, id: number }} At */
/** @typedef {{ method: keyof Calls, args: any, onEvent?: (event: Event) => void }} Asked */

export class PendingCall {
  #asked;
  /** @type {(value: any) => void} */
  #resolve = () => {};
  /** @type {(error: unknown) => void} */
  #reject = () => {};
  /** The last one. @type {At | null} */
  #at = null;
  /** Steps of an answer that were passed on, those of them that the consumer took, and those heard of this engine.
   * @type {Step[]} */
  #given = [];
  #taken = 0;
  #heard = 0;
  /** Steps of earlier engines that are yet to be taken. */
  #owed = 0;
  #deaths = 0;
  #aborted = false;
  /** @readonly @type {Promise<any>} */
  answer;

  /** @param {Asked} asked */
  constructor(asked) {
    this.#asked = asked;
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /** @param {Connection} connection */
  send(connection) {
    const { method, args } = this.#asked;
    this.#heard = 0;
    this.#owed = this.#given.length - this.#taken;
    /** @type {At} */
    const at = { connection, id: 0 };
    this.#at = at;
    const { id, answer } = connection.call(method, args, undefined, (event) => this.#hear(at, event));
    at.id = id;
    answer.then(
      (value) => at === this.#at && this.#done(at, value),
      (error) => this.#failed(at, error),
    );
  }

  /** Whoever was asked is lost. died: the engine, and not its tab alone.
   * @param {GemmaError} error @param {boolean} died */
  lose(error, died) {
    if (this.#at && died && ++this.#deaths > 1) return this.fail(error);
    this.#at = null;
    if (this.#aborted) this.#end();
  }

  abort() {
    this.#aborted = true;
    if (this.#at) this.#at.connection.abort(this.#at.id);
    else this.#end();
  }

  /** @param {unknown} error */
  fail(error) {
    this.#at = null;
    this.#reject(error);
  }

  /** @param {number} count steps that were taken */
  ack(count) {
    const late = Math.min(count, this.#owed);
    this.#taken += count;
    this.#owed -= late;
    if (count > late) this.#at?.connection.ack(this.#at.id, count - late);
  }

  /** @param {At} at @param {Event} event */
  #hear(at, event) {
    if (at !== this.#at) return;
    if (event.kind === 'progress') return this.#asked.onEvent?.(event);
    const again = event.steps.slice(0, Math.max(this.#given.length - this.#heard, 0));
    const other = again.findIndex((step, i) => !same(step, this.#given[this.#heard + i]));
    if (other >= 0) return this.#differs(at, this.#given[this.#heard + other], again[other]);
    this.#heard += event.steps.length;
    if (again.length) at.connection.ack(at.id, again.length);
    const steps = event.steps.slice(again.length);
    if (!steps.length) return;
    this.#given.push(...steps);
    this.#asked.onEvent?.({ ...event, steps });
  }

  /** @param {At} at @param {Step} expected @param {Step} [got] */
  #differs({ connection, id }, expected, got) {
    this.fail(
      new GemmaError('worker-failed', 'the engine was lost, and the next one does not go on where it was', {
        expected: `token ${expected.ids}`,
        got: got ? `${got.ids}` : 'the end',
      }),
    );
    connection.abort(id);
  }

  /** @param {At} at @param {any} value */
  #done(at, value) {
    if (this.#given.length <= this.#heard) return this.#resolve(value);
    if (value.finishReason !== 'aborted') return this.#differs(at, this.#given[this.#heard]);
    this.#resolve({ ...value, ...this.#part(value.usage) });
  }

  /** What broke is told to all calls by lose(). @param {At} at @param {unknown} error */
  #failed(at, error) {
    if (at === this.#at && !at.connection.broken) this.fail(error);
  }

  /** Nobody can be asked, and nobody is to be. */
  #end() {
    if (!this.#given.length) return this.fail(new GemmaError('aborted', 'the call was aborted'));
    const { seed } = /** @type {GenerateArgs} */ (this.#asked.args);
    const usage = { promptTokens: 0, reusedTokens: 0, completionTokens: 0 };
    const timings = { firstTokenMs: 0, prefillMs: 0, decodeMs: 0, prefillTokensPerSecond: 0, decodeTokensPerSecond: 0 };
    /** @type {GenerateAnswer} */
    const answer = { finishReason: 'aborted', seed, timings, ...this.#part(usage) };
    this.#resolve(answer);
  }

  /** The answer as far as it was given. What is not known of the prompt stays 0.
   * @param {GenerateAnswer['usage']} usage */
  #part(usage) {
    const tokens = this.#given.flatMap(({ ids }) => ids);
    const { logprobs: asked } = /** @type {GenerateArgs} */ (this.#asked.args);
    const logprobs = this.#given.flatMap((step) => step.logprobs ?? []);
    return {
      text: this.#given.map(({ text }) => text).join(''),
      tokens,
      prefix: undefined,
      usage: { ...usage, completionTokens: tokens.length },
      ...(asked !== null && { logprobs }),
    };
  }
}

/** @param {Step} one @param {Step} other */
function same(one, other) {
  return one.text === other.text && `${one.ids}` === `${other.ids}`;
}
