/* open-json: JSON of a value that still grows. */

/** Returns the JSON of an unfinished value without the ends of its last string, array and object, so that the JSON of the
 * value at any later time begins with it. Numbers must be complete. @param {unknown} value @returns {string} */
export function openJson(value) {
  if (typeof value === 'string') return JSON.stringify(value).slice(0, -1);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const isArray = Array.isArray(value);
  const entries = Object.entries(value);
  const parts = entries.map(([name, part], i) => {
    const text = i === entries.length - 1 ? openJson(part) : JSON.stringify(part);
    return isArray ? text : `${JSON.stringify(name)}:${text}`;
  });
  return `${isArray ? '[' : '{'}${parts.join(',')}`;
}
