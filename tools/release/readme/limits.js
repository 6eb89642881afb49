/** limits: builds the tables of docs/limits.md from constants in the code. */
import { readFileSync } from 'node:fs';
import { Trouble, at } from '../../support/proc.js';

/** A limit: what it limits, the file and name of its constant, its unit, and the error code or effect beyond it.
 * @typedef {[what: string, file: string, name: string, unit: string, beyond: string]} Limit */

/** @type {Record<string, Limit[]>} */
const LIMITS = {
  'Model files': [
    ['header of a file', 'src/file/gguf.h', 'GW_GGUF_MAX_HEADER', 'bytes', 'bad-count'],
    ['metadata entries', 'src/base/base.h', 'GW_MAX_METADATA', '', 'bad-count'],
    ['elements of one metadata array', 'src/file/gguf.h', 'GW_GGUF_MAX_COUNT', '', 'bad-count'],
    ['one metadata string', 'src/base/base.h', 'GW_MAX_STRING', 'bytes', 'bad-metadata'],
    ['tensors in all parts', 'src/base/base.h', 'GW_MAX_TENSORS', '', 'bad-count'],
    ['parts of a split model', 'src/base/base.h', 'GW_MAX_PARTS', '', 'bad-split'],
    ['layers', 'src/base/base.h', 'GW_MAX_LAYERS', '', 'bad-metadata'],
    ['vocabulary entries', 'src/base/base.h', 'GW_MAX_VOCAB', '', 'bad-count'],
    ['one vocabulary entry', 'src/text/vocabulary.h', 'GW_MAX_PIECE', 'bytes', 'bad-tokenizer'],
    ['all vocabulary entries', 'src/text/vocabulary.h', 'GW_MAX_PIECES_TEXT', 'bytes', 'bad-count'],
  ],
  'Memory and threads': [
    ['WebAssembly memory', 'js/engine/engine.js', 'ADDRESSES', 'bytes', 'no-memory'],
    ['context length', 'src/base/base.h', 'GW_MAX_CONTEXT', 'tokens', 'bad-option'],
    ['threads', 'src/base/base.h', 'GW_MAX_THREADS', '', 'bad-option'],
    ['one result (logits of many ids, vectors)', 'js/protocol.js', 'MAX_RESULT_BYTES', 'bytes', 'bad-option'],
  ],
  'Texts and ids': [
    [
      'characters tokenized in one step',
      'js/engine/prompt-encoder.js',
      'ENCODED_AT_ONCE',
      '',
      'the text is split; an abort is noticed between the pieces',
    ],
    ['characters in one word', 'src/text/merge_queue.h', 'GW_MAX_WORD', '', 'bad-count'],
    ['bytes of text without a word boundary', 'js/engine/prompt-encoder.js', 'MAX_REST', '', 'bad-count'],
    ['characters in all texts of a call', 'js/rpc/connection.js', 'MAX_CHARACTERS', '', 'bad-option'],
    [
      'tokens of a prompt, or of a text to embed or score',
      'js/engine/prompt-encoder.js',
      'MAX_IDS',
      '',
      'context-exceeded',
    ],
    ['tokens of any other text', 'js/engine/prompt-encoder.js', 'MAX_IDS', '', 'bad-count'],
    ['stop sequences', 'js/options.js', 'MAX_STOPS', '', 'bad-option'],
    ['token ids in one argument', 'js/model.js', 'MAX_IDS', '', 'bad-option'],
    ['`maxTokens`', 'js/options.js', 'MAX_TOKENS', 'tokens', 'bad-option'],
  ],
  'Chat templates': [
    ['time to render a prompt', 'js/engine/interpreter.js', 'milliseconds', 'ms', 'template-error'],
    [
      'size of a value: its characters plus 8 for each item, nested ones included',
      'js/engine/interpreter.js',
      "'characters of text'",
      '',
      'template-error',
    ],
    ['characters in a template', 'js/engine/interpreter.js', "'characters of template'", '', 'template-error'],
  ],
  'Constrained answers': [
    ['length of a format', 'js/grammar/index.js', 'MOST_TEXT', 'characters', 'format-too-complex'],
    ['steps to compile a format', 'js/grammar/refusal.js', 'MOST_STEPS', '', 'format-too-complex'],
    ['automaton states at one place in an answer', 'src/text/states.h', 'GW_MOST_ITEMS', '', 'bad-format'],
    ['steps to compute a mask', 'src/text/states.h', 'GW_MOST_WORK', '', 'bad-format'],
    ['DFA cache', 'src/text/states.h', 'GW_STATES_WORDS', 'words', 'unused states are removed'],
  ],
  'Saved chats': [
    [
      'all saved chats (default of `chatCacheBytes`)',
      'js/engine/host.js',
      'CHAT_CACHE_BYTES',
      'bytes',
      'the least recently used chats are deleted',
    ],
    ['messages of a saved chat, as JSON', 'js/saved.js', 'MAX_JSON', 'bytes', 'bad-saved'],
    ['name of a saved chat', 'js/chat-cache.js', 'MAX_NAME', 'characters', 'bad-option'],
    ['time for one read or write in the store', 'js/download/chat-cache.js', 'PATIENCE_MS', 'ms', 'cache-failed'],
  ],
  Downloads: [
    ['time without data', 'js/download/http.js', 'stallMs', 'ms', 'the connection is retried'],
    ['stalls per file', 'js/download/http.js', 'attempts', 'plus 1 per 16 MiB received', 'truncated'],
    ['consecutive failed requests', 'js/download/http.js', 'attempts', '', 'network-error'],
    ['failed requests before the first response', 'js/download/download.js', 'FIRST_ATTEMPTS', '', 'network-error'],
    ['`Retry-After` of a server', 'js/download/http.js', 'longestMs', 'ms', 'http-error'],
    ['redirects', 'js/download/http.js', 'MAX_REDIRECTS', '', 'http-error'],
  ],
};

/** Returns the value of a constant in a source file: a number or an arithmetic expression of numbers.
 * @param {string} file @param {string} name */
export function valueOf(file, name) {
  const text = readFileSync(at(file), 'utf8');
  const quoted = name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const [, given] = new RegExp(`(?:^|[\\s{,])${quoted}\\s*[=:]\\s*([-+*/ \\d_<.e()]+?)\\s*[,;}\\n]`).exec(text) ?? [];
  if (!given) throw new Trouble(`${file} has no constant ${name} with a number.`);
  return Number(Function(`return ${given}`)());
}

/** @param {number} n @param {string} unit @returns {string} */
function shown(n, unit) {
  if (unit === 'ms' && n >= 1000) return `${n / 1000} s`;
  if (unit === 'words') return shown(4 * n, 'bytes');
  if (unit === 'bytes' && n >= 2 ** 20) return `${+(n / 2 ** 20).toFixed(1)} MiB`;
  return `${n.toLocaleString('en')} ${unit}`.trim();
}

/** Returns a section with a table for each group of limits. Throws a Trouble if a constant is missing. */
export function limits() {
  return Object.entries(LIMITS)
    .map(([title, rows]) => {
      const lines = rows.map(([what, file, name, unit, beyond]) => {
        const last = beyond.includes(' ') ? beyond : `\`${beyond}\``;
        return `| ${what} | ${shown(valueOf(file, name), unit)} | ${last} |`;
      });
      return `### ${title}\n\n| what | maximum | beyond it |\n|---|---|---|\n${lines.join('\n')}`;
    })
    .join('\n\n');
}
