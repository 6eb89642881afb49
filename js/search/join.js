/* join: merges the files of a search index, which several writers may have written concurrently. Each item has the
 * stamp of the file that it came from, a logical timestamp: a number, then the id of the writer. A file that replaces
 * others or deletes items has a version vector (`seen`) of the files that its writer had read. Items of these files
 * that the writer did not keep are deleted; items of other files stay. So several indexes may write to one folder and
 * compact it at any time. */
/** @import { Entry, Seen, Segment } from './segments.js' */

/** A file. stamp: its logical timestamp, from its name (segments.js). @typedef {Segment & { stamp: string }} Stamped */
/** An item. stamp: stamp of the file that the item came from.
 * @typedef {{ entry: Entry, stamp: string, vector: Float32Array }} Kept */

/** Adds a file to a version vector, and with it all earlier files of its writer. @param {Seen} seen
 * @param {string} stamp of the file */
export function see(seen, stamp) {
  const [number, writer] = stamp.split('-');
  seen[writer] = Math.max(seen[writer] ?? 0, Number(number));
}

/** Returns whether a version vector includes a file. @param {Seen} seen @param {string} stamp of the file */
function sees(seen, stamp) {
  const [number, writer] = stamp.split('-');
  return Number(number) <= (seen[writer] ?? 0);
}

/** Returns a function that returns whether a file deletes an item: the file's writer had read the item and did not keep
 * it.
 * @param {Stamped} file @returns {(id: string, stamp: string) => boolean} */
function judge({ about: { entries, stamps, deleted, seen = {} } }) {
  const kept = new Map(stamps?.map((stamp, i) => [entries[i].id, stamp]));
  const ids = new Set(deleted);
  return (id, stamp) => {
    const meant = stamps ? kept.get(id) !== stamp : ids.has(id);
    return meant && sees(seen, stamp);
  };
}

/** Returns the items by id. If several items have the same id, returns the item with the latest stamp.
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

/** Returns the version vector of an index that has read these files. It includes the files that merged files replaced.
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
