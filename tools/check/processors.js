/**
 * processors: runs the test models with flags that disable processor features and compilers of JavaScript engines, and
 * checks that the results equal those of the simd128 build bit for bit. Also checks that wrong relaxed SIMD
 * instructions are detected. Writes the tables of docs/reports/processors.md. npm installs Node 20, 22, 24 and 26 into
 * build/nodes.
 *
 *   node tools/check/processors.js matrix [RUNTIME …]   node20, node22, node24, node26, chromium, firefox
 *   node tools/check/processors.js flips                replaces each relaxed instruction, one at a time
 */
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { SMALL_MODELS } from '../../tests/js/models.js';
import { installNode } from '../build/setup.js';
import { Trouble, at, cli, output } from '../support/proc.js';
import { browserBits } from './processors/browser.js';

/** @typedef {import('./processors/browser.js').Bits} Bits */

const run = promisify(execFile);
const CHILD = at('tests', 'js', 'processor-child.js');
const PAGE = at('docs', 'reports', 'processors.md');
const NODES = [20, 22, 24, 26];
/** Models of the mode `flips`. They cover each weight format, with rows of whole super-blocks and with other rows. */
const FLIPPED = ['tiny', 'parity-q8_0', 'mix-k', 'mix-q4_k_m', 'mix-q5_k_m', 'mix-q3_k', 'mix-q2_k', 'mix-iq4_xs'];

const V8 = [
  [],
  ['--no-enable-avx'],
  ['--no-enable-avx2'],
  ['--no-enable-avx-vnni'],
  ['--no-enable-avx-vnni-int8'],
  ['--no-enable-sse4-2', '--no-enable-avx'],
  ['--no-enable-fma3', '--no-enable-bmi1', '--no-enable-bmi2', '--no-enable-lzcnt', '--no-enable-popcnt'],
  ['--liftoff-only'],
  ['--no-liftoff'],
  ['--no-enable-avx', '--liftoff-only'],
  ['--no-enable-avx', '--no-liftoff'],
  ['--no-enable-avx-vnni', '--liftoff-only'],
  ['--no-enable-avx-vnni', '--no-liftoff'],
];
/** Preferences of SpiderMonkey: both wasm compilers, only the baseline compiler, only the optimising compiler. */
const FIREFOX = [[], ['no-wasm_optimizingjit'], ['no-wasm_baselinejit']];

/** Returns the path of a Node with this major version. Installs it if it is missing. @param {number} major */
async function nodeOf(major) {
  if (process.versions.node.startsWith(`${major}.`)) return process.execPath;
  return installNode(at('build', 'nodes', `${major}`), `${major}`);
}

/** Returns the output of the child process, or null if its V8 does not support a flag.
 * @param {string} program @param {string[]} flags @param {string[]} args */
async function child(program, flags, args) {
  try {
    return JSON.parse((await run(program, [...flags, CHILD, ...args], { maxBuffer: 2 ** 28 })).stdout);
  } catch (error) {
    const { stderr = '' } = /** @type {{ stderr?: string }} */ (error);
    if (stderr.includes('bad option')) return null;
    throw error;
  }
}

/** @param {string[]} texts */
function counted(texts) {
  const kinds = [...new Set(texts)];
  const times = (/** @type {string} */ kind) => texts.filter((text) => text === kind).length;
  return kinds.map((kind) => (kinds.length > 1 ? `${kind || 'nothing'} (${times(kind)})` : kind)).join('; ');
}

/** @param {string} runtime @param {string[]} flags @param {Bits} bits @param {Bits} want */
function rowOf(runtime, flags, bits, want) {
  const found = Object.entries(bits).filter(([name]) => want[name]);
  const right = found.filter(([name, { bits }]) => bits === want[name].bits).length;
  const variants = counted(found.map(([, { variant }]) => variant.replace('+threads', '')));
  const reasons = counted(found.map(([, { variantReason }]) => variantReason));
  const shown = flags.map((flag) => `\`${flag}\``).join(' ');
  const cells = [runtime, shown || 'none', variants, reasons || '-', `${right} of ${found.length}`];
  return { right: right === found.length, line: `| ${cells.join(' | ')} |` };
}

/** @param {string} runtime @returns {AsyncGenerator<{ name: string, flags: string[], bits: Bits }>} */
async function* visits(runtime) {
  if (runtime.startsWith('node')) {
    const program = await nodeOf(Number(runtime.slice(4)));
    const versions = output(program, ['-p', 'JSON.stringify(process.versions)']);
    const { node, v8 } = JSON.parse(versions);
    const version = `Node ${node}, V8 ${v8.split('.', 2).join('.')}`;
    for (const flags of V8) {
      const bits = await child(program, flags, ['bits', 'auto', ...SMALL_MODELS]);
      if (bits) yield { name: version, flags, bits };
    }
    return;
  }
  for (const flags of runtime === 'firefox' ? FIREFOX : V8) {
    const { version, bits } = await browserBits(/** @type {'chromium'} */ (runtime), flags, SMALL_MODELS);
    yield { name: version, flags, bits };
  }
}

const HEAD = [
  '| runtime | flags | build | why relaxed SIMD is not used, or not completely | models with the same bits as simd128 |',
  '|---|---|---|---|---|',
];
/** @param {string} line */
const kindOf = (line) => /^\| (\w+ \d+)/.exec(line)?.[1] ?? '';
const ORDER = ['Node', 'Chromium', 'firefox'];
/** @param {string} line */
function rank(line) {
  const [name = '', version = '0'] = kindOf(line).split(' ');
  return 1000 * ORDER.findIndex((one) => one.toLowerCase() === name.toLowerCase()) + Number(version);
}

/** @param {string[]} runtimes */
async function matrix(runtimes) {
  const want = await child(process.execPath, [], ['bits', 'simd128', ...SMALL_MODELS]);
  /** @type {string[]} */
  const lines = [];
  let right = true;
  for (const runtime of runtimes) {
    for await (const { name, flags, bits } of visits(runtime)) {
      const row = rowOf(name, flags, bits, want);
      right &&= row.right;
      lines.push(row.line);
      console.log(row.line);
    }
  }
  const again = new Set(lines.map(kindOf));
  keep('matrix', (before) => {
    const others = before.filter((line) => kindOf(line) && !again.has(kindOf(line)));
    return [...HEAD, ...[...others, ...lines].sort((x, y) => rank(x) - rank(y))];
  });
  return right;
}

/** Outcomes of a replaced instruction, worst first, with their letters in the report. */
const LETTERS = /** @type {const} */ ({
  wrong: 'W',
  'engine-fault': 'F',
  'right, with a note': 'N',
  refused: 'R',
  right: '.',
});
const WORDS = { W: 'wrong', F: 'detected at loading', N: 'avoided', R: 'detected at start', '.': 'no effect' };

/** @typedef {{ at: number, name: string, code: number, model: string, outcome: keyof typeof LETTERS }} Flip */

/** Returns the replaced instructions by their position in the module, each with its worst outcome over all models and
 * flags.
 * @param {Flip[]} flips */
function lettersOf(flips) {
  const order = Object.values(LETTERS).join('');
  /** @type {Map<number, { name: string, code: number, letter: string }>} */
  const sites = new Map();
  for (const { at: place, name, code, outcome } of flips) {
    const letter = LETTERS[outcome] ?? 'F';
    const known = sites.get(place);
    if (!known || order.indexOf(letter) < order.indexOf(known.letter)) sites.set(place, { name, code, letter });
  }
  return [...sites.entries()].sort(([a], [b]) => a - b).map(([, site]) => site);
}

async function flips() {
  const program = await nodeOf(26);
  const version = output(program, ['--version']).trim();
  /** @type {Flip[]} */
  const all = [];
  // Tests both cases, because kernels use other instructions without AVX-VNNI.
  for (const flags of [[], ['--no-enable-avx-vnni']]) {
    const found = await Promise.all(FLIPPED.map((name) => child(program, flags, ['faults', '1', '0', name])));
    all.push(...found.flat());
  }
  const sites = lettersOf(all);
  const names = [...new Set(sites.map(({ name }) => name))];
  const count = (/** @type {string} */ name, /** @type {string} */ letter) => {
    return sites.filter((site) => site.name === name && site.letter === letter).length;
  };
  const kinds = Object.entries(WORDS);
  const table = [
    `| instruction | ${kinds.map(([, word]) => word).join(' | ')} |`,
    `|---|${kinds.map(() => '---|').join('')}`,
    ...names.map((name) => `| \`${name}\` | ${kinds.map(([letter]) => count(name, letter)).join(' | ')} |`),
  ];
  const functions = [...new Set(sites.map(({ code }) => code))].map((code) => {
    return `${String(code).padStart(4)} ${sites
      .filter((site) => site.code === code)
      .map(({ letter }) => letter)
      .join('')}`;
  });
  console.log(table.join('\n'));
  keep('flips', () => [
    ...table,
    '',
    `Node ${version.slice(1)}, ${all.length} runs. A line has the number of a function, then a letter for each of its sites: ` +
      `${kinds.map(([letter, word]) => `${letter} ${word}`).join(', ')}:`,
    '',
    '```',
    ...functions,
    '```',
  ]);
  return !sites.some(({ letter }) => letter === 'W');
}

/** @param {string} name @param {(before: string[]) => string[]} lines */
function keep(name, lines) {
  const text = readFileSync(PAGE, 'utf8');
  const part = new RegExp(`(<!-- ${name} -->\n)([^]*)(<!-- end of ${name} -->)`);
  if (!part.test(text)) throw new Trouble(`docs/reports/processors.md has no section ${name}.`);
  writeFileSync(
    PAGE,
    text.replace(part, (_, begin, before, end) => {
      return `${begin}${lines(before.split('\n').filter(Boolean)).join('\n')}\n${end}`;
    }),
  );
}

await cli(async () => {
  const [mode, ...names] = process.argv.slice(2);
  const all = [...NODES.map((major) => `node${major}`), 'chromium', 'firefox'];
  const unknown = names.find((name) => !all.includes(name));
  if (!['matrix', 'flips'].includes(mode) || unknown)
    throw new Trouble(`Usage: node tools/check/processors.js matrix [${all.join('|')} …], or flips`);
  const right = mode === 'flips' ? await flips() : await matrix(names.length ? names : all);
  if (!right) process.exitCode = 1;
});
