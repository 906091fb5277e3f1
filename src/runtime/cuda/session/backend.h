/* backend.h - the parts of the backend's table that live in files of their own. */
#ifndef HYP_RUNTIME_CUDA_SESSION_BACKEND_H
#define HYP_RUNTIME_CUDA_SESSION_BACKEND_H

#include "runtime/cuda/cuda.h"

/* device.c */
HYP_NODISCARD hyp_status hyp_cuda_device_open(const hyp_engine_options *options, const hyp_log *log, void **out_device,
                                              const char **out_name, hyp_diag *diag);
void hyp_cuda_device_close(void *device);
/* Loads the kernels of few_rows.cu where the device can run them; otherwise as below. */
HYP_NODISCARD hyp_status hyp_cuda_load_layers(hyp_cuda_device *d, hyp_diag *diag);
/* Loads the kernels of attention, which few plans need; the context must be current, and no other thread may use the
 * device. */
HYP_NODISCARD hyp_status hyp_cuda_load_attention(hyp_cuda_device *d, hyp_diag *diag);
/* Makes the device's context current for the calling thread until hyp_cuda_leave, and its calls harmless to what other threads
 * capture; calls nest. Nothing goes to the legacy default stream, whose use would end captures in any case.
 * HYP_ERR_DEVICE_LOST at once when the device was lost before. */
HYP_NODISCARD hyp_status hyp_cuda_enter(const hyp_cuda_device *d, hyp_diag *diag);
void hyp_cuda_leave(const hyp_cuda_device *d);
/* The same for freeing things, which is tried even when the device is lost: what lies on the host goes in any case.
 * hyp_cuda_leave only when it is true. */
HYP_NODISCARD bool hyp_cuda_enter_to_free(const hyp_cuda_device *d);

/* streams.c */
/* The streams and the event of a session that is new. */
HYP_NODISCARD hyp_status hyp_cuda_streams_init(hyp_cuda_session *s, const hyp_context_options *options, hyp_diag *diag);
void hyp_cuda_streams_dispose(hyp_cuda_session *s);
/* Whether work of the session's stream may be continued on this one of its own: it is in no capture, or in the same. One that has
 * taken part in a capture does so until that ends. */
bool hyp_cuda_can_join(const hyp_cuda_session *s, CUstream other);
/* From now on ops go to this stream, those of cuDNN included. */
HYP_NODISCARD hyp_status hyp_cuda_go_to(hyp_cuda_session *s, CUstream stream, hyp_diag *diag);
/* A run begins on the stream that it is to be on, behind the runs before it and what it is to wait for, and tells that
 * it has ended. hyp_cuda_run_leaves in any case, after which ops go to the session's stream. `run` may be NULL. */
HYP_NODISCARD hyp_status hyp_cuda_run_begins(hyp_cuda_session *s, const hyp_run_options *run, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_cuda_run_ends(hyp_cuda_session *s, const hyp_run_options *run, hyp_diag *diag);
void hyp_cuda_run_leaves(hyp_cuda_session *s);
/* Waits for the last run. */
HYP_NODISCARD hyp_status hyp_cuda_await_runs(hyp_cuda_session *s, hyp_diag *diag);
bool hyp_cuda_can_await(void *session);
/* Between these ops go to a graph of ours. The second one takes what became of them, and in *out gives the graph, which
 * is the caller's to destroy, where all went well. `before`: the stream that they went to. */
HYP_NODISCARD hyp_status hyp_cuda_capture_begins(hyp_cuda_session *s, CUstream *out_before, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_cuda_capture_ends(hyp_cuda_session *s, CUstream before, hyp_status status, CUgraph *out,
                                               hyp_diag *diag);

/* captured.c */
/* The run of these shapes goes to a graph of the caller's. */
HYP_NODISCARD hyp_status hyp_cuda_note_captured(hyp_cuda_session *s, hyp_cuda_prepared *p, hyp_diag *diag);
/* HYP_ERR_LIMIT where memory of the session is used by such a graph, and is not to be replaced by so many bytes. */
HYP_NODISCARD hyp_status hyp_cuda_may_replace(const hyp_cuda_session *s, CUdeviceptr at, size_t bytes, const char *what,
                                              hyp_diag *diag);
/* Frees memory of the session that something else has taken the place of, unless such a graph uses it; 0 is safe. Work
 * that is under way may use it: cuMemFree waits for that. */
void hyp_cuda_replaced(hyp_cuda_session *s, CUdeviceptr at, size_t bytes);
size_t hyp_cuda_kept_bytes(const hyp_cuda_session *s);
void hyp_cuda_release_captured(void *session); /* as in hyp_backend */
/* prepare.c: frees prepared shapes that no graph uses. */
void hyp_cuda_prepared_dispose(hyp_cuda_prepared *p, const hyp_cuda_library *lib);

/* run.c: queues every op on the session's stream. The addresses of inputs and outputs in s->at must be set. */
/* Runs one op, which finds its room where it was given some. */
HYP_NODISCARD hyp_status hyp_cuda_run_op(hyp_cuda_session *s, const hyp_cuda_op *op, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_cuda_run_ops(hyp_cuda_session *s, const hyp_cuda_prepared *p, hyp_diag *diag);
/* step_times.c: adds to step_seconds, by step, what each op takes alone: repeated in a CUDA graph of its own, the median of a few
 * launches. Addresses as above; intermediate and final results are not those of a run afterwards. */
HYP_NODISCARD hyp_status hyp_cuda_time_ops(hyp_cuda_session *s, hyp_cuda_prepared *p, double *step_seconds,
                                           hyp_diag *diag);
/* run.c: a run that hyp_cuda_stage has begun: all ops, and the transfers of packed inputs and outputs. */
HYP_NODISCARD hyp_status hyp_cuda_queue_run(hyp_cuda_session *s, const hyp_cuda_prepared *p, hyp_diag *diag);
/* After a failure: waits for what was queued before it, which may use the caller's memory, and asks whether the device
 * is lost, which cuBLASLt does not tell; `what` was going on. The status that the failure has then. */
HYP_NODISCARD hyp_status hyp_cuda_recover(hyp_cuda_session *s, hyp_status status, const char *what, hyp_diag *diag);

/* prepare.c */
/* Can the backend run this step at all? HYP_ERR_UNSUPPORTED says what it cannot. Needs no device. */
HYP_NODISCARD hyp_status hyp_cuda_check_step(const HypPlan__Program *program, const HypPlan__Step *step,
                                             hyp_diag *diag);
const hyp_choice *hyp_cuda_choices(const void *prepared, size_t step, size_t *out_count);
HYP_NODISCARD hyp_status hyp_cuda_prepare(void *session, const int64_t *values, void **out_prepared, hyp_diag *diag);
void hyp_cuda_release(void *session, void *prepared);
HYP_NODISCARD hyp_status hyp_cuda_measure(void *session, const int64_t *values, size_t *out, hyp_diag *diag);

/* pack.c */
/* Gives values and the rooms of ops, all of which are there, places for ops that run one after the other. */
HYP_NODISCARD hyp_status hyp_cuda_pack(struct hyp_cuda_build *b);
/* Makes the session's scratch memory large enough. */
HYP_NODISCARD hyp_status hyp_cuda_take_scratch(hyp_cuda_session *s, const hyp_cuda_prepared *p, hyp_diag *diag);

/* layouts.c */
/* Types, bit 1 << hyp_dtype, and axes at most, N and C among them, of tensors that may lie with the channels last:
 * cuBLASLt, tensor cores and our kernel for single channels want it. */
enum { HYP_CUDA_TYPES_LAST = 1 << HYP_F16 | 1 << HYP_BF16 | 1 << HYP_F32, HYP_CUDA_LAST_AXES = 4 };
/* Decides how tensors lie in the ops that are added to `p`; the plan's way without it. */
HYP_NODISCARD hyp_status hyp_cuda_choose_layouts(const hyp_cuda_session *s, const int64_t *values, hyp_cuda_prepared *p,
                                                 hyp_diag *diag);
/* Finds what must lie elsewhere because of that, and gives it places of its own, which begin behind the values. */
HYP_NODISCARD hyp_status hyp_cuda_place_own(const HypPlan__Program *program, const int64_t *values, hyp_cuda_prepared *p,
                                            hyp_diag *diag);

/* conv_filters.c: decides which weights lie so, before a set of shapes is prepared; and makes the bytes of one that
 * does, the caller's to hyp_free. */
HYP_NODISCARD hyp_status hyp_cuda_find_filters(hyp_cuda_model *m, hyp_diag *diag);
/* Whether a weight that lies so is [C M], for products. */
bool hyp_cuda_is_matrix_filter(const HypPlan__Program *p, uint32_t tensor);
HYP_NODISCARD hyp_status hyp_cuda_turn_filters(const hyp_cuda_model *m, uint32_t tensor, void **out, hyp_diag *diag);

/* tile_weights.c: a weight as products of tiles of `side` results a side read it, for `args`, which has no addresses:
 * for who calls the second one, with the model that the session had, when ops no longer read it; 0 is safe.
 * HYP_ERR_UNSUPPORTED: there is no memory for it. Any thread. */
struct hyp_cuda_tile_weights;
HYP_NODISCARD hyp_status hyp_cuda_take_tile_weights(hyp_cuda_session *s, uint32_t tensor, int side,
                                                    const struct hyp_cuda_tile_weights *args, CUdeviceptr *out,
                                                    hyp_diag *diag);
void hyp_cuda_drop_tile_weights(hyp_cuda_model *m, CUdeviceptr at);

/* weights.c: m->weights, and the end of it. */
HYP_NODISCARD hyp_status hyp_cuda_load_weights(hyp_cuda_model *m, hyp_diag *diag);
void hyp_cuda_drop_weights(const hyp_cuda_model *m);

/* prefetch.c: queues it on the session's stream. */
HYP_NODISCARD hyp_status hyp_cuda_prefetch_run(hyp_cuda_session *s, const hyp_cuda_ahead *ahead, hyp_diag *diag);

/* device_memory.c: as in hyp_backend. Cached results and reads of what lies in the second level make a step faster than
 * hyp_cuda_device_floor, which counts memory. */
HYP_NODISCARD hyp_status hyp_cuda_memory_alloc(void *device, size_t bytes, void **out, hyp_diag *diag);
void hyp_cuda_memory_free(void *device, void *data);
HYP_NODISCARD hyp_status hyp_cuda_session_alloc(void *session, size_t bytes, void **out, hyp_diag *diag);
void hyp_cuda_session_free(void *session, void *data, size_t bytes);
HYP_NODISCARD hyp_status hyp_cuda_memory_copy(void *device, void *to, bool to_device, const void *from,
                                              bool from_device, size_t bytes, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_cuda_memory_zero(void *device, void *at, size_t bytes, hyp_diag *diag);
/* Copy from the host's memory, and to it, outside of runs, and return when the bytes have arrived. */
HYP_NODISCARD hyp_status hyp_cuda_upload(const hyp_cuda_device *d, CUdeviceptr to, const void *from, size_t bytes,
                                         hyp_diag *diag);
/* uploads.c: the same, for tensors of any size and several threads at once. */
HYP_NODISCARD hyp_status hyp_cuda_upload_pieces(hyp_cuda_device *d, CUdeviceptr to, const void *from, size_t bytes,
                                                hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_cuda_uploads_init(hyp_cuda_uploads *u, hyp_diag *diag);
void hyp_cuda_uploads_free(hyp_cuda_uploads *u, const hyp_cuda_library *lib); /* what the device has, within its context */
void hyp_cuda_uploads_dispose(hyp_cuda_uploads *u);
HYP_NODISCARD hyp_status hyp_cuda_download(const hyp_cuda_device *d, void *to, CUdeviceptr from, size_t bytes,
                                           hyp_diag *diag);
/* Bytes of device memory that a session holds. */
size_t hyp_cuda_scratch_bytes(const void *session);
/* Device memory that no account is charged for, of the engine's allocator; 0 is safe to free. */
HYP_NODISCARD hyp_status hyp_cuda_alloc(const hyp_cuda_library *lib, size_t bytes, CUdeviceptr *out, hyp_diag *diag);
void hyp_cuda_free(const hyp_cuda_library *lib, CUdeviceptr at, size_t bytes);
/* Device memory that the thread's account is charged for. */
HYP_NODISCARD hyp_status hyp_cuda_take(const hyp_cuda_library *lib, size_t bytes, CUdeviceptr *out, hyp_diag *diag);
/* The same, zeroed when the call returns, whatever becomes of the session's stream. */
HYP_NODISCARD hyp_status hyp_cuda_take_zeroed(const hyp_cuda_session *s, size_t bytes, CUdeviceptr *out,
                                              hyp_diag *diag);
void hyp_cuda_give(const hyp_cuda_library *lib, CUdeviceptr at, size_t bytes); /* 0 is safe */
/* Before memory is freed that runs have used: waits for them where the allocator is the caller's. cuMemFree does so itself, without
 * a call for the whole device, which is not allowed while somebody captures a stream. */
void hyp_cuda_wait_to_free(hyp_cuda_session *s);
/* Replaces *at by an allocation of at least `bytes` when it has less. On failure the old one stands. */
HYP_NODISCARD hyp_status hyp_cuda_grow(hyp_cuda_session *s, CUdeviceptr *at, size_t *have, size_t bytes,
                                       const char *what, hyp_diag *diag);
size_t hyp_cuda_launches(const void *prepared, size_t step);
double hyp_cuda_device_floor(const void *device, const HypPlan__Program *program, hyp_dtype dtype, double flops,
                             double bytes);

/* tune.c: hyp_backend.tune and .tuning */
HYP_NODISCARD hyp_status hyp_cuda_tune(void *session, const int64_t *values, const hyp_tune_options *options,
                                       hyp_tune_report *out, hyp_diag *diag);
hyp_tuning *hyp_cuda_session_tuning(void *session);

#endif
