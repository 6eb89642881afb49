#!/usr/bin/env node
/**
 * Generates ten stories for the model card with this package: ten topics, seeds 1 to 10, no selection.
 *
 *   node tools/models/train/stories.js MODEL.gguf   prints { options, stories: [{ seed, prompt, text, finishReason }] }
 */
import { loadModel } from '../../../js/index.node.js';

const OPTIONS = { temperature: 0.7, topK: 40, topP: 0.95, maxTokens: 220 };
const TOPICS = [
  'a cat and a boat',
  'a little dragon',
  'a girl named Anna and her kite',
  'a brave mouse',
  'a boy who lost his shoe',
  'a bear and a bee',
  'two friends and a big tree',
  'an old robot',
  'the moon',
  'a bird that could not sing',
];

const [source] = process.argv.slice(2);
const model = await loadModel(source, { threads: 1 });
try {
  const stories = [];
  for (const [i, topic] of TOPICS.entries()) {
    const seed = i + 1;
    const prompt = `Tell me a story about ${topic}.`;
    const { text, finishReason } = await model
      .chat()
      .send(prompt, { ...OPTIONS, seed })
      .result();
    stories.push({ seed, prompt, text, finishReason });
  }
  process.stdout.write(`${JSON.stringify({ options: OPTIONS, stories }, null, 2)}\n`);
} finally {
  await model.dispose();
}
