/* talking: short conversations, the same in each process, for tests of saved chats. */

/** @import { Chat, Model } from '../../js/index.node.js' */
export const ROUNDS = 12;
const OPTIONS = { maxTokens: 2, seed: 3, logitBias: { 1: -Infinity } };

/** @param {Model} model @param {number} round index of the conversation */
export async function conversation(model, round) {
  const chat = model.chat(OPTIONS);
  await chat.send(`${round} `.repeat(20 + round)).text();
  return chat;
}

/** Returns the chat's next answer. @param {Chat} chat */
export async function next(chat) {
  const { tokens, usage } = await chat.send('on').result();
  return JSON.stringify({ tokens, prompt: usage.promptTokens });
}
