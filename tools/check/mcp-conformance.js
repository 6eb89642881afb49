/*
 * mcp-conformance: runs the scenarios of MCP's conformance program that test a client's tools, and writes a table of
 * the results to docs/reports/mcp.md. The client under test is @modelcontextprotocol/client with mcpTools() of
 * gemma-wasm/mcp. A test model makes the calls.
 *
 *   node tools/check/mcp-conformance.js [--verbose]
 *
 * Installs the conformance program into build/mcp-conformance first. It needs Node 22 or newer, which `npm test`
 * installs into build/, and starts this file again as the client.
 */
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { loadModel } from '../../js/index.node.js';
import { mcpTools } from '../../js/mcp.js';
import { testModel } from '../../tests/js/models.js';
import { keep } from '../../tests/lab/tables.js';
import { newerNode } from '../build/setup.js';
import { Trouble, at, cli, must, output, parseOptions } from '../support/proc.js';

const PACKAGE = '@modelcontextprotocol/conformance@0.1.16';
const FOLDER = at('build', 'mcp-conformance');
const PROGRAM = join(FOLDER, 'node_modules', '@modelcontextprotocol', 'conformance', 'dist', 'index.js');

/** Scenarios of MCP's conformance program, each with the tool that the model must call, null for none.
 * @type {Record<string, string | null>} */
const SCENARIOS = {
  initialize: null,
  tools_call: 'add_numbers',
  'sse-retry': 'test_reconnection',
  'elicitation-sep1034-client-defaults': 'test_client_elicitation_defaults',
};

/** @typedef {{ id: string, description: string, status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'SKIPPED' | 'INFO',
 *   errorMessage?: string }} Check */

/** Connects to a scenario's server as the client under test. Lists the tools and lets the model call one.
 * @param {string} address @param {string | null} name the tool, null for none */
async function runClient(address, name) {
  const client = new Client(
    { name: 'gemma-wasm', version: '0.1.0' },
    { capabilities: { elicitation: { form: { applyDefaults: true } } } },
  );
  client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: {} }));
  await client.connect(new StreamableHTTPClientTransport(new URL(address)));
  const model = await loadModel(await testModel('qwen3-tools'));
  try {
    const { tools } = await mcpTools(client, { model });
    if (name === null) return;
    const options = { tools, toolChoice: { name }, maxTokens: 300, maxRounds: 1, seed: 1 };
    const { toolCalls = [] } = await model.chat().send('Call the tool.', options).result();
    if (!toolCalls.length || toolCalls[0].error) throw new Error(`The call failed: ${toolCalls[0]?.error}`);
    console.log(toolCalls);
  } finally {
    await client.close();
    await model.dispose();
  }
}

/** @param {string} scenario @returns {Check[]} */
function checksOf(scenario) {
  const results = join(FOLDER, 'results', scenario);
  rmSync(results, { recursive: true, force: true });
  mkdirSync(results, { recursive: true });
  const command = `${process.execPath} ${fileURLToPath(import.meta.url)}`;
  const args = [PROGRAM, 'client', '--command', command, '--scenario', scenario, '-o', results, '--timeout', '60000'];
  output(newerNode(), args);
  const file = readdirSync(results, { recursive: true, encoding: 'utf8' }).find((path) => path.endsWith('checks.json'));
  if (!file) throw new Trouble(`The scenario ${scenario} left no results in ${results}.`);
  return JSON.parse(readFileSync(join(results, file), 'utf8'));
}

async function runAll(/** @type {boolean} */ verbose) {
  if (!newerNode())
    throw new Trouble(
      'The conformance program needs Node 22 or newer. Run node tools/build/setup.js tests to install it.',
    );
  if (!existsSync(PROGRAM)) {
    mkdirSync(FOLDER, { recursive: true });
    await must('mcp-conformance', 'npm', ['install', '--prefix', FOLDER, '--no-save', '--ignore-scripts', PACKAGE]);
  }
  const rows = [];
  for (const scenario of Object.keys(SCENARIOS)) {
    for (const { id, description, status, errorMessage = '' } of checksOf(scenario)) {
      if (status === 'INFO') continue;
      if (status !== 'SUCCESS') process.exitCode = 1;
      if (verbose || status !== 'SUCCESS') console.log(`${status}  ${scenario}  ${id}  ${errorMessage}`);
      rows.push(`| \`${scenario}\` | ${description} | ${status === 'SUCCESS' ? 'passed' : status.toLowerCase()} |`);
    }
  }
  if (!rows.length) throw new Trouble('The conformance program reported no checks.');
  keep('reports/mcp.md', 'checks', rows, 2);
  console.log(`${rows.length} checks`);
}

await cli(async () => {
  const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
  if (scenario) return runClient(process.argv[process.argv.length - 1], SCENARIOS[scenario]);
  return runAll(parseOptions({ verbose: false }).values.verbose);
});
