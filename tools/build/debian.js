/**
 * debian: installs Debian packages, and an Emscripten that is new enough.
 *
 * Debian 12's emscripten (3.1.6) predates the final relaxed SIMD instructions. Debian 13's (3.1.69) can be installed on
 * Debian 12 from the "trixie" suite. That suite gets a pin priority of 100, so that no other package is upgraded to it.
 * Its URL is the mirror that the machine already uses, as `apt-get indextargets` reports it.
 */
import { existsSync, readFileSync, symlinkSync, writeFileSync, realpathSync } from 'node:fs';
import { Trouble, atLeast, must, output, which } from '../support/proc.js';

const SUITE = 'trixie';
const SOURCE_FILE = `/etc/apt/sources.list.d/gemma-wasm-${SUITE}.sources`;
const PIN_FILE = `/etc/apt/preferences.d/gemma-wasm-${SUITE}`;
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';
const env = { DEBIAN_FRONTEND: 'noninteractive' };

/** Returns whether the system is Debian, or derived from it, and has apt-get. */
export const isDebian = () => Boolean(which('apt-get')) && existsSync('/etc/debian_version');

const isRoot = () => process.getuid?.() === 0;

/** Installs packages, after `apt-get update` if this process has not run it yet. Throws a Trouble without root.
 * @param {string[]} packages @param {string[]} [options] */
export async function aptInstall(packages, options = []) {
  const command = ['apt-get', 'install', '-y', ...options, '--no-install-recommends', ...packages];
  if (!isRoot())
    throw new Trouble(`Installing packages needs root. Run this, then try again:\n  sudo ${command.join(' ')}`);
  await refresh();
  await must('apt', command[0], command.slice(1), { env, append: true });
}

let fresh = false;

async function refresh() {
  if (fresh) return;
  await must('apt', 'apt-get', ['update'], { env });
  fresh = true;
}

/** @returns {{ origin: string, label: string, codename: string, uri: string, entry: string }[]} */
function archives() {
  const fields = '$(ORIGIN)|$(LABEL)|$(CODENAME)|$(COMPONENT)|$(REPO_URI)|$(SOURCESENTRY)';
  const lines = output('apt-get', ['indextargets', '--format', fields, 'Created-By: Packages']).split('\n');
  return lines
    .map((line) => line.split('|'))
    .filter(([, , , component]) => component === 'main')
    .map(([origin, label, codename, , uri, entry]) => ({ origin, label, codename, uri, entry }));
}

/**
 * Returns the keyring (Signed-By) of an apt source, or '' if it names none.
 * @param {string} entry   FILE:LINE of a .list file, or FILE:STANZA of a .sources file
 */
function signedBy(entry) {
  const [, file, number] = entry.match(/^(.*):(\d+)$/) ?? [];
  if (!file || !existsSync(file)) return '';
  const text = readFileSync(file, 'utf8');
  if (file.endsWith('.list')) {
    const line = text.split('\n')[Number(number) - 1] ?? '';
    return line.match(/signed-by=([^\s\]]+)/i)?.[1] ?? '';
  }
  const stanzas = text
    .replaceAll(/^#.*\n/gm, '')
    .split(/\n\s*\n/)
    .filter((stanza) => stanza.trim());
  return stanzas[Number(number) - 1]?.match(/^Signed-By:[ \t]*(\/\S+)/im)?.[1] ?? '';
}

function offered() {
  return output('apt-cache', ['madison', 'emscripten'])
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()))
    .filter((cells) => cells.length > 2)
    .map(([, version, source]) => ({ version: version.split('+')[0], suite: source.match(/ ([\w.-]+)\/main /)?.[1] }));
}

/** Adds Debian's suite SUITE to apt's sources.
 * @param {string} minimum version of Emscripten, for the error's message */
async function addSuite(minimum) {
  const own = archives().find((a) => a.origin === 'Debian' && a.label === 'Debian' && /^[a-z]+$/.test(a.codename));
  if (!own)
    throw new Trouble(
      `apt has no official Debian repository configured. Install an emcc >= ${minimum} (emsdk) and put it on the PATH.`,
    );
  const key = signedBy(own.entry) || (existsSync(KEYRING) ? KEYRING : '');
  const fields = ['Types: deb', `URIs: ${own.uri}`, `Suites: ${SUITE}`, 'Components: main'];
  if (key) fields.push(`Signed-By: ${key}`);
  writeFileSync(PIN_FILE, `Package: *\nPin: release n=${SUITE}\nPin-Priority: 100\n`);
  writeFileSync(SOURCE_FILE, `${fields.join('\n')}\n`);
  process.stdout.write(`(adding the suite ${SUITE} at pin priority 100) `);
  fresh = false;
  await refresh();
}

/** Installs Emscripten in at least the version `minimum`. If no configured apt source offers it, adds Debian's suite
 * SUITE to apt's sources. Throws a Trouble if not run as root. @param {string} minimum */
export async function installEmscripten(minimum) {
  if (!isRoot()) {
    throw new Trouble(
      `Installing Emscripten needs root. Run this command as root, or put an emcc >= ${minimum} (emsdk) on the PATH.`,
    );
  }
  await refresh();
  const good = () => offered().find(({ version }) => atLeast(version, minimum));
  if (!good()) await addSuite(minimum);
  const found = good();
  if (!found?.suite)
    throw new Trouble(`apt has no emscripten >= ${minimum}. Install emsdk and put its emcc on the PATH.`);
  await aptInstall(['emscripten'], ['-t', found.suite]);
}

/**
 * Returns whether the link /usr/share/node_modules is missing. Only Debian's Node finds modules in /usr/share/nodejs,
 * where Debian installs acorn, which emcc's scripts import. With the link, every Node does.
 * @param {string} emcc
 */
export function needsAcornLink(emcc) {
  if (!emcc || !existsSync('/usr/share/nodejs/acorn') || existsSync('/usr/share/node_modules/acorn')) return false;
  return realpathSync(emcc).startsWith('/usr/share/emscripten/');
}

/** Creates the link /usr/share/node_modules, through which every Node finds Debian's acorn. */
export function linkAcorn() {
  if (existsSync('/usr/share/node_modules')) {
    throw new Trouble('/usr/share/node_modules exists, but has no acorn. Add a link to /usr/share/nodejs/acorn there.');
  }
  if (!isRoot())
    throw new Trouble('Linking acorn needs root. Run:\n  sudo ln -s /usr/share/nodejs /usr/share/node_modules');
  symlinkSync('/usr/share/nodejs', '/usr/share/node_modules');
}
