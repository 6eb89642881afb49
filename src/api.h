/* api: the functions that the wasm module exports. The only header that knows about wasm:
 * pointers are heap offsets, so every argument and result is a number.
 * Names are listed once more in src/exports.txt, which the linker and a test read.
 * Functions that return int return >= 0, or a negative GW_E_* code; then gw_error_text() of the model
 * that they belong to says what is wrong. */
#ifndef GW_API_H
#define GW_API_H

#include "base/base.h"
#include "run/sampler.h"
#include "base/checksum.h"
#include "base/sha256.h"
#include "base/threads.h"

typedef struct gw_model gw_model;
typedef struct gw_matcher gw_matcher;

/* Returns "simd128" or "relaxed", followed by "+threads" in the threaded builds; natively "reference". */
const char *gw_build(void);
/* Call gw_prove_build first. It returns 0, or GW_E_ENGINE if this build computes wrongly on this platform, so that
 * another one must be used (proof.h). gw_build_note returns the reason, and later the instructions that kernels avoid
 * here and why; "" if there are none. gw_load_reserve and the last gw_rehearse prove the file's kernels in the same
 * way. */
int gw_prove_build(void);
const char *gw_build_note(void);

/* --- threads (threads.h) --------------------------------------------------------------------
 * gw_pool_new(n): n threads in all, the calling one included (1 in builds without threads).
 * For each helper i in 1..n-1 the host starts a worker that instantiates the same module on the
 * same memory, sets its stack pointer with _emscripten_stack_restore(gw_pool_stack(pool, i)),
 * and calls gw_pool_enter(pool, i), which returns after gw_pool_stop(pool). If that traps, the worker
 * calls gw_pool_fail(pool, i), on the same stack from its top: the call that waits for it, and all later
 * ones, return GW_E_WORKER.
 * Work may start before the helpers have arrived. */

/* --- loading --------------------------------------------------------------------------------
 * model = gw_model_new(pool)
 * loop: copy up to gw_load_room() bytes to gw_load_window(), gw_load_commit(n) -> state
 *   GW_LOAD_HEADER    needs more bytes of the header
 *   GW_LOAD_PLAN      the header is complete: read gw_model_* numbers, choose a context length,
 *                     gw_load_reserve(model, n_ctx), which allocates everything at once
 *   GW_LOAD_WEIGHTS   needs more bytes of the weights
 *   GW_LOAD_READY     all tensors are in place
 * The bytes of a file come in order, from offset 0, each once. commit(0) is allowed. If a file ends early,
 * call gw_load_end(): it returns GW_E_TRUNCATED. Bytes after a file's last tensor are ignored (READY is
 * reached before those of the last file).
 *
 * Split models: gw_load_parts(n) sets the number of files, in their order (1 by default). The engine
 * chooses the file and offset of the next bytes: before each read, call gw_load_part() and, unless the
 * host's stream of that file is already there, gw_load_offset(). Only gw_load_commit() and
 * gw_load_reserve() change them. All headers come first, file by file (committed bytes after a header are
 * kept, and HEADER continues with the next file), then PLAN, then all weights, file by file: so file 0 is
 * left at some offset and resumed at that offset after PLAN. While its header is read, every file but the
 * first is read at most 64 KB at a time. GW_E_BAD_SPLIT: too few or too many files, a wrong order, or a
 * part of another model. gw_part_bytes(i) returns the size of file i up to the end of its last tensor, NAN
 * before its header is complete. */
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
/* Sets the most bytes that the whole heap may take; by default the whole address space. */
void gw_load_limit(gw_model *m, double bytes);
/* Sets an option that the memory plan depends on. Call it before gw_load_reserve. The first value is the default:
 *   "quantizeFloats"  "auto" "keep" "q8_0": matrices of F32, F16 or BF16 are kept, or packed as Q8_0 if rows are whole
 *                     blocks. auto: keep, because rounding the embedding can be most of a file's error; q8_0 is
 *                     faster and smaller. In a block of 32 with the largest magnitude M, no weight changes by more
 *                     than M / 254 + M / 2048, half a step and the rounding of its scale to f16 (M >= 0.0078;
 *                     below, M / 254 + 3.8e-6).
 *   "output"          "auto" "whole" "planes": layout of an output matrix of Q8_0; planes: two of 4 bits;
 *                     decoding reads one and some of the other (gw_want_top), for 8 more bytes per row. auto: planes
 *                     from 2^22 weights on. Changes no result. For tests.
 *   "kvType"          "auto" "f32" "i16" "q8_0": how the cache holds keys and values of all layers; i16: integers of
 *                     16 bits, and a scale for each head; q8_0: bytes, and a scale for each 32 of a head. auto: f32
 *                     where the layers' weights are floats; else i16 in global layers, f32 in those with a window.
 *   "tables"          "memory" "large" "file": matrices of which only rows of tokens are read (per-layer embeddings;
 *                     the embedding of a model with an output matrix) are in memory; or in the file if they have
 *                     64 MB or more; or all in the file. With the last two, gw_load_offset skips their bytes, so the
 *                     host must call it before each read, and gw_run can return GW_RUN_ROWS. Changes no result.
 * Returns 0, GW_E_BAD_OPTION, or GW_E_BAD_STATE after gw_load_reserve. */
int gw_load_option(gw_model *m, const char *name, const char *value);
/* Allocates weights, KV cache and scratch for n_ctx tokens of context; 0: the file's context length, at most
 * 4096. After GW_E_NO_MEMORY, whose message names the context that would fit, it may be called again. */
int gw_load_reserve(gw_model *m, uint32_t n_ctx);
/* Returns the bytes that gw_load_reserve(n_ctx) would take, by part: "weights", "kv", "scratch", "total"; "heap": the
 * resulting size of the whole heap; or "disk": bytes of weights that stay in the file. Exact beyond 4 GB too. From
 * state PLAN on; NAN if n_ctx is too long for the model. */
double gw_plan_bytes(const gw_model *m, uint32_t n_ctx, const char *part);
/* Returns the longest context whose "heap" is at most `bytes`, 0 if there is none. From state PLAN on. */
uint32_t gw_largest_context(const gw_model *m, double bytes);

/* --- metadata (from state PLAN on) -----------------------------------------------------------
 * gw_model_number keys: context_length (the file's), n_ctx (reserved), n_vocab, n_layer, n_embd,
 * n_ff, n_head, n_head_kv, head_dim, window, parameters, parts (files), file_bytes (of all parts, up
 * to the last tensor's end in each), gguf_version, alignment, bos_id, eos_id, eot_id, pad_id, add_bos
 * (1/0), add_eos, bidirectional (1: the model embeds texts and cannot continue them), dense (n_embd where vectors go
 * through dense layers, else 0), n_tensors, n_metadata, pack_texts, pack_ids (see gw_pack).
 * NAN if missing or unknown.
 * gw_model_text keys: architecture, name, quantisation ("Q4_0", "Q8_0", "F32" …: the type that
 * holds most weights of the layers), chat_template. NULL if missing or unknown; else UTF-8, NUL-terminated. */
double gw_model_number(const gw_model *m, const char *key);
const char *gw_model_text(const gw_model *m, const char *key);
/* Return one JSON object as NUL-terminated text, valid until the next call of either:
 * {"key":"general.name","type":"string","value":"…"}, {"key":…,"type":"array","of":"f32","count":262144}
 * {"name":"blk.0.attn_q.weight","type":"Q4_0","shape":[1152,1024],"offset":…,"bytes":…}
 * (and "part":1 where the tensor is not in the first file, "onDisk":true where it stays in the file)
 * NULL out of range. Strings above 64 KiB are cut there, with "cut":true. */
const char *gw_metadata_json(gw_model *m, uint32_t i);
const char *gw_tensor_json(gw_model *m, uint32_t i);

/* --- search over vectors (scan.h): gw_scan, of no model ------------------------------------- */

/* --- SHA-256 (sha256.h) ------------------------------------------------------------------------
 * s = gw_sha256_new(), NULL if no memory; gw_sha256_update(s, bytes, n) for each chunk, which may be in
 * the load window: hash before the commit; gw_sha256_hex(s) returns the 64 hexadecimal digits of the
 * bytes so far, NUL-terminated, without changing s; gw_free(s).
 * The first GW_SHA256_STATE (104) bytes at s are the whole state: they may be stored, and written
 * into another gw_sha256_new(), also by another engine.
 * gw_checksum (checksum.h) needs only the bytes. */

/* Returns a part of the last error of this model or its session: the name of its "code", or "what" is wrong, in
 * sentences; "" for any other part. */
const char *gw_error_text(const gw_model *m, const char *part);

/* --- tokenizer (in state READY or earlier, from PLAN on) -------------------------------------- */
/* special: GW_TOKENIZE_* of tokenizer.h: 1: control pieces match; 2: the text continues another one; 4: more text
 * follows, and gw_encode_taken returns where the rest begins. */
int gw_encode(gw_model *m, const char *text, size_t len, int special, int32_t *ids, size_t cap);
double gw_encode_taken(const gw_model *m);
/* before: the previous token, -1 at the beginning of a text (see gw_tokenizer_decode_after). */
int gw_decode(gw_model *m, int32_t before, int32_t id, int special, char *out, size_t cap);
int gw_is_end(const gw_model *m, int32_t id);     /* 1 if generation stops on id: eos, eot, <end_of_turn> */
int gw_is_control(const gw_model *m, int32_t id); /* 1 if id is a control token */

/* --- grammars: matcher.h's functions with the model's error (from PLAN on) -----------------------
 * x = gw_match_new(m, bytes, n) reads a grammar (grammar.h); NULL with an error. The first call builds the vocabulary's
 *   trie, which is kept. gw_match_free(m, x) frees x. gw_match_bytes(m, x) returns its heap, gw_match_found(m, x) the
 *   number of states whose allowed tokens were computed.
 * gw_match_mask(m, x) returns the address of the mask, bit id % 32 of word id / 32; NULL with an error.
 * gw_match_want(m, x) announces that the token after the pending ids is drawn with x in its present state: gw_run
 *   computes the logits of allowed tokens, and others where that costs nothing. x must not change before gw_run is
 *   done. The next gw_sync turns it off.
 * gw_match_complete(m, x) returns 1 if the text so far is complete, 2 if nothing can follow it.
 * gw_match_draw(m, x, logits) draws like gw_draw, but only allowed tokens: the other logits become -INFINITY, so
 *   gw_logprob then refers to the remaining distribution. For an argmax that is allowed anyway the logits stay as they
 *   are if `masked` is 0. GW_E_BAD_STATE if nothing is allowed. */
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
 * All functions below, also those of saved states and of the sampler, refer to the selected sequence (gw_select), the
 * first by default.
 * gw_sync(m, ids, n) makes the context equal ids[0..n) without evaluating it. Keeps the longest prefix that
 *   the KV cache can still serve, but re-evaluates at least the last id. Returns the number of ids kept, or
 *   GW_E_CONTEXT if n > n_ctx, GW_E_BAD_TOKEN, GW_E_BAD_OPTION if n = 0.
 * gw_append(m, id) appends an id to the context, not to texts (gw_pack). GW_E_CONTEXT if it is full.
 * gw_run(m, layers) evaluates pending ids, at most about `layers` layers of one batch (0: all of it).
 *   GW_RUN_DONE     nothing is pending; gw_logits() holds the logits after the last id
 *   GW_RUN_MORE     call again
 *   GW_RUN_LOGITS   only after gw_want_all(m, 1): gw_logits() holds gw_logit_rows() rows of
 *                   [n_vocab], for the positions from gw_logit_first() on; copy them, call again.
 *   GW_RUN_ROWS     rows of a tensor that stays in the file are missing (load option "tables"). gw_rows_wanted(m)
 *                   returns an array: the tensor's index, the number n of rows, and the rows, ascending. Copy the
 *                   bytes of row i (0 to n - 1), as in the file, to gw_rows_room(m, i), call gw_rows_commit(m), and
 *                   call again. Nothing else of this model may be called in between that changes the context; if rows
 *                   cannot be read, gw_sync begins anew. commit returns 0, GW_E_NOT_FINITE, or GW_E_BAD_STATE.
 *   GW_E_ABORTED    the abort flag was set; the context is truncated to the evaluated ids.
 * gw_position(m) returns the number of evaluated ids, gw_pending(m) that of pending ones.
 * gw_abort_flag(m) returns the address of an int32 that any thread may set to 1; gw_run clears it when it
 *   returns GW_E_ABORTED, gw_sync too. */
/* enum GW_RUN_* of session.h: DONE 0, MORE 1, LOGITS 2, LOOK 3, ROWS 4 */

int gw_sync(gw_model *m, const int32_t *ids, uint32_t n);
int gw_append(gw_model *m, int32_t id);
/* Makes the context its first n ids; does nothing if it is not longer, or if n is 0. Fewer than GW_BATCH ids can always
 * be removed without evaluating others again. */
void gw_truncate(gw_model *m, uint32_t n);
/* Sets the number of pending ids, the last ones of a batch, whose logits gw_run computes: 1 to 4. When gw_run is done,
 * gw_logits() holds the last row, and the others lie before it. The next gw_sync sets it to 1. */
int gw_want_last(gw_model *m, uint32_t rows);
int gw_run(gw_model *m, int layers);
/* Selects a sequence, from 0 on (load option "sequences"). */
int gw_select(gw_model *m, uint32_t i);
/* Evaluates the next block of all sequences whose bit is set in `mask`, in one batch: one row of each sequence with one
 * pending id, and prompts in chunks. Returns GW_RUN_MORE, GW_RUN_ROWS, or GW_RUN_DONE after a block; then gw_logits()
 * of each sequence without pending ids (gw_pending) holds its logits, as after gw_run. Between two calls of a block,
 * other sequences may change. A call for another set of sequences that lacks one of the block's, and gw_run, begin the
 * block anew. GW_E_BAD_STATE where all logits, vectors or an inspection are wanted. */
int gw_step(gw_model *m, uint32_t mask, int layers);
/* Returns how many of the ids gw_sync would keep if sequence i were selected. */
int gw_kept(gw_model *m, uint32_t i, const int32_t *ids, uint32_t n);
/* Makes the selected sequence the first n evaluated ids of sequence `from`, with their keys and values, or fewer if the
 * windows of `from` have moved on. Returns their number. Copies rows: sharing them would need a table of rows in every
 * attention kernel, and a copy takes less than the evaluation of one id. */
int gw_copy(gw_model *m, uint32_t from, uint32_t n);
const int32_t *gw_rows_wanted(gw_model *m); /* NULL if none are */
void *gw_rows_room(gw_model *m, int i);
int gw_rows_commit(gw_model *m);
/* Makes decoding read panels of weights sequentially (1) or interleaved (0). Which is faster depends on the processor;
 * results do not. For hosts that time both: also evaluates the feed-forward of a quarter (0 to 3) of the layers; 4:
 * of none. */
int gw_rehearse(gw_model *m, int sequential, uint32_t quarter);
/* Logits of every position: call gw_sync, then gw_want_all(m, 1), then gw_run. Empties the cache; the next gw_sync
 * turns it off. */
void gw_want_all(gw_model *m, int on);
/* After gw_sync: if the sampler's next draw is an argmax or takes the top k, gw_run computes only the logits that
 * decide it, where that saves time; gw_logits() has -INFINITY for the others. gw_draw returns the same id,
 * gw_match_draw only after gw_match_want or for an argmax; the sampler must not change between gw_run and the draw. The
 * next gw_sync turns it off. */
void gw_want_top(gw_model *m, int on);
/* Sets texts to embed, instead of gw_sync: the consecutive ids of `texts` texts. gw_model_number returns the most texts
 * (pack_texts) and ids (pack_ids); a single text may have n_ctx ids. pooling: 0: the mean of all tokens; 1: the last
 * one. After gw_run, gw_vector(i) returns the vector of text i, [n_embd], not normalised. Its bits do not depend on the
 * other texts. */
int gw_pack(gw_model *m, const int32_t *ids, const uint32_t *lengths, uint32_t texts, int pooling);
const float *gw_vector(const gw_model *m, uint32_t text);
/* Inspection: call gw_sync or gw_pack, then gw_want_look, which empties the cache; gw_run then returns
 *   GW_RUN_LOOK     with a batch of tokens before the first layer, after the attention of a layer, or after a layer;
 *                   read the values, then call again. There are no logits at the end.
 * gw_look_number: "stage" (0 before, 1 between, 2 after), "layer", "global" (1: that layer has no window), "first"
 * (index of the batch's first token in the ids), "rows". gw_look_norms: the norm of each row of the residual stream.
 * gw_look_attention, in stage 1: the attention weights of a head of the row for each id. gw_look_lens computes
 * gw_logits() of the row by the final norm and the output matrix. */
void gw_want_look(gw_model *m);
double gw_look_number(const gw_model *m, const char *key);
void gw_look_norms(const gw_model *m, float *out);
void gw_look_attention(const gw_model *m, int row, int head, float *out);
int gw_look_lens(gw_model *m, int row);
const float *gw_logits(gw_model *m);
int gw_check_logits(gw_model *m); /* 0, or GW_E_NOT_FINITE, which names a token whose logit is NaN or +infinity */
uint32_t gw_logit_rows(const gw_model *m);
uint32_t gw_logit_first(const gw_model *m);
uint32_t gw_position(const gw_model *m);
uint32_t gw_pending(const gw_model *m);
int32_t *gw_abort_flag(gw_model *m);
/* Empties the cache: the next gw_sync keeps nothing. */
void gw_clear(gw_model *m);

/* --- saved states (state.h): the evaluated ids and the sampler, as bytes, from state READY on ---------------
 * gw_state_name(m) returns 16 hexadecimal digits for the model, its cache type and the layout that a state must fit.
 * gw_save(m, ids, n) begins a state of these ids, or of all evaluated ones if n is 0. Returns 0; then gw_save_bytes(m)
 *   is its size, and gw_save_next(m) puts the next bytes at gw_state_window(m) and returns their number, 0 at the end.
 *   Returns 1 if not all of the ids are evaluated or the rings of windows have moved on: call gw_sync and gw_run first.
 *   Make no other call of this model before the end.
 * gw_restore(m, bytes) begins to read a state of that size: put up to gw_state_left(m) bytes at gw_state_window(m),
 *   then call gw_restore_commit(m, n). It returns 1 if it needs more; 0 if the state is restored: the next gw_sync
 *   keeps the prefix that it shares; GW_E_BAD_SAVED if it is rejected. commit(0) ends the bytes. A state of another
 *   model, cache type or layout is rejected by its header without any change; later errors leave the context empty.
 *   A state fits another context length if its ids do. */
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
int32_t gw_draw(gw_model *m, const float *logits); /* an id, GW_E_NOT_FINITE, or GW_E_BAD_STATE if all are banned */
/* also exported as they are: gw_sampler_reset gw_sampler_accept gw_logprob gw_top_logprobs
 * gw_alloc gw_free gw_error_name */

#endif
