/* talking: short conversations, the same in each process, for tests of saved chats. */

export const ROUNDS = 12;
const OPTIONS = { maxTokens: 2, seed: 3, logitBias: { 1: -Infinity } };

/** Returns a chat after one message, whose length depends on the round, and an answer of two tokens.
 * @param {Model} model @param {number} round index of the conversation */
export async function conversation(model, round) {
  const chat = model.chat(OPTIONS);
  await chat.send(`${round} `.repeat(20 + round)).text();
  return chat;
}

/** Sends a fixed message in a chat. Returns the answer's tokens and the prompt's length, as JSON. @param {Chat} chat */
export async function next(chat) {
  const { tokens, usage } = await chat.send('on').result();
  return JSON.stringify({ tokens, prompt: usage.promptTokens });
}
