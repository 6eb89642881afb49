/* sse: responses that stream server-sent events. */
import { errorOf } from './errors.js';

/** Returns an event. @param {unknown} data JSON, or text as it is @param {string} [name] */
export function sseEvent(data, name) {
  const text = typeof data === 'string' ? data : JSON.stringify(data);
  return `${name ? `event: ${name}\n` : ''}data: ${text}\n\n`;
}

/** Returns a response that streams events as the reader takes them. Rejects if there is an error before the first one,
 * so that it gets an HTTP status.
 * @param {AsyncGenerator<string, unknown, undefined>} events of sseEvent()
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
