/* signals: helpers for AbortSignals and promises. */
import { abortError } from '../errors.js';

/** Callbacks by signal. Each signal gets only one event listener, because Node warns about more than ten.
 * @type {WeakMap<AbortSignal, Set<() => void>>} */
const listeners = new WeakMap();

/** Calls f when the signal aborts, or immediately if the signal has aborted already. Returns a function that
 * unsubscribes.
 * @param {AbortSignal | undefined} signal @param {() => void} f */
export function onAbort(signal, f) {
  if (!signal) return () => {};
  if (signal.aborted) f();
  const waiting = listeners.get(signal) ?? listen(signal);
  waiting.add(f);
  return () => void waiting.delete(f);
}

/** @param {AbortSignal} signal */
function listen(signal) {
  /** @type {Set<() => void>} */
  const waiting = new Set();
  listeners.set(signal, waiting);
  signal.addEventListener(
    'abort',
    () => {
      for (const f of [...waiting]) f();
    },
    { once: true },
  );
  return waiting;
}

/** Returns a promise that settles like `promise`, but rejects as soon as the signal aborts.
 * @template T @param {Promise<T>} promise @param {AbortSignal} [signal] @returns {Promise<T>} */
export function unlessAborted(promise, signal) {
  return new Promise((resolve, reject) => {
    promise.then(resolve, reject).finally(onAbort(signal, () => reject(abortError(signal))));
  });
}

/** Implements Promise.withResolvers(), which Node 20 lacks. */
export function deferred() {
  /** @type {(value: any) => void} */
  let resolve = () => {};
  /** @type {(error: unknown) => void} */
  let reject = () => {};
  /** @type {Promise<any>} */
  const promise = new Promise((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
