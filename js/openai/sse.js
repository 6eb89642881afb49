/* sse: creates responses that stream server-sent events. */
import { errorOf } from './errors.js';

/** Returns the text of a server-sent event.
 * @param {unknown} data a value to send as JSON, or a string to send unchanged @param {string} [name] */
export function sseEvent(data, name) {
  const text = typeof data === 'string' ? data : JSON.stringify(data);
  return `${name ? `event: ${name}\n` : ''}data: ${text}\n\n`;
}

/** Returns a response that streams events with back-pressure. Rejects if an error occurs before the first event, so
 * that the response can have an error status.
 * @param {AsyncGenerator<string, unknown, undefined>} events texts from sseEvent()
 * @param {{ signal: AbortSignal, abort: () => void }} context
 * @param {(error: unknown) => string} [failed] returns the event of a later error */
export async function eventStream(events, { signal, abort }, failed = (error) => sseEvent(errorOf(error).body)) {
  /** @type {IteratorResult<string, unknown> | null} */
  let first = await events.next();
  const encoder = new TextEncoder();
  const body = new ReadableStream(
    {
      start(controller) {
        signal.addEventListener('abort', () => controller.error(signal.reason), { once: true });
      },
      async pull(controller) {
        try {
          const { done, value } = first ?? (await events.next());
          first = null;
          if (done) return controller.close();
          controller.enqueue(encoder.encode(value));
        } catch (error) {
          if (signal.aborted) return;
          controller.enqueue(encoder.encode(failed(error)));
          controller.close();
          abort();
        }
      },
      cancel: abort,
    },
    { highWaterMark: 0 },
  );
  return new Response(body, {
    headers: { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' },
  });
}
