/* join: what there is when the files of an index are put together, whoever wrote them. Each item bears the stamp of the
 * file that it came with, and files that replace or delete say which stamps their writer had seen: what it had seen and
 * did not keep is gone, out of every file; what it had not seen is another's, and stays. So several indexes may write
 * to one folder at once, and put their files together at any time. */
/** @import { Entry, Seen, Segment } from './segments.js' */

/** A file as it was read. @typedef {Segment & { stamp: string }} Stamped */
/** @typedef {{ entry: Entry, stamp: string, vector: Float32Array }} Kept */

/** Writers number their files upwards. @param {Seen} seen @param {string} stamp */
export function see(seen, stamp) {
  const [number, writer] = stamp.split('-');
  seen[writer] = Math.max(seen[writer] ?? 0, Number(number));
}

/** @param {Seen} seen @param {string} stamp */
function sees(seen, stamp) {
  const [number, writer] = stamp.split('-');
  return Number(number) <= (seen[writer] ?? 0);
}

/** What a file takes away. Files of before this rule do not say what they had seen: all that was there.
 * @param {Stamped} file @returns {(id: string, stamp: string) => boolean} */
function judge({ stamp: own, about: { entries, stamps, deleted, seen } }) {
  const kept = new Map(stamps?.map((stamp, i) => [entries[i].id, stamp]));
  const ids = new Set(deleted);
  return (id, stamp) => {
    const meant = stamps ? kept.get(id) !== stamp : ids.has(id);
    return meant && (seen ? sees(seen, stamp) : stamp < own);
  };
}

/** By id, and of several with one id the one of the latest stamp. @param {Stamped[]} files in the order of their stamps
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

/** @param {Stamped[]} files @returns {Seen} */
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
