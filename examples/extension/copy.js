// An extension may run only scripts in its folder.
import { cpSync } from 'node:fs';

cpSync(new URL('node_modules/gemma-wasm/dist', import.meta.url), new URL('engine', import.meta.url), {
  recursive: true,
});
