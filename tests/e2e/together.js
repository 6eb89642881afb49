/**
 * together: runs several test files in one process, so that they share the browsers (helpers.js).
 *
 *   node --test-reporter=spec tests/e2e/together.js FILE …
 */
import path from 'node:path';
import { pathToFileURL } from 'node:url';

for (const file of process.argv.slice(2)) await import(pathToFileURL(path.resolve(file)).href);
