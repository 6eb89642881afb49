/* installed: the package as users get it: packed, and installed into a folder outside the checkout. This needs no
 * network, because the package has no dependencies. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const KEPT = join(ROOT, 'build', 'installed');
/** @type {import('node:child_process').ExecFileSyncOptionsWithStringEncoding} */
const QUIET = { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] };

/** Rebuilds dist/, as `npm pack` does before it packs. Requires built wasm files. */
export function buildPackage() {
  execFileSync(process.execPath, ['tools/build/package.js'], { ...QUIET, cwd: ROOT });
  execFileSync(process.execPath, ['tools/build/types.js'], { ...QUIET, cwd: ROOT });
}

/** Returns a new folder with the package in its node_modules, which the caller must remove. Packs and installs the
 * package only if its content has changed, and otherwise copies a cached folder. */
export function installPackage() {
  const kept = join(KEPT, digest());
  if (!existsSync(kept)) {
    const fresh = install();
    rmSync(KEPT, { recursive: true, force: true });
    mkdirSync(KEPT, { recursive: true });
    cpSync(fresh, kept, { recursive: true, verbatimSymlinks: true });
    return fresh;
  }
  const folder = mkdtempSync(join(tmpdir(), 'gw-installed-'));
  cpSync(kept, folder, { recursive: true, verbatimSymlinks: true });
  return folder;
}

/** Returns a digest of all files that npm reads to pack the package, except JSON files of docs/, which are not
 * packed. */
function digest() {
  const hash = createHash('sha256');
  const add = (/** @type {string} */ path) => {
    if (statSync(path).isDirectory()) for (const name of readdirSync(path).sort()) add(join(path, name));
    else hash.update(`${path}\n`).update(readFileSync(path));
  };
  for (const name of readdirSync(ROOT).sort()) {
    if (/^(dist|package.*|\..*(ignore|npmrc)|LICEN[CS]E.*|NOTICES.*|README.*)$/i.test(name)) add(join(ROOT, name));
  }
  add(join(ROOT, 'models', 'storyteller'));
  for (const name of readdirSync(join(ROOT, 'docs')).sort()) if (!/\.json$/.test(name)) add(join(ROOT, 'docs', name));
  add(fileURLToPath(import.meta.url));
  return hash.digest('hex').slice(0, 16);
}

function install() {
  const folder = mkdtempSync(join(tmpdir(), 'gw-installed-'));
  try {
    const packed = execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], {
      ...QUIET,
      cwd: ROOT,
    });
    const archives = JSON.parse(packed).map((/** @type {{ filename: string }} */ { filename }) => `./${filename}`);
    writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }');
    execFileSync('npm', ['install', '--offline', '--ignore-scripts', ...archives], { ...QUIET, cwd: folder });
    return folder;
  } catch (error) {
    rmSync(folder, { recursive: true });
    throw error;
  }
}
