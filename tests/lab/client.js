/* client: what a caller does while a load runs (faults.js), the same in Node and in a page. */

/** What the place has. @typedef {{ load: (options?: { signal?: AbortSignal }) => Promise<Float32Array>,
 *   inspect: () => Promise<unknown>, cache: import('../../js/download/cache.js').ModelCache }} Means */

/** @param {Means} means @param {string} what @param {number} moment @returns {Promise<Float32Array>} */
export async function disturbed({ load, inspect, cache }, what, moment) {
  const control = new AbortController();
  const first = load({ signal: control.signal });
  first.catch(() => {});
  await new Promise((resolve) => {
    setTimeout(resolve, moment * 15);
  });
  if (what.startsWith('aborts')) control.abort();
  if (what === 'aborts and loads again at once' || what === 'loads it twice at once') {
    const second = load();
    await first.catch(() => {});
    return second;
  }
  for (let i = 0; i < 5; i++) {
    if (what.startsWith('inspects')) await inspect();
    if (what.startsWith('lists')) await Promise.all([cache.list(), cache.estimate()]);
    if (what.startsWith('clears')) await cache.clear();
  }
  return first;
}
