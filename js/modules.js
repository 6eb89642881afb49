/* modules: where the wasm files are: beside this one. Literal URLs, one by one, so that bundlers see the files. */
export const MODULES = {
  'simd128': new URL('./gemma-simd128.wasm', import.meta.url),
  'simd128-threads': new URL('./gemma-simd128-threads.wasm', import.meta.url),
  'relaxed': new URL('./gemma-relaxed.wasm', import.meta.url),
  'relaxed-threads': new URL('./gemma-relaxed-threads.wasm', import.meta.url),
};
