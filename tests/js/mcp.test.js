/* Tests gemma-wasm/mcp with the official client and server: listing, names, schemas, calls, results, aborts and
 * progress; and tools that a page offers to a browser's agent. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client, InMemoryTransport } from '@modelcontextprotocol/client';
import { McpServer, Server } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { mcpTools, offerTools } from '../../js/mcp.js';
import { namesFor } from '../../js/mcp/names.js';
import { valueOf } from '../../js/mcp/results.js';
import { deferred } from '../../js/rpc/signals.js';
import { open, refuses, sleep, until, wrong } from './helpers.js';

/** @import { McpClient } from '../../js/mcp/tools.js' */
/** @import { McpResult } from '../../js/mcp/results.js' */

const ABOUT = { name: 'test', version: '1.0.0' };

/** @param {TestContext} t @param {McpServer | Server} server
 * @param {ConstructorParameters<typeof Client>[1]} [options] */
async function connected(t, server, options) {
  const client = new Client(ABOUT, options);
  const [near, far] = InMemoryTransport.createLinkedPair();
  await Promise.all([server.connect(far), client.connect(near)]);
  t.after(() => client.close());
  return /** @satisfies {McpClient} */ (client);
}

/** Returns a fake MCP server that lists its tools in `pages` and answers each call with `answer`.
 * @param {any[][]} pages @param {(name: string, args: any, context: any) => any} [answer] */
function rawServer(pages, answer = () => ({ content: [] })) {
  const server = new Server(ABOUT, { capabilities: { tools: { listChanged: true } } });
  server.setRequestHandler('tools/list', async ({ params }) => {
    const page = Number(params?.cursor ?? 0);
    return { tools: pages[page], ...(page + 1 < pages.length && { nextCursor: String(page + 1) }) };
  });
  server.setRequestHandler('tools/call', async ({ params }, context) => answer(params.name, params.arguments, context));
  return server;
}

const NONE = { type: 'object', additionalProperties: false };
const CONTEXT = { id: 'call_0', signal: new AbortController().signal };
/** @param {import('../../js/options.js').Tool | undefined} tool @param {any} [args] */
const run = (tool, args = {}) => tool?.execute?.(args, CONTEXT);

/** @param {{ name: string }[]} list */
const namesOf = (list) => list.map(({ name }) => name);

test('lists the tools of all pages, with valid and unique names', async (t) => {
  /** @type {any[]} */
  const called = [];
  const pages = [
    [
      { name: 'read/file', description: 'Reads', inputSchema: NONE },
      { name: 'read_file', title: 'Title', inputSchema: NONE },
    ],
    [{ name: `${'x'.repeat(80)}1`, inputSchema: NONE }],
    [
      { name: `${'x'.repeat(80)}2`, inputSchema: NONE },
      { name: 'späße 🎈', inputSchema: NONE },
    ],
  ];
  const client = await connected(
    t,
    rawServer(pages, (name) => (called.push(name), { content: [] })),
  );
  const { tools, skipped } = await mcpTools(client);
  const x = 'x'.repeat(62);
  assert.deepEqual(
    tools.map(({ name, description }) => [name, description]),
    [
      ['read_file_2', 'Reads'],
      ['read_file', 'Title'],
      [`${x}xx`, undefined],
      [`${x}_2`, undefined],
      ['sp__e__', undefined],
    ],
  );
  assert.deepEqual(skipped, []);
  for (const tool of tools) await run(tool);
  assert.deepEqual(called, namesOf(pages.flat()));
  const few = await mcpTools(client, { prefix: 'fs.', filter: ({ name }) => name.startsWith('read') });
  assert.deepEqual(namesOf(few.tools), ['fs.read_file_2', 'fs.read_file']);
  assert.deepEqual(namesFor(['', '/', 'a'], ''), ['_', '__2', 'a']);
});

test('mcpTools() reads all pages of any client, and rejects an endless list', async () => {
  let page = 0;
  const client = /** @type {McpClient} */ ({
    listTools: async ({ cursor = '0' } = {}) => {
      assert.equal(Number(cursor), page++);
      return { tools: [{ name: `t${cursor}`, inputSchema: NONE }], ...(page < 70 && { nextCursor: String(page) }) };
    },
    callTool: async () => ({}),
  });
  assert.equal((await mcpTools(client)).tools.length, 70);
  const endless = { ...client, listTools: async () => ({ tools: [], nextCursor: 'again' }) };
  await refuses(mcpTools(endless), 'bad-option', /does not end/);
});

test('mcpTools() rejects invalid arguments, and passes on errors of the client', async (t) => {
  for (const client of [null, {}, { listTools() {} }]) await refuses(mcpTools(wrong(client)), 'bad-option');
  const client = await connected(t, rawServer([[]]));
  const options = [{ prefix: 'a b' }, { unsupported: 'drop' }, { media: 'show' }, { timeout: 0 }, { names: true }];
  for (const more of options) await refuses(mcpTools(client, wrong(more)), 'bad-option');
  await refuses(mcpTools(client, { model: wrong(5) }), 'bad-option');
  const broken = new Error('gone');
  const gone = { listTools: () => Promise.reject(broken), callTool: async () => ({}) };
  await assert.rejects(mcpTools(gone), broken);
});

/** Schemas as MCP servers write them, each with the reason if it cannot constrain answers.
 * @type {[string, any, RegExp?][]} */
const SCHEMAS = [
  ['none', NONE],
  ['defs', { type: 'object', properties: { at: { $ref: '#/$defs/at' } }, $defs: { at: { enum: ['a', 'b'] } } }],
  [
    'draft7',
    {
      $schema: 'http://json-schema.org/draft-07/schema#',
      type: 'object',
      properties: { at: { $ref: '#/definitions/at' }, pair: { type: 'array', items: [{ type: 'integer' }] } },
      definitions: { at: { type: 'boolean' } },
    },
  ],
  [
    'draft2020',
    {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: { pair: { type: 'array', prefixItems: [{ type: 'string' }], items: false } },
    },
  ],
  ['tree', { type: 'object', properties: { left: { $ref: '#' }, right: { $ref: '#' } } }],
  ['remote', { type: 'object', properties: { at: { $ref: 'https://example.com/at.json' } } }, /example\.com/],
  ['unique', { type: 'object', properties: { all: { type: 'array', items: {}, uniqueItems: true } } }, /uniqueItems/],
  ['dialect', { $schema: 'https://example.com/own', type: 'object' }, /example\.com/],
  ['never', { type: 'object', properties: { x: false }, required: ['x'] }, /\S/],
];

test('if a model checks the schemas, tools whose schemas cannot be enforced are refused or skipped', async (t) => {
  const model = await open(t, 'qwen3-tools');
  const client = await connected(t, rawServer([SCHEMAS.map(([name, inputSchema]) => ({ name, inputSchema }))]));
  assert.equal((await mcpTools(client)).tools.length, SCHEMAS.length);
  const remote = /The MCP tool "remote" cannot be used\. .*example\.com.*skip/;
  await refuses(mcpTools(client, { model }), 'bad-format', remote);
  const { tools, skipped } = await mcpTools(client, { model, unsupported: 'skip' });
  const bad = SCHEMAS.filter(([, , reason]) => reason);
  assert.deepEqual(
    namesOf(skipped),
    bad.map(([name]) => name),
  );
  for (const [i, { reason }] of skipped.entries()) assert.match(reason, /** @type {RegExp} */ (bad[i][2]));
  for (const { name } of tools) {
    const options = { tools, toolChoice: { name }, maxTokens: 200, seed: 1 };
    const { finishReason, toolCalls } = await model.generate([{ role: 'user', content: 'x' }], options).result();
    assert.ok(finishReason === 'length' || toolCalls?.[0].name === name, finishReason);
  }
});

/** @type {[what: string, result: McpResult, value: unknown][]} */
const RESULTS = [
  ['text', { content: [{ type: 'text', text: '18 degrees' }] }, '18 degrees'],
  ['texts', { content: ['a', 'b'].map((text) => ({ type: 'text', text })) }, 'a\nb'],
  ['nothing', { content: [] }, ''],
  ['structure', { content: [{ type: 'text', text: '{"a":1}' }], structuredContent: { a: 1 } }, { a: 1 }],
  [
    'link',
    {
      content: [{ type: 'resource_link', uri: 'file:///a.md', name: 'a', mimeType: 'text/markdown', description: 'd' }],
    },
    'a: file:///a.md (text/markdown)\nd',
  ],
  ['resource', { content: [{ type: 'resource', resource: { uri: 'file:///a', text: 'hello' } }] }, 'file:///a:\nhello'],
  [
    'image',
    { content: [{ type: 'image', data: 'AAAA', mimeType: 'image/png' }] },
    '[image, image/png, 3 bytes: left out, because this model reads only text]',
  ],
  [
    'blob',
    { content: [{ type: 'resource', resource: { uri: 'file:///b', blob: 'AAA=', mimeType: 'x/y' } }] },
    '[resource, x/y, file:///b, 2 bytes: left out, because this model reads only text]',
  ],
];

test('results become text or JSON; failures and refused media become errors', async (t) => {
  const all = /** @type {[string, McpResult][]} */ ([
    ...RESULTS,
    ['failed', { isError: true, content: [{ type: 'text', text: 'No such city' }] }],
    ['silent', { isError: true, content: [] }],
  ]);
  const client = await connected(
    t,
    rawServer([all.map(([name]) => ({ name, inputSchema: NONE }))], (name) => {
      return all.find(([other]) => other === name)?.[1];
    }),
  );
  const { tools } = await mcpTools(client);
  const of = (/** @type {string} */ name) => run(tools.find((tool) => tool.name === name));
  for (const [name, , value] of RESULTS) assert.deepEqual(await of(name), value, name);
  await assert.rejects(async () => of('failed'), { message: 'No such city' });
  await assert.rejects(async () => of('silent'), /gave no reason/);
  const strict = (await mcpTools(client, { media: 'refuse' })).tools;
  for (const name of ['image', 'blob']) {
    await assert.rejects(async () => run(strict.find((tool) => tool.name === name)), /reads only text/);
  }
  // With quadratic time, this would take hours.
  valueOf({ content: [{ type: 'image', data: `${'='.repeat(1e7)}A` }] }, 'describe');
});

function weatherServer() {
  const server = new McpServer(ABOUT);
  server.registerTool(
    'get-weather',
    {
      description: 'Get the current weather of a city',
      inputSchema: z.object({ city: z.enum(['Paris', 'Oslo']) }),
      outputSchema: z.object({ celsius: z.number() }),
    },
    async ({ city }) => {
      const weather = { celsius: city === 'Paris' ? 18 : 4 };
      return { content: [{ type: 'text', text: JSON.stringify(weather) }], structuredContent: weather };
    },
  );
  server.registerTool('fail', { description: 'Fails', inputSchema: z.object({}) }, async () => {
    throw new Error('Out of order');
  });
  return server;
}

test('tools accept only listed arguments, unless several parts of a schema describe them', async (t) => {
  const a = { type: 'object', properties: { a: { type: 'string' } } };
  const list = [
    a,
    { type: 'object', properties: { b: a, c: { type: 'array', items: a } }, additionalProperties: true },
    { ...a, anyOf: [{ required: ['a'] }, { properties: { b: {} }, required: ['b'] }] },
    { type: 'object', properties: { b: { allOf: [a, { properties: { c: {} } }] } } },
    { type: 'object' },
  ];
  const client = await connected(t, rawServer([list.map((inputSchema, i) => ({ name: `t${i}`, inputSchema }))]));
  const closed = { ...a, additionalProperties: false };
  assert.deepEqual(
    (await mcpTools(client)).tools.map(({ parameters }) => parameters),
    [closed, { ...list[1], properties: { b: closed, c: { type: 'array', items: closed } } }, ...list.slice(2)],
  );
  assert.deepEqual(
    (await mcpTools(client, { extraArguments: true })).tools.map(({ parameters }) => parameters),
    list,
  );
});

for (const name of ['qwen3-tools', 'llama3-tools', 'functiongemma', 'generic-tools']) {
  test(`${name}: calls the tools of an MCP server in a chat`, async (t) => {
    const model = await open(t, name);
    const { tools } = await mcpTools(await connected(t, weatherServer()), { model });
    const chat = model.chat({ tools, maxTokens: 120, seed: 3, maxRounds: 1 });
    const { toolCalls } = await chat.send('Weather?', { toolChoice: { name: 'get-weather' } }).result();
    const [call] = toolCalls ?? [];
    assert.deepEqual(call.result, { celsius: call.arguments.city === 'Paris' ? 18 : 4 });
    assert.deepEqual(chat.messages.find(({ role }) => role === 'tool')?.content, call.result);
    const failed = await chat.send('And now?', { toolChoice: { name: 'fail' } }).result();
    assert.match(String(failed.toolCalls?.[0].error), /Out of order/);
    assert.deepEqual(chat.messages.findLast(({ role }) => role === 'tool')?.content, { error: 'Out of order' });
  });
}

test('an aborted answer cancels the call on the server', async (t) => {
  const model = await open(t, 'qwen3-tools');
  const called = deferred();
  const server = rawServer([[{ name: 'wait', inputSchema: NONE }]], async (_, __, { mcpReq }) => {
    called.resolve(mcpReq.signal);
    await sleep(20_000, null, { signal: mcpReq.signal }).catch(() => {});
    return { content: [] };
  });
  const { tools } = await mcpTools(await connected(t, server));
  const stop = new AbortController();
  const options = { tools, toolChoice: { name: 'wait' }, maxTokens: 60, signal: stop.signal };
  const answer = model.chat().send('Wait', options).result();
  const signal = await called.promise;
  stop.abort();
  assert.equal((await answer).finishReason, 'aborted');
  await until(() => signal.aborted, 1000);
});

test('calls time out; progress is reported and extends the time limit', async (t) => {
  const server = rawServer(
    [['slow', 'steps'].map((name) => ({ name, inputSchema: NONE }))],
    async (name, _, context) => {
      const { _meta, notify } = context.mcpReq;
      for (let progress = 1; progress <= 4; progress++) {
        await sleep(60);
        const params = { progressToken: _meta?.progressToken, progress, total: 4, message: 'Working' };
        if (name === 'steps') await notify({ method: 'notifications/progress', params });
      }
      return { content: [{ type: 'text', text: 'done' }] };
    },
  );
  /** @type {any[]} */
  const seen = [];
  const onProgress = (/** @type {any} */ progress) => seen.push(progress);
  const { tools } = await mcpTools(await connected(t, server), { timeout: 150, prefix: 'x.', onProgress });
  const [slow, steps] = tools;
  await assert.rejects(async () => run(slow), /time/i);
  assert.equal(await run(steps), 'done');
  assert.deepEqual(seen[3], { progress: 4, total: 4, message: 'Working', name: 'x.steps', id: 'call_0' });
});

test('refresh() follows a list that changes, and keeps the old one if it fails', async (t) => {
  const pages = [[{ name: 'a', inputSchema: NONE }]];
  const server = rawServer(pages);
  const notified = deferred();
  const client = await connected(t, server, { listChanged: { tools: { onChanged: notified.resolve } } });
  const all = await mcpTools(client);
  const before = all.tools;
  pages[0].push({ name: 'b', inputSchema: NONE });
  await server.sendToolListChanged();
  await notified.promise;
  await all.refresh();
  assert.deepEqual(namesOf(all.tools), ['a', 'b']);
  assert.equal(before.length, 1);
  await refuses(all.refresh({ signal: AbortSignal.abort() }), 'aborted');
  assert.equal(all.tools.length, 2);
});

test('refresh() keeps a newer list that arrived before its own', async () => {
  const late = deferred();
  const lists = [[], late.promise, [{ name: 'new', inputSchema: NONE }]];
  const client = { listTools: async () => ({ tools: await lists.shift() }), callTool: async () => ({}) };
  const all = await mcpTools(client);
  const first = all.refresh();
  await all.refresh();
  late.resolve([{ name: 'old', inputSchema: NONE }]);
  await first;
  assert.deepEqual(namesOf(all.tools), ['new']);
});

/** Simulates a browser's WebMCP with the checks of the WebMCP draft. Returns the page's tools. @param {TestContext} t
 * @param {boolean} [early] with `navigator.modelContext`, as in earlier drafts */
function browser(t, early = false) {
  /** @type {Map<string, any>} */
  const tools = new Map();
  const register = (/** @type {any} */ tool, /** @type {any} */ { signal, exposedTo } = {}) => {
    if (tools.has(tool.name) || !tool.description) throw new DOMException('no', 'InvalidStateError');
    JSON.stringify(tool.inputSchema);
    tools.set(tool.name, { ...tool, exposedTo });
    if (!early) signal?.addEventListener('abort', () => tools.delete(tool.name));
  };
  const context = early
    ? { registerTool: register, unregisterTool: (/** @type {string} */ name) => tools.delete(name) }
    : { registerTool: async (/** @type {any[]} */ ...args) => register(args[0], args[1]) };
  const place = early ? 'navigator' : 'document';
  const old = Object.getOwnPropertyDescriptor(globalThis, place);
  Object.defineProperty(globalThis, place, { value: { modelContext: context }, configurable: true });
  t.after(() => {
    if (old) Object.defineProperty(globalThis, place, old);
    else Reflect.deleteProperty(globalThis, place);
  });
  return tools;
}

/** @type {{ id: string, signal: AbortSignal }[]} */
const contexts = [];
const OFFERED = [
  {
    name: 'add',
    description: 'Adds',
    parameters: z.object({ a: z.int(), b: z.int().default(1) }),
    execute: (/** @type {any} */ { a, b }, /** @type {any} */ context) => (contexts.push(context), { sum: a + b }),
  },
  { type: /** @type {const} */ ('function'), function: { name: 'now', description: 'Time' }, execute: () => undefined },
];

for (const early of [false, true]) {
  test(`offers tools to the agent of a browser${early ? ' with an earlier draft' : ''}, and withdraws them`, async (t) => {
    const tools = browser(t, early);
    const offer = await offerTools(OFFERED, { exposedTo: ['https://example.com'] });
    assert.deepEqual([offer.supported, offer.names], [true, ['add', 'now']]);
    const { inputSchema, execute, exposedTo } = tools.get('add');
    assert.deepEqual([inputSchema.type, Object.keys(inputSchema.properties)], ['object', ['a', 'b']]);
    assert.deepEqual(exposedTo, ['https://example.com']);
    assert.deepEqual(await execute({ a: 2 }), { sum: 3 });
    assert.equal(contexts.at(-1)?.signal.aborted, false);
    await assert.rejects(execute({ a: 'two' }), /invalid/);
    assert.equal(await tools.get('now').execute(), null);
    assert.equal(tools.get('now').inputSchema.type, 'object');
    await refuses(offerTools([OFFERED[0]]), 'bad-state', /refused/);
    assert.equal(tools.size, 2);
    offer.withdraw();
    assert.deepEqual([tools.size, offer.names], [0, []]);
    const stop = new AbortController();
    await offerTools(OFFERED, { signal: stop.signal });
    stop.abort();
    assert.equal(tools.size, 0);
    assert.deepEqual((await offerTools(OFFERED, { signal: stop.signal })).names, []);
    const during = new AbortController();
    const offering = offerTools(OFFERED, { signal: during.signal });
    during.abort();
    assert.deepEqual([(await offering).names, tools.size], [[], 0]);
    // If the browser refuses one tool, offerTools() withdraws the others.
    tools.set('now', {});
    await refuses(offerTools(OFFERED), 'bad-state');
    assert.deepEqual([...tools.keys()], ['now']);
  });
}

test('parameters that are not a JSON Schema are rejected before any tool is offered', async (t) => {
  const [tool] = OFFERED;
  const parameters = { city: { type: 'string' } };
  const bad = { ...tool, name: 'weather', parameters };
  const refused = () =>
    refuses(offerTools(wrong([tool, bad])), 'bad-option', /^The parameters of weather must be .*\(only city\)/);
  await refused();
  const tools = browser(t, false);
  await refused();
  assert.equal(tools.size, 0);
  await offerTools(wrong([tool, { ...bad, parameters: { type: 'object', properties: parameters } }]));
  assert.deepEqual([...tools.keys()], ['add', 'weather']);
});

test('without WebMCP nothing is offered, and invalid tools are still rejected', async () => {
  assert.deepEqual({ ...(await offerTools(OFFERED)), withdraw: null }, { supported: false, names: [], withdraw: null });
  const [tool] = OFFERED;
  for (const list of [5, [{}], [{ ...tool, execute: undefined }], [{ ...tool, description: '' }], [tool, tool]]) {
    await refuses(offerTools(wrong(list)), 'bad-option');
  }
  await refuses(offerTools(OFFERED, wrong({ exposedTo: ['example'] })), 'bad-option');
});
