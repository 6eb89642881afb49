/**
 * build/classes: writes src/text/classes_table.h, the ranges of Unicode's letters, numbers and white space, from the
 * regular expressions of this Node. The file names the version of Unicode.
 *
 *   node tools/build/classes.js
 */
import { writeFileSync } from 'node:fs';
import { at } from '../support/proc.js';

/** In the order of gw_class. Rust, Oniguruma and llama.cpp define \s as White_Space; JavaScript does not. */
const CLASSES = [/\p{L}/u, /\p{N}/u, /\p{White_Space}/u];
const PER_LINE = 10;

/** @param {number} code */
function classOf(code) {
  const text = String.fromCodePoint(code);
  return CLASSES.findIndex((pattern) => pattern.test(text)) + 1;
}

/** Returns the first code point of each range, times four, plus its class. */
export function ranges() {
  const list = [];
  for (let code = 0, before = -1; code <= 0x10ffff; code++) {
    const kind = classOf(code);
    if (kind !== before) list.push(code * 4 + kind);
    before = kind;
  }
  return list;
}

const head = (/** @type {number} */ count) => `/* classes_table: written by tools/build/classes.js; do not edit.
 * Unicode ${process.versions.unicode}: ${count} ranges of code points, each as
 * its first one times four plus its gw_class. */
#ifndef GW_CLASSES_TABLE_H
#define GW_CLASSES_TABLE_H

#include <stdint.h>

static const uint32_t ranges[] = {
`;

const list = ranges();
const lines = [];
for (let i = 0; i < list.length; i += PER_LINE) {
  lines.push(
    `    ${list
      .slice(i, i + PER_LINE)
      .map((range) => `0x${range.toString(16)},`)
      .join(' ')}`,
  );
}
writeFileSync(at('src/text/classes_table.h'), `${head(list.length)}${lines.join('\n')}\n};\n\n#endif\n`);
