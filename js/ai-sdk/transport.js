/* transport: a ChatTransport for the AI SDK's hooks that first loads the model and reports the progress to the page. */
/** @import { GemmaWasmLanguageModel } from './language-model.js' */
import { onAbort } from '../rpc/signals.js';
import { readable } from './readable.js';

/** Data of the parts `data-modelDownloadProgress`.
 * @typedef {object} ModelDownloadProgress
 * @property {'downloading' | 'complete'} status Whether the model is loaded.
 * @property {number} progress Percentage from 0 to 100.
 * @property {string} message Description, in English.
 */
/** The stream part that reports the progress of a load. It is not stored in the message.
 * @typedef {{ type: 'data-modelDownloadProgress', data: ModelDownloadProgress, transient: true }} ProgressChunk */
/** A transport of the AI SDK, for messages of any type.
 * @typedef {object} InnerTransport
 * @property {(options: any) => Promise<ReadableStream<any>>} sendMessages Sends messages and returns the chunks of the
 *   answer.
 * @property {(options: any) => Promise<ReadableStream<any> | null>} reconnectToStream Returns the chunks of an answer that
 *   is still arriving, or null.
 */
/** Options of `GemmaWasmChatTransport`.
 * @typedef {object} TransportOptions
 * @property {GemmaWasmLanguageModel} model The model that the agent of `transport` uses.
 * @property {InnerTransport} transport The transport that answers, for example `new DirectChatTransport({ agent })`.
 */

/** A chat transport that stays in the page: it loads the model, reports progress as data parts, and passes the messages
 * to another transport, usually the SDK's `DirectChatTransport`. */
export class GemmaWasmChatTransport {
  #model;
  #transport;

  /** @param {TransportOptions} options */
  constructor({ model, transport }) {
    this.#model = model;
    this.#transport = transport;
  }

  /** Returns the answer to messages as a stream of chunks. Loads the model first, and reports the progress in the
   * stream. Called by the SDK.
   * @param {any} options @returns {Promise<ReadableStream<any>>} */
  async sendMessages(options) {
    if (this.#model.getContextWindow() !== undefined) return this.#transport.sendMessages(options);
    const abort = new AbortController();
    return readable(this.#chunks(options, abort), () => abort.abort(), options.abortSignal);
  }

  /** Calls reconnectToStream() of the transport that answers. Called by the SDK. @param {any} options */
  reconnectToStream(options) {
    return this.#transport.reconnectToStream(options);
  }

  /** @param {any} options @param {AbortController} abort aborted when the stream is cancelled
   * @returns {AsyncGenerator<unknown, void, undefined>} */
  async *#chunks(options, abort) {
    const { signal } = abort;
    const unsubscribe = onAbort(options.abortSignal, () => abort.abort(options.abortSignal?.reason));
    /** @type {ProgressChunk | undefined} */
    let latest;
    let wake = () => {};
    let isLoading = true;
    const loading = this.#model
      .createSessionWithProgress(
        (fraction) => {
          latest = chunkOf(fraction);
          wake();
        },
        { signal },
      )
      .finally(() => {
        isLoading = false;
        unsubscribe();
        wake();
      });
    loading.catch(() => {});
    while (isLoading || latest) {
      const chunk = latest;
      latest = undefined;
      if (chunk) yield chunk;
      else await new Promise((resolve) => (wake = () => resolve(null)));
    }
    await loading;
    const reader = (await this.#transport.sendMessages(options)).getReader();
    onAbort(signal, () => void reader.cancel().catch(() => {}));
    for (let next; !(next = await reader.read()).done; ) yield next.value;
  }
}

/** @param {number} fraction @returns {ProgressChunk} */
function chunkOf(fraction) {
  const progress = Math.floor(100 * fraction);
  const data = /** @type {ModelDownloadProgress} */ (
    fraction < 1
      ? { status: 'downloading', progress, message: `Loading the model: ${progress} %` }
      : { status: 'complete', progress, message: 'The model is loaded.' }
  );
  return { type: 'data-modelDownloadProgress', data, transient: true };
}
