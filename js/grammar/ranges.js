/* ranges: sets of Unicode scalar values as sorted, disjoint, inclusive ranges. */

/** @typedef {[number, number][]} Ranges */

/** Every Unicode scalar value. @type {Ranges} */
export const ANY = [
  [0, 0xd7ff],
  [0xe000, 0x10ffff],
];

/** Sorts ranges, and merges overlapping and adjacent ranges. @param {Iterable<[number, number]>} ranges
 * @returns {Ranges} */
export function normal(ranges) {
  const sorted = [...ranges].filter(([lo, hi]) => lo <= hi).sort((a, b) => a[0] - b[0]);
  /** @type {Ranges} */
  const out = [];
  for (const [lo, hi] of sorted) {
    const last = out[out.length - 1];
    if (last && lo <= last[1] + 1) last[1] = Math.max(last[1], hi);
    else out.push([lo, hi]);
  }
  return out;
}

/** Returns the scalar values that are in both sets. @param {Ranges} a @param {Ranges} b @returns {Ranges} */
export function intersect(a, b) {
  /** @type {Ranges} */
  const out = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const lo = Math.max(a[i][0], b[j][0]);
    const hi = Math.min(a[i][1], b[j][1]);
    if (lo <= hi) out.push([lo, hi]);
    if (a[i][1] < b[j][1]) i++;
    else j++;
  }
  return out;
}

/** Returns the scalar values that a set does not contain. @param {Ranges} a @returns {Ranges} */
export function complement(a) {
  /** @type {Ranges} */
  const out = [];
  let from = 0;
  for (const [lo, hi] of a) {
    if (lo > from) out.push([from, lo - 1]);
    from = hi + 1;
  }
  if (from <= 0x10ffff) out.push([from, 0x10ffff]);
  return intersect(out, ANY);
}

/** Normalises ranges and drops surrogates. @param {Iterable<[number, number]>} ranges */
export const scalars = (ranges) => intersect(normal(ranges), ANY);

/** Returns whether a set contains a scalar value, by binary search. @param {Ranges} ranges @param {number} point */
export function has(ranges, point) {
  let lo = 0;
  let hi = ranges.length - 1;
  while (lo <= hi) {
    const middle = (lo + hi) >> 1;
    if (point < ranges[middle][0]) hi = middle - 1;
    else if (point > ranges[middle][1]) lo = middle + 1;
    else return true;
  }
  return false;
}
