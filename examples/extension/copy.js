// Copies the package into the extension, which may only run scripts in its own folder.
import { cpSync } from 'node:fs';

cpSync(new URL('node_modules/gemma-wasm/dist', import.meta.url), new URL('engine', import.meta.url), {
  recursive: true,
});
