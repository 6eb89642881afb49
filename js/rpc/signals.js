/* signals: one listener for each AbortSignal, however many calls share it: Node warns of more than ten. */

/** @type {WeakMap<AbortSignal, Set<() => void>>} */
const heard = new WeakMap();

/** Calls f when the signal aborts; gives what ends that.
 * @param {AbortSignal | undefined} signal @param {() => void} f */
export function onAbort(signal, f) {
  if (!signal) return () => {};
  const waiting = heard.get(signal) ?? listen(signal);
  waiting.add(f);
  return () => void waiting.delete(f);
}

/** @param {AbortSignal} signal */
function listen(signal) {
  /** @type {Set<() => void>} */
  const waiting = new Set();
  heard.set(signal, waiting);
  signal.addEventListener(
    'abort',
    () => {
      for (const f of [...waiting]) f();
    },
    { once: true },
  );
  return waiting;
}
