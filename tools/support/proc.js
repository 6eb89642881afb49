/** proc: finds and runs programs for the other tools. Needs only Node, because it runs before `npm ci`. */
import { spawn, spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, mkdirSync, openSync, closeSync, readFileSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

export const root = resolve(dirname(fileURLToPath(import.meta.url)), '..', '..');
/** Returns the absolute path of a file of this repository. @param {...string} parts */
export const at = (...parts) => join(root, ...parts);

/** A failure that the user can fix. Its message is printed without a stack trace. */
export class Trouble extends Error {}

/**
 * Returns the path of a program on the PATH, or ''.
 * @param {string} name
 */
export function which(name) {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const path = join(folder || '.', name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      /* the program is not in this folder */
    }
  }
  return '';
}

/** Flags for a headless Chromium that runs as root and must not use the network. */
export const CHROMIUM_FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** Returns the standard output of a short program, or '' if it fails. @param {string} program @param {string[]} args */
export function output(program, args) {
  const got = spawnSync(program, args, { encoding: 'utf8', cwd: root });
  return got.status === 0 ? got.stdout : '';
}

/** Returns a file's last lines, each cut after 400 characters; '' if there is no file. @param {string} path
 * @param {number} [count] */
export function tail(path, count = 40) {
  if (!existsSync(path)) return '';
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n').slice(-count);
  return lines.map((line) => (line.length > 400 ? `${line.slice(0, 400)} …` : line)).join('\n');
}

/**
 * Runs a program and writes its output to build/logs/NAME.log. Resolves with the exit status and the log's path.
 * @param {string} name
 * @param {string} program
 * @param {string[]} args
 * @param {{ env?: Record<string, string | undefined>, cwd?: string, append?: boolean, timeout?: number }} [options]
 *   timeout: seconds after which the program is killed
 * @returns {Promise<{ status: number, log: string }>}
 */
export function logged(name, program, args, { env = {}, cwd = root, append = false, timeout = 0 } = {}) {
  const log = at('build', 'logs', `${name.replaceAll(/[^\w.-]+/g, '-')}.log`);
  mkdirSync(dirname(log), { recursive: true });
  const file = openSync(log, append ? 'a' : 'w');
  return new Promise((done) => {
    const child = spawn(program, args, {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', file, file],
      timeout: timeout * 1000,
      killSignal: 'SIGKILL',
    });
    child.on('error', () => {
      closeSync(file);
      done({ status: 127, log });
    });
    child.on('close', (status) => {
      closeSync(file);
      done({ status: status ?? 1, log });
    });
  });
}

/**
 * Runs a program as logged() does. If it fails, throws a Trouble with the log's last lines.
 * @param {string} name
 * @param {string} program
 * @param {string[]} args
 * @param {Parameters<typeof logged>[3]} [options]
 */
export async function must(name, program, args, options) {
  const { status, log } = await logged(name, program, args, options);
  if (status === 0) return;
  throw new Trouble(`${[program, ...args].join(' ')} failed (${status}). The end of ${log}:\n${tail(log)}`);
}

/** Returns whether version `a` ("3.1.69") is at least `b`. @param {string} a @param {string} b */
export function atLeast(a, b) {
  const [x, y] = [a, b].map((text) => text.split('.').map(Number));
  for (let i = 0; i < y.length; i++) if ((x[i] ?? 0) !== y[i]) return (x[i] ?? 0) > y[i];
  return true;
}

/**
 * Parses the command line. An option has the type of its default: a text, a number, or a flag (false).
 * @template {Record<string, string | number | boolean>} T @param {T} defaults
 * @param {{ allowPositionals?: boolean }} [settings]
 */
export function parseOptions(defaults, settings) {
  const types = Object.entries(defaults).map(([name, value]) => {
    return [name, { type: typeof value === 'boolean' ? 'boolean' : 'string' }];
  });
  const { values, positionals } = parseArgs({ ...settings, options: Object.fromEntries(types) });
  const given = Object.entries(values).map(([name, value]) => {
    return [name, typeof defaults[name] === 'number' ? Number(value) : value];
  });
  /** @typedef {{ [K in keyof T]: T[K] extends boolean ? boolean : T[K] extends number ? number : string }} Values */
  return { values: /** @type {Values} */ ({ ...defaults, ...Object.fromEntries(given) }), positionals };
}

/** Runs `main`. Prints its error, a Trouble without the stack trace, and sets the exit status to 1.
 * @param {() => Promise<unknown>} main */
export async function cli(main) {
  try {
    await main();
  } catch (error) {
    console.error(error instanceof Trouble ? `\n${error.message}` : error);
    process.exitCode = 1;
  }
}

/** Returns whether a module is the program that was started. @param {string} url import.meta.url */
export const isMain = (url) => Boolean(process.argv[1]) && fileURLToPath(url) === resolve(process.argv[1]);
