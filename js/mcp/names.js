/* names: makes names of tools valid and unique. */

/** Maximum length of a tool's name. */
const MAX_NAME = 64;

/** Returns a name for each given name: the prefix and the given name, made unique and valid (1 to 64 letters, digits,
 * `_`, `.` or `-`). Does not change valid names.
 * @param {string[]} given distinct names @param {string} prefix valid characters */
export function namesFor(given, prefix) {
  const wanted = given.map((name) => {
    const valid = (prefix + name).replace(/[^\w.-]/gu, '_').slice(0, MAX_NAME) || '_';
    return { valid, kept: valid === prefix + name };
  });
  const taken = new Set(wanted.filter(({ kept }) => kept).map(({ valid }) => valid));
  return wanted.map(({ valid, kept }) => {
    let name = valid;
    for (let n = 2; !kept && taken.has(name); n++) name = `${valid.slice(0, MAX_NAME - `_${n}`.length)}_${n}`;
    taken.add(name);
    return name;
  });
}
