/**
 * wpt: runs the Prompt API tests of web-platform-tests in Chromium against gemma-wasm/prompt-api, with the storyteller
 * as the model, and writes docs/reports/prompt-api.md.
 *
 *   node tools/check/wpt.js FOLDER [--source TEXT] [--only TEXT] [--no-report]
 *
 * FOLDER is a checkout of web-platform-tests, or a copy of its `resources/` and `ai/`. --source is the description of
 * FOLDER in the report; the default describes the copy of the last run. --only selects files by a part of their paths.
 * Each file runs in a new profile, so that its first create() downloads the model. Exits with status 1 if a test fails
 * that is not in EXCEPTIONS (tools/check/wpt/exceptions.js), or if one of those passes.
 */
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { launch } from '../support/browser.js';
import { Trouble, at, cli, parseOptions } from '../support/proc.js';
import { PARTS, copyModules } from '../build/package.js';
import { serve } from '../serve.js';
import { EXCEPTIONS, SKIPPED } from './wpt/exceptions.js';

const OUT = at('build', 'wpt');
const SUITE = 'ai/language-model';
/** Default of --source: where the tests of the report in this repository come from. */
const COPY = `The tests are not a checkout of web-platform-tests. The files that need only text were collected from public copies of the repositories of Servo and
Chromium, which contain these tests. Of files with several versions, the newest was taken. The versions have no dates, so their contents decided which
one is the newest. Three older files are included although newer ones repeat their tests: \`language-model-prompt-empty-input\`,
\`language-model-prompt-streaming\` and \`response-constraint/regex\`. The version of testharness.js is of January 2026, that of testdriver.js of July 2026.`;
const STATUS = ['pass', 'fail', 'timeout', 'not run', 'precondition failed'];
/** Time limit of one test file: longer than testharness.js waits with timeout=long. */
const LONGEST_MS = 120_000;
/** Options of the tested model. Short answers are enough for all tests. The model was not trained to write JSON, so
 * schemaBounds limits the length of JSON answers. */
const OPTIONS = {
  replace: true,
  contextLength: 650,
  maxTokens: 160,
  schemaBounds: { maxLength: 20, maxItems: 3, maxProperties: 2 },
};

/** @typedef {{ file: string, name: string, status: string, message: string }} Result */

/** Builds the package as a classic script, which runs before the tests, and its workers. */
async function buildScripts() {
  const esbuild = await import('esbuild');
  mkdirSync(OUT, { recursive: true });
  const common = { outdir: OUT, bundle: true, target: ['es2022'], logLevel: /** @type {const} */ ('warning') };
  await esbuild.build({
    ...common,
    entryPoints: [at('js', 'prompt-api.js')],
    format: 'iife',
    globalName: 'promptApi',
    define: { 'import.meta.url': 'scriptUrl' },
    banner: { js: 'var scriptUrl = document.currentScript.src;' },
  });
  const names = ['worker.js', 'thread.js', ...PARTS];
  await esbuild.build({ ...common, entryPoints: names.map((name) => at('js', name)), format: 'esm' });
  copyModules(OUT);
}

/** Replacements for two scripts of web-platform-tests: the reporter and the vendor driver.
 * @type {Record<string, string>} */
const REPLACED = {
  '/resources/testharnessreport.js': `setup({ timeout_multiplier: 4 });
add_completion_callback((tests) => {
  window.wptDone(tests.map(({ name, status, message }) => ({ name, status, message: message ?? '' })));
});`,
  '/resources/testdriver-vendor.js': `test_driver_internal.in_automation = true;
test_driver_internal.click = (element, { x, y }) => window.wptClick(x, y);`,
};

/** Returns the page of a test file, as wptserve generates it. @param {string} folder @param {string} path */
function pageOf(folder, path) {
  const code = readFileSync(join(folder, path), 'utf8');
  const scripts = [...code.matchAll(/^\/\/ META: script=(\S+)/gm)].map(([, src]) => src);
  const driver = scripts.some((src) => src.endsWith('/testdriver.js')) ? ['/resources/testdriver-vendor.js'] : [];
  const all = ['/resources/testharness.js', '/resources/testharnessreport.js', ...scripts, ...driver, `/${path}`];
  return `<!doctype html><meta charset="utf-8"><title>${path}</title>
<meta name="timeout" content="long">
<script src="/gemma-wasm/prompt-api.js"></script>
<script>promptApi.install('/models/storyteller.gguf', ${JSON.stringify(OPTIONS)});</script>
${[...new Set(all)].map((src) => `<script src="${src}"></script>`).join('\n')}`;
}

/** @param {string} folder */
function serveSuite(folder) {
  return serve({
    root: folder,
    mounts: { '/gemma-wasm/': OUT, '/models/': at('models', 'storyteller') },
    headers: { 'Content-Security-Policy': '' },
    intercept: (request, response) => {
      const path = decodeURI((request.url ?? '').split('?')[0]);
      const isTest = path.endsWith('.window.html');
      const text = REPLACED[path] ?? (isTest ? pageOf(folder, path.slice(1).replace(/html$/, 'js')) : undefined);
      if (text === undefined) return false;
      response.setHeader('Content-Type', isTest ? 'text/html; charset=utf-8' : 'text/javascript; charset=utf-8');
      response.end(text);
      return true;
    },
  });
}

/** @param {import('puppeteer-core').Browser} browser @param {string} url @param {string} file
 * @returns {Promise<Result[]>} */
async function run(browser, url, file) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  let timer;
  try {
    await page.exposeFunction('wptClick', (/** @type {number} */ x, /** @type {number} */ y) => page.mouse.click(x, y));
    // page.evaluate() would count as a user activation, so functions of the page report the results.
    const done = new Promise((resolve, reject) => {
      timer = setTimeout(
        () => reject(new Error(`The test file reported no results within ${LONGEST_MS / 1000} s.`)),
        LONGEST_MS,
      );
      page
        .exposeFunction('wptDone', resolve)
        .then(() => page.goto(`${url}${file.replace(/js$/, 'html')}`))
        .catch(reject);
    });
    const results = /** @type {any[]} */ (await done);
    return results.map(({ name, status, message }) => ({ file, name, status: STATUS[status], message }));
  } catch (error) {
    return [{ file, name: '(the whole file)', status: 'timeout', message: String(error) }];
  } finally {
    clearTimeout(timer);
    await context.close();
  }
}

/** @param {Result} result */
const exceptionOf = ({ file, name }) =>
  EXCEPTIONS.find((one) => file.includes(one.file) && (one.test === undefined || one.test === name));

/** @param {string} text */
const cell = (text) => text.replaceAll('|', '\\|').replace(/\s+/g, ' ');

/** @param {Result[]} results @param {string[]} skipped @param {{ source: string, version: string }} facts */
function report(results, skipped, { source, version }) {
  const passed = results.filter(({ status }) => status === 'pass').length;
  const rows = results.map((result) => {
    const reason = result.status === 'pass' ? '' : (exceptionOf(result)?.reason ?? result.message);
    const file = result.file.slice(SUITE.length + 1).replace(/(\.tentative)?\.https\.window\.js$/, '');
    return `| ${cell(file)} | ${cell(result.name)} | ${result.status} | ${cell(reason)} |`;
  });
  return `# Prompt API: web-platform-tests

\`node tools/check/wpt.js FOLDER\` runs \`${SUITE}\` of web-platform-tests in Chromium, with the \`LanguageModel\` of \`gemma-wasm/prompt-api\`,
and writes this report. The model is the storyteller, a tiny model that writes stories and knows no facts.

${passed} of ${results.length} tests pass (${version}). The table has the reason for each failure.

${source}

| file | test | result | reason for the failure |
|---|---|---|---|
${rows.join('\n')}

Files in these folders are not run, because they need more than text:

| files | reason |
|---|---|
${SKIPPED.map(({ files, reason }) => `| ${files.source.replaceAll('\\', '')} (${skipped.filter((name) => files.test(name)).length} collected) | ${reason} |`).join('\n')}
`;
}

await cli(async () => {
  const { values, positionals } = parseOptions(
    { source: COPY, only: '', 'no-report': false },
    { allowPositionals: true },
  );
  const [folder] = positionals;
  if (!folder || !existsSync(join(folder, SUITE))) {
    throw new Trouble(`Usage: node tools/check/wpt.js FOLDER. FOLDER must have resources/ and ${SUITE}/.`);
  }
  const names = readdirSync(join(folder, SUITE), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.https\.window\.js$/.test(name))
    .map((name) => `${SUITE}/${name}`)
    .sort();
  const skipped = names.filter((name) => SKIPPED.some(({ files }) => files.test(name)));
  const chosen = names.filter((name) => !skipped.includes(name) && name.includes(values.only));
  await buildScripts();
  const server = await serveSuite(folder);
  const browser = await launch('chromium', { args: ['--js-flags=--expose-gc'] });
  /** @type {Result[]} */
  const results = [];
  try {
    for (const file of chosen) {
      for (const result of await run(browser, server.url, file)) {
        results.push(result);
        console.log(`${result.status.padEnd(9)} ${file.slice(SUITE.length + 1)}: ${result.name} ${result.message}`);
      }
    }
    const version = (await browser.version()).replace(/^(Headless)?Chrome\//, 'Chromium ').split('.')[0];
    if (!values.only && !values['no-report']) {
      writeFileSync(
        at('docs', 'reports', 'prompt-api.md'),
        report(results, skipped, { source: values.source, version }),
      );
    }
  } finally {
    await browser.close();
    await server.close();
  }
  const wrong = results.filter((result) => {
    const exception = exceptionOf(result);
    return !exception?.varies && (result.status === 'pass') === Boolean(exception);
  });
  for (const { file, name, status } of wrong) console.log(`unexpected ${status}: ${file}: ${name}`);
  console.log(`${results.filter(({ status }) => status === 'pass').length} of ${results.length} tests pass`);
  if (wrong.length) process.exitCode = 1;
});
