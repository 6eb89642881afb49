/**
 * speed: estimates how fast the listed models would answer on this device, from answers of the loaded model. Loaded
 * when the list opens after an answer.
 * @module
 */
import { el } from '../shell/dom.js';
import { addLater, number, t } from '../shell/language.js';
import { state } from '../shell/store.js';
import { addressOf, hubAddress, memoryOf, presetOf } from './presets.js';

/** @import { GenerateResult, ModelInfo } from '../../js/protocol.js' */

/** Minimum bytes of a model's weights and minimum tokens of an answer from which other speeds are estimated. Processor
 * caches hold smaller models, whose speed says nothing about models that are read from memory. */
const LEAST = { bytes: 1e8, tokens: 16 };

/** Returns the rate, in bytes per second, at which the last long answer has read the weights; 0 if it is unknown. The
 * engine reads nearly all weights that are in memory for each token.
 * @param {Pick<ModelInfo, 'memory'>} info @param {Pick<GenerateResult, 'usage' | 'timings'>[]} results */
export function readingRate({ memory: { resident } }, results) {
  const last = results.findLast(({ usage }) => usage.completionTokens >= LEAST.tokens);
  return last && resident >= LEAST.bytes ? resident * last.timings.decodeTokensPerSecond : 0;
}

/** Adds an estimate to each preset in the list, except the model in use. @param {GenerateResult[]} results   of the
 * loaded model, oldest first */
export async function showSpeeds(results) {
  const { model, choice } = state;
  const bytesPerSecond = model && readingRate(model.info, results);
  if (!bytesPerSecond || !choice) return;
  await addLater();
  for (const row of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('#models [data-address]'))) {
    const { address = '' } = row.dataset;
    const preset = presetOf(hubAddress(address) ?? {});
    row.querySelector('.speed')?.remove();
    if (!preset || address === addressOf(choice.source)) continue;
    const n = bytesPerSecond / memoryOf(preset);
    const rate = t('rate', { n: number(n, n < 9.95 ? 1 : 0) });
    row.querySelector('.what')?.append(el('span.from.speed', t('speed.about', { rate, name: choice.label })));
  }
}
