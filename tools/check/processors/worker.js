/* worker: computes digests of one model's logits (tests/js/local.js) in a browser, for tools/check/processors.js. */
import { barePlatform, bitsOf } from '../../../tests/js/local.js';

const platform = barePlatform(async (name) => WebAssembly.compileStreaming(fetch(new URL(name, import.meta.url))));

self.onmessage = async ({ data: { address, variant } }) => {
  try {
    const file = new Uint8Array(await (await fetch(address)).arrayBuffer());
    self.postMessage({ found: await bitsOf(file, platform, variant) });
  } catch (error) {
    self.postMessage({ found: { variant: '', variantReason: String(error), bits: '' } });
  }
};
