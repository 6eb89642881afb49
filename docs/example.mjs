// node docs/example.mjs MODEL.gguf      (a path, or a URL)
import { loadModel } from 'gemma-wasm';

const onProgress = ({ phase, loaded, total }) => console.error(`${phase}: ${loaded} of ${total ?? '?'} bytes`);
const model = await loadModel(process.argv[2], { onProgress });
console.log(model.info);   // type and size of the weights, memory, threads, variant, …

const story = model.generate('Once upon a time', { maxTokens: 40, temperature: 0.8, seed: 7 });
for await (const piece of story) process.stdout.write(piece);   // text as it is decoded
console.log('\n', (await story.result()).timings);

const chat = model.chat({ system: 'Answer in one sentence.', maxTokens: 60 });   // each turn evaluates only what is new
console.log(await chat.send('What is WebAssembly?').text());

const stop = new AbortController();
const cut = chat.retry({ maxTokens: 1000, signal: stop.signal });
for await (const piece of cut) stop.abort();   // the text so far is kept, and the model can be used again at once
console.log((await cut.result()).finishReason);   // aborted

await model.dispose();   // frees the worker, its threads and the heap
