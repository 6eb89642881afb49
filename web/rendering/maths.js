/**
 * maths: renders TeX as MathML. Loaded when an answer contains TeX. Model output is untrusted: unsafe commands of the
 * library are disabled, and DOMPurify cleans its output.
 * @module
 */
/// <reference path="../css.d.ts" />
/*! temml: Copyright (c) 2020 Ron Kok. MIT license */
import DOMPurify from 'dompurify';
import temml from 'temml';
import { el, sheetOf } from '../shell/dom.js';
import css from './maths.css';

const LIMITS = { maxExpand: 200, maxSize: /** @type {[number, number]} */ ([20, 20]) };
const ALLOWED = { USE_PROFILES: { mathMl: true }, FORBID_ATTR: ['style', 'href', 'src'], ALLOW_DATA_ATTR: false };

document.adoptedStyleSheets.push(sheetOf(css));

/** Returns a formula as sanitised MathML.
 * @param {string} tex @param {boolean} displayMode   on separate lines @returns {Node | null} null: it is not TeX */
export function toMathML(tex, displayMode) {
  try {
    const markup = temml.renderToString(tex, { ...LIMITS, displayMode, throwOnError: true, trust: false });
    // The page's policy forbids styles in markup, even before DOMPurify removes them.
    const plain = markup.replace(/ style="[^"]*"/g, '');
    const math = DOMPurify.sanitize(plain, { ...ALLOWED, RETURN_DOM_FRAGMENT: true });
    return displayMode ? math : el('span.formula', math); // scrolls if it is wider than its line
  } catch {
    return null;
  }
}
