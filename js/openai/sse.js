/* sse: creates responses that stream texts, such as server-sent events. */
/** @import { Context } from './context.js' */
import { errorOf } from './errors.js';

/** Returns the text of a server-sent event.
 * @param {unknown} data a value to send as JSON, or a string to send unchanged @param {string} [name] */
export function sseEvent(data, name) {
  const text = typeof data === 'string' ? data : JSON.stringify(data);
  return `${name ? `event: ${name}\n` : ''}data: ${text}\n\n`;
}

/** Returns a response that streams server-sent events (streamed()).
 * @param {AsyncGenerator<string, unknown, undefined>} events texts from sseEvent() @param {Context} context */
export async function eventStream(events, context) {
  const failed = (/** @type {unknown} */ error) => sseEvent(errorOf(error).body);
  const body = await streamed(events, failed, context);
  return new Response(body, {
    headers: { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' },
  });
}

/** Returns a stream of texts with back-pressure. Rejects if an error occurs before the first text, so that the response
 * can have an error status.
 * @param {AsyncGenerator<string, unknown, undefined>} texts
 * @param {(error: unknown) => string} failed returns the text of a later error
 * @param {Pick<Context, 'request' | 'signal' | 'abort'>} context kept by the stream, because Node stops
 *   forwarding aborts to the signal of a Request that is garbage-collected */
export async function streamed(texts, failed, context) {
  /** @type {IteratorResult<string, unknown> | null} */
  let first = await texts.next();
  const encoder = new TextEncoder();
  return new ReadableStream(
    {
      start(controller) {
        const { signal } = context;
        signal.addEventListener('abort', () => controller.error(signal.reason), { once: true });
      },
      async pull(controller) {
        try {
          const { done, value } = first ?? (await texts.next());
          first = null;
          if (done) return controller.close();
          controller.enqueue(encoder.encode(value));
        } catch (error) {
          if (context.signal.aborted) return;
          controller.enqueue(encoder.encode(failed(error)));
          controller.close();
          context.abort();
        }
      },
      cancel: () => context.abort(),
    },
    { highWaterMark: 0 },
  );
}
