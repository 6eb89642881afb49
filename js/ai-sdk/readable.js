/* readable: converts async generators to streams. */
import { sdkError } from './errors.js';

/** Returns a stream that reads a generator on demand. leave: called when the stream is cancelled, to end the work that
 * the generator waits for. Otherwise, return() of the generator would wait for its next part. @template T
 * @param {AsyncGenerator<T, void, undefined>} parts @param {() => unknown} leave @param {AbortSignal} [signal]
 * @returns {ReadableStream<T>} */
export function readable(parts, leave, signal) {
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          const { done, value } = await parts.next();
          if (done) controller.close();
          else controller.enqueue(value);
        } catch (error) {
          controller.error(sdkError(error, signal));
        }
      },
      async cancel() {
        await leave();
        await parts.return();
      },
    },
    { highWaterMark: 0 },
  );
}
