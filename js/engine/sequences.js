/* sequences: evaluates several answers of generate() together. Each call has one of the engine's sequences
 * (src/run/session.h): a context with a KV cache and a sampler. Calls that wait for an evaluation share a batch, so the
 * weights are read once for all of them, unless taking turns is faster. All other calls run alone. */

/** @import { Context, EvaluationJob } from './jobs.js' */
/** @import { CallRunner, Runner } from './runner.js' */
/** @import { ModelError } from '../errors.js' */
import { RUN } from './engine.js';

/** Number of token ids whose evaluation costs less than copying them from another sequence or waiting for them. */
const FEW = 16;
/** Number of tokens in a page of the KV cache (GW_KEYS in src/kernels/kernels.h). */
export const PAGE = 32;

/** A sequence of the engine. prompt: ids that the sequence's call is evaluating now; most: maximum number of tokens of
 * its call; used: number of its latest call, 0 if its KV cache is empty; owner: id of the chat that restored its state;
 * pages: an object for each of its first whole pages, the same one as in the sequences that share the page.
 * @typedef {{ index: number, isFree: boolean, prompt: number[], most: number, used: number, owner: string,
 *   pages: object[] }} Sequence */
/** A call of generate(), with its sequence once it has one. @typedef {{ sequence?: Sequence }} Call */
/** A call that waits for the evaluation of its pending ids.
 * @typedef {{ sequence: Sequence, job: { aborted: boolean }, onSlice?: () => void, resolve: (_: any) => void,
 *   reject: (error: unknown) => void }} Waiting */

/** Weight of the latest duration in moving averages. */
const LATEST = 0.2;
/** A joint step evaluates several sequences. After LONGEST joint steps, a single step is measured again. If joint steps
 * are slow, at most LONGEST single steps follow before the next joint step. */
const LONGEST = 64;

/** Decides by measured durations whether sequences are evaluated together or take turns. */
export class Pace {
  /** @type {number[]} */
  #times = [];
  #joint = 0;
  /** Number of steps before sequences are evaluated together again. */
  #rest = 0;
  #nextRest = 1;

  /** Returns whether the next step evaluates sequences together. */
  next() {
    if (this.#rest > 0) {
      this.#rest--;
      return false;
    }
    return this.#times[1] !== undefined && ++this.#joint % LONGEST > 0;
  }

  /** Records the duration of a step in milliseconds.
   * @param {number} count number of sequences evaluated @param {number} ms */
  measured(count, ms) {
    const before = this.#times[count] ?? ms;
    this.#times[count] = before + LATEST * (ms - before);
    if (count === 1) return;
    const isSlow = this.#times[count] > count * this.#times[1];
    this.#rest = isSlow ? this.#nextRest : 0;
    this.#nextRest = isSlow ? Math.min(2 * this.#nextRest, LONGEST) : 1;
  }
}

/** Assigns the engine's sequences to calls, and evaluates waiting calls together. */
export class Sequences {
  #context;
  #runner;
  #wake;
  #native;
  /** @type {Sequence[]} */
  #all;
  /** The current sequence, on which the engine's functions act. */
  #now;
  #calls = 0;
  #running = 0;
  /** @type {Set<Waiting>} */
  #waiting = new Set();
  #isWorking = false;
  #pace = new Pace();
  /** @type {{ calls: Waiting[], ms: number } | null} */
  #step = null;
  /** Whether the calls are evaluated one at a time, because rows of weights could not be read for one of them. */
  #isApart = false;
  /** Number of pages of the KV cache. */
  #pages;
  /** Whether the KV cache has fewer pages than all sequences could need (option `kvTokens`). */
  #isLimited;
  /** Calls that wait for room in the KV cache, first come, first served. @type {Call[]} */
  #line = [];

  /** @param {Context} context @param {Runner & Pick<CallRunner, 'makeRoom'>} runner of the context
   * @param {() => void} wake wakes the calls that wait for their consumers or for room */
  constructor(context, runner, wake) {
    this.#context = context;
    this.#runner = runner;
    this.#wake = wake;
    this.#native = runner.native;
    this.count = this.#native.number('sequences');
    this.#all = Array.from({ length: this.count }, (_, index) => {
      return { index, isFree: true, prompt: [], most: 0, used: 0, owner: '', pages: [] };
    });
    this.#now = this.#all[0];
    this.#pages = this.#native.number('kv_free') / PAGE;
    this.#isLimited = this.#pages < this.count * Math.ceil(context.contextLength / PAGE);
    const slice = runner.slice.bind(runner);
    runner.slice = (kind, run) => this.#withRoom(() => slice(kind, run));
    runner.makeRoom = () => this.#makeRoom();
  }

  /** Whether a call waits for room in the KV cache. */
  get isFull() {
    return this.#line.length > 0;
  }

  /** Runs a call alone (`job.alone`), or together with others.
   * @template T @param {(context: Context, job: EvaluationJob, args: any) => Promise<T>} evaluate
   * @param {EvaluationJob & { alone: boolean }} job
   * @param {any} args @returns {Promise<T>} */
  async run(evaluate, job, args) {
    /** @type {Call} */
    const call = {};
    this.#running++;
    try {
      if (!job.alone) return await evaluate({ ...this.#context, runner: this.#runnerOf(call) }, job, args);
      // The logits of all ids (`all`) need the evaluation of all ids, so no prefix is shared.
      call.sequence = this.#claim(args.all ? [] : (args.ids ?? []), args.owner);
      return await evaluate(this.#context, job, args);
    } finally {
      this.#running--;
      if (call.sequence) Object.assign(call.sequence, { isFree: true, prompt: [] });
      this.#leaveLine(call);
    }
  }

  /** Removes a call from the line, and wakes the waiting calls: the room or the line may have changed.
   * @param {Call} call */
  #leaveLine(call) {
    this.#line = this.#line.filter((one) => one !== call);
    this.#wake();
  }

  /** Returns the runner of a call, whose `native` selects the call's sequence before each use.
   * @param {Call} call @returns {CallRunner} */
  #runnerOf(call) {
    const runner = this.#runner;
    const native = new Proxy(this.#native, {
      get: (engine, name) => {
        if (call.sequence) this.#select(call.sequence);
        const value = Reflect.get(engine, name, engine);
        if (typeof value !== 'function') return value;
        return (/** @type {any[]} */ ...args) => {
          if (call.sequence) this.#select(call.sequence);
          return value.apply(engine, args);
        };
      },
    });
    return {
      native,
      rows: runner.rows,
      yield: () => runner.yield(),
      pauses: (job) => runner.pauses(job),
      pause: async () => {}, // does nothing, because #work() lets the worker receive messages between slices
      isShared: () => this.#running > 1,
      claim: async (job, ids, { owner, maxTokens }) => {
        const most = Math.min(ids.length + maxTokens, this.#context.contextLength);
        if (this.#isLimited) {
          this.#line.push(call);
          this.#wake(); // a call whose consumer does not read would keep its room
        }
        while (!call.sequence) {
          if (job.aborted) return true;
          const isNext = !this.#isLimited || this.#line[0] === call;
          const isComing = isNext && this.#isComing(ids, owner);
          if (isNext && !isComing) call.sequence = this.#claim(ids, owner, most);
          if (call.sequence) break;
          if (!isComing) await job.stalled();
          // Until the worker yields, other calls may take back their last token (drawAgain() in jobs.js).
          await runner.yield();
        }
        this.#leaveLine(call);
        call.sequence.prompt = ids;
        this.#native.sync(ids, owner);
        return false;
      },
      settle: (job, { onSlice } = {}) => {
        const sequence = /** @type {Sequence} */ (call.sequence);
        return new Promise((resolve, reject) => {
          this.#waiting.add({ sequence, job, onSlice, resolve, reject });
          if (this.#pending(sequence) > 1) runner.layers.batch = 1;
          void this.#work();
        });
      },
    };
  }

  /** @param {Sequence} sequence */
  #select(sequence) {
    if (sequence === this.#now) return;
    this.#native.call('select', sequence.index);
    this.#now.owner = this.#native.restoredFor;
    this.#native.restoredFor = sequence.owner;
    this.#now = sequence;
  }

  /** @param {Sequence} sequence */
  #pending(sequence) {
    this.#select(sequence);
    return this.#native.call('pending');
  }

  /** Returns how many ids of a prompt a sequence has evaluated (`kept`), how many ids it has evaluated in all
   * (`position`), and whether another chat restored them (`isOthers`). @param {Sequence} sequence @param {number[]} ids
   * @param {string} owner */
  #held(sequence, ids, owner) {
    this.#select(sequence);
    const isOthers = !['', owner].includes(this.#native.restoredFor);
    const kept = ids.length && !isOthers ? this.#native.send('kept', sequence.index, Int32Array.from(ids)) : 0;
    return { sequence, kept, isOthers, position: this.#native.call('position') };
  }

  /** Returns whether another call is evaluating a longer prefix of a prompt than any sequence has.
   * @param {number[]} ids @param {string} [owner] */
  #isComing(ids, owner = '') {
    const held = this.#all.map((sequence) => this.#held(sequence, ids, owner));
    const least = Math.max(...held.map(({ kept }) => kept)) + FEW;
    return held.some(({ sequence: { prompt }, isOthers, position }) => {
      const shared = isOthers ? 0 : sharedIds(prompt, ids);
      return shared >= least && position < shared;
    });
  }

  /** Chooses the free sequence for a prompt that would lose the fewest other tokens; tokens of older calls count less.
   * Also returns the sequence with the longest evaluated prefix of the prompt (`best`).
   * @param {number[]} ids @param {string} owner */
  #choose(ids, owner) {
    const held = this.#all.map((sequence) => this.#held(sequence, ids, owner));
    const best = held.reduce((a, b) => (b.kept > a.kept ? b : a));
    const costs = held
      .filter(({ sequence }) => sequence.isFree)
      .map((one) => ({
        ...one,
        cost: Math.max(0, one.position - one.kept - FEW) / (1 + this.#calls - one.sequence.used),
      }));
    const { sequence, kept } = costs.reduce((a, b) => {
      return b.cost < a.cost || (b.cost === a.cost && b.kept > a.kept) ? b : a;
    });
    return { sequence, kept, best };
  }

  /** Gives a call a sequence, selects it, and lets it share the longest evaluated prefix of the call's prompt. Returns
   * undefined if the KV cache may not have enough room before another call ends. @param {number[]} ids
   * @param {string} [owner] @param {number} [most] maximum number of tokens of a call that does not run alone
   * @returns {Sequence | undefined} */
  #claim(ids, owner = '', most = 0) {
    const { sequence, kept, best } = this.#choose(ids, owner);
    const source = best.kept > kept ? best.sequence : sequence;
    const pages = this.#pagesOf(source, best.kept);
    if (!this.#hasRoom(pages, most)) return undefined;
    this.#select(sequence);
    if (source !== sequence) {
      this.#native.call('copy', source.index, best.kept);
      this.#native.restoredFor = source.owner;
    }
    return Object.assign(sequence, { isFree: false, most, used: ++this.#calls, pages });
  }

  /** Returns the whole pages of the first `length` evaluated tokens of a sequence.
   * @param {Sequence} sequence @param {number} length */
  #pagesOf({ pages }, length) {
    const count = Math.floor(length / PAGE);
    while (pages.length < count) pages.push({});
    return pages.slice(0, count);
  }

  /** Returns whether the KV cache has room for all tokens of the running calls, and of a call with `most` tokens, of
   * which whole pages are evaluated. The sequences write only after their whole pages, so they share only these.
   * @param {object[]} pages @param {number} most */
  #hasRoom(pages, most) {
    const shared = new Set(pages);
    let own = Math.ceil(most / PAGE) - pages.length;
    for (const one of this.#all.filter(({ isFree }) => !isFree)) {
      this.#select(one);
      const whole = this.#pagesOf(one, this.#native.call('position'));
      for (const page of whole) shared.add(page);
      own += Math.ceil(one.most / PAGE) - whole.length;
    }
    return shared.size + own <= this.#pages;
  }

  /** Empties the KV cache of an idle sequence (one without a running call): the least recently used one. Returns false
   * if all idle sequences are empty. */
  #makeRoom() {
    const now = this.#now;
    const [oldest] = this.#all.filter(({ isFree, used }) => isFree && used).sort((a, b) => a.used - b.used);
    if (!oldest) return false;
    this.#select(oldest);
    this.#native.call('clear');
    this.#select(now);
    oldest.used = 0;
    return true;
  }

  /** Returns the result of f(). If the KV cache is full, makes room and calls f again. @param {() => number} f
   * @returns {number} */
  #withRoom(f) {
    try {
      return f();
    } catch (error) {
      if (/** @type {ModelError} */ (error).code !== 'no-memory' || !this.#makeRoom()) throw error;
      return this.#withRoom(f);
    }
  }

  async #work() {
    if (this.#isWorking) return;
    this.#isWorking = true;
    while (this.#waiting.size) {
      // Lets answers in progress request their next step, and messages of the client arrive.
      await this.#runner.yield();
      await this.#slice();
    }
    this.#isWorking = false;
  }

  async #slice() {
    for (const one of this.#waiting) if (one.job.aborted) this.#abort(one);
    const all = [...this.#waiting];
    if (!all.length) return;
    const together = this.#isApart ? all.slice(0, 1) : this.#together(all);
    try {
      const state = this.#evaluate(together);
      if (state === RUN.ROWS) return await this.#readRows(together);
      for (const one of together) {
        one.onSlice?.();
        if (!this.#pending(one.sequence)) this.#end(one);
      }
    } catch (error) {
      for (const one of together) this.#end(one, error);
    }
  }

  /** Returns the calls of the next slice: those of an unfinished step, a single call if that is faster and none
   * evaluates a prompt, or else all. @param {Waiting[]} all */
  #together(all) {
    if (this.#step?.calls.every((one) => this.#waiting.has(one))) return this.#step.calls;
    const isSingle = all.length > 1 && !this.#hasPrompt(all) && !this.#pace.next();
    return isSingle ? all.slice(0, 1) : all;
  }

  /** @param {Waiting[]} calls */
  #hasPrompt(calls) {
    return calls.some(({ sequence }) => this.#pending(sequence) > 1);
  }

  /** @param {Waiting[]} together */
  #evaluate(together) {
    const kind = this.#hasPrompt(together) ? 'batch' : 'single';
    const step = this.#step?.calls === together ? this.#step : { calls: together, ms: 0 };
    const before = performance.now();
    const state = this.#run(together, kind);
    step.ms += performance.now() - before;
    if (kind === 'single' && state === RUN.DONE) this.#pace.measured(together.length, step.ms);
    this.#step = kind === 'single' && state !== RUN.DONE ? step : null;
    return state;
  }

  /** @param {Waiting[]} together @param {'batch' | 'single'} kind */
  #run(together, kind) {
    if (together.length === 1) this.#select(together[0].sequence);
    const mask = together.reduce((bits, { sequence }) => bits | (1 << sequence.index), 0);
    return this.#runner.slice(kind, (layers) => {
      return together.length === 1 ? this.#native.call('run', layers) : this.#native.call('step', mask, layers);
    });
  }

  /** Gives the engine the rows of weights that it requested. If that fails, the calls are evaluated one at a time,
   * so that only one fails. @param {Waiting[]} together */
  async #readRows(together) {
    const isAborted = () => together.some(({ job }) => job.aborted);
    try {
      const job = {
        get aborted() {
          return isAborted();
        },
      };
      await this.#runner.rows?.fill(job);
    } catch (error) {
      if (isAborted()) return;
      this.#isApart = together.length > 1;
      if (!this.#isApart) this.#abort(together[0], error);
    }
  }

  /** Aborts the evaluation of a call. Its context is truncated to the evaluated ids. @param {Waiting} one
   * @param {unknown} [error] */
  #abort(one, error) {
    try {
      if (!this.#pending(one.sequence)) return this.#end(one);
      this.#native.setAbort();
      this.#native.call('run', 1);
    } catch (aborted) {
      this.#end(one, error ?? aborted);
    }
  }

  /** @param {Waiting} one @param {unknown} [error] */
  #end(one, error) {
    this.#waiting.delete(one);
    one.sequence.prompt = [];
    this.#isApart = false;
    if (error === undefined) one.resolve(undefined);
    else one.reject(error);
  }
}

/** Returns the number of ids at the beginning that two prompts share, without the last of `ids`, which is always
 * evaluated again. @param {number[]} prompt @param {number[]} ids */
function sharedIds(prompt, ids) {
  const most = Math.min(prompt.length, ids.length - 1);
  let n = 0;
  while (n < most && prompt[n] === ids[n]) n++;
  return n;
}
