/**
 * readme: writes the generated parts of the documents in the root and in docs/, between `<!-- begin NAME -->` and
 * `<!-- end NAME -->`, and draws docs/reports/speed.svg. Figures come from docs/measured.json, tables of options, codes
 * and fields from the code.
 *
 *   node tools/release/readme.js            write all parts
 *   node tools/release/readme.js --take     first update docs/measured.json: from build/bench.json (npm run bench), the
 *                                   sizes of the built files, and the parity tests
 *   node tools/release/readme.js --check    write nothing; exit with status 1 if a part is stale, a link is broken, a
 *                                   document is too long, or a name, architecture or dependency is not documented
 */
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Trouble, at, cli, parseOptions } from '../support/proc.js';
import { drawSpeed } from './readme/figure.js';
import { generated } from './readme/generated.js';
import { anchor } from './readme/markdown.js';
import { take } from './readme/take.js';

/** @typedef {import('./readme/take.js').Measured} Measured */

const MEASURED = at('docs', 'measured.json');
const FIGURE = 'docs/reports/speed.svg';
const PART = /(<!-- begin ([\w-]+) -->\n)[^]*?(<!-- end \2 -->)/g;

/** @returns {Measured} */
const readMeasured = () => JSON.parse(readFileSync(MEASURED, 'utf8'));

/** @type {Record<string, number>} */
const MOST_LINES = { 'README.md': 150, 'docs/glossary.md': 60, 'docs/source-map.md': 40 };

/** @param {string} folder @param {boolean} recursive */
const markdown = (folder, recursive) =>
  readdirSync(at(folder), { recursive })
    .map((name) => join(folder, String(name)))
    .filter((name) => name.endsWith('.md'))
    .sort();

const documents = () => [...markdown('', false), ...markdown('docs', true)];

/** @param {string} name @param {Measured} measured @param {typeof import('./readme/parts.js').PARTS} all */
async function filled(name, measured, all) {
  const text = readFileSync(at(name), 'utf8');
  /** @type {Map<string, string>} */
  const parts = new Map();
  for (const [, , part] of text.matchAll(PART)) {
    const make = all[part];
    if (!make) throw new Trouble(`${name}: unknown part "${part}". The parts are ${Object.keys(all).join(', ')}.`);
    parts.set(part, await make(measured));
  }
  return text.replace(PART, (_, begin, part, end) => `${begin}${parts.get(part)}\n${end}`);
}

/** Names of methods that docs/api.md need not mention, because they are internal. */
const INTERNAL = ['constructor', 'call', 'checkIds', 'describePrompt', 'descriptor', 'own'];

async function unmentioned() {
  const api = await import('../../js/index.node.js');
  const debug = await import('../../js/debug.js');
  const text = readFileSync(at('docs', 'api.md'), 'utf8');
  const { Chat, Generation, Model, ModelCache } = api;
  const methods = [Model, Object.getPrototypeOf(Model), Chat, Generation, ModelCache]
    .flatMap((type) => Object.getOwnPropertyNames(type.prototype))
    .filter((name) => !INTERNAL.includes(name));
  const names = [...methods, ...Object.keys(debug).map((name) => `debug.${name}`)].map((name) => `.${name}`);
  return [...Object.keys(api), ...names].filter((name) => !text.includes(name));
}

/** @param {string} name */
function unnamed(name) {
  const table = readFileSync(at('src', 'model', 'arch.c'), 'utf8');
  const text = readFileSync(at(name), 'utf8');
  return [...table.matchAll(/\.name = "([\w-]+)"/g)]
    .map(([, architecture]) => architecture)
    .filter((architecture) => !text.includes(`\`${architecture}\``))
    .map((architecture) => `${name} does not name the architecture ${architecture}`);
}

function unexplained() {
  const text = readFileSync(at('README.md'), 'utf8');
  const { devDependencies } = JSON.parse(readFileSync(at('package.json'), 'utf8'));
  return Object.keys(devDependencies)
    .filter((name) => !text.includes(`\`${name}\``))
    .map((name) => `README.md does not explain the dependency ${name}`);
}

/** @param {string} name */
function anchors(name) {
  const text = readFileSync(at(name), 'utf8').replace(/```[^]*?```/g, '');
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => anchor(heading));
}

/** @param {string} name */
function deadLinks(name) {
  const links = readFileSync(at(name), 'utf8').matchAll(/\]\((?!https?:)([^)\s]+)\)/g);
  return [...links]
    .map(([, link]) => link)
    .filter((link) => {
      const [file, anchor] = link.split('#');
      const path = file ? join(dirname(name), file) : name;
      return !existsSync(at(path)) || (anchor && path.endsWith('.md') && !anchors(path).includes(anchor));
    });
}

await cli(async () => {
  const { values } = parseOptions({ check: false, take: false });
  if (values.take) writeFileSync(MEASURED, `${JSON.stringify(take(readMeasured()), null, 1)}\n`);
  const measured = readMeasured();
  /** @type {string[]} */
  const problems = [];
  /** @param {string} name @param {string} wanted */
  const settle = (name, wanted) => {
    if (existsSync(at(name)) && readFileSync(at(name), 'utf8') === wanted) return;
    if (values.check) problems.push(`${name} is stale: run node tools/release/readme.js`);
    else writeFileSync(at(name), wanted);
  };
  settle('js/generated.js', generated());
  // Imported late, because parts.js needs js/generated.js, which was just written.
  const { PARTS } = await import('./readme/parts.js');
  problems.push(...(await unmentioned()).map((name) => `docs/api.md does not mention ${name}`));
  problems.push(...unnamed('README.md'), ...unnamed('docs/family.md'), ...unexplained());
  for (const name of documents()) {
    const wanted = await filled(name, measured, PARTS);
    problems.push(...deadLinks(name).map((link) => `${name}: broken link ${link}`));
    const lines = wanted.trimEnd().split('\n').length;
    if (lines > MOST_LINES[name]) problems.push(`${name} has ${lines} lines; the limit is ${MOST_LINES[name]}.`);
    settle(name, wanted);
  }
  settle(FIGURE, drawSpeed(measured));
  if (problems.length) throw new Trouble(problems.join('\n'));
});
