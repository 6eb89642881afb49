/** machine: describes the machine of a measurement. */
import { readFileSync } from 'node:fs';
import { arch, availableParallelism, cpus, release, totalmem, type } from 'node:os';
import { testEnvironment } from '../build/setup.js';
import { output } from '../support/proc.js';

/** Returns ' with AVX-VNNI' if Linux reports these instructions, on which the speed of the kernels depends. */
function instructions() {
  try {
    return /\bavx_vnni\b/.test(readFileSync('/proc/cpuinfo', 'utf8')) ? ' with AVX-VNNI' : '';
  } catch {
    return '';
  }
}

/** Returns the machine and the versions of its software; '' for a browser that is not installed. */
export function machine() {
  const { GW_CHROMIUM, GW_FIREFOX } = testEnvironment();
  const version = (/** @type {string} */ program) => (program ? output(program, ['--version']).trim() : '');
  return {
    processor: `${cpus()[0]?.model.trim() ?? 'unknown processor'}${instructions()}`,
    cores: availableParallelism(),
    memory: totalmem(),
    system: `${type()} ${release()}, ${arch()}`,
    node: process.version,
    chromium: version(GW_CHROMIUM),
    firefox: version(GW_FIREFOX),
  };
}
