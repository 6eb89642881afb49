/* api: the functions that the wasm module exports. In wasm, pointers are offsets in the heap. src/exports.txt lists the
 * names for the linker. Functions that return int return a value >= 0, or a negative GW_E_* code; then gw_error_text()
 * of the same model says what is wrong. */
#ifndef GW_API_H
#define GW_API_H

#include "base/base.h"
#include "run/sampler.h"
#include "base/checksum.h"
#include "base/sha256.h"
#include "base/threads.h"

typedef struct gw_model gw_model;
typedef struct gw_matcher gw_matcher;

/* Returns "simd128" or "relaxed", followed by "+threads" in builds with threads; "reference" in native builds. */
const char *gw_build(void);
/* Call gw_prove_build first. It returns 0, or GW_E_ENGINE if this build gives wrong results on this platform, so that
 * the host must load another build (proof.h). gw_build_note returns the reason, and after success the instructions that
 * kernels avoid here and why; "" if there are none. gw_load_reserve, and gw_autotune when it evaluates no layer, check
 * the kernels for the file's tensor types in the same way. */
int gw_prove_build(void);
const char *gw_build_note(void);

/* --- threads (threads.h) --------------------------------------------------------------------
 * gw_pool_new(n) makes a pool of n threads, including the calling thread (1 in builds without threads).
 * For each helper i in 1..n-1, the host starts a worker that instantiates the same module on the same memory, sets the
 * stack pointer with _emscripten_stack_restore(gw_pool_stack(pool, i)), and calls gw_pool_enter(pool, i), which returns
 * after gw_pool_stop(pool). If gw_pool_enter traps, the worker resets the stack pointer to the top of the same stack
 * and calls gw_pool_fail(pool, i): the call that waits for this helper, and all later calls, return GW_E_WORKER.
 * gw_pool_use(pool, n) sets the number of threads in use. Evaluation may start before the helpers have arrived. */

/* --- loading --------------------------------------------------------------------------------
 * Call gw_model_new(pool). Then copy up to gw_load_room() bytes to gw_load_window() and call gw_load_commit(n),
 * repeatedly. gw_load_commit returns the state of the load:
 *   GW_LOAD_HEADER    more bytes of the header are needed
 *   GW_LOAD_PLAN      the header is complete: read gw_model_* numbers, choose a context length, and call
 *                     gw_load_reserve(model, n_ctx), which allocates everything at once
 *   GW_LOAD_WEIGHTS   more bytes of the weights are needed
 *   GW_LOAD_READY     all tensors are loaded
 * Pass the bytes of a file in order, from offset 0, each once. gw_load_commit(0) is allowed. If a file ends early, call
 * gw_load_end(), which returns GW_E_TRUNCATED. Bytes after the last tensor of a file are ignored. In the last file they
 * need not be passed: the state becomes READY at the end of its last tensor.
 *
 * Split models: gw_load_parts(n) sets the number of files (1 by default), which are numbered in their order. The engine
 * chooses the file and offset of the next bytes: before each read, call gw_load_part() and, unless the host's stream of
 * that file is already at the right offset, gw_load_offset(). Only gw_load_commit() and gw_load_reserve() change these
 * two results. All headers are read first, file by file, in state HEADER; committed bytes after a header are kept. Then
 * the state is PLAN. Then all weights are read, file by file, so reading of file 0 resumes where it stopped. Headers of
 * files other than the first are read at most 64 KB at a time.
 * GW_E_BAD_SPLIT: there are too few or too many files, their order is wrong, or a part belongs to another model.
 * gw_part_bytes(i) returns the size of file i up to the end of its last tensor, NAN before its header is complete. */
/* enum GW_LOAD_* of load.h: HEADER 0, PLAN 1, WEIGHTS 2, READY 3 */

gw_model *gw_model_new(gw_pool *pool);
void gw_model_free(gw_model *m);          /* frees a model and its session */
int gw_load_parts(gw_model *m, int n);    /* sets the number of files of the model, before the first gw_load_commit */
int gw_load_part(const gw_model *m);      /* returns the index of the model file that the next bytes must come from */
double gw_load_offset(const gw_model *m); /* returns the offset, in its file, of the next byte that the loader needs */
double gw_part_bytes(const gw_model *m, int i);
void *gw_load_window(gw_model *m);
/* Returns how many bytes may be written to gw_load_window(), a number > 0 in the states HEADER and WEIGHTS. */
size_t gw_load_room(const gw_model *m);
int gw_load_commit(gw_model *m, size_t n); /* loads n bytes of the window; returns the state GW_LOAD_* or an error */
int gw_load_end(gw_model *m);              /* ends a file; returns 0 if the state is READY, otherwise GW_E_TRUNCATED */
/* Sets the maximum size of the whole heap in bytes; the default is the whole address space. */
void gw_load_limit(gw_model *m, double bytes);
/* Sets an option that the memory plan depends on. Call it before gw_load_reserve. The first value is the default:
 *   "quantizeFloats"  "auto" "keep" "q8_0": whether F32, F16 and BF16 matrices are kept, or packed as Q8_0 if their
 *                     rows are whole blocks. q8_0 is faster and smaller. auto: keep, because rounding the embedding
 *                     can cause most of a file's error. In a block of 32 whose largest magnitude is M, no weight
 *                     changes by more than M / 254 + M / 2048 (M / 254 + 3.8e-6 if M < 0.0078): half a step and the
 *                     rounding of the block's scale to f16.
 *   "output"          "auto" "whole" "stages": how a quantised output matrix is multiplied (gw_want_top). stages:
 *                     bounds all logits first, and computes only candidates exactly; a row takes 16 more bytes in
 *                     Q8_0, 4 in other types. auto: stages for 2^22 weights or more. For tests; does not change
 *                     results.
 *   "kvType"          "auto" "f32" "i16" "q8_0": type of the keys and values in the cache, for all layers. i16: 16-bit
 *                     integers with a scale for each head; q8_0: bytes with a scale for each 32 items of a head.
 *                     auto: f32 if the layers' weights are floats; otherwise i16 in global layers, and f32 in layers
 *                     with a window.
 *   "tables"          "memory" "large" "file": where to store matrices of which only the rows of the batch's tokens are
 *                     read (per-layer embeddings; the embedding, if the model has an output matrix): in memory; in the
 *                     file if they have 64 MB or more; always in the file. With "large" and "file", gw_load_offset
 *                     skips their bytes, so the host must call it before each read, and gw_run can return GW_RUN_ROWS.
 *                     Does not change results.
 *   "sequences"       "1" to "16": the number of sequences of a model that generates text, each with its own context.
 *   "kvTokens"        a number: the tokens of all sequences together for which the KV cache has room, at least n_ctx.
 *                     Sequences that begin with the same tokens share the room for them. "0": a whole context for
 *                     each sequence. With less room, gw_run and gw_step can return GW_E_NO_MEMORY; "kv_free" (see
 *                     gw_model_number) says how much is left.
 * Returns 0, GW_E_BAD_OPTION, or GW_E_BAD_STATE after gw_load_reserve. */
int gw_load_option(gw_model *m, const char *name, const char *value);
/* Allocates weights, KV cache and scratch for a context of n_ctx tokens; 0 stands for the file's context length,
 * limited to 4096. After GW_E_NO_MEMORY, whose message names the context length that would fit, it may be called
 * again. */
int gw_load_reserve(gw_model *m, uint32_t n_ctx);
/* Returns the bytes of a part of the memory plan: the "weights", "kv" caches or "scratch" memory that
 * gw_load_reserve(n_ctx) would allocate, their "total", the whole "heap" afterwards, or the weights that stay on
 * "disk". Exact even beyond 4 GB. Valid from state PLAN on; NAN if n_ctx is too long for the model. */
double gw_plan_bytes(const gw_model *m, uint32_t n_ctx, const char *part);
/* Returns the longest context for which "heap" is at most `bytes`, or 0 if there is none. Valid from state PLAN on. */
uint32_t gw_largest_context(const gw_model *m, double bytes);

/* --- metadata (from state PLAN on) -----------------------------------------------------------
 * gw_model_number keys: context_length (in the file), n_ctx (as reserved), sequences, kv_free (tokens for which the KV
 * cache still has room, a multiple of GW_KEYS), n_vocab, n_layer, n_embd, n_ff, n_head, n_head_kv, head_dim, window,
 * parameters, parts (number of files), file_bytes (of all parts, each up to the end of its last tensor), gguf_version,
 * alignment, bos_id, eos_id, eot_id, pad_id, add_bos (1/0), add_eos, bidirectional (1: the model embeds texts and
 * cannot continue them), dense (n_embd if vectors pass through dense layers, otherwise 0), pooling (GW_POOLING_* of
 * arch.h), n_tensors, n_metadata, pack_texts, pack_ids (see gw_pack), address (of the model, for gw_pair).
 * The result is NAN for a missing value or an unknown key.
 * gw_model_text keys: architecture, name, quantisation ("Q4_0", "Q8_0", "F32" …: the most frequent type of the layers'
 * weights), chat_template. The result is NULL for a missing value or an unknown key, otherwise UTF-8,
 * NUL-terminated. */
double gw_model_number(const gw_model *m, const char *key);
const char *gw_model_text(const gw_model *m, const char *key);
/* Return one JSON object as NUL-terminated text, valid until the next call of either function:
 * {"key":"general.name","type":"string","value":"…"}, {"key":…,"type":"array","of":"f32","count":262144}
 * {"name":"blk.0.attn_q.weight","type":"Q4_0","shape":[1152,1024],"offset":…,"bytes":…}
 * (with "part":1 if the tensor is in the second file, and so on, and "onDisk":true if it stays in the file)
 * NULL if i is out of range. Strings are cut after 64 KiB, with "cut":true. */
const char *gw_metadata_json(gw_model *m, uint32_t i);
const char *gw_tensor_json(gw_model *m, uint32_t i);

/* --- vector search: gw_scan (scan.h), which needs no model ----------------------------------- */

/* --- SHA-256 (sha256.h) ------------------------------------------------------------------------
 * s = gw_sha256_new() returns NULL if out of memory; gw_free(s) frees it. gw_sha256_update(s, bytes, n) adds a chunk.
 * To hash a chunk in the load window, call it before gw_load_commit(). gw_sha256_hex(s) returns the digest of the bytes
 * so far as 64 hexadecimal digits, NUL-terminated, without changing s. The first GW_SHA256_STATE (104) bytes at s are
 * the whole state: they may be stored, and copied into another gw_sha256_new(), even of another engine. */

/* Returns a part of the last error of this model or its session: for "code" the name of the error code, for "what" the
 * message in whole sentences, for any other part "". */
const char *gw_error_text(const gw_model *m, const char *part);

/* --- tokenizer (from state PLAN on) ----------------------------------------------------------- */
/* `special` of gw_encode has flags GW_TOKENIZE_* of tokenizer.h: 1: control tokens in the text are recognised; 2: the
 * text continues another text; 4: more text follows, and the next call must start at the offset that gw_encode_taken
 * returns. */
int gw_encode(gw_model *m, const char *text, size_t len, int special, int32_t *ids, size_t cap);
double gw_encode_taken(const gw_model *m);
/* `before` of gw_decode is the previous token, -1 at the beginning of a text (see gw_tokenizer_decode_after). */
int gw_decode(gw_model *m, int32_t before, int32_t id, int special, char *out, size_t cap);
int gw_is_end(const gw_model *m, int32_t id); /* returns 1 if a token ends generation: eos, eot, <end_of_turn> */
int gw_is_control(const gw_model *m, int32_t id);

/* --- grammars: functions of matcher.h, with errors in gw_error_text (from state PLAN on) --------
 * x = gw_match_new(m, bytes, n) reads a grammar (grammar.h); NULL on an error. The first call builds the trie of the
 *   vocabulary, which is kept. gw_match_free(m, x) frees x. gw_match_bytes(m, x) returns the heap bytes of x,
 *   gw_match_found(m, x) the number of DFA states whose allowed tokens were computed.
 * gw_match_mask(m, x) returns the address of the mask, bit id % 32 of word id / 32; NULL on an error.
 * gw_match_want(m, x) announces that the token after the pending ids will be drawn with x in its present state: gw_run
 *   then only has to compute the logits of allowed tokens. x must not change before gw_run is done. The next gw_sync
 *   cancels the announcement.
 * gw_match_complete(m, x) returns 1 if the text so far is complete, 2 if in addition nothing can follow it.
 * gw_match_draw(m, x, logits, masked) draws like gw_draw, but only allowed tokens: the other logits become -INFINITY,
 *   so gw_logprob then refers to the remaining distribution. If `masked` is 0 and the draw is an argmax that is allowed
 *   anyway, the logits do not change. GW_E_BAD_STATE: no token is allowed. */
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
 * All functions below, including those of saved states and of the sampler, refer to the selected sequence (gw_select),
 * by default the first.
 * gw_sync(m, ids, n) sets the context to ids[0..n) without evaluating it. Keeps the longest common prefix with the
 *   evaluated ids for which the KV cache still has all rows. The last id is never kept: it is always evaluated again.
 *   Returns the number of ids kept, or GW_E_CONTEXT if n > n_ctx, GW_E_BAD_TOKEN, GW_E_BAD_OPTION if n = 0.
 * gw_append(m, id) appends an id to the context. GW_E_CONTEXT: the context is full; GW_E_BAD_STATE: after gw_pack.
 * gw_run(m, layers) evaluates pending ids, at most about `layers` layers of one batch (0: everything). It returns
 *   GW_RUN_DONE     no id is pending; gw_logits() has the logits after the last id
 *   GW_RUN_MORE     call gw_run again
 *   GW_RUN_LOGITS   only after gw_want_all(m, 1): gw_logits() has gw_logit_rows() rows of [n_vocab], for the positions
 *                   from gw_logit_first() on; copy them and call gw_run again
 *   GW_RUN_ROWS     rows of a tensor that stays in the file are missing (load option "tables"). gw_rows_wanted(m)
 *                   returns an array: the tensor's index, the number n of rows, and the rows in ascending order. Copy
 *                   the bytes of row i (0 to n - 1), as in the file, to gw_rows_room(m, i), call gw_rows_commit(m), and
 *                   call gw_run again. Call no function that changes the context in between; if the rows cannot be
 *                   read, call gw_sync to start again. gw_rows_commit returns 0, GW_E_NOT_FINITE, or GW_E_BAD_STATE.
 *   GW_E_ABORTED    the abort flag was set; the context is truncated to the evaluated ids
 * gw_position(m) returns the number of evaluated ids, gw_pending(m) the number of pending ids.
 * gw_abort_flag(m) returns the address of an int32 that any thread may set to 1 to abort gw_run. gw_sync clears the
 *   flag, and so does gw_run when it returns GW_E_ABORTED. */
/* enum GW_RUN_* of session.h: DONE 0, MORE 1, LOGITS 2, LOOK 3, ROWS 4 */

int gw_sync(gw_model *m, const int32_t *ids, uint32_t n);
int gw_append(gw_model *m, int32_t id);
/* Truncates the context to its first n ids; does nothing if it has no more than n ids, or if n is 0. If it removes
 * fewer than GW_BATCH ids, no remaining id has to be evaluated again. */
void gw_truncate(gw_model *m, uint32_t n);
/* Sets for how many of the last pending ids gw_run computes logits: 1 to 4. When gw_run is done, gw_logits() is the
 * address of the last row, and the other rows are before it in memory. A change of the number restarts the current
 * block of rows if it contains the selected sequence. The next gw_sync sets the number to 1. */
int gw_want_last(gw_model *m, uint32_t rows);
int gw_run(gw_model *m, int layers);
/* Selects a sequence, numbered from 0 (load option "sequences"). */
int gw_select(gw_model *m, uint32_t i);
/* Evaluates one block of rows (session.h) of the sequences whose bit is set in `mask`: one row of each sequence with
 * one pending id, and the next rows of the other sequences' prompts. layers: as for gw_run. Returns GW_RUN_MORE,
 * GW_RUN_ROWS, or GW_RUN_DONE after a block; then gw_logits() of each sequence without pending ids (gw_pending) has its
 * logits, as after gw_run. Between two calls for the same block, sequences that are not in the block may change. The
 * block is restarted if `mask` lacks one of its sequences, and after gw_run. GW_E_BAD_STATE: gw_want_all, gw_pack or
 * gw_want_look is in effect. */
int gw_step(gw_model *m, uint32_t mask, int layers);
/* Returns the number of ids that gw_sync would keep if sequence i were selected. */
int gw_kept(gw_model *m, uint32_t i, const int32_t *ids, uint32_t n);
/* Sets the selected sequence to the first n evaluated ids of sequence `from`, with their keys and values, or to fewer
 * ids if sliding windows of `from` have lost positions. Returns the number of ids. The two sequences share pages of the
 * KV cache (kv.h); a shared page is copied before it is written. Call gw_sync before the sequence is evaluated. */
int gw_copy(gw_model *m, uint32_t from, uint32_t n);
const int32_t *gw_rows_wanted(gw_model *m); /* returns the matrix rows that a row cache lacks, NULL if it lacks none */
void *gw_rows_room(gw_model *m, int i);
int gw_rows_commit(gw_model *m);
/* Makes decoding read panels of weights sequentially (1) or interleaved (0). Which is faster depends on the processor;
 * the results are the same. Then evaluates the feed-forward of a layer for 1 to GW_BATCH rows: the host measures the
 * time of the call with both orders, and with different numbers of threads. With a negative layer, evaluates nothing,
 * but checks the kernels again (gw_prove_build). */
int gw_autotune(gw_model *m, int sequential, int layer, int rows);
/* Requests the logits of every position: call gw_sync, then gw_want_all(m, 1), then gw_run. Empties the cache. The next
 * gw_sync cancels the request. */
void gw_want_all(gw_model *m, int on);
/* Requests only the logits that decide the next draw; call it after gw_sync. If the sampler's next draw is an argmax or
 * uses top-k, gw_run then computes only these logits, if that saves time; gw_logits() has -INFINITY for the others.
 * gw_draw returns the same id as with all logits; gw_match_draw only does so after gw_match_want or for an argmax. The
 * sampler must not change between gw_run and the draw. The next gw_sync cancels the request. */
void gw_want_top(gw_model *m, int on);
/* Sets texts to embed, instead of gw_sync. ids has the ids of all texts, one text after the other; lengths[texts] has
 * their numbers of ids. gw_model_number returns the maximum number of texts (pack_texts) and of all ids (pack_ids); a
 * single text may have n_ctx ids. pooling: 0 for the mean over all tokens, 1 for the last token. After gw_run,
 * gw_vector(i) returns the vector of text i, [n_embd], not normalised. Its bits do not depend on the other texts. */
int gw_pack(gw_model *m, const int32_t *ids, const uint32_t *lengths, uint32_t texts, int pooling);
const float *gw_vector(const gw_model *m, uint32_t text);
/* Assistants: models that compute no keys and values, but use those of their target. In the state PLAN of both models,
 * gw_pair(m, target) assigns the assistant m to its target. Returns 0 if m is no assistant, 1 if it is, or
 * GW_E_BAD_OPTION if it belongs to another model. The target must not be freed before the last gw_draft.
 * gw_draft(m, id, chain) returns the most likely token after `id`, which the target has not evaluated. With chain 0,
 * `id` was drawn from the logits of the last evaluated id of the target's selected sequence; with chain 1, `id` is the
 * result of the last gw_draft. gw_logits(m) then has the logits, with -INFINITY for unlikely tokens. GW_E_BAD_STATE:
 * the target has no hidden state of the id before `id`. */
int gw_pair(gw_model *m, gw_model *target);
int gw_draft(gw_model *m, int32_t id, int chain);
/* Inspection: call gw_sync or gw_pack, then gw_want_look, which empties the cache. gw_run then also returns
 *   GW_RUN_LOOK     for each batch: before the first layer, after the attention of each layer, and after each layer;
 *                   read the values, then call gw_run again. No logits are computed at the end.
 * gw_look_number returns "stage" (0: before the first layer, 1: after the attention of a layer, 2: after a layer),
 * "layer", "global" (1: the layer has no window), "first" (index of the batch's first token in the ids), or "rows".
 * gw_look_norms writes the norm of each row of the residual stream. gw_look_attention, in stage 1, writes a head's
 * attention weights from the row to each id. gw_look_lens computes gw_logits() from the row by the final norm and the
 * output matrix. */
void gw_want_look(gw_model *m);
double gw_look_number(const gw_model *m, const char *key);
void gw_look_norms(const gw_model *m, float *out);
void gw_look_attention(const gw_model *m, int row, int head, float *out);
int gw_look_lens(gw_model *m, int row);
const float *gw_logits(gw_model *m);
int gw_check_logits(gw_model *m); /* checks the logits: returns 0, or GW_E_NOT_FINITE if one is NaN or +infinity */
uint32_t gw_logit_rows(const gw_model *m);
uint32_t gw_logit_first(const gw_model *m);
uint32_t gw_position(const gw_model *m);
uint32_t gw_pending(const gw_model *m);
int32_t *gw_abort_flag(gw_model *m);
/* Empties the cache: the next gw_sync keeps nothing. */
void gw_clear(gw_model *m);

/* --- saved states (state.h): the evaluated ids and the sampler, as bytes, from state READY on ---------------
 * gw_state_name(m) returns 16 hexadecimal digits that identify the model, cache type and layout that a state must fit.
 * gw_save(m, ids, n) begins to save a state of these ids, or of all evaluated ids if n is 0. It returns 0; then
 *   gw_save_bytes(m) is the state's size, and gw_save_next(m) writes the next bytes to gw_state_window(m) and returns
 *   their number, 0 at the end. Call no other function for this model before the end. gw_save returns 1 if not all of
 *   the ids are evaluated, or if the cache no longer has all rows that a sliding window needs: call gw_sync and gw_run
 *   first.
 * gw_restore(m, bytes) begins to restore a state of that size: copy up to gw_state_left(m) bytes to gw_state_window(m),
 *   then call gw_restore_commit(m, n), repeatedly. gw_restore_commit returns 1 if it needs more bytes; 0 if the state
 *   is restored, and then the next gw_sync keeps the common prefix; GW_E_BAD_SAVED if the state is rejected. n = 0
 *   says that there are no more bytes. A state of another model, cache type or layout is rejected by its header without
 *   any change; later errors, such as GW_E_NO_MEMORY if the KV cache has no room (see "kvTokens"), leave the context
 *   empty. Call no other function for this model before the end. A state also fits another context length if that is
 *   long enough for its ids. */
const char *gw_state_name(gw_model *m);
int gw_save(gw_model *m, const int32_t *ids, uint32_t n);
double gw_save_bytes(const gw_model *m);
size_t gw_save_next(gw_model *m);
int gw_restore(gw_model *m, double bytes);
void *gw_state_window(gw_model *m);
size_t gw_state_left(const gw_model *m);
int gw_restore_commit(gw_model *m, size_t n);

/* --- sampler: functions of sampler.h, with errors in gw_error_text ------------------------------ */
gw_sampler *gw_sampler_of(gw_model *m); /* returns the selected sequence's sampler; NULL before gw_load_reserve */
int gw_set_option(gw_model *m, const char *name, double value);
int gw_set_bias(gw_model *m, int32_t id, float bias);
/* Draws a token. Returns its id, GW_E_NOT_FINITE, or GW_E_BAD_STATE if all tokens are banned. */
int32_t gw_draw(gw_model *m, const float *logits);
/* also exported: gw_sampler_reset gw_sampler_accept gw_logprob gw_top_logprobs gw_alloc gw_free gw_error_name */

#endif
