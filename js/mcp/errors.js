/* errors: the errors of tools of MCP servers, and of tools for the browser's agent. */
import { ModelError, failure, show } from '../errors.js';

/** @param {number} count */
export const endlessList = (count) =>
  new ModelError(
    'bad-option',
    `The list of the MCP server's tools does not end after ${count} tools. Use another server.`,
  );

/** @param {string} got name @param {string} reason a sentence */
export const unusable = (got, reason) =>
  new ModelError(
    'bad-format',
    `The MCP tool ${show(got)} cannot be used. ${reason.replace(/\.$/, '')}.` +
      " Pass `unsupported: 'skip'` to leave out such tools.",
    { got },
  );

/** A reason for unusable(). */
export const listedTwice = () => 'The server lists two tools with this name.';

/** Reason for unusable(). @param {unknown} got the schema */
export const schemaIsNoObject = (got) => `Its schema must be an object (got ${show(got)}).`;

// Errors of tool calls, which the model reads

/** @param {string} text of the server */
export const toolFailed = (text) => new Error(text || 'The tool failed and gave no reason. Use another one.');

/** @param {string} type */
export const notText = (type) =>
  new Error(`The tool returned content of the type ${type}, and this model reads only text. Use another tool.`);

// Errors of tools for the browser's agent

/** @param {unknown} cause */
export const toolRefused = (cause) =>
  failure('bad-state', 'The browser refused a tool, so none is offered', cause, 'Change the tool, or leave it out.');

/** @param {string} name @param {string} fault a clause */
export const badParameters = (name, fault) =>
  new ModelError('bad-option', `The parameters of ${name} must be a JSON Schema: ${fault}.`);
