/* names: makes names of tools valid and unique. */

/** Maximum length of a tool's name. */
const MAX_NAME = 64;

/** Returns a valid and unique name for each given name: 1 to 64 letters, digits, `_`, `.` or `-`. Valid names stay
 * unchanged.
 * @param {string[]} given distinct names @param {string} prefix valid start of every name */
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
