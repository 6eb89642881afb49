/**
 * icons: draws the icons of the installed page in Chromium, from web/static/icon.svg: the star on a coloured tile, and
 * a maskable icon, which operating systems crop to its centre.
 *
 *   node tools/release/icons.js
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { launch } from '../../tests/e2e/helpers.js';
import { at, cli } from '../support/proc.js';

const ICONS = [
  { file: 'icon-192.png', size: 192, corner: 0.22, star: 0.72 },
  { file: 'icon-512.png', size: 512, corner: 0.22, star: 0.72 },
  { file: 'icon-maskable.png', size: 512, corner: 0, star: 0.56 },
];

/** @param {string} star   SVG path data @param {string} colour
 * @param {{ size: number, corner: number, star: number }} icon */
function tile(star, colour, { size, corner, star: share }) {
  const margin = 12 * (1 - share);
  return `<style>body { margin: 0 } svg { display: block }</style>
    <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" width="${size}" height="${size}">
    <rect width="24" height="24" rx="${24 * corner}" fill="${colour}"/>
    <path fill="#fff" transform="translate(${margin} ${margin}) scale(${share})" d="${star}"/></svg>`;
}

await cli(async () => {
  const svg = readFileSync(at('web', 'static', 'icon.svg'), 'utf8');
  const [, colour = ''] = /fill="(#\w+)"/.exec(svg) ?? [];
  const [, star = ''] = / d="([^"]+)"/.exec(svg) ?? [];
  const browser = await launch('chromium');
  try {
    const page = await browser.newPage();
    for (const icon of ICONS) {
      await page.setViewport({ width: icon.size, height: icon.size });
      await page.setContent(tile(star, colour, icon));
      writeFileSync(at('web', 'static', icon.file), await page.screenshot({ omitBackground: true }));
    }
  } finally {
    await browser.close();
  }
});
