/** machine: describes the machine of a measurement. */
import { arch, availableParallelism, cpus, release, totalmem, type } from 'node:os';
import { testEnvironment } from '../build/setup.js';
import { output } from '../support/proc.js';

/** Returns the machine and the versions of its software; '' for a browser that is not installed. */
export function machine() {
  const { GW_CHROMIUM, GW_FIREFOX } = testEnvironment();
  const version = (/** @type {string} */ program) => (program ? output(program, ['--version']).trim() : '');
  return {
    processor: cpus()[0]?.model.trim() ?? 'unknown processor',
    cores: availableParallelism(),
    memory: totalmem(),
    system: `${type()} ${release()}, ${arch()}`,
    node: process.version,
    chromium: version(GW_CHROMIUM),
    firefox: version(GW_FIREFOX),
  };
}
