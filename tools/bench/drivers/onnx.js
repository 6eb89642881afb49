/** onnx: measures onnxruntime-web on the CPU: repeated runs of an ONNX file, in milliseconds per run. */

/** Returns the milliseconds of each run. A first run, as a warm-up, is not counted. All runs have the same input.
 * @param {{ model: string, threads: number, rows: number, width: number, rounds: number, peers: string }} job
 * @returns {Promise<{ runs: number[] }>} */
export async function answer({ model, threads, rows, width, rounds, peers }) {
  const folder = new URL(`${peers}onnxruntime-web/dist/`, location.href).href;
  const entry = `${folder}ort.wasm.min.mjs`;
  const ort = await import(entry);
  ort.env.wasm.wasmPaths = folder;
  ort.env.wasm.numThreads = threads;
  const settings = { executionProviders: ['wasm'], graphOptimizationLevel: 'all' };
  const session = await ort.InferenceSession.create(model, settings);
  const data = Float32Array.from({ length: rows * width }, (_, i) => Math.sin(i * 37 + 11));
  const input = new ort.Tensor('float32', data, [rows, width]);
  const runs = [];
  for (let i = -1; i < rounds; i++) {
    const before = performance.now();
    await session.run({ input });
    if (i >= 0) runs.push(performance.now() - before);
  }
  return { runs };
}
