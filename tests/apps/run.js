/**
 * run: tests the packed package in other tools (apps.js): installs it, builds with each tool, opens the page in
 * Chromium, and compares the answer with Node's. The apps are in the system's temporary folder, because in this
 * checkout some tools would find its modules and lock file. Installed tools stay there for later runs.
 *
 *   node tests/apps/run.js [--table] [--rest] [NAME …]
 *
 * Without names it runs all. --table writes the results into docs/reports/ecosystem.json, from which `node
 * tools/release/readme.js` makes the table; --rest skips apps that passed there with the same package.
 */
import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, delimiter, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs, promisify } from 'node:util';
import { loadModel, probe } from '../../js/index.node.js';
import { at, isMain } from '../../tools/support/proc.js';
import { serve } from '../../tools/serve.js';
import { newerNode } from '../../tools/build/setup.js';
import { installPackage } from '../js/installed.js';
import { testModel } from '../js/models.js';
import { launch } from '../e2e/helpers.js';
import { APPS } from './apps.js';

/** @typedef {import('./examples.js').App} App */
/** Values that all apps share. `models` has the URLs of models by their placeholders in the apps' files; `expected` is
 * Node's answer; `installed` is the folder of the installed package.
 * @typedef {{ models: Record<string, string>, cdn: string, expected: string, installed: string }} Given */
/** Result of an app. `of` is the digest of the tested package.
 * @typedef {{ ok: boolean, threads?: number, error?: string, of?: string }} Result */

const run = promisify(execFile);
const LONGEST = 400_000;
const SHOWN = 60_000;
/** Names of test models by their placeholders in the apps' files. */
const MODELS = { MODEL: 'tiny', EMBEDDING_MODEL: 'embed-q8_0', TOOLS_MODEL: 'generic-tools' };
const OPEN = { 'Access-Control-Allow-Origin': '*', 'Cross-Origin-Resource-Policy': 'cross-origin' };

/** Files and folders that tools may create in an app's folder. They are removed before the app is built again. */
const BUILT = 'dist out build .next .parcel-cache .svelte-kit .angular .index engine node_modules/.vite'.split(' ');

/** Makes a folder with an app's files, its tools and the package. Returns the folder's path.
 * @param {App} app @param {Given} given */
async function prepare(app, { models, cdn, installed }) {
  const own = app.folder ?? (Object.keys(app.packages).length ? app.name : 'plain');
  const folder = join(tmpdir(), 'gemma-wasm-apps', own);
  const put = (/** @type {string} */ text) =>
    text.replace(/CDN|(EMBEDDING_|TOOLS_)?MODEL/g, (word) => (word === 'CDN' ? cdn : `'${models[word]}'`));
  await installTools(folder, app);
  for (const old of BUILT) {
    // A dev server that has just been killed may still write into these folders.
    rmSync(join(folder, old), { recursive: true, force: true, maxRetries: 5, retryDelay: 300 });
  }
  const place = join(folder, 'node_modules', 'gemma-wasm');
  rmSync(place, { recursive: true, force: true });
  cpSync(join(installed, 'node_modules', 'gemma-wasm'), place, { recursive: true });
  for (const name of readdirSync(installed))
    if (/\.tgz$/.test(name)) cpSync(join(installed, name), join(folder, 'package.tgz'));
  for (const [path, text] of Object.entries(app.files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), put(typeof text === 'string' ? text : text(asItCame(join(folder, path)))));
  }
  return folder;
}

/** Returns the text of a template's file before this program replaced it. @param {string} path */
function asItCame(path) {
  const kept = `${path}.as-it-came`;
  if (!existsSync(kept)) cpSync(path, kept);
  return readFileSync(kept, 'utf8');
}

/** @param {string} folder @param {App} app */
async function installTools(folder, app) {
  const { packages, create } = app;
  const stamp = join(folder, 'installed.json');
  const wanted = JSON.stringify({ private: true, type: 'module', ...app.manifest, dependencies: packages });
  const known = existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted + (create ?? '');
  if (!known) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    const options = { cwd: folder, timeout: LONGEST, env: environment(folder, app) };
    if (create) await run(create[0], create.slice(1), options);
    else writeFileSync(join(folder, 'package.json'), wanted);
    if (create || Object.keys(packages).length) {
      await run('npm', ['install', '--no-audit', '--no-fund', '--no-package-lock'], options);
    }
    writeFileSync(stamp, wanted + (create ?? ''));
  }
  // Apps that share a folder may have different manifests.
  if (!create) writeFileSync(join(folder, 'package.json'), wanted);
}

/** @param {import('puppeteer-core').Page} page */
function watched(page) {
  const troubles = /** @type {string[]} */ ([]);
  page.on('pageerror', (error) => troubles.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error') troubles.push(message.text());
  });
  page.on('response', (response) => {
    if (response.status() >= 400) troubles.push(`${response.status()} ${response.url()}`);
  });
  return troubles;
}

/** @param {import('puppeteer-core').Browser} browser @param {string} url @param {App} app @param {string} expected */
async function opened(browser, url, { use }, expected) {
  const context = url.startsWith('http') ? await browser.createBrowserContext() : browser.defaultBrowserContext();
  const page = await context.newPage();
  const troubles = watched(page);
  try {
    await page.goto(url, { timeout: SHOWN, waitUntil: use ? 'load' : 'domcontentloaded' });
    if (/\/api$/.test(url)) return await page.evaluate(() => document.body.innerText);
    if (!use) {
      await page.waitForFunction(() => /^\{/.test(document.title), { timeout: SHOWN });
      return await page.title();
    }
    page.setDefaultTimeout(SHOWN);
    await use(page, expected);
    const isolated = await page.evaluate(() => crossOriginIsolated);
    return JSON.stringify({ text: expected, threads: isolated ? probe().threads : 1 });
  } catch (cause) {
    throw new Error(`${Object(cause).message}; ${troubles.join('; ')}`, { cause });
  } finally {
    await (url.startsWith('http') ? context : page).close();
  }
}

/** @param {string[]} command @param {App} app @param {string} folder */
function start(command, app, folder) {
  const child = spawn(command[0], command.slice(1), {
    cwd: folder,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: environment(folder, app),
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (data) => {
      text += data;
    });
  return {
    said: () => text,
    /** Kills the server, and waits until its processes have ended, because until then they may write to the app's
     * folder. */
    async end() {
      try {
        process.kill(-Number(child.pid));
        for (let tries = 0; tries < 100; tries++) {
          await sleep(100);
          process.kill(-Number(child.pid), 0);
        }
        process.kill(-Number(child.pid), 'SIGKILL');
      } catch {
        /* All processes of the server have ended. */
      }
    },
  };
}

/** Returns environment variables. PATH begins with the app's programs and the Node that they need.
 * @param {string} folder @param {App} app */
function environment(folder, { env = {}, newer }) {
  const programs = [join(folder, 'node_modules', '.bin'), ...(newer ? [dirname(newerNode())] : [])];
  return { ...process.env, ...env, CI: '1', PATH: [...programs, process.env.PATH].join(delimiter) };
}

/** @typedef {(url: string) => Promise<string>} Look */

/** @param {App} app @param {string} folder @param {Look} look */
async function fromServer(app, folder, look) {
  const { port, close } = await serve({ root: folder });
  await close(); // serve() is used only to find a free port.
  const server = start(
    (app.dev ?? []).map((word) => word.replace(/PORT$|PORT(?= )/, String(port))),
    app,
    folder,
  );
  const url = `http://localhost:${port}/${app.path ?? ''}`;
  try {
    const answers = () =>
      fetch(`http://localhost:${port}/`).then(
        ({ ok }) => ok,
        () => false,
      );
    for (let tries = 0; !(await answers()); tries++) {
      if (tries > 240) throw new Error(`The server did not start in 60 s: ${server.said().slice(-500)}`);
      await sleep(250);
    }
    const text = await look(url);
    return /^\{/.test(text) ? text : `${text.trim()}\n${server.said().slice(-1500)}`;
  } finally {
    await server.end();
  }
}

/** @param {App} app @param {string} folder @param {Look} look */
async function fromFolder(app, folder, look) {
  const headers = { 'Content-Security-Policy': '' };
  const server = await serve({ root: join(folder, app.page ?? '.'), isolation: app.base !== 'cdn', headers });
  try {
    return await look(server.url);
  } finally {
    await server.close();
  }
}

/** @param {App} app @param {string} folder @param {string} expected */
async function fromExtension(app, folder, expected) {
  const browser = await launch('chromium', { pipe: true, enableExtensions: true });
  try {
    const id = await browser.installExtension(folder);
    return await opened(browser, `chrome-extension://${id}/${app.page}`, app, expected);
  } finally {
    await browser.close();
  }
}

/** @param {App} app @param {string} folder @param {import('puppeteer-core').Browser} browser
 * @param {string} expected */
async function said(app, folder, browser, expected) {
  const options = { cwd: folder, timeout: LONGEST, env: environment(folder, app) };
  if (app.build) await run(app.build[0], app.build.slice(1), options);
  if (app.run) return (await run(app.run[0], app.run.slice(1), options)).stdout;
  if (app.extension) return fromExtension(app, folder, expected);
  const look = (/** @type {string} */ url) => opened(browser, url, app, expected);
  return app.dev ? fromServer(app, folder, look) : fromFolder(app, folder, look);
}

/** Prepares, builds and runs an app. Does not throw: `error` has the message and the output, cut to 3000 characters.
 * @param {App} app @param {Given} given @param {import('puppeteer-core').Browser} browser
 * @returns {Promise<Result>} */
export async function tryApp(app, given, browser) {
  try {
    const folder = await prepare(app, given);
    const text = await said(app, folder, browser, given.expected);
    app.judge?.(text);
    if (app.check || app.judge) return { ok: true };
    const answer = JSON.parse(text.match(/\{".*\}/)?.[0] ?? '{}');
    if (answer.text === given.expected) return { ok: true, threads: answer.threads };
    return { ok: false, error: answer.error ?? `The answer differs from Node's: ${text.slice(0, 2000)}` };
  } catch (error) {
    const { message, stderr = '', stdout = '' } = /** @type {any} */ (error);
    return { ok: false, error: `${message}\n${stderr}${stdout}`.slice(0, 3000) };
  }
}

/** Runs f with the installed package, a server of the models, and a server that replaces the CDN.
 * @param {(given: Given) => Promise<unknown>} f */
export async function surrounded(f) {
  const path = await testModel('tiny');
  const installed = installPackage();
  const models = await serve({ root: dirname(path), headers: OPEN, isolation: false });
  const cdn = await serve({ root: join(installed, 'node_modules', 'gemma-wasm'), headers: OPEN, isolation: false });
  const model = await loadModel(path, { threads: 1 });
  const { text: expected } = await model.chat().send('Hello', { maxTokens: 12, seed: 3 }).result();
  await model.dispose();
  try {
    /** @type {Record<string, string>} */
    const addresses = {};
    for (const [word, name] of Object.entries(MODELS)) {
      addresses[word] = models.url + basename(await testModel(name));
    }
    await f({ models: addresses, cdn: cdn.url.slice(0, -1).replace('localhost', '127.0.0.1'), expected, installed });
  } finally {
    await models.close();
    await cdn.close();
    rmSync(installed, { recursive: true });
  }
}

/** @param {string} installed */
function digest(installed) {
  const hash = createHash('sha256');
  const folder = join(installed, 'node_modules', 'gemma-wasm');
  for (const name of [
    'package.json',
    ...readdirSync(join(folder, 'dist'))
      .sort()
      .map((file) => `dist/${file}`),
  ]) {
    hash.update(`${name}\n`).update(readFileSync(join(folder, name)));
  }
  return hash.digest('hex').slice(0, 8);
}

/** @param {App[]} apps @param {Record<string, Result>} results @param {{ rest?: boolean, keep: () => void }} how */
async function tryAll(apps, results, { rest, keep }) {
  const browser = await launch('chromium');
  await surrounded(async (given) => {
    const of = digest(given.installed);
    for (const app of apps) {
      if (rest && results[app.name]?.ok && results[app.name].of === of) continue;
      const { ok, threads, error } = await tryApp(app, given, browser);
      const line = error?.split('\n')[0].slice(0, 160);
      results[app.name] = { ok, threads, error: line, of };
      console.log(`${ok ? 'ok    ' : 'FAILED'} ${app.name}: ${app.title}: ${ok ? `${threads ?? ''} threads` : error}`);
      if (!ok) process.exitCode = 1;
      keep();
    }
  });
  await browser.close();
}

if (isMain(import.meta.url)) {
  const {
    values: { table, rest },
    positionals,
  } = parseArgs({
    allowPositionals: true,
    options: { table: { type: 'boolean' }, rest: { type: 'boolean' } },
  });
  const apps = APPS.filter(({ name }) => !positionals.length || positionals.includes(name));
  const kept = at('docs', 'reports', 'ecosystem.json');
  const results = existsSync(kept) ? JSON.parse(readFileSync(kept, 'utf8')) : {};
  const known = () =>
    Object.fromEntries(APPS.filter(({ name }) => results[name]).map(({ name }) => [name, results[name]]));
  await tryAll(apps, results, {
    rest,
    keep() {
      if (table) writeFileSync(kept, `${JSON.stringify(known(), null, 1)}\n`);
    },
  });
}
