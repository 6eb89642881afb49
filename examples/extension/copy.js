// Extensions may only run scripts of their own folder.
import { cpSync } from 'node:fs';

cpSync(new URL('node_modules/gemma-wasm/dist', import.meta.url), new URL('engine', import.meta.url), {
  recursive: true,
});
