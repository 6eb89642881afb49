/* objects: the AI SDK's structured output. The SDK and zod validate the values. */
import { NoObjectGeneratedError, Output, generateText, isStepCount, jsonSchema, streamText, tool } from 'ai';
import { z } from 'zod';
import { equal, failureOf, listOf, ok } from '../checks.js';

const Person = z.object({
  name: z.string().max(8),
  age: z.number().int().min(0).max(99),
  tags: z.array(z.enum(['a', 'b'])).max(2),
});
const LONG = { maxOutputTokens: 300, seed: 3 };

/** @type {import('./given.js').Calls} */
export const OBJECTS = {
  'Output.object': async ({ model }) => {
    const output = Output.object({ schema: Person });
    const result = await generateText({ model, prompt: 'A person', output, ...LONG });
    ok(Person.safeParse(result.output).success, JSON.stringify(result.output));
    equal(JSON.parse(result.text), result.output, 'text');
  },
  'Output.object: the stream of partial objects': async ({ model }) => {
    const result = streamText({ model, prompt: 'A person', output: Output.object({ schema: Person }), ...LONG });
    const partial = await listOf(result.partialOutputStream);
    ok(partial.length > 3, `${partial.length} partial objects`);
    equal(partial.at(-1), await result.output, 'the last one');
    ok(Person.safeParse(partial.at(-1)).success, 'a person');
  },
  'Output.array and its stream of elements': async ({ model }) => {
    const element = z.object({ city: z.string().max(6) });
    // The SDK's schema does not limit the array. Objects as elements make the model end the array sooner.
    const call = { model, prompt: 'Cities', output: Output.array({ element }), maxOutputTokens: 400, temperature: 0.7 };
    for (let seed = 1; ; seed++) {
      const result = streamText({ ...call, seed, onError: () => {} });
      const elements = await listOf(result.elementStream).catch(() => []);
      if ((await result.finishReason) !== 'stop') {
        ok(seed < 20, 'an answer that ends');
        continue;
      }
      equal(await result.output, elements, 'elements');
      return;
    }
  },
  'Output.choice': async ({ model }) => {
    const output = Output.choice({ options: ['sunny', 'rainy', 'snowy'] });
    const { output: weather } = await generateText({ model, prompt: 'The weather', output, ...LONG });
    ok(['sunny', 'rainy', 'snowy'].includes(weather), weather);
  },
  'Output.json': async ({ model }) => {
    const providerOptions = { gemmaWasm: { format: { schema: { enum: [1, 'two', [3]] } } } };
    const { output } = await generateText({ model, prompt: 'JSON', output: Output.json(), providerOptions, ...LONG });
    ok(
      [1, 'two', [3]].some((one) => JSON.stringify(one) === JSON.stringify(output)),
      JSON.stringify(output),
    );
  },
  'Output.object: jsonSchema()': async ({ model }) => {
    const schema = jsonSchema(
      /** @type {const} */ ({
        type: 'object',
        properties: { even: { type: 'integer', multipleOf: 2, minimum: 0, maximum: 98 } },
        required: ['even'],
        additionalProperties: false,
      }),
    );
    const { output } = await generateText({ model, prompt: 'A number', output: Output.object({ schema }), ...LONG });
    ok(/** @type {any} */ (output).even % 2 === 0, JSON.stringify(output));
  },
  'Output.object: an answer that is cut off': async ({ model }) => {
    const output = Output.object({ schema: Person });
    const error = await failureOf(generateText({ model, prompt: 'A person', output, maxOutputTokens: 4 }));
    ok(NoObjectGeneratedError.isInstance(error) && error.finishReason === 'length', String(error));
  },
  'Output.object: a schema that cannot be enforced': async ({ model }) => {
    const schema = jsonSchema({ type: 'array', items: { type: 'integer' }, uniqueItems: true });
    const error = await failureOf(generateText({ model, prompt: 'Numbers', output: Output.object({ schema }) }));
    equal([error.name, error.code], ['AI_UnsupportedFunctionalityError', 'bad-format'], 'error');
  },
  'Output.object together with a required tool: the object is the answer to its result': async ({ model }) => {
    const dice = tool({ inputSchema: z.object({ sides: z.enum(['6', '20']) }), execute: async () => 4 });
    const call = { model, prompt: 'Roll', tools: { dice }, output: Output.object({ schema: Person }), ...LONG };
    const prepareStep = (/** @type {{ stepNumber: number }} */ { stepNumber }) => {
      return { toolChoice: /** @type {'none' | 'required'} */ (stepNumber ? 'none' : 'required') };
    };
    const { steps, output } = await generateText({ ...call, prepareStep, stopWhen: isStepCount(2) });
    const kinds = steps.map(({ finishReason, text }) => [finishReason, text !== '']);
    equal(
      kinds,
      [
        ['tool-calls', false],
        ['stop', true],
      ],
      'a call, then the answer',
    );
    ok(Person.safeParse(output).success, JSON.stringify(output));
  },
  'Output.object together with tools': async ({ model }) => {
    const schema = z.object({ name: z.enum(['Li', 'Bo']) });
    const output = Output.object({ schema });
    const dice = tool({ inputSchema: z.object({ sides: z.enum(['6', '20']) }), execute: async () => 4 });
    const call = {
      model,
      prompt: 'Roll',
      tools: { dice },
      output,
      maxOutputTokens: 200,
      temperature: 4,
      topK: 1000,
      topP: 1,
    };
    const seen = { calls: false, answer: false };
    for (let seed = 1; seed < 40 && !(seen.calls && seen.answer); seed++) {
      const { finishReason, text, toolCalls } = await generateText({ ...call, seed });
      if (toolCalls.length) {
        ok(
          toolCalls.every(({ toolName }) => toolName === 'dice'),
          'the tool',
        );
        seen.calls ||= finishReason === 'tool-calls';
      } else if (finishReason === 'stop') {
        seen.answer = schema.safeParse(JSON.parse(text)).success;
        const streamed = streamText({ ...call, seed });
        equal(await streamed.output, JSON.parse(text), 'the streamed answer');
      }
    }
    equal(seen, { calls: true, answer: true }, 'both kinds of answers');
  },
};
