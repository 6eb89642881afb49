/* store: a store that fails on command: one method, in one way, once or from some call on (faults.js). */

/** @typedef {import('../../js/protocol.js').Store} Store */

/** @type {Record<string, (call: Function, args: any[]) => unknown>} */
const WAYS = {
  throws: () => {
    throw new Error('EIO');
  },
  'rejects with nothing': () => Promise.reject(),
  'never answers': () => new Promise(() => {}),
  'gives a part': (call, [name, at, into]) => call(name, at, into.subarray(0, Math.ceil(into.length / 3))),
  'gives nothing': () => 0,
  'gives no number': () => NaN,
  'gives other bytes': async (call, [name, at, into]) => {
    const count = await call(name, at, into);
    into[count >> 1] ^= 8;
    return count;
  },
  'writes nothing': () => {},
  'writes a half': (call, [name, at, bytes]) => call(name, at, bytes.subarray(0, bytes.length >> 1)),
  'has no room': () => {
    throw new DOMException('no', 'QuotaExceededError');
  },
  'takes long': async (call, args) => {
    await new Promise((resolve) => {
      setTimeout(resolve, 100);
    });
    return call(...args);
  },
};

/** @param {any} store @param {{ method: string, way: string }} fault @param {(call: number) => boolean} active
 * @returns {Store} */
export function faultyStore(store, { method, way }, active) {
  const call = store[method].bind(store);
  let calls = 0;
  return {
    ...store,
    [method]: (/** @type {any[]} */ ...args) => (active(calls++) ? WAYS[way](call, args) : call(...args)),
  };
}
