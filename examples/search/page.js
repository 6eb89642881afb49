/* page: an example of gemma-wasm/search. It cuts files into passages, embeds these, and shows the passages nearest to a
 * question while it is typed. The index is stored, so texts are not embedded again at the next visit. */
import { ModelError, loadModel } from '../../dist/index.js';
import { openIndex } from '../../dist/search.js';
import { DIMENSIONS, Texts, vectorsBy } from './texts.js';

const MODEL = { repo: 'ggml-org/embeddinggemma-300M-GGUF', file: 'embeddinggemma-300M-Q8_0.gguf' };
const STORYTELLER = '../../models/storyteller/storyteller.gguf';

/** @param {string} id @returns {any} */
const at = (id) => document.getElementById(id);
const say = (/** @type {string} */ text) => {
  at('state').textContent = text;
};
const index = await openIndex({ dimensions: DIMENSIONS, name: 'example' }).catch(() => {
  say('This browser stores nothing for this page, so the index is in memory only.');
  return openIndex({ dimensions: DIMENSIONS });
});
const texts = new Texts(index);
/** @type {any} */ let model = null;
let asked = new AbortController();
let telling = false;

function showCount() {
  at('count').textContent = texts.size ? `${texts.size} passages in the index.` : 'The index is empty.';
  at('clear').disabled = !texts.size;
  at('query').disabled = !model || !texts.size;
  at('tell').disabled = telling || !at('hits').children.length;
}

/** Runs `f` and shows its error if it fails. @param {() => Promise<unknown>} f */
async function guarded(f) {
  try {
    await f();
  } catch (error) {
    if (error instanceof ModelError && error.code === 'aborted') return;
    say(error instanceof Error ? error.message : String(error));
  } finally {
    at('progress').hidden = true;
    showCount();
  }
}

/** @param {number} done @param {number} [total] */
function showProgress(done, total) {
  at('progress').hidden = false;
  if (total) Object.assign(at('progress'), { value: done, max: total });
}

/** @param {any} source */
const take = (source) =>
  guarded(async () => {
    say('Loading the model …');
    const loaded = await loadModel(source, { onProgress: ({ loaded: done, total }) => showProgress(done, total) });
    if (!loaded.info.embedding) {
      await loaded.dispose();
      return say('This model generates text. Load an embedding model instead.');
    }
    await model?.dispose();
    model = loaded;
    texts.by = vectorsBy(model);
    say(`${model.info.name || 'The model'} is ready.`);
  });

/** @param {Iterable<File>} files */
const addFiles = (files) =>
  guarded(async () => {
    if (!model) return say('Load a model first.');
    for (const file of files) {
      const passages = await texts.add(file.name, await file.text(), {
        onProgress: (done, total) => {
          say(`${file.name}: ${done} of ${total} passages`);
          showProgress(done, total);
        },
      });
      say(`${file.name}: ${passages} passages.`);
    }
  });

/** Searches for the text of the query field, and cancels the previous search. */
const search = () =>
  guarded(async () => {
    asked.abort();
    asked = new AbortController();
    const text = at('query').value.trim();
    if (!text) return at('hits').replaceChildren();
    at('hits').replaceChildren(
      ...(await texts.nearest(text, asked.signal)).map((found) => {
        const item = document.createElement('li');
        const passage = document.createElement('p');
        const from = document.createElement('small');
        passage.textContent = found.text;
        from.textContent = `${found.title} (${found.score.toFixed(2)})`;
        item.append(passage, from);
        return item;
      }),
    );
  });

async function tell() {
  telling = true;
  await guarded(async () => {
    showCount();
    at('story').textContent = '';
    const passages = [...at('hits').querySelectorAll('p')].slice(0, 2).map((p) => p.textContent.slice(0, 300));
    const storyteller = await loadModel(new URL(STORYTELLER, document.baseURI), { onProgress: () => showProgress(0) });
    try {
      const prompt = `${passages.join('\n')}\n`;
      for await (const piece of storyteller.generate(prompt, { maxTokens: 120, temperature: 0.7, topK: 40 })) {
        at('story').textContent += piece;
      }
    } finally {
      await storyteller.dispose();
    }
  });
  telling = false;
  showCount();
}

at('download').onclick = () => take(MODEL);
at('model').onchange = () => at('model').files[0] && take(at('model').files[0]);
at('files').onchange = () => addFiles(at('files').files);
at('query').oninput = search;
at('tell').onclick = tell;
at('clear').onclick = () =>
  guarded(async () => {
    await texts.clear();
    at('hits').replaceChildren();
  });
at('drop').ondragover = (/** @type {DragEvent} */ event) => event.preventDefault();
at('drop').ondragenter = () => at('drop').classList.add('over');
at('drop').ondragleave = () => at('drop').classList.remove('over');
at('drop').ondrop = (/** @type {DragEvent} */ event) => {
  event.preventDefault();
  at('drop').classList.remove('over');
  addFiles(event.dataTransfer?.files ?? []);
};
showCount();
