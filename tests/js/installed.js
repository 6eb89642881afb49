/* installed: the package as users get it: packed, and installed into a folder outside the checkout.
 * No network: the one dependency is packed from node_modules. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const QUIET = { encoding: /** @type {const} */ ('utf8'), stdio: /** @type {const} */ (['ignore', 'pipe', 'pipe']) };

/** dist/ made anew, as `npm pack` does before it packs; the wasm files are there. */
export function buildPackage() {
  execFileSync(process.execPath, ['tools/build-package.js'], { ...QUIET, cwd: ROOT });
  execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.types.json'], { ...QUIET, cwd: ROOT });
}

/** A new folder with the package in its node_modules; whoever asks removes it. */
export function installPackage() {
  const folder = mkdtempSync(join(tmpdir(), 'gw-installed-'));
  try {
    const packed = execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder,
      '.', './node_modules/@huggingface/jinja'], { ...QUIET, cwd: ROOT });
    const archives = JSON.parse(packed).map((/** @type {{ filename: string }} */ { filename }) => `./${filename}`);
    writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }');
    execFileSync('npm', ['install', '--offline', '--ignore-scripts', ...archives], { ...QUIET, cwd: folder });
    return folder;
  } catch (error) {
    rmSync(folder, { recursive: true });
    throw error;
  }
}
