/* join: merges the files of an index, which several writers may have written concurrently. Each item has the stamp of the
 * file that it came from, and files that replace or delete record which stamps their writer had seen: items that it had
 * seen and did not keep are deleted from every file, and items that it had not seen stay. So several indexes may write
 * to one folder and compact it at any time. */
/** @import { Entry, Seen, Segment } from './segments.js' */

/** A file and its stamp. @typedef {Segment & { stamp: string }} Stamped */
/** @typedef {{ entry: Entry, stamp: string, vector: Float32Array }} Kept */

/** Records that a file was seen. Writers number their files upwards. @param {Seen} seen @param {string} stamp */
export function see(seen, stamp) {
  const [number, writer] = stamp.split('-');
  seen[writer] = Math.max(seen[writer] ?? 0, Number(number));
}

/** Returns whether a file was seen. @param {Seen} seen @param {string} stamp */
function sees(seen, stamp) {
  const [number, writer] = stamp.split('-');
  return Number(number) <= (seen[writer] ?? 0);
}

/** Returns a function that tells whether a file deletes an item. Files of earlier versions do not record what they had
 * seen: it is everything with an older stamp.
 * @param {Stamped} file @returns {(id: string, stamp: string) => boolean} */
function judge({ stamp: own, about: { entries, stamps, deleted, seen } }) {
  const kept = new Map(stamps?.map((stamp, i) => [entries[i].id, stamp]));
  const ids = new Set(deleted);
  return (id, stamp) => {
    const meant = stamps ? kept.get(id) !== stamp : ids.has(id);
    return meant && (seen ? sees(seen, stamp) : stamp < own);
  };
}

/** Returns the items by id; of several with one id, that of the latest stamp.
 * @param {Stamped[]} files in the order of their stamps
 * @returns {Map<string, Kept>} */
export function join(files) {
  const judges = files.filter(({ about }) => about.stamps || about.deleted.length).map(judge);
  /** @type {Map<string, Kept>} */
  const all = new Map();
  for (const {
    stamp: own,
    about: { dimensions, entries, stamps },
    vectors,
  } of files) {
    entries.forEach((entry, i) => {
      const stamp = stamps?.[i] ?? own;
      const known = all.get(entry.id);
      if ((known && known.stamp > stamp) || judges.some((gone) => gone(entry.id, stamp))) return;
      all.set(entry.id, { entry, stamp, vector: vectors.subarray(i * dimensions, (i + 1) * dimensions) });
    });
  }
  return all;
}

/** Returns the stamps that files have seen, their own included. @param {Stamped[]} files @returns {Seen} */
export function seenOf(files) {
  /** @type {Seen} */
  const seen = {};
  for (const { stamp, about } of files) {
    see(seen, stamp);
    if (!about.stamps) continue;
    for (const [writer, number] of Object.entries(about.seen ?? {})) seen[writer] = Math.max(seen[writer] ?? 0, number);
  }
  return seen;
}
