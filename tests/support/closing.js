/* closing: closes everything that a test has opened, even if something fails. */

/** Calls functions one after the other, even if some fail. Throws the first error.
 * @param {Iterable<() => unknown>} closers */
export async function closeAll(closers) {
  /** @type {unknown[]} */
  const errors = [];
  for (const close of closers) {
    try {
      await close();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length) throw errors[0];
}
