/* pending-call: a call of this tab to the shared engine, until its reply. If an engine is lost, the call is repeated
 * with the next engine, and steps that were already delivered are skipped in the new answer. With the same token ids
 * and seed, the new steps are the same, but a chat template can insert the time, which changes the ids. Therefore the
 * skipped steps are compared with the delivered ones. */
/** @import { Connection } from '../rpc/connection.js' */
/** @import { CallHandle } from '../rpc/rpc.js' */
/** @import { ModelError } from '../errors.js' */
/** @import { Calls, Event, GenerateAnswer, GenerateArgs, Step } from '../protocol.js' */
import { abortError } from '../errors.js';
import { emptyResult } from '../generation.js';
import { deferred } from '../rpc/signals.js';
import { otherAnswer } from './errors.js';

/** One attempt of a call, with one engine. @typedef {{ connection: Connection, call?: CallHandle }} Attempt */
/** @typedef {{ method: keyof Calls, args: any, onEvent?: (event: Event) => void }} Request */

/** One call, which can be sent to several engines, one after the other. */
export class PendingCall {
  #request;
  #reply = deferred();
  /** @type {Attempt | null} */
  #attempt = null;
  /** Steps of the answer that were delivered to the consumer. @type {Step[]} */
  #given = [];
  /** Number of delivered steps that the consumer has read. */
  #taken = 0;
  /** Number of steps received from the current engine. */
  #received = 0;
  /** Number of steps delivered by earlier engines that the consumer has not read yet. */
  #owed = 0;
  #deaths = 0;
  #aborted = false;
  /** @readonly */
  answer = this.#reply.promise;

  /** @param {Request} request */
  constructor(request) {
    this.#request = request;
  }

  /** Sends the call to an engine. Steps that were delivered already are compared and skipped.
   * @param {Connection} connection */
  send(connection) {
    const { method, args } = this.#request;
    this.#received = 0;
    this.#owed = this.#given.length - this.#taken;
    /** @type {Attempt} */
    const attempt = { connection };
    this.#attempt = attempt;
    attempt.call = connection.call(method, args, { onEvent: (event) => this.#receive(attempt, event) });
    attempt.call.answer.then(
      (value) => attempt === this.#attempt && this.#done(attempt, value),
      (error) => this.#failed(attempt, error),
    );
  }

  /** Called when the engine is lost. Waits for the next engine, or fails if two engines have died during this call.
   * @param {ModelError} error @param {boolean} died whether the engine crashed or froze */
  lose(error, died) {
    if (this.#attempt && died && ++this.#deaths > 1) return this.fail(error);
    this.#attempt = null;
    if (this.#aborted) this.#end();
  }

  /** Ends the call early. Without an engine, resolves with the delivered part of the answer, or rejects with `aborted`
   * if there is none. */
  abort() {
    this.#aborted = true;
    if (this.#attempt) this.#attempt.call?.abort();
    else this.#end();
  }

  /** Rejects the call, and ignores replies to it. @param {unknown} error */
  fail(error) {
    this.#attempt = null;
    this.#reply.reject(error);
  }

  /** Passes the consumer's progress to the engine, apart from steps that earlier engines delivered.
   * @param {number} count number of steps that the consumer has read since the last call */
  ack(count) {
    const late = Math.min(count, this.#owed);
    this.#taken += count;
    this.#owed -= late;
    if (count > late) this.#attempt?.call?.ack(count - late);
  }

  /** @param {Attempt} attempt @param {Event} event */
  #receive(attempt, event) {
    if (attempt !== this.#attempt) return;
    if (event.kind === 'progress') return this.#request.onEvent?.(event);
    const again = event.steps.slice(0, Math.max(this.#given.length - this.#received, 0));
    const other = again.findIndex((step, i) => !same(step, this.#given[this.#received + i]));
    if (other >= 0) return this.#differs(attempt, this.#given[this.#received + other], again[other]);
    this.#received += event.steps.length;
    if (again.length) attempt.call?.ack(again.length);
    const steps = event.steps.slice(again.length);
    if (!steps.length) return;
    this.#given.push(...steps);
    this.#request.onEvent?.({ ...event, steps });
  }

  /** @param {Attempt} attempt @param {Step} expected @param {Step} [got] */
  #differs({ call }, expected, got) {
    this.fail(otherAnswer(expected.ids, got?.ids));
    call?.abort();
  }

  /** @param {Attempt} attempt @param {any} value */
  #done(attempt, value) {
    if (this.#given.length <= this.#received) return this.#reply.resolve(value);
    if (value.finishReason !== 'aborted') return this.#differs(attempt, this.#given[this.#received]);
    this.#reply.resolve({ ...value, ...this.#part(value.usage) });
  }

  /** Rejects the call. If the connection broke, does nothing, because lose() handles a lost engine.
   * @param {Attempt} attempt
   * @param {any} error */
  #failed(attempt, error) {
    if (attempt !== this.#attempt || attempt.connection.broken) return;
    // A repeated call that is aborted in the queue of the engine fails, although earlier engines delivered steps.
    if (error.code === 'aborted') this.#end();
    else this.fail(error);
  }

  /** Ends an aborted call itself, because no engine has an answer to it. */
  #end() {
    if (!this.#given.length) return this.fail(abortError());
    const empty = emptyResult(this.#request.args);
    this.#reply.resolve({ ...empty, ...this.#part(empty.usage) });
  }

  /** Returns the answer as far as it was delivered. Counts of prompt tokens are 0 if unknown.
   * @param {GenerateAnswer['usage']} usage */
  #part(usage) {
    const tokens = this.#given.flatMap(({ ids }) => ids);
    const { logprobs: asked } = /** @type {GenerateArgs} */ (this.#request.args);
    const logprobs = this.#given.flatMap((step) => step.logprobs ?? []);
    const said = (/** @type {Step['kind']} */ wanted) => {
      return this.#given.map(({ kind, text }) => (kind === wanted ? text : '')).join('');
    };
    const thoughts = said('thought');
    return {
      text: said('text'),
      ...(thoughts && { thoughts }),
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
