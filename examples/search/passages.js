/* passages: cuts texts into passages for search: paragraphs, joined up to a few hundred characters, with the Markdown
 * heading above them as title. */

const MOST = 700;

/** Returns the passages of a text. @param {string} text @param {string} name of the file
 * @returns {{ title: string, text: string }[]} */
export function passagesOf(text, name) {
  /** @type {{ title: string, text: string }[]} */
  const passages = [];
  let title = name;
  let held = '';
  const put = () => {
    if (held.trim()) passages.push({ title, text: held.trim() });
    held = '';
  };
  for (const paragraph of text.replace(/\r\n?/g, '\n').split(/\n\s*\n/)) {
    const heading = /^#{1,6}\s+(.+)$/m.exec(paragraph);
    if (heading) {
      put();
      title = `${name}: ${heading[1].trim()}`;
    }
    for (const piece of pieces(paragraph)) {
      if (held.length + piece.length > MOST) put();
      held += `${held ? '\n\n' : ''}${piece}`;
    }
  }
  put();
  return passages;
}

/** Splits a paragraph that is too long for a passage into groups of sentences. @param {string} paragraph */
function pieces(paragraph) {
  if (paragraph.length <= MOST) return [paragraph];
  const sentences = paragraph.match(/[^.!?]*(?:[.!?]+|$)\s*/g) ?? [];
  const out = [''];
  for (const sentence of sentences.flatMap(cut)) {
    if ((out.at(-1) + sentence).length > MOST) out.push('');
    out[out.length - 1] += sentence;
  }
  return out.filter(Boolean);
}

/** @param {string} text */
const cut = (text) =>
  Array.from({ length: Math.ceil(text.length / MOST) }, (_, i) => text.slice(i * MOST, (i + 1) * MOST));
