/* soaking: the work that the soak test repeats, the same in Node and in a page. */
import { ROUNDS, conversation, next } from './talking.js';

const LONG = { maxTokens: 60, seed: 5, logitBias: { 1: -Infinity } };

/** Returns the expected results of the ROUNDS conversations, computed without interruptions. @param {Model} model */
export async function expectations(model) {
  const talks = [];
  for (let kind = 0; kind < ROUNDS; kind++) {
    const chat = await conversation(model, kind);
    // If an answer ends within a UTF-8 character, only the messages of the chat are saved.
    const { restored } = model.chat({ saved: await chat.save() });
    talks.push({
      restored: await restored,
      next: await next(chat),
      long: (await model.generate(`${kind} times`, LONG).result()).tokens,
    });
  }
  return talks;
}

/** Runs a conversation, restores its saved state, aborts an answer and completes another. Throws at the first
 * unexpected result.
 * @param {Model} model @param {Awaited<ReturnType<typeof expectations>>} talks @param {number} n */
export async function round(model, talks, n) {
  const kind = n % ROUNDS;
  const expected = talks[kind];
  const same = (/** @type {string} */ what, /** @type {unknown} */ got, /** @type {unknown} */ wanted) => {
    if (JSON.stringify(got) !== JSON.stringify(wanted))
      throw new Error(`round ${n}, ${what}: ${JSON.stringify([wanted, got])}`);
  };
  const chat = await conversation(model, kind);
  const name = `soak ${kind}`;
  await model.chatCache.put(name, await chat.save());
  same('the next answer', await next(chat), expected.next);

  const control = new AbortController();
  const cut = model.generate(`${kind} times`, { ...LONG, signal: control.signal });
  let pieces = 0;
  for await (const piece of cut) if (piece && ++pieces > n % 7) control.abort();
  const { tokens } = await cut.result();
  same('an aborted answer', tokens, expected.long.slice(0, tokens.length));

  const again = model.chat({ saved: await model.chatCache.get(name) });
  same('the restored chat', await again.restored, expected.restored);
  same('the answer after restoring', await next(again), expected.next);
  same('a whole answer', (await model.generate(`${kind} times`, LONG).result()).tokens, expected.long);
}
