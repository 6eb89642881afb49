/* gemma-wasm/mcp: tools of MCP servers for models, and a page's tools for the browser's agent (WebMCP). */
export { mcpTools, McpTools } from './mcp/tools.js';
export { offerTools } from './mcp/offer.js';
export { ModelError } from './errors.js';
