/* constraint: compiles the options `format` and `tools` into a constraint on the answer, as bytes for the engine. */
/** @import { GenerateArgs, PostedPrompt as Prompt } from '../protocol.js' */
/** @import { Engine } from './engine.js' */
/** @import { PromptEncoder } from './prompt-encoder.js' */
/** @import { ThoughtReader } from './thoughts.js' */
import { Budget, Unsupported, compile, lower } from '../grammar/index.js';
import { ordered } from '../grammar/ordered.js';
import { badBeginning, badFormat, formatTooComplex } from './errors.js';
import { Matcher } from './grammar.js';
import { joined, utf8 } from './heap.js';

/** Function that returns whether a token begins a tool call. before: number of tokens of the answer before this token,
 * without thoughts.
 * @typedef {(id: number, before: number) => boolean} Begins */
/** A compiled constraint. begins: recognises the token from which the constraint applies; null if the constraint
 * applies from the beginning of the answer.
 * @typedef {{ constraint: Uint8Array, begins: Begins | null }} Constraint */

/** Compiles the constraint of an answer with a format or tools. Pauses between the synchronous passes of the compiler,
 * so that the worker can answer other calls. Fails with `bad-format` or `format-too-complex`.
 * @param {PromptEncoder} encoder @param {Pick<GenerateArgs, 'format' | 'tools'>} args
 * @param {() => Promise<unknown>} pause throws if the call was aborted @returns {Promise<Constraint>} */
export async function constraintOf(encoder, { format, tools }, pause) {
  const tokenOf = (/** @type {string} */ name) => encoder.idOf(name);
  const mayAnswer = !tools || tools.choice === 'auto';
  // If the model may choose to call a tool (`tools` without `format`), the constraint applies from the first token of
  // the call. Otherwise it applies from the first token of the answer.
  const begins = tools && mayAnswer && !format ? await beginning(encoder, tools.list) : null;
  const budget = new Budget({ alive: encoder.alive });
  try {
    const nodes = format && mayAnswer ? compile(format, { tokenOf, budget }) : null;
    await pause();
    const text = nodes ? ordered(nodes, budget) : null;
    const grammar = tools
      ? await ofTools(encoder, { ...tools, ...(begins && { choice: 'required' }), text, budget })
      : /** @type {NonNullable<typeof text>} */ (text);
    await pause();
    // Allows only the shortest spelling of characters in JSON, so that more tokens are jump-forward tokens.
    return { constraint: lower(grammar, { spelling: 'shortest', budget }), begins };
  } catch (error) {
    if (!(error instanceof Unsupported)) throw error;
    throw error.code === 'format-too-complex' ? formatTooComplex(error) : badFormat(error);
  }
}

/** Returns a matcher of a constraint, advanced past the beginning of the answer if the prompt contains that beginning.
 * Throws `bad-format` if the constraint does not allow the beginning. @param {Engine} native
 * @param {Uint8Array} constraint @param {Prompt} prompt
 * @param {Uint8Array} cut bytes of an incomplete character after that beginning */
export function matcherOf(native, constraint, prompt, cut) {
  const matcher = new Matcher(native, constraint);
  const begin = utf8(('begin' in prompt && prompt.begin) || '');
  if (matcher.acceptBytes(joined(begin, cut))) return matcher;
  matcher.dispose();
  throw badBeginning();
}

/** Returns the token to append for a token drawn without the constraint, or null to draw another. Sets the matcher if
 * the token is the first after the thoughts or begins a tool call, because the constraint applies from this token on.
 * @param {{ native: Engine, waiting: Matcher | null, matcher: Matcher | null, begins: Begins | null,
 *   thoughts: ThoughtReader | null, tokens: number[], args: GenerateArgs }} run @param {number} drawn */
export function withConstraint(run, drawn) {
  const { native, begins, thoughts, tokens, args } = run;
  const waiting = /** @type {Matcher} */ (run.waiting);
  // If the answer's text is constrained, the answer must not end inside a thought.
  const id = thoughts?.instead(drawn, !begins && native.call('is_end', drawn) === 1) ?? drawn;
  if (thoughts?.takes(id) || (begins && !begins(id, tokens.length - (thoughts?.tokens ?? 0)))) return id;
  run.matcher = waiting;
  if (waiting.allows(id)) return id;
  return args.logprobs === null ? null : waiting.draw(true);
}

/** Returns a function that recognises the first token of a tool call; null if the model's calls do not begin with a
 * single token. @param {PromptEncoder} encoder @param {import('../protocol.js').ToolSpec[]} tools
 * @returns {Promise<Begins | null>} */
async function beginning(encoder, tools) {
  const { first, openings } = await encoder.dialect();
  if (first) return (id, before) => before === 0 && encoder.bytes(id, -1)[0] === first.charCodeAt(0);
  const mark = encoder.idOf(openings(tools)[0]);
  return mark === null ? null : (id) => id === mark;
}

/** Returns the grammar of answers with tools. text: grammar of an answer without tool calls, null if such an answer is
 * unconstrained.
 * @param {PromptEncoder} encoder @param {NonNullable<GenerateArgs['tools']> & { budget: Budget,
 *   text: import('../grammar/nodes.js').Grammar | null }} asked */
async function ofTools(encoder, { list, choice, text, budget }) {
  return (await encoder.dialect()).grammar({
    tools: list,
    choice,
    text,
    budget,
    id: (name) => encoder.idOf(name),
    control: (id) => encoder.isControl(id),
    schema(schema, place) {
      try {
        return compile({ schema }, { budget });
      } catch (error) {
        if (error instanceof Unsupported) error.place = place + error.place;
        throw error;
      }
    },
  });
}
