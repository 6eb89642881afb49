/**
 * build/classes: writes src/text/classes_table.h, the ranges of Unicode's letters, marks, numbers and white space, as
 * this Node's regular expressions define them.
 *
 *   node tools/build/classes.js
 */
import { writeFileSync } from 'node:fs';
import { at } from '../support/proc.js';

/** Class of a range whose letters alternate between upper and lower case. The other classes are values of gw_class. */
const BY_TURNS = 13;
/** Classes of code points by pattern: the first match counts. JavaScript's \s differs from the white space of Rust,
 * Oniguruma and llama.cpp, which is White_Space.
 * @type {[RegExp, number][]} */
const CLASSES = [
  [/\p{M}/u, 4],
  [/[\p{Lu}\p{Lt}]/u, 5],
  [/\p{Ll}/u, 9],
  [/\p{L}/u, 1],
  [/\p{N}/u, 2],
  [/\p{White_Space}/u, 3],
];
const UPPER = 5;
const LOWER = 9;
const LONGEST = 65535;
const PER_BLOCK = 32;
const PER_LINE = 10;

/** @param {number} code */
function classOf(code) {
  const text = String.fromCodePoint(code);
  return CLASSES.find(([pattern]) => pattern.test(text))?.[1] ?? 0;
}

/** Returns the length and the class of the range that begins at `first` and ends before `limit`.
 * @param {number} first @param {number} limit @returns {[number, number]} */
function rangeAt(first, limit) {
  const kind = classOf(first);
  let end = first;
  while (end < limit && classOf(end) === kind) end++;
  if (end > first + 1 || kind !== UPPER) return [end - first, kind];
  while (end < limit && classOf(end) === ((end - first) % 2 ? LOWER : UPPER)) end++;
  // If another upper-case letter follows the last upper-case letter of the range, the last letter belongs to the next
  // range, which has only upper-case letters.
  if ((end - first) % 2 && classOf(end) === UPPER) end--;
  return end > first + 1 ? [end - first, BY_TURNS] : [1, kind];
}

/** Returns the bytes of the ranges and, for each block of PER_BLOCK ranges, its first code point and the index of its
 * first byte. */
function table() {
  /** @type {Record<'ranges' | 'starts' | 'offsets', number[]>} */
  const lists = { ranges: [], starts: [], offsets: [] };
  for (let code = 0, count = 0; code <= 0x10ffff; count++) {
    const [length, kind] = rangeAt(code, Math.min(code + LONGEST, 0x110000));
    if (count % PER_BLOCK === 0) {
      lists.starts.push(code);
      lists.offsets.push(lists.ranges.length);
    }
    lists.ranges.push(...(length < 16 ? [length * 16 + kind] : [kind, length & 255, length >> 8]));
    code += length;
  }
  return lists;
}

/** @param {string} type @param {string} name @param {number[]} list */
function array(type, name, list) {
  const lines = [`static const ${type} ${name}[] = {`];
  for (let i = 0; i < list.length; i += PER_LINE) {
    const numbers = list.slice(i, i + PER_LINE).map((number) => `0x${number.toString(16)},`);
    lines.push(`    ${numbers.join(' ')}`);
  }
  return `${lines.join('\n')}\n};\n`;
}

const { ranges, starts, offsets } = table();
writeFileSync(
  at('src/text/classes_table.h'),
  `/* classes_table: written by tools/build/classes.js; do not edit.
 * Unicode ${process.versions.unicode}. A range of code points is one byte: its length times 16 plus its gw_class. If
 * that length is 0, two bytes with the length follow. BY_TURNS: upper and lower case alternate. \`starts\` and
 * \`offsets\` have the first code point and the index of the first byte of each block of ${PER_BLOCK} ranges. */
#ifndef GW_CLASSES_TABLE_H
#define GW_CLASSES_TABLE_H

#include <stdint.h>

enum { BY_TURNS = ${BY_TURNS} };
${array('uint8_t', 'ranges', ranges)}${array('uint32_t', 'starts', starts)}${array('uint16_t', 'offsets', offsets)}
#endif
`,
);
