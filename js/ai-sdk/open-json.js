/* open-json: writes a value that is still being generated as JSON text. */

/** Returns the JSON of an incomplete value without the closing quotes and brackets at its end. The JSON of the value at
 * any later time begins with this text. Numbers must be complete. @param {unknown} value @returns {string} */
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
