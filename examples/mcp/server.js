/* An MCP server with one tool, on standard input and output. Any MCP client can start it. */
import { McpServer } from '@modelcontextprotocol/server';
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const STOCK = { kettle: 4, teapot: 0, cup: 120 };

const server = new McpServer({ name: 'shop', version: '1.0.0' });
server.registerTool(
  'stock',
  {
    description: 'Tells how many pieces of a product are in stock.',
    inputSchema: z.object({ product: z.enum(Object.keys(STOCK)) }),
    outputSchema: z.object({ pieces: z.int() }),
  },
  async ({ product }) => {
    const structuredContent = { pieces: STOCK[product] };
    return { content: [{ type: 'text', text: JSON.stringify(structuredContent) }], structuredContent };
  },
);
await server.connect(new StdioServerTransport());
