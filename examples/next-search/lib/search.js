/* Searches texts with one model and one index for all requests. */
import { readFile, readdir } from 'node:fs/promises';
import { loadModel } from 'gemma-wasm';
import { openIndex } from 'gemma-wasm/search';

const MODEL = { repo: 'ggml-org/embeddinggemma-300M-GGUF', file: 'embeddinggemma-300M-Q8_0.gguf' };
const DIMENSIONS = 256;

/** The state is in the global object, because Next evaluates this module again after each change during development. */
const state = (globalThis.searchState ??= { preparing: 'Starting' });

async function passages() {
  const names = (await readdir('texts')).filter((name) => name.endsWith('.md'));
  const files = await Promise.all(
    names.map(async (file) =>
      (await readFile(`texts/${file}`, 'utf8'))
        .split(/\n\s*\n/)
        .filter((text) => text.trim() && !text.startsWith('#'))
        .map((text, i) => ({ id: `${file}#${i}`, data: { file, text } })),
    ),
  );
  return files.flat();
}

async function open() {
  const model = await loadModel(MODEL, {
    restart: true,
    onProgress({ loaded, total }) {
      state.preparing = `Loading the model: ${Math.round((100 * loaded) / total) || 0} %`;
    },
  });
  try {
    return { model, index: await openedIndex(model) };
  } catch (error) {
    await model.dispose();
    throw error;
  }
}

/** Opens the index, and embeds passages that changed since it was last used. */
async function openedIndex(model) {
  const index = await openIndex({ dimensions: DIMENSIONS, folder: '.index' });
  const items = await passages();
  const ids = new Set(items.map(({ id }) => id));
  await index.delete(index.list().flatMap(({ id }) => (ids.has(id) ? [] : [id])));
  const changed = items.filter(({ id, data }) => index.get(id)?.data.text !== data.text);
  for (const [i, item] of changed.entries()) {
    state.preparing = `Indexing: ${i} of ${changed.length} passages`;
    const vector = await model.embed(item.data.text, { task: 'document', dimensions: DIMENSIONS, truncate: true });
    await index.add({ ...item, vector });
  }
  return index;
}

/**
 * Returns the nearest passages as `{ hits }`, or `{ preparing }` with a status text until the index is ready. Throws if
 * the preparation failed; the next call then starts it again.
 */
export async function search(query, signal) {
  state.opening ??= open().then(
    (ready) => Object.assign(state, { ready }),
    (error) => Object.assign(state, { error }),
  );
  await Promise.race([state.opening, new Promise((resolve) => setTimeout(resolve, 200))]);
  if (state.error) {
    const { error } = state;
    Object.assign(state, { error: undefined, opening: undefined, preparing: 'Starting' });
    throw error;
  }
  if (!state.ready) return { preparing: state.preparing };
  const { model, index } = state.ready;
  const vector = await model.embed(query, { task: 'query', dimensions: DIMENSIONS, truncate: true, signal });
  return { hits: index.query(vector, { count: 5 }).map(({ id, score, data }) => ({ id, score, ...data })) };
}
