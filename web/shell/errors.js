/**
 * errors: a sentence and advice for each code of ModelError. The raw details are one click away.
 * @module
 */
import { el } from './dom.js';

/** An error of the page itself. */
export class PageError extends Error {
  /** @param {string} title @param {string} advice */
  constructor(title, advice) {
    super(title);
    this.title = title;
    this.advice = advice;
  }
}

const DAMAGED = 'Download the file again, or take it from another source. If it fails again, the file itself is wrong.';
const NOT_OURS = 'Pick a text model of the Gemma, Llama, Qwen3 or GPT-2 family, for example one from the list.';

/** @type {Record<string, [title: string, advice: string]>} */
const WORDS = {
  'bad-magic': [
    'This is not a GGUF file.',
    'Models are files whose names end in .gguf. An address should lead to the file itself, not to a web page ' +
      'about it.',
  ],
  'bad-version': [
    'This GGUF file is of a version that cannot be read.',
    'Versions 2 and 3 work. Look for a newer conversion of the model.',
  ],
  truncated: ['The file ends too early.', 'It was probably not downloaded to its end. Download it again.'],
  'bad-count': ['The file is damaged: it claims impossible sizes.', DAMAGED],
  'bad-metadata': ['The file is damaged: a setting in it makes no sense.', DAMAGED],
  'missing-key': ['The file lacks a setting that its model needs.', NOT_OURS],
  'unsupported-architecture': ['This page cannot run models of this kind.', NOT_OURS],
  'unsupported-type': [
    'The weights are stored in a format that cannot be read yet.',
    'Take another file of the same model: Q4_0, Q4_K_M, Q8_0 and BF16 all work.',
  ],
  'bad-shape': ['The file contradicts itself: a tensor has the wrong shape.', DAMAGED],
  'tensor-range': ['The file contradicts itself: a tensor lies outside it.', DAMAGED],
  'missing-tensor': [
    'A part of the model is missing from the file.',
    'If the model comes in several files, choose all of them together. Otherwise take another conversion.',
  ],
  duplicate: ['The file is damaged: something is in it twice.', DAMAGED],
  'missing-tokenizer': ['The file holds no vocabulary.', 'It is not a complete model. Take another conversion of it.'],
  'bad-tokenizer': ['The vocabulary in the file contradicts itself.', DAMAGED],
  'no-memory': [
    'There is not enough memory for this model.',
    'Set a shorter context length under “Loading options”, pick a smaller model, or close other ' +
      'tabs and programs.',
  ],
  'context-exceeded': [
    'The conversation no longer fits into the context.',
    'Start a new chat, shorten your message, or load the model again with a longer context.',
  ],
  'bad-option': ['A setting has a value that does not work.', 'Correct it in the settings and try again.'],
  'bad-token': ['Something went wrong inside the engine.', 'Try again, or start a new chat.'],
  'bad-state': ['Something went wrong inside the engine.', 'Try again, or load the model once more.'],
  aborted: ['Cancelled.', ''],
  'bad-split': [
    'These files are not the parts of one model.',
    'Give all parts of it, and no others: their names end in “-00001-of-00003.gguf” and so on.',
  ],
  'source-changed': [
    'The file on the server changed while it was being downloaded.',
    'Nothing of the old file is kept. Start again to get the new one.',
  ],
  'cache-failed': [
    'The models on this device cannot be read or changed.',
    'Another tab may be using them: close it and try again.',
  ],
  'unsupported-source': [
    'This cannot be read as a model.',
    'Give a .gguf file, its address, or a Hugging Face repository and file name.',
  ],
  'unsupported-variant': ['This browser cannot run the engine that was asked for.', 'Leave the choice to the page.'],
  'unsupported-platform': [
    'This browser cannot run the engine.',
    'It needs WebAssembly with SIMD, and workers: any Chrome, Edge, Firefox or Safari of the ' +
      'last years has them. Update the browser.',
  ],
  'engine-missing': [
    'The engine could not be loaded.',
    'Reload the page. If you host this page yourself, check that the .wasm and .js files lie beside it.',
  ],
  'network-error': [
    'The server could not be reached.',
    'Check your connection and the address. If both are right, the server may not allow other ' +
      'sites to read the file (CORS): download it yourself and drop it here.',
  ],
  'http-error': ['The server did not give the file.', 'Check the address and try again.'],
  'read-error': [
    'Reading the file failed before its end.',
    'For a file on disk: has it been moved or changed? For a download: the connection may have ' +
      'dropped. Try again.',
  ],
  'sha256-mismatch': [
    'The file is not the one it should be.',
    'It was damaged on the way, or replaced on the server. Try again. “From a web address” loads a file ' +
      'without this check.',
  ],
  'no-chat-template': [
    'This model is not made for chat.',
    'Pick an instruction-tuned model; their names often end in “-it”.',
  ],
  'not-generative': [
    'This model makes vectors of texts and cannot answer.',
    'Pick a model that writes, for example one from the list.',
  ],
  'template-error': [
    'The model’s chat template refused the conversation.',
    'Start a new chat. If it happens again, the model file is at fault.',
  ],
  disposed: ['The model is no longer loaded.', 'Load it again.'],
  'worker-failed': [
    'The engine stopped working.',
    'It may have run out of memory. Load the model again, with a shorter context or a smaller model.',
  ],
};

/** By the status of an HTTP response. @type {Record<number, [string, string]>} */
const HTTP = {
  401: [
    'The server wants to know who you are.',
    'A gated or private model on Hugging Face needs an access token. A repository that does not exist ' +
      'looks the same, so check its name too.',
  ],
  403: [
    'You are not allowed to read this file.',
    'Accept the model’s licence on its Hugging Face page and give an access token of the same account.',
  ],
  404: [
    'There is no such file on the server.',
    'Check the spelling of repository, file and address; upper and lower case count.',
  ],
  429: ['The server says: too many requests.', 'Wait a few minutes, then try again.'],
};

/** @param {unknown} error @returns {string} the stable code, or '' */
export function codeOf(error) {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

/** Returns the HTTP status of an error; 0: it has none. @param {any} error */
export function statusOf(error) {
  if (codeOf(error) !== 'http-error') return 0;
  return Number(/\b([45]\d\d)\b/.exec(`${error.got} ${error.message}`)?.[1] ?? 0);
}

/** @param {Error} error */
function httpWords(error) {
  const status = statusOf(error);
  if (HTTP[status]) return HTTP[status];
  if (status < 500) return WORDS['http-error'];
  return ['The server has a problem.', 'Try again later.'];
}

const OFFLINE = [
  'This device is offline.',
  'Connect to a network and try again. Models under “On this device” work without one.',
];

/** @param {unknown} error @returns {{ title: string, advice: string }} */
export function explain(error) {
  if (error instanceof PageError) return { title: error.title, advice: error.advice };
  const code = codeOf(error);
  if (code === 'network-error' && !navigator.onLine) return { title: OFFLINE[0], advice: OFFLINE[1] };
  const [title, advice] =
    code === 'http-error' && error instanceof Error
      ? httpWords(error)
      : (WORDS[code] ?? ['Something went wrong that the page did not expect.', 'Try again, or reload the page.']);
  return { title, advice };
}

/** @param {unknown} error */
function rawDetails(error) {
  if (!(error instanceof Error)) return String(error);
  const code = codeOf(error);
  const lines = [code ? `${code}: ${error.message}` : `${error.name}: ${error.message}`];
  if (error.cause) lines.push(`cause: ${error.cause}`);
  return lines.join('\n');
}

/** Shows an error. @param {unknown} error
 * @param {{ about?: string, buttons?: HTMLButtonElement[] }} [more]   about: what has failed */
export function errorBox(error, { about = '', buttons = [] } = {}) {
  const { title, advice } = explain(error);
  const place = el(
    'div.error',
    { role: 'alert' },
    ...(about ? [el('p.about', about)] : []),
    el('strong', title),
    el('p', advice),
  );
  if (!(error instanceof PageError)) {
    const raw = el('pre', rawDetails(error));
    place.append(el('details', el('summary', 'Details'), raw));
  }
  place.append(...buttons);
  return place;
}
