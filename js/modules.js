/* modules: URLs of the files that the worker loads. Each URL is a literal, so that bundlers find the file.
 * platform/files.js imports the .js files on first use. */
export const MODULES = {
  'gemma-simd128.wasm': new URL('./gemma-simd128.wasm', import.meta.url),
  'gemma-simd128-threads.wasm': new URL('./gemma-simd128-threads.wasm', import.meta.url),
  'gemma-relaxed.wasm': new URL('./gemma-relaxed.wasm', import.meta.url),
  'gemma-relaxed-threads.wasm': new URL('./gemma-relaxed-threads.wasm', import.meta.url),
  'grammar.js': new URL('./grammar.js', import.meta.url),
  'look.js': new URL('./look.js', import.meta.url),
  'autotune.js': new URL('./autotune.js', import.meta.url),
  'drafts.js': new URL('./drafts.js', import.meta.url),
  'sequences.js': new URL('./sequences.js', import.meta.url),
  'rows.js': new URL('./rows.js', import.meta.url),
  'template.js': new URL('./template.js', import.meta.url),
};
