/**
 * code: highlights the programming languages that models write most. Loaded when an answer has a block of code.
 * @module
 */
/// <reference path="../css.d.ts" />
/*! highlight.js: Copyright (c) 2006, Ivan Sagalaev. BSD 3-clause license */
import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import csharp from 'highlight.js/lib/languages/csharp';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import DOMPurify from 'dompurify';
import { sheetOf } from '../shell/dom.js';
import colours from './code.css';

const LANGUAGES = {
  bash,
  c,
  cpp,
  csharp,
  css,
  diff,
  go,
  java,
  javascript,
  json,
  python,
  rust,
  sql,
  typescript,
  xml,
  yaml,
};
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

document.adoptedStyleSheets.push(sheetOf(colours));

/** Maximum characters of highlighted code; more would block the page. */
const LONGEST = 50_000;

/** Returns highlighted code, as sanitised elements.
 * @param {string} text @param {string} language   as the model named it
 * @returns {Node | null} null: too long, or an unknown language */
export function coloured(text, language) {
  if (text.length > LONGEST || !hljs.getLanguage(language)) return null;
  const { value } = hljs.highlight(text, { language, ignoreIllegals: true });
  return DOMPurify.sanitize(value, { ALLOWED_TAGS: ['span'], ALLOWED_ATTR: ['class'], RETURN_DOM_FRAGMENT: true });
}
