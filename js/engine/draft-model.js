/* draft-model: a smaller model with the same vocabulary, which drafts the next tokens of an answer (drafts.js). It is
 * loaded into the heap of the model, and uses the same threads. Before each draft, its context becomes that of the
 * answer; so while drafting is paused, the draft model costs nothing. An assistant, such as Gemma 4's, has no context:
 * it continues the model's last hidden state with the model's keys and values. */
/** @import { DraftModelInfo, OpenOptions, SourceDescriptor } from '../protocol.js' */
/** @import { Drafter } from './drafts.js' */
/** @import { Engine } from './engine.js' */
/** @import { LoadDeps } from './loading.js' */
/** @import { Meter } from './meter.js' */
import { ModelError } from '../errors.js';
import { chooseContext } from './context.js';
import { LATEST, LEAST_GAIN, MOST } from './drafts.js';
import { draftEmbeds, draftIsModel, otherSize, otherToken } from './errors.js';
import { Runner } from './runner.js';

/** Maximum difference between the sizes of the vocabularies: some files of a family have more unused tokens. */
const MOST_MORE = 128;
/** Number of tokens whose texts are compared. Draft tokens of another vocabulary would only be rejected. */
const COMPARED = 4096;
/** Maximum number of tokens that are evaluated for a draft: CATCH_UP, plus CATCH_UP_MORE for each token of the answer.
 * Evaluating a long prompt would take longer than a short answer saves. */
const CATCH_UP = 256;
const CATCH_UP_MORE = 8;
/** Share of the draft tokens that is assumed to be accepted at the beginning. */
const ACCEPTANCE = 0.7;
/** Maximum number of steps without drafts after drafts that cost more time than they saved. */
const LONGEST_REST = 1024;

/** Loads a draft model while the main model waits for memory, so that the memory of both is reserved, or refused,
 * before their weights are loaded.
 * @param {typeof import('./loading.js').load} load @param {OpenOptions} options of the main model
 * @param {LoadDeps & { meter: Meter, reserve: () => void, descriptors: SourceDescriptor[] }} deps of the main model.
 * reserve: reserves its memory; descriptors: its files, after which the client sends those of the draft model */
export async function loadDraftModel(load, options, { native, meter, reserve, descriptors, ...deps }) {
  const { draftModel = [], sha256, sequences, ...others } = options;
  const draft = native.beside();
  let isAssistant = false;
  let context = 0;
  checkUrls(draftModel, descriptors);
  await load(
    draftModel.map((descriptor) => withoutSecrets(descriptor, descriptors[0])),
    { ...others, draftModel: [], threads: native.threads, rowsOnDisk: false },
    {
      ...deps,
      native: draft,
      meter: meterAfter(meter),
      pieces: { reader: (i) => deps.pieces.reader(descriptors.length + i), forget() {} },
      reserve() {
        isAssistant = checkDraftModel(native, draft);
        context = Math.min(chooseContext(native, options.contextLength), draft.number('context_length'));
        if (!options.headerOnly) draft.reserve(context);
        reserve();
      },
    },
  );
  if (options.headerOnly) return { facts: factsOf(draft, context) };
  return new DraftModel(draft, deps.platform, native.number('n_vocab'), isAssistant);
}

/** Returns the properties of a draft model, for model.info. @param {Engine} native @param {number} contextLength
 * @returns {{ draftModel: DraftModelInfo }} */
function factsOf(native, contextLength) {
  const [architecture, name, quantisation] = ['architecture', 'name', 'quantisation'].map(
    (key) => native.text(key) ?? '',
  );
  const parameters = native.number('parameters');
  const memory = native.planBytes(contextLength, 'total');
  return { draftModel: { architecture, name, quantisation, parameters, contextLength, memory } };
}

/** Throws `bad-option` if a file of the draft model is a file of the model. Its download would wait for the lock that
 * the model's own download holds. @param {SourceDescriptor[]} draftModel @param {SourceDescriptor[]} descriptors */
function checkUrls(draftModel, descriptors) {
  const urls = descriptors.map((own) => (own.kind === 'url' ? own.url : ''));
  if (!draftModel.some((descriptor) => descriptor.kind === 'url' && urls.includes(descriptor.url))) return;
  throw draftIsModel();
}

/** Removes the model's headers from the source of its draft model, if that is on another host.
 * @param {SourceDescriptor} source of the draft model @param {SourceDescriptor} model @returns {SourceDescriptor} */
function withoutSecrets(source, model) {
  if (source.kind !== 'url' || model.kind !== 'url') return source;
  return new URL(source.url).origin === new URL(model.url).origin ? source : { ...source, headers: undefined };
}

/** Returns a meter that adds the progress of the draft model to that of the model. @param {Meter} meter */
function meterAfter(meter) {
  const before = Number(meter.total);
  /** @type {Pick<Meter, keyof Meter>} */
  const after = {
    reads: (source) => meter.reads(source),
    add: (bytes, cached) => meter.add(bytes, cached),
    watch: (have, total) => meter.watch(have, total),
    notice: (code, message) => meter.notice(code, message),
    finish() {},
    notices: [],
    get total() {
      return Number(meter.total) - before;
    },
    set total(bytes) {
      meter.total = before + Number(bytes);
    },
  };
  return /** @type {any} */ (after);
}

/** Throws `not-generative` or `bad-option` if the model `draft` cannot draft for `native`. Returns whether it is an
 * assistant, which reads the hidden states and the KV cache of `native`.
 * @param {Engine} native @param {Engine} draft */
function checkDraftModel(native, draft) {
  if (draft.number('bidirectional')) throw draftEmbeds();
  checkVocabulary(native, draft);
  return draft.call('pair', native.number('address')) > 0;
}

/** Compares two vocabularies. Throws `bad-option` if they differ. @param {Engine} native @param {Engine} draft */
function checkVocabulary(native, draft) {
  const [size, own] = [native, draft].map((one) => one.number('n_vocab'));
  if (Math.abs(size - own) > MOST_MORE) throw otherSize(size, own);
  const least = Math.min(size, own);
  const text = (/** @type {Engine} */ one, /** @type {number} */ id) => new TextDecoder().decode(one.decode(id, true));
  for (let id = 0; id < least; id += Math.ceil(least / COMPARED)) {
    const [expected, got] = [text(native, id), text(draft, id)];
    if (expected !== got) throw otherToken(id, expected, got);
  }
}

/** Drafts tokens, and pauses while drafts cost more time than they save. */
export class DraftModel {
  #native;
  #runner;
  #vocab;
  #context;
  #isAssistant;
  /** Moving averages: milliseconds per draft token, undefined before the first, and the share of accepted tokens.
   * @type {number | undefined} */
  #ms;
  #acceptance = ACCEPTANCE;
  #rest = 0;
  #nextRest = 1;

  /** @param {Engine} native @param {ConstructorParameters<typeof Runner>[1]} platform
   * @param {number} vocab number of tokens of the model @param {boolean} [isAssistant] */
  constructor(native, platform, vocab, isAssistant = false) {
    this.#native = native;
    this.#runner = new Runner(native, platform);
    this.#vocab = vocab;
    this.#context = native.number('n_ctx');
    this.#isAssistant = isAssistant;
    if (isAssistant) return;
    native.resetSampler();
    native.setOption('temperature', 0);
  }

  get facts() {
    return factsOf(this.#native, this.#context);
  }

  /** Returns draft tokens for a context; none while drafting is paused, or if the context is too long. Throws `aborted`
   * if the job was aborted. Other errors only pause drafting. @type {Drafter['draft']} */
  async draft(ids, { room, times, answered, position }, job) {
    if (this.#rest-- > 0) return [];
    const size = Math.min(room, this.#bestSize(times));
    if (ids.length + size > this.#context) return [];
    try {
      if (this.#isAssistant) return position === ids.length - 1 ? this.#assist(ids[position], size) : [];
      this.#native.sync(ids);
      const isNear = this.#native.call('pending') <= CATCH_UP + CATCH_UP_MORE * answered;
      return isNear ? await this.#evaluate(size, job) : [];
    } catch (error) {
      if (job.aborted || !(error instanceof ModelError)) throw error;
      this.#pause();
      return [];
    }
  }

  /** Drafts up to `size` tokens with the model's keys and values, until an end token. Cannot be aborted, because an
   * assistant takes only milliseconds. @param {number} id of the last token @param {number} size */
  #assist(id, size) {
    const ids = /** @type {number[]} */ ([]);
    const before = performance.now();
    let count = 0;
    for (let last = id; count < size; ids.push(last)) {
      last = this.#native.call('draft', last, Number(count++ > 0));
      if (this.#ends(last)) break;
    }
    this.#measured((performance.now() - before) / count);
    return ids;
  }

  /** @param {number} id */
  #ends(id) {
    return id >= this.#vocab || this.#native.call('is_end', id) > 0;
  }

  /** Evaluates the pending tokens, and drafts up to `size` tokens, until an end token. @param {number} size
   * @param {{ aborted: boolean }} job */
  async #evaluate(size, job) {
    const native = this.#native;
    native.call('want_top', 1);
    const ids = /** @type {number[]} */ ([]);
    // After a pause, the first evaluation takes longer than usual, and is not measured.
    const unmeasured = Number(native.call('pending') > MOST + 1);
    let before = performance.now();
    for (let evaluated = 1; ; evaluated++) {
      await this.#runner.settle(job);
      const id = native.draw();
      if (evaluated === unmeasured) before = performance.now();
      const ends = this.#ends(id);
      if (!ends) ids.push(id);
      if (ends || ids.length === size) {
        if (evaluated > unmeasured) this.#measured((performance.now() - before) / (evaluated - unmeasured));
        return ids;
      }
      native.call('append', id);
      await this.#runner.pause();
    }
  }

  /** @param {number} ms */
  #measured(ms) {
    this.#ms ??= ms;
    this.#ms += LATEST * (ms - this.#ms);
  }

  /** Returns the expected speedup of drafts with `size` tokens. @param {number} size @param {readonly number[]} times
   */
  #gain(size, times) {
    let tokens = 1;
    for (let i = 0; i < size; i++) tokens = 1 + this.#acceptance * tokens;
    // A step of a size that was not measured yet is assumed to take no longer than a single step, so it is tried.
    return (tokens * times[1]) / (size * (this.#ms ?? 0) + (times[size + 1] ?? times[1]));
  }

  /** Returns the number of draft tokens with the largest expected speedup. @param {readonly number[]} times */
  #bestSize(times) {
    const gains = Array.from({ length: MOST }, (_, i) => this.#gain(i + 1, times));
    return 1 + gains.indexOf(Math.max(...gains));
  }

  /** Learns from a draft, of which the first `accepted` tokens were accepted. Pauses drafting, longer each time, while
   * drafts save no time. @param {number} size @param {number} accepted @param {readonly number[]} times */
  judge(size, accepted, times) {
    const tested = Math.min(size, accepted + 1);
    this.#acceptance += LATEST * (accepted / tested - this.#acceptance);
    if (LEAST_GAIN * this.#gain(this.#bestSize(times), times) < 1) this.#pause();
    else this.#nextRest = 1;
  }

  #pause() {
    this.#rest = this.#nextRest;
    this.#nextRest = Math.min(2 * this.#nextRest, LONGEST_REST);
  }
}
