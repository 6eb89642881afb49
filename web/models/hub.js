/**
 * hub: lists the GGUF files of a repository on Hugging Face, with their sizes and whether this device is likely to hold
 * them. Requests the list only when the user asks for it.
 * @module
 */
import { action, announce, box, button, el, input } from '../shell/dom.js';
import { PageError } from '../shell/errors.js';
import { bytes } from '../shell/format.js';
import { addLater, t } from '../shell/language.js';
import { latest } from '../shell/store.js';
import { showTrouble } from './chooser.js';
import { tooLarge } from './preflight.js';
import { memoryOf } from './presets.js';
import { modelRow } from './rows.js';

/** @typedef {{ file: string, bytes: number }} HubFile */

/** Maximum number of pages of a repository's list of files, each with up to 1000 files. */
const PAGES = 20;

/** Returns the GGUF files of a repository. The parts of a split model are one row, under the name of the first part.
 * @param {{ type: string, path: string, size: number }[]} tree @returns {HubFile[]} */
function modelsIn(tree) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const { type, path, size } of tree) {
    if (type !== 'file' || !/\.gguf$/i.test(path) || /mmproj/i.test(path)) continue;
    const first = path.replace(/-\d{5}(-of-\d{5}\.gguf)$/i, '-00001$1');
    found.set(first, (found.get(first) ?? 0) + size);
  }
  return [...found].map(([file, size]) => ({ file, bytes: size })).sort((a, b) => a.bytes - b.bytes);
}

/** Returns what to do if the list cannot be read. @param {number} status of the response, 0 if there was none */
function adviceFor(status) {
  if ([401, 404].includes(status)) return 'hub.unknown';
  if (status === 429) return 'error.http-429.do';
  return status >= 500 ? 'error.http-5xx.do' : 'panel.failed.do';
}

/** @param {string} repo @param {string} revision */
async function filesOf(repo, revision) {
  let address = `https://huggingface.co/api/models/${repo}/tree/${encodeURIComponent(revision)}?recursive=true`;
  const tree = [];
  for (let page = 0; address && page < PAGES; page++) {
    const answer = await fetch(address, { credentials: 'omit' }).catch(() => null);
    // A network's sign-in page also has status 200, but is not JSON.
    const files = answer?.ok ? await answer.json().catch(() => null) : null;
    if (!answer || !Array.isArray(files)) throw new PageError('hub.failed', {}, adviceFor(answer?.status ?? 0));
    tree.push(...files);
    address = /<([^>]+)>; *rel="next"/.exec(answer.headers.get('link') ?? '')?.[1] ?? '';
  }
  return modelsIn(tree);
}

/** Returns the repository in the form; `revision` is '' for the default. Throws a PageError if the name is
 * incomplete. */
export function repository() {
  const [repo, revision] = ['hub-repo', 'hub-revision'].map((id) => input(id).value.trim());
  if (!/^[\w.-]+\/[\w.-]+$/.test(repo)) throw new PageError('hub.incomplete');
  return { repo, revision };
}

/** Connects the form that lists the files of a repository. Called once. @param {(file: HubFile) => void} choose */
export function setUpHub(choose) {
  const list = box('hub-files');
  const newest = latest();
  const clear = () => {
    list.replaceChildren();
    return newest();
  };
  for (const id of ['hub-repo', 'hub-revision']) input(id).addEventListener('input', clear);
  button('hub-list').addEventListener('click', async () => {
    const isLatest = clear();
    showTrouble(null);
    try {
      const { repo, revision } = repository();
      const [files] = await Promise.all([filesOf(repo, revision || 'main'), addLater()]);
      if (!isLatest()) return; // the fields name another repository now
      list.replaceChildren(...files.map((file) => row(file, memoryOf({ ...file, repo, revision }), choose)));
      if (!files.length) list.replaceChildren(el('li', t('hub.empty')));
      announce(t('files', { n: files.length }));
    } catch (error) {
      if (isLatest()) showTrouble(error);
    }
  });
}

/** @param {HubFile} file @param {number} memory @param {(file: HubFile) => void} choose */
function row(file, memory, choose) {
  const start = action(t('download.size', { size: bytes(file.bytes) }), () => choose(file));
  return modelRow({ name: file.file, lines: [], size: '', buttons: [start], tag: tooLarge(memory) });
}
