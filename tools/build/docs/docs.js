/* Searches the documents. Pagefind's index is loaded at the first key press. On small screens the table of contents is
 * collapsed. */
const field = /** @type {HTMLInputElement} */ (document.querySelector('#search'));
const list = /** @type {HTMLElement} */ (document.querySelector('#results'));
/** @type {Promise<any> | undefined} */
let pagefind;

field.addEventListener('input', async () => {
  const text = field.value;
  pagefind ??= import(new URL('./pagefind/pagefind.js', import.meta.url).href);
  const found = await (await pagefind).debouncedSearch(text, {}, 150);
  if (!found) return; // debouncedSearch() returns null if more text was typed meanwhile
  const pages = await Promise.all(found.results.slice(0, 8).map((/** @type {any} */ result) => result.data()));
  if (field.value !== text) return;
  const rows = pages.flatMap(({ meta, sub_results: parts }) =>
    parts.slice(0, 3).map((/** @type {Part} */ part) => row(meta.title, part)),
  );
  list.replaceChildren(...rows);
});

/** @typedef {{ title: string, url: string, excerpt: string }} Part */

/** @param {string} page @param {Part} part */
function row(page, { title, url, excerpt }) {
  const link = document.createElement('a');
  const text = new DOMParser().parseFromString(excerpt, 'text/html').body.textContent;
  link.href = url;
  link.append(
    title === page ? title : `${page}: ${title}`,
    Object.assign(document.createElement('small'), { textContent: text }),
  );
  const item = document.createElement('li');
  item.append(link);
  return item;
}

document.querySelector('details')?.toggleAttribute('open', matchMedia('(min-width: 60rem)').matches);
