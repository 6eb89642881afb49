/* results: converts the result of an MCP tool to JSON for the model. */
import { notText, toolFailed } from './errors.js';

/** A part of a tool's result. Its other properties depend on `type`.
 * @typedef {Record<'type', string> & Record<string, any>} McpContent */
/** The result of a tool call.
 * @typedef {object} McpResult
 * @property {readonly McpContent[]} [content] Parts for people and models.
 * @property {unknown} [structuredContent] The result as JSON.
 * @property {boolean} [isError] Whether the tool failed.
 */

/** Returns the structured content of a result, or else its parts as text. Throws an Error with the text if the tool
 * failed; with `media: 'refuse'`, throws if a part is not text.
 * @param {McpResult} result @param {'describe' | 'refuse'} media */
export function valueOf({ content = [], structuredContent, isError }, media) {
  if (structuredContent !== undefined && !isError) return structuredContent;
  const text = content.map((part) => textOf(part, isError ? 'describe' : media)).join('\n');
  if (isError) throw toolFailed(text);
  return text;
}

/** @param {McpContent} part @param {'describe' | 'refuse'} media */
function textOf(part, media) {
  const { type, text, resource = {}, uri, name, title, description, mimeType } = part;
  if (type === 'text') return String(text);
  if (type === 'resource_link') {
    const label = title ?? name ?? uri;
    return `${label}: ${uri}${mimeType ? ` (${mimeType})` : ''}${description ? `\n${description}` : ''}`;
  }
  if (type === 'resource' && typeof resource.text === 'string') return `${resource.uri}:\n${resource.text}`;
  if (media === 'refuse') throw notText(type);
  const data = part.data ?? resource.blob;
  const facts = [type, mimeType ?? resource.mimeType, resource.uri, data && `${bytesOf(data)} bytes`].filter(Boolean);
  return `[${facts.join(', ')}: left out, because this model reads only text]`;
}

/** @param {string} data */
const bytesOf = (data) => Math.floor((String(data).replace(/=?=$/, '').length * 3) / 4);
