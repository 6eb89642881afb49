/**
 * Texts to compare tokenizers on: random Unicode, languages, code, emoji with joiners, white space, HTML, repeated
 * characters, slices of given books, random concatenations of given strings. The same arguments give the same texts.
 * None contains U+2581 (where tokenizers disagree by design) or the name of a control token.
 */
import { randoms } from '../support/random.js';

const SENTENCES = [
  "The quick brown fox jumps over the lazy dog, doesn't it?",
  "I can't believe it's already 2026!",
  'Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.',
  'Où est-ce que vous habitez ? À Besançon, près du fleuve.',
  'El veloz murciélago hindú comía feliz cardillo y kiwi; ¿no?',
  'O próximo vôo não sairá amanhã de manhã, avó.',
  'Perché la gente è così gentile laggiù?',
  'Pójdź, kińże tę chmurność w głąb flaszy!',
  'Příliš žluťoučký kůň úpěl ďábelské ódy.',
  'Съешь же ещё этих мягких французских булок, да выпей чаю.',
  'Жебракують філософи при ґанку церкви в Гадячі.',
  'Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.',
  'נצחיות היא דבר מוזר לחשוב עליו.',
  'هذا نص قصير باللغة العربية، أليس كذلك؟',
  'این یک جملهٔ فارسی است که می‌خوانیم.',
  'यह हिन्दी में लिखा हुआ एक छोटा वाक्य है।',
  'এটি একটি ছোট বাংলা বাক্য।',
  'இது ஒரு சிறிய தமிழ் வாக்கியம்.',
  'ఇది ఒక చిన్న తెలుగు వాక్యం.',
  'ഇതൊരു ചെറിയ മലയാളം വാക്യമാണ്.',
  'นี่คือประโยคภาษาไทยสั้นๆ ที่ไม่มีช่องว่าง',
  'ນີ້ແມ່ນປະໂຫຍກພາສາລາວ',
  'ဤသည်မှာ မြန်မာစာကြောင်း ဖြစ်သည်။',
  'នេះជាប្រយោគខ្មែរខ្លីមួយ',
  '我今天去图书馆借了三本书,然后回家做饭。',
  '這是一個繁體中文的句子,包含標點符號。',
  '吾輩は猫である。名前はまだ無い。カタカナとひらがな。',
  '오늘 날씨가 참 좋네요. 산책하러 갈까요?',
  'Hôm nay trời đẹp quá, chúng ta đi dạo nhé?',
  'Selamat pagi, apa kabar hari ini?',
  "İstanbul'da yağmur yağıyor, şemsiyeni al ığdır.",
  'Kæmi ný öxi hér, ykist þjófum nú bæði víl og ádrepa.',
  'Törkylempijävongahdus ja yö.',
  'Árvíztűrő tükörfúrógép.',
  'Gheorghe, obezul, a reuşit să obţină jucându-se.',
  'Би монгол хэлээр бичиж байна.',
  'ეს არის მოკლე ქართული წინადადება.',
  'Սա հայերեն կարճ նախադասություն է։',
  'ይህ አጭር የአማርኛ ዓረፍተ ነገር ነው።',
  'Ìjẹ̀bú ní ọ̀rọ̀ púpọ̀.',
  'ᎣᏏᏲ ᏙᎯᏧ',
  'བོད་ཡིག་གི་ཚིག་གྲུབ།',
  'Z̸a̵l̷g̶o̴ ț̵̛e̶̋͜x̷̱̅t̴̰͝',
  '∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, α∧¬β ≡ ¬(¬α∨β), ∑ᵢ₌₁ⁿ i² ≤ ∫₀^∞ e^{-t} dt',
  'ﬁne ﬂow ½ ℌ ① ㎏ Ａｂｃ ｶﾞ',
];

const CODE = [
  'for (let i = 0; i < n; i++) {\n  sum += a[i] * b[i];\n}\n',
  'def f(x, *args, **kw):\n    """Doc."""\n    return {k: v for k, v in kw.items() if v is not None}\n',
  '#include <stdio.h>\nint main(void)\n{\n\tprintf("%s\\n", "hi");\n\treturn 0;\n}\n',
  'SELECT a.id, COUNT(*) FROM t AS a LEFT JOIN u ON a.id=u.id WHERE a.x >= 10 GROUP BY 1;\n',
  '<!DOCTYPE html>\n<html><head><title>x</title></head>\n<body class="a b">\n\t<table>\n\t\t<tr><td>1</td><td>2</td></tr>\n\t</table>\n</body></html>\n',
  '{"a": [1, 2.5e-3, null, true], "b": {"c": "\\u00e9\\n"}}',
  "const re = /^(?:[a-z0-9!#$%&'*+/=?^_`{|}~-]+)$/giu;",
  'fn main() -> Result<(), Box<dyn Error>> { let v: Vec<_> = (0..10).map(|x| x * 2).collect(); Ok(()) }\n',
  '$ curl -sSL https://example.com/a?b=c&d=%20 | tar -xz -C /tmp && echo "done" >&2\n',
  '| a | b |\n|---|--:|\n| 1 | `x` |\n\n```js\nawait f();\n```\n\n- [ ] item **bold** _it_ ~~no~~\n',
  '<div><span style="x">a &amp; b</span><br/><b>c</b></div><<b>>< td></tdd>',
  '\\frac{1}{\\sqrt{2\\pi}} \\int_{-\\infty}^{\\infty} e^{-x^2/2}\\,dx',
];

const EMOJI = `😀 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 🇺🇳 ❤️ ❤ 1️⃣ 👩🏿‍🚀 🧑‍🤝‍🧑 🫠
  ☕ ✈︎ 🏴󠁧󠁢󠁷󠁬󠁳󠁿 \u200d \ufe0f 🏽 👁️‍🗨️`.split(/\s+/);
const TAGS = [
  ...`<table> </table> <tr> <td> </td> <b> </b> <h1> <h7> <sub> <code> </code> <i> <s> </s> < > </ <t <table
    <ul><li>`.split(/\s+/),
  '> </',
];
const REPEATED = [...'aAeZ0. -=_*#~/\\!?哈あーㅋน한é😀…—\u0301\u0000\u00a0\u3000\ufeff'];
/** First and last code points of Unicode blocks for random texts. Common blocks occur more than once. */
const BLOCKS = [
  [0x20, 0x7e],
  [0x20, 0x7e],
  [0, 0x7f],
  [0x80, 0x24f],
  [0x250, 0x36f],
  [0x370, 0x52f],
  [0x590, 0x6ff],
  [0x900, 0xdff],
  [0xe00, 0x12ff],
  [0x1e00, 0x20ff],
  [0x2100, 0x2bff],
  [0x3000, 0x30ff],
  [0x4e00, 0x9fff],
  [0xac00, 0xd7a3],
  [0xe000, 0xf8ff],
  [0xf900, 0xffff],
  [0x10000, 0x107ff],
  [0x1f300, 0x1faff],
  [0x20000, 0x2a6df],
  [0xe0000, 0xe01ef],
  [0x10fff0, 0x10ffff],
  [0, 0x10ffff],
];

/** Returns a text in which U+2581, names of control tokens and lone surrogates are replaced. @param {string} text */
export function comparable(text) {
  return text
    .replaceAll('\u2581', ' ')
    .replace(/<(?=unused|mask|pad|eos|bos|unk|start_of|end_of|image_)/g, '(')
    .replace(/[\ud800-\udfff]/gu, ' ');
}

/** @typedef {() => string} Maker */

/**
 * @param {(n?: number) => number} next
 * @param {string[]} books
 * @param {string[]} pieces
 * @returns {Maker[]}
 */
function makers(next, books, pieces) {
  /** @param {number} from @param {number} to */
  const int = (from, to) => from + next(to - from + 1);
  /** @template T @param {T[]} list @returns {T} */
  const pick = (list) => list[int(0, list.length - 1)];
  /** @param {number} n @param {Maker} f */
  const times = (n, f) => Array.from({ length: n }, f).join('');
  const short = () => int(1, next() < 0.75 ? 4 : 70);
  /** Returns a random slice of a text that splits no code point. @param {string} text @param {number} most */
  const slice = (text, most) => {
    const at = int(0, text.length);
    return text.slice(at, at + int(1, most)).replace(/^[\udc00-\udfff]|[\ud800-\udbff]$/g, '');
  };
  const blank = () => pick([' ', '\n', '\t', '\r\n', ' \n', '\u00a0']).repeat(short());
  const sentence = () => (next() < 0.5 ? pick(SENTENCES) : slice(pick(SENTENCES), 40));
  const unicode = () => {
    const [from, to] = pick(BLOCKS);
    return times(int(1, 40), () => {
      const [a, b] = next() < 0.15 ? pick(BLOCKS) : [from, to];
      const c = int(a, b);
      return c >= 0xd800 && c <= 0xdfff ? ' ' : String.fromCodePoint(c);
    });
  };
  const language = () => times(int(1, 3), () => sentence() + pick([' ', '', '\n']));
  const words = () => {
    const [list, gap] = [pick(SENTENCES).split(' '), pick([' ', '  ', '', '-'])];
    return times(int(1, 12), () => pick(list) + gap);
  };
  const code = () => times(int(1, 3), () => (next() < 0.4 ? pick(CODE) : slice(pick(CODE), 60)));
  const emoji = () => times(int(1, 12), () => (next() < 0.75 ? pick(EMOJI) : slice(pick(SENTENCES), 9)));
  const word = () => (next() < 0.6 ? slice(pick(SENTENCES), 12) : '');
  const blanks = () => times(int(1, 6), () => blank() + word());
  const html = () => times(int(1, 10), () => (next() < 0.75 ? pick(TAGS) : pick([blank, word])()));
  const repeated = () => times(int(1, 4), () => pick(REPEATED).repeat(next() < 0.9 ? short() : 400));
  const joined = () => times(int(1, 12), () => pick(pieces));
  const book = () => slice(pick(books), next() < 0.9 ? 120 : 1500);
  const list = [unicode, unicode, language, words, code, emoji, blanks, html, repeated];
  if (pieces.length) list.push(joined, joined);
  if (books.length) list.push(book, book);
  return [...list, () => times(int(2, 4), () => pick(list)())];
}

/**
 * Yields the empty text, then `count` - 1 texts, of each kind in turn.
 * @param {object} options
 * @param {number} options.count
 * @param {number} [options.seed]
 * @param {string[]} [options.books] long texts to take slices of
 * @param {string[]} [options.pieces] strings to put together at random
 * @returns {Generator<string>}
 */
export function* texts({ count, seed = 1, books = [], pieces = [] }) {
  const next = randoms(seed);
  const list = makers(next, books, pieces);
  yield '';
  for (let i = 1; i < count; i++) {
    yield comparable(list[i % list.length]());
  }
}
