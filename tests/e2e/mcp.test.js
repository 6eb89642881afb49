/* Tests gemma-wasm/mcp of the published package in Chromium: a model calls the tools of an MCP server in the page, and
 * the page registers its tools with the browser's WebMCP. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { testModel } from '../js/models.js';
import { launch, openTab, pageFolder, root, serveFor } from './helpers.js';

const SDK = `export { Client, InMemoryTransport } from '@modelcontextprotocol/client';
export { McpServer } from '@modelcontextprotocol/server';
export { z } from 'zod';`;

/** @param {string} folder */
async function bundleSdk(folder) {
  const { build } = await import('esbuild');
  await build({
    stdin: { contents: SDK, resolveDir: root },
    outfile: path.join(folder, 'sdk.js'),
    bundle: true,
    format: 'esm',
    platform: 'browser',
    target: ['es2022'],
  });
}

test('in a page, a model calls tools of an MCP server, and WebMCP registers the tools of the page', async (t) => {
  const folder = pageFolder(t);
  await bundleSdk(folder);
  const model = await testModel('generic-tools');
  const server = await serveFor(t, { root, mounts: { '/sdk/': folder, '/models/': path.dirname(model) } });
  const browser = await launch('chromium', { args: ['--enable-features=WebMCP'] });
  t.after(() => browser.close());
  // Expected console errors: zod (a schema library) tries to compile its checks, which the page's content security
  // policy forbids.
  const tab = await openTab(browser, `${server.url}sdk/index.html`, {
    expected: /favicon|404|policy: script-src eval/,
  });
  const source = `${server.url}models/${path.basename(model)}`;

  const [call] = await tab.page.evaluate(
    async (given) => {
      const [sdk, { mcpTools }, { loadModel }] = await Promise.all(
        ['sdk/sdk.js', 'dist/mcp.js', 'dist/index.js'].map((name) => import(given.url + name)),
      );
      const shop = new sdk.McpServer({ name: 'shop', version: '1.0.0' });
      const inputSchema = sdk.z.object({ product: sdk.z.enum(['cup', 'kettle']) });
      shop.registerTool('stock', { description: 'Tells the stock', inputSchema }, async (/** @type {any} */ args) => {
        return { content: [{ type: 'text', text: `4 of ${args.product}` }] };
      });
      const client = new sdk.Client({ name: 'page', version: '1.0.0' });
      const [near, far] = sdk.InMemoryTransport.createLinkedPair();
      await Promise.all([shop.connect(far), client.connect(near)]);
      const engine = await loadModel(given.source, { threads: 1, cache: false });
      const { tools } = await mcpTools(client, { model: engine });
      const options = { tools, toolChoice: { name: 'stock' }, maxTokens: 100, maxRounds: 1, seed: 1 };
      const { toolCalls } = await engine.chat().send('Stock?', options).result();
      await engine.dispose();
      return toolCalls;
    },
    { url: server.url, source },
  );
  assert.equal(call.result, `4 of ${call.arguments.product}`);

  const has = await tab.page.evaluate(() => 'modelContext' in document);
  if (!has) return t.skip(`${await browser.version()} has no WebMCP`);
  const seen = await tab.page.evaluate(async (url) => {
    const { offerTools } = await import(`${url}dist/mcp.js`);
    const context = /** @type {any} */ (document).modelContext;
    const names = async () => (await context.getTools()).map((/** @type {any} */ tool) => tool.name);
    const integer = { type: 'integer' };
    const add = {
      name: 'add',
      description: 'Adds',
      parameters: { type: 'object', properties: { a: integer, b: integer }, required: ['a', 'b'] },
      execute: (/** @type {any} */ { a, b }) => ({ sum: a + b }),
    };
    const offer = await offerTools([add, { ...add, name: 'add.again' }]);
    const offered = await names();
    const [tool] = await context.getTools();
    const result = await context.executeTool(tool, { a: 2, b: 3 });
    const refused = await offerTools([{ ...add, name: 'other' }, add]).catch((/** @type {any} */ error) => error.code);
    const after = await names();
    offer.withdraw();
    return { supported: offer.supported, offered, result, refused, after, left: await names() };
  }, server.url);
  const offered = ['add', 'add.again'];
  assert.deepEqual(seen, {
    supported: true,
    offered,
    result: JSON.stringify({ sum: 5 }),
    refused: 'bad-state',
    after: offered,
    left: [],
  });
  await tab.close();
});
