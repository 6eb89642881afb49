/**
 * check/openai-python: runs the calls of openai-python.py, which use OpenAI's Python client, against `gemma-wasm
 * serve`. Installs the client into build/python-openai first (network).
 *
 *   node tools/check/openai-python.js
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { STORYTELLER, testModel } from '../../tests/js/models.js';
import { startServing } from '../../tests/support/serving.js';
import { at, cli } from '../support/proc.js';

/** The calls of openai-python.py follow the documentation of this version of OpenAI's client. */
const CLIENT = 'openai==3.57.0';
const FOLDER = at('build', 'python-openai');
const KEY = 'sesame';

/** @param {string} program @param {...string} args */
async function run(program, ...args) {
  const [status] = await once(spawn(program, args, { stdio: 'inherit' }), 'close');
  return status;
}

await cli(async () => {
  const python = `${FOLDER}/bin/python`;
  if (!existsSync(python)) await run('python3', '-m', 'venv', FOLDER);
  await run(python, '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', CLIENT);
  const models = [await testModel('qwen3-tools'), STORYTELLER, await testModel('embed-q8_0')];
  const names = ['chat', 'story', 'embed'].flatMap((name) => ['--name', name]);
  const server = await startServing([...models, ...names, '--threads', '1'], { GEMMA_WASM_API_KEY: KEY });
  process.exitCode = await run(python, at('tools', 'check', 'openai-python.py'), `${server.url}/v1`, KEY);
  await server.stop();
});
