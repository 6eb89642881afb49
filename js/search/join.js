/* join: merges the files of a search index, which several writers may have written concurrently. Each item has the
 * stamp (number and writer) of the file that it came from. A file that replaces others or deletes items records which
 * stamps its writer had seen. Items that the writer had seen and did not keep are deleted; items that it had not seen
 * stay. So several indexes may write to one folder and compact it at any time. */
/** @import { Entry, Seen, Segment } from './segments.js' */

/** @typedef {Segment & { stamp: string }} Stamped */
/** @typedef {{ entry: Entry, stamp: string, vector: Float32Array }} Kept */

/** Records that a file was seen, and with it all files of its writer with lower numbers, because writers number files
 * upwards. @param {Seen} seen @param {string} stamp */
export function see(seen, stamp) {
  const [number, writer] = stamp.split('-');
  seen[writer] = Math.max(seen[writer] ?? 0, Number(number));
}

/** @param {Seen} seen @param {string} stamp */
function sees(seen, stamp) {
  const [number, writer] = stamp.split('-');
  return Number(number) <= (seen[writer] ?? 0);
}

/** Returns a function that tells whether a file deletes an item: its writer had seen the item, and the file no longer
 * has it.
 * @param {Stamped} file @returns {(id: string, stamp: string) => boolean} */
function judge({ about: { entries, stamps, deleted, seen = {} } }) {
  const kept = new Map(stamps?.map((stamp, i) => [entries[i].id, stamp]));
  const ids = new Set(deleted);
  return (id, stamp) => {
    const meant = stamps ? kept.get(id) !== stamp : ids.has(id);
    return meant && sees(seen, stamp);
  };
}

/** Returns the items by id. If several items have the same id, the one with the latest stamp counts.
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

/** Returns the stamps that the writers of these files have seen, including those of the files themselves.
 * @param {Stamped[]} files @returns {Seen} */
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
