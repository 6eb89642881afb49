/* api: the functions that the wasm module exports. The only header that knows about wasm:
 * pointers are heap offsets, so every argument and result is a number.
 * Names are listed once more in src/exports.txt, which the linker and a test read.
 * Functions that return int give >= 0, or a negative GW_E_* code; then gw_model_error() of the
 * model they belong to says what was expected and what was got. */
#ifndef GW_API_H
#define GW_API_H

#include "base/base.h"
#include "run/sampler.h"
#include "base/checksum.h"
#include "base/sha256.h"
#include "base/threads.h"

typedef struct gw_model gw_model;
typedef struct gw_matcher gw_matcher;

/* "simd128" or "relaxed", and "+threads" behind it in the threaded builds; natively "reference". */
const char *gw_build(void);
/* First of all: 0, or GW_E_ENGINE: this build cannot compute rightly on this platform, take another one (proof.h).
 * gw_build_note(): then why; later also what kernels do without here, and why; "" if all is well. gw_load_reserve and
 * the last gw_rehearse prove the kernels of the file in the same way. */
int gw_prove_build(void);
const char *gw_build_note(void);

/* --- threads (threads.h) --------------------------------------------------------------------
 * gw_pool_new(n): n threads in all, the calling one included (1 in builds without threads).
 * For each helper i in 1..n-1 the host starts a worker that instantiates the same module on the
 * same memory, sets its stack pointer with _emscripten_stack_restore(gw_pool_stack(pool, i)),
 * and calls gw_pool_enter(pool, i), which returns after gw_pool_stop(pool). If that traps, the worker
 * calls gw_pool_fail(pool, i), on the same stack from its top: the call that waits for it, and all later
 * ones, give GW_E_WORKER.
 * Work may start before the helpers have arrived. */

/* --- loading --------------------------------------------------------------------------------
 * model = gw_model_new(pool)
 * loop: copy up to gw_load_room() bytes to gw_load_window(), gw_load_commit(n) -> state
 *   GW_LOAD_HEADER    more bytes, please
 *   GW_LOAD_PLAN      the header is complete: read gw_model_* numbers, choose a context length,
 *                     gw_load_reserve(model, n_ctx), which allocates everything at once
 *   GW_LOAD_WEIGHTS   more bytes, please
 *   GW_LOAD_READY     all tensors are in place
 * Bytes of a file come in order, from offset 0, each once. commit(0) is allowed. When a file ends
 * early call gw_load_end(): it gives GW_E_TRUNCATED with expected and got. Bytes behind a file's
 * last tensor are ignored (READY is reached before those of the last file).
 *
 * Split models: gw_load_parts(n) says how many files the host has, in their order (1 if it is not
 * called). The engine says from which of them the next bytes must come, and from which offset:
 * before each read ask gw_load_part() and, unless the host's stream of that file stands there anyway,
 * gw_load_offset(). Both change in gw_load_commit() and gw_load_reserve() only. First come all headers,
 * file by file (at the end of one, what was committed behind it is kept, and HEADER goes on with the
 * next file), then PLAN, then all weights, file by file: so file 0 is left at some offset, and taken
 * up again at that very offset after PLAN. Each file but the first is read 64 KB at a time at most
 * while its header is read. GW_E_BAD_SPLIT: too few or too many files, a wrong order, a part of
 * another model. gw_part_bytes(i): size of file i up to its last tensor's end, NAN before its header
 * is complete. */
/* enum GW_LOAD_* of load.h: HEADER 0, PLAN 1, WEIGHTS 2, READY 3 */

gw_model *gw_model_new(gw_pool *pool);
void gw_model_free(gw_model *m);          /* its session too */
int gw_load_parts(gw_model *m, int n);    /* before the first commit */
int gw_load_part(const gw_model *m);      /* index of the file that the next bytes must come from */
double gw_load_offset(const gw_model *m); /* where in it */
double gw_part_bytes(const gw_model *m, int i);
void *gw_load_window(gw_model *m);
size_t gw_load_room(const gw_model *m);    /* > 0 in states HEADER and WEIGHTS */
int gw_load_commit(gw_model *m, size_t n); /* GW_LOAD_* or an error */
int gw_load_end(gw_model *m);              /* 0 if READY, else GW_E_TRUNCATED */
/* Bytes that the whole heap may come to; until it is called, as many as there are addresses. */
void gw_load_limit(gw_model *m, double bytes);
/* One setting that the memory plan depends on, before gw_load_reserve; the first value is the default:
 *   "quantizeFloats"  "auto" "keep" "q8_0": matrices that the file has as F32, F16 or BF16 stay, or are packed as Q8_0
 *                     where rows are whole blocks. auto: keep, because rounding the embedding can be most of a
 *                     file's error; q8_0 is the faster and smaller one. Of a block of 32 with the largest magnitude
 *                     M, no weight changes by more than M / 254 + M / 2048, half a step and the rounding of its
 *                     scale to f16 (M >= 0.0078; below, M / 254 + 3.8e-6).
 *   "output"          "auto" "whole" "planes": how an output matrix of Q8_0 lies; planes: in two of 4 bits, of which
 *                     greedy decoding reads one and little of the other (gw_want_top), 8 bytes a row more.
 *                     auto: planes from 2^22 weights on. It changes no result. For tests.
 *   "kvType"          "auto" "f32" "i16" "q8_0": how the cache holds keys and values of all layers; i16: integers of
 *                     16 bits, and a scale for each head; q8_0: bytes, and a scale for each 32 of a head. auto: f32
 *                     where the layers' weights are floats; else i16 in global layers, f32 in those with a window.
 * 0, GW_E_BAD_OPTION, or GW_E_BAD_STATE when it is too late. */
int gw_load_option(gw_model *m, const char *name, const char *value);
/* n_ctx: tokens of context; 0 = the file's own context length, at most 4096.
 * Allocates weights, KV cache, scratch. GW_E_NO_MEMORY names the bytes needed and what would fit;
 * then it may be called again with a smaller n_ctx. */
int gw_load_reserve(gw_model *m, uint32_t n_ctx);
/* Memory that reserve(n_ctx) would take, in bytes, by part: "weights", "kv", "scratch", "total"; and
 * "heap": what the whole heap comes to with it, whatever else there is. Exact beyond 4 GB too.
 * From state PLAN on; NAN where reserve refuses n_ctx as too long. */
double gw_plan_bytes(const gw_model *m, uint32_t n_ctx, const char *part);
/* The longest context whose "heap" is at most `bytes`; 0: not even one token. From state PLAN on. */
uint32_t gw_largest_context(const gw_model *m, double bytes);

/* --- what is in the file (from state PLAN on) ------------------------------------------------
 * gw_model_number keys: context_length (the file's), n_ctx (reserved), n_vocab, n_layer, n_embd,
 * n_ff, n_head, n_head_kv, head_dim, window, parameters, parts (files), file_bytes (of all parts, up
 * to the last tensor's end in each), gguf_version, alignment, bos_id, eos_id, eot_id, pad_id, add_bos
 * (1/0), add_eos, bidirectional (1: the model embeds texts and cannot continue them), dense (n_embd where vectors go
 * through dense layers, else 0), n_tensors, n_metadata, pack_texts, pack_ids (see gw_pack).
 * NAN for what is not there.
 * gw_model_text keys: architecture, name, quantisation ("Q4_0", "Q8_0", "F32" …: the type that
 * holds most weights of the layers), chat_template. NULL for what is not there; else UTF-8, NUL-terminated. */
double gw_model_number(const gw_model *m, const char *key);
const char *gw_model_text(const gw_model *m, const char *key);
/* One JSON object as NUL-terminated text, valid until the next call of either:
 * {"key":"general.name","type":"string","value":"…"}, {"key":…,"type":"array","of":"f32","count":262144}
 * {"name":"blk.0.attn_q.weight","type":"Q4_0","shape":[1152,1024],"offset":…,"bytes":…}
 * (and "part":1 where the tensor is not in the first file)
 * NULL out of range. Strings above 64 KiB are cut there, with "cut":true. */
const char *gw_metadata_json(gw_model *m, uint32_t i);
const char *gw_tensor_json(gw_model *m, uint32_t i);

/* --- search over vectors (scan.h): gw_scan, of no model ------------------------------------- */

/* --- SHA-256 (sha256.h) ------------------------------------------------------------------------
 * s = gw_sha256_new(), NULL if no memory; gw_sha256_update(s, bytes, n) for each piece, which may lie
 * in the load window: hash before the commit; gw_sha256_hex(s) gives the 64 hexadecimal digits of
 * what came so far, NUL-terminated, and changes nothing; gw_free(s).
 * The first GW_SHA256_STATE (104) bytes at s are the whole state: they may be stored, and put back
 * into another gw_sha256_new(), also by another engine.
 * gw_checksum (checksum.h) needs no model, and nothing but the bytes. */

/* The last error of this model or its session: name of its code, and three texts, "" if empty. */
const char *gw_error_text(const gw_model *m, const char *part); /* "code" "what" "expected" "got" */

/* --- tokenizer (in state READY or earlier, from PLAN on) -------------------------------------- */
/* special: GW_TOKENIZE_* of tokenizer.h: 1 control pieces match, 2 the text goes on where another one ended, 4 more of
 * it follows: then gw_encode_taken says where its rest begins. */
int gw_encode(gw_model *m, const char *text, size_t len, int special, int32_t *ids, size_t cap);
double gw_encode_taken(const gw_model *m);
/* `before`: the token that the id stands behind, -1 at the beginning of a text (see gw_tokenizer_decode_after). */
int gw_decode(gw_model *m, int32_t before, int32_t id, int special, char *out, size_t cap);
int gw_is_end(const gw_model *m, int32_t id);     /* 1 if generation stops on id: eos, eot, <end_of_turn> */
int gw_is_control(const gw_model *m, int32_t id); /* 1 if id is a control token */

/* --- grammars: matcher.h's functions with the model's error (from PLAN on) -----------------------
 * x = gw_match_new(m, bytes, n): reads a grammar (grammar.h); NULL with an error. The first one makes the vocabulary's
 *   trie, which stays. gw_match_free(m, x); gw_match_bytes(m, x): heap it holds;
 *   gw_match_found(m, x): states whose tokens masks had to look for.
 * gw_match_mask(m, x): address of the mask, bit id % 32 of word id / 32; NULL with an error.
 * gw_match_want(m, x): what follows the ids that are pending will be drawn with x as it stands: gw_run computes the
 *   logits of tokens that are allowed, and others where that is no more work. x must not change before it is through.
 *   The next gw_sync turns it off.
 * gw_match_complete(m, x): 1 where the text so far is a whole one, 2 where nothing can follow it.
 * gw_match_draw(m, x, logits): as gw_draw, of the tokens that are allowed: the other logits become -INFINITY, and what
 *   is asked of them afterwards (gw_logprob) is of the distribution that is left. For an arg max they stay as they are
 *   where it is allowed anyway and `masked` is 0. GW_E_BAD_STATE where nothing is allowed. */
gw_matcher *gw_match_new(gw_model *m, const void *bytes, size_t n);
void gw_match_free(gw_model *m, gw_matcher *x);
double gw_match_bytes(const gw_model *m, const gw_matcher *x);
int gw_match_found(const gw_model *m, const gw_matcher *x);
int gw_match_reset(gw_model *m, gw_matcher *x);
int gw_match_accept(gw_model *m, gw_matcher *x, int32_t id);
int gw_match_text(gw_model *m, gw_matcher *x, const char *text, size_t n);
int gw_match_allows(gw_model *m, gw_matcher *x, int32_t id);
const uint32_t *gw_match_mask(gw_model *m, gw_matcher *x);
int gw_match_want(gw_model *m, gw_matcher *x);
int gw_match_complete(const gw_model *m, const gw_matcher *x);
int gw_match_ended(const gw_model *m, const gw_matcher *x);
int gw_match_forced(gw_model *m, gw_matcher *x, char *out, size_t cap);
int gw_match_joins(gw_model *m, gw_matcher *x, size_t forced, const char *text, size_t n);
int32_t gw_match_draw(gw_model *m, gw_matcher *x, float *logits, int masked);

/* --- evaluation: one session per model, made by gw_load_reserve --------------------------------
 * gw_sync(m, ids, n): make the context equal ids[0..n). Keeps the longest prefix that the KV cache
 *   can still serve, but re-evaluates at least the last id. Returns the number of ids kept.
 *   GW_E_CONTEXT when n > n_ctx, GW_E_BAD_TOKEN, GW_E_BAD_OPTION when n = 0. Evaluates nothing yet.
 * gw_append(m, id): one more id behind the context, not behind texts (gw_pack). GW_E_CONTEXT when it is full.
 * gw_run(m, layers): evaluate what is pending, at most about `layers` layers of one batch (0: all of it).
 *   GW_RUN_DONE     nothing pending, gw_logits() holds the logits after the last id
 *   GW_RUN_MORE     call again
 *   GW_RUN_LOGITS   only after gw_want_all(m, 1): gw_logits() holds gw_logit_rows() rows of
 *                   [n_vocab], for the positions from gw_logit_first() on; copy them, call again.
 *   GW_E_ABORTED    the abort flag was set; the context is cut back to what was evaluated.
 * gw_position(m): ids evaluated so far. gw_pending(m): ids that wait.
 * gw_abort_flag(m): address of an int32 that any thread may set to 1; gw_run clears it when it
 *   returns GW_E_ABORTED; gw_sync clears it too. */
/* enum GW_RUN_* of session.h: DONE 0, MORE 1, LOGITS 2, LOOK 3 */

int gw_sync(gw_model *m, const int32_t *ids, uint32_t n);
int gw_append(gw_model *m, int32_t id);
int gw_run(gw_model *m, int layers);
/* Makes decoding use 1 or many (0) streams of weights per thread. Which is faster depends on the processor; results do
 * not. For hosts that time both: also reads nine tenths of a quarter of the layers, 0 to 3; 4: of none. */
int gw_rehearse(gw_model *m, int streams, uint32_t quarter);
/* Logits of every position: call gw_sync, then gw_want_all(m, 1), then gw_run. Empties the cache; the next gw_sync
 * turns it off. */
void gw_want_all(gw_model *m, int on);
/* For greedy decoding, after gw_sync: if the sampler's next draw is an arg max, gw_run computes only the logits that
 * decide it, if that saves time; gw_logits() has -INFINITY for the others. gw_draw gives the same id; the sampler must
 * not change between gw_run and gw_draw. The next gw_sync turns it off. */
void gw_want_top(gw_model *m, int on);
/* Embeds texts, in place of gw_sync: ids of `texts` texts, one behind the other. gw_model_number gives the most texts
 * (pack_texts) and ids (pack_ids) of a pack; a single text may have n_ctx ids. pooling: 0 the mean of all tokens, 1 the
 * last one. After gw_run, gw_vector(i) is text i's [n_embd], not normalised. A text's bits do not depend on others. */
int gw_pack(gw_model *m, const int32_t *ids, const uint32_t *lengths, uint32_t texts, int pooling);
const float *gw_vector(const gw_model *m, uint32_t text);
/* Inspection: call gw_sync or gw_pack, then gw_want_look, which empties the cache; gw_run then returns
 *   GW_RUN_LOOK     with a batch of tokens before the first layer, or after the attention or the end of a layer;
 *                   look now, and call again. There are no logits at the end.
 * gw_look_number: "stage" (0 before, 1 between, 2 after), "layer", "global" (1: that layer has no window), "first"
 * (index of the batch's first token in the ids), "rows". gw_look_norms: length of each row of the residual stream.
 * gw_look_attention, in stage 1: the weight that a head of the row gives to each id. gw_look_lens: computes gw_logits()
 * of the row by the final norm and the output matrix. */
void gw_want_look(gw_model *m);
double gw_look_number(const gw_model *m, const char *key);
void gw_look_norms(const gw_model *m, float *out);
void gw_look_attention(const gw_model *m, int row, int head, float *out);
int gw_look_lens(gw_model *m, int row);
const float *gw_logits(gw_model *m);
int gw_check_logits(gw_model *m); /* 0, or GW_E_NOT_FINITE, which says of which token one is NaN or +infinity */
uint32_t gw_logit_rows(const gw_model *m);
uint32_t gw_logit_first(const gw_model *m);
uint32_t gw_position(const gw_model *m);
uint32_t gw_pending(const gw_model *m);
int32_t *gw_abort_flag(gw_model *m);
/* Forget the cache (the next gw_sync keeps nothing). */
void gw_clear(gw_model *m);

/* --- saved states (state.h): what is evaluated and the sampler, as bytes, from state READY on --------------
 * gw_state_name(m): 16 hexadecimal digits for the model, the type of its cache and the layout that a state must fit.
 * gw_save(m, ids, n): a state of these ids begins, without any of all that are evaluated: 0, then gw_save_bytes(m) is
 *   its size and gw_save_next(m) puts the next bytes at gw_state_window(m) and says how many, 0 at the end; 1: they are
 *   not all evaluated, or the rings of windows have moved on: gw_sync and gw_run first. No other call of this model may
 *   come in between.
 * gw_restore(m, bytes): a state of so many bytes comes: put up to gw_state_left(m) of them at gw_state_window(m),
 *   gw_restore_commit(m, n): 1 more, please; 0: all is there, the next gw_sync keeps what it begins with;
 *   GW_E_BAD_SAVED: it is over. commit(0) says that no more come. A state of another model, cache type or layout is
 *   refused by its header, and nothing has changed; any later flaw leaves the context empty.
 *   With another context length it fits as long as its ids do. */
const char *gw_state_name(gw_model *m);
int gw_save(gw_model *m, const int32_t *ids, uint32_t n);
double gw_save_bytes(const gw_model *m);
size_t gw_save_next(gw_model *m);
int gw_restore(gw_model *m, double bytes);
void *gw_state_window(gw_model *m);
size_t gw_state_left(const gw_model *m);
int gw_restore_commit(gw_model *m, size_t n);

/* --- sampler: sampler.h's functions with the model's error in place of gw_error* --------------- */
gw_sampler *gw_sampler_of(gw_model *m); /* made by gw_load_reserve */
int gw_set_option(gw_model *m, const char *name, double value);
int gw_set_bias(gw_model *m, int32_t id, float bias);
int32_t gw_draw(gw_model *m, const float *logits); /* an id, GW_E_NOT_FINITE, or GW_E_BAD_STATE: all are banned */
/* also exported as they are: gw_sampler_reset gw_sampler_accept gw_logprob gw_top_logprobs
 * gw_alloc gw_free gw_error_name */

#endif
