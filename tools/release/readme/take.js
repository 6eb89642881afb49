/**
 * take: collects this checkout's measurements for docs/measured.json: sizes, accuracy, and speed after a new benchmark.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { Trouble, at, output } from '../../support/proc.js';

/**
 * @typedef {object} Speed    of build/bench.json (tools/bench/bench.js)
 * @property {string} date
 * @property {{ processor: string, cores: number, memory: number, node: string, chromium: string,
 *   firefox: string }} machine
 * @property {number} runs
 * @property {SpeedOf[]} models
 */
/**
 * @typedef {object} SpeedOf    one model
 * @property {string} model     name of its file
 * @property {number} modelBytes
 * @property {number} weightBytes
 * @property {number[]} busy    share of the machine that other programs used before each measurement
 * @property {{ side: string, title: string, threads: number, medians: Record<string, number>,
 *   oursIsBetterBy: Record<string, number>, samples: number, deep?: number, error?: string }[]} results
 * @property {{ threads: number, bytesPerSecond: number, share: number }[]} decodeShare
 */
/** @typedef {{ what: string, kilobytes: number, compressed?: number }[]} Sizes */
/** @typedef {{ largest: number, mean: number }} Errors */
/** @typedef {{ model: string, truth: string, ways: Record<string, Errors> }[]} Accuracy */
/** `short`: a benchmark without long contexts, used only for the table of README.md; `other`: a benchmark of models
 * that do not have the shape of Gemma 3 1B.
 * @typedef {{ speed?: Speed, short?: Speed, other?: Speed, sizes?: Sizes, accuracy?: Accuracy }} Measured */

const BENCH = at('build', 'bench.json');

/** Replaces the sizes, the accuracy (by running the parity tests) and, if build/bench.json exists, a benchmark.
 * @param {Measured} before @returns {Measured} */
export function take(before) {
  const bench = existsSync(BENCH) ? JSON.parse(readFileSync(BENCH, 'utf8')) : undefined;
  return {
    ...before,
    ...(bench && { [keyOf(bench)]: speed(bench) }),
    sizes: sizes(),
    accuracy: accuracy(),
  };
}

/** @param {any} bench @returns {'speed' | 'short' | 'other'} */
function keyOf({ models, options }) {
  if (!models[0].model.startsWith('oneb-')) return 'other';
  return options.contexts.some(Boolean) ? 'speed' : 'short';
}

/** @param {any} bench @returns {Speed} */
function speed({ date, machine, options, models }) {
  return { date, machine, runs: options.runs, models: models.map(speedOf) };
}

/** @param {any} part @returns {SpeedOf} */
function speedOf({ model, modelBytes, weightBytes, load, results, decodeShare }) {
  return {
    model,
    modelBytes,
    weightBytes,
    busy: load.busy,
    results: results.map((/** @type {any} */ { samples, deep, ...result }) => {
      return { ...result, samples: samples.length, deep: deep.length };
    }),
    decodeShare,
  };
}

/** @returns {Sizes} */
function sizes() {
  // Ignores the exit status: a size above its limit is still a valid measurement.
  const { stdout } = spawnSync(process.execPath, [at('tools', 'check', 'sizes.js')], { encoding: 'utf8', cwd: at() });
  const lines = stdout.split('\n');
  const rows = lines.flatMap((line) => {
    const match = line.match(/^(\S.*?)\s+([\d.]+) KB(?:\s+limit [\d.]+ KB[A-Z ]*)?(?:\s+\(([\d.]+) KB compressed\))?$/);
    if (!match) return [];
    const [, what, kilobytes, compressed] = match;
    return [{ what, kilobytes: Number(kilobytes), ...(compressed && { compressed: Number(compressed) }) }];
  });
  if (!rows.length) throw new Trouble('tools/check/sizes.js failed: it printed no sizes.');
  return rows;
}

/** Parses the output of the parity tests, which is complete only if all pass. @returns {Accuracy} */
function accuracy() {
  const lines = output(process.execPath, ['--test', '--test-reporter=tap', at('tests', 'js', 'parity.test.js')]);
  /** @type {Accuracy} */
  const rows = [];
  let way = '';
  for (const line of lines.split('\n')) {
    const title = line.match(/^# Subtest: (\S+): logits match (.+)$/);
    if (title) rows.push({ model: title[1], truth: title[2], ways: {} });
    const figures = line.match(/^# ([\w. ]+): largest NMSE (\S+) at row \d+, mean (\S+)$/);
    if (!figures) continue;
    way = figures[1];
    rows[rows.length - 1].ways[way] = { largest: Number(figures[2]), mean: Number(figures[3]) };
  }
  if (!way) throw new Trouble('tests/js/parity.test.js did not print the deviations (NMSE) that the README needs.');
  return rows;
}
