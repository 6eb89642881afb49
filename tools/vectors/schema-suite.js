/*
 * schema-suite: writes tests/vectors/schema-suite.json.gz from a checkout of json-schema-org/JSON-Schema-Test-Suite:
 * the required tests and the `format` tests of drafts 2020-12 and 7, without the remote documents.
 *
 *   node tools/vectors/schema-suite.js FOLDER
 */
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { at } from '../support/proc.js';

const DRAFTS = { 'draft2020-12': 2020, draft7: 7 };
const FOLDERS = ['', 'optional/format'];

const [folder] = process.argv.slice(2);
/** @type {{ draft: number, format: boolean, file: string, groups: unknown[] }[]} */
const suite = [];
for (const [name, draft] of Object.entries(DRAFTS)) {
  for (const part of FOLDERS) {
    const path = join(folder, 'tests', name, part);
    if (!existsSync(path)) throw new Error(`${path} does not exist.`);
    for (const file of readdirSync(path)
      .filter((one) => one.endsWith('.json'))
      .sort()) {
      const groups = JSON.parse(readFileSync(join(path, file), 'utf8'));
      suite.push({ draft, format: part !== '', file: `${name}/${join(part, file)}`, groups });
    }
  }
}
const licence = readFileSync(join(folder, 'LICENSE'), 'utf8');
const packed = gzipSync(JSON.stringify({ licence, suite }), { level: 9 });
writeFileSync(at('tests', 'vectors', 'schema-suite.json.gz'), packed);
