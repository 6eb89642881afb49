/* later-errors: the errors of a store that the caller passed, which answers.js uses. Not in errors.js, so that a page's
 * first load is smaller. */

/** @param {unknown} reason */
export const storeFailed = (reason) => new Error(`The storage of the option \`cache\` failed: ${reason}.`);

/** @param {number} most @param {unknown} got */
export const badCount = (most, got) =>
  new Error(`The storage of the option \`cache\` must return 0 to ${most} bytes (got ${got}).`);
