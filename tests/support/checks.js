/* checks: assertions for calls of clients. They run in browsers too, so they use no Node modules. */

/** Throws if the condition is falsy. The message contains `about` as JSON. @param {unknown} condition
 * @param {unknown} [about] */
export function ok(condition, about) {
  if (!condition) throw new Error(`The answer is wrong: ${JSON.stringify(about)}`);
}

/** Throws unless both values have the same JSON. `what` begins the message. @param {unknown} got
 * @param {unknown} expected @param {string} [what] */
export function equal(got, expected, what = 'value') {
  const [a, b] = [got, expected].map((value) => JSON.stringify(value) ?? 'undefined');
  if (a !== b) throw new Error(`${what}: expected ${b.slice(0, 400)}, got ${a.slice(0, 400)}`);
}

/** Returns the error that a promise rejects with. @param {PromiseLike<unknown>} promise @param {string} [what]
 * @returns {Promise<any>} */
export async function failureOf(promise, what = 'error') {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error(`${what}: expected a rejection`);
}

/** Reads a stream to its end. Returns its items. @template T @param {AsyncIterable<T>} items */
export async function listOf(items) {
  const list = [];
  for await (const item of items) list.push(item);
  return list;
}

/** Makes calls with the arguments `given`. Returns a text for each one that fails.
 * @template G @param {[string, (given: G) => Promise<void>][]} calls @param {G} given */
export async function failuresOf(calls, given) {
  const failed = [];
  for (const [name, call] of calls) {
    try {
      await call(given);
    } catch (error) {
      failed.push(`${name}: ${error instanceof Error ? error.stack : error}`);
    }
  }
  return failed;
}
