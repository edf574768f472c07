/* SPDX-License-Identifier: MIT
 * Peers of tg bench attention that are libraries: oneDNN's graph of scaled products, softmax and products, and ggml's
 * flash attention. Nothing of theirs is needed to build: their functions are declared here as their manuals say. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench/attention.h"
#include "bench/bench.h"

typedef struct { const char *name; void **to; } wanted;

static bool find(attention_peer *p, const wanted *all, unsigned n) {
  for (unsigned i = 0; i < n; i++)
    if (!(*all[i].to = dlsym(p->library, all[i].name)) &&
        !(*all[i].to = p->other ? dlsym(p->other, all[i].name) : NULL))
      return snprintf(p->about, sizeof p->about, "it has no %s", all[i].name), false;
  return true;
}

static void *open_first(const char *const *names, const char *file, char *about, size_t n) {
  void *library = NULL;
  for (int i = 0; !library && (file ? !i : names[i] != NULL); i++)
    library = dlopen(file ? file : names[i], RTLD_NOW | RTLD_GLOBAL);
  const char *why = library ? NULL : dlerror();
  if (!library) snprintf(about, n, "%.400s", why ? why : "not found");
  return library;
}

static double time_runs(attention_peer *p, int repeat, bool (*run)(attention_peer *, int copy)) {
  double start = attention_clock(p->of->threads);
  for (int r = 0; r < repeat; r++)
    for (int i = 0; i < p->of->copies; i++)
      if (!run(p, i)) return -1;
  return attention_clock(p->of->threads) - start;
}

static bool use(attention_peer *p, int entry) { return p->used = entry, true; }

/* ---- oneDNN ---- */

enum {
  DNNL_F16 = 1,
  DNNL_BF16,
  DNNL_F32,
  DNNL_CPU = 1,
  DNNL_ADD = 2,
  DNNL_DIVIDE = 20,
  DNNL_MATMUL = 39,
  DNNL_SOFTMAX = 64,
  DNNL_AXIS = 0x30,
  DNNL_TRANSPOSE_B = 0x66,
  DNNL_FUSION = 1,
  DNNL_VARIABLE = 1,
  DNNL_STRIDED = 2
};
enum { LT_Q, LT_K, LT_SCORES, LT_SCALE, LT_SCALED, LT_MASK, LT_MASKED, LT_WEIGHTS, LT_V, LT_O, LOGICAL };

typedef struct {
  size_t id;
  int ndims;
  int64_t dims[12];
  int type, property, layout;
  union { int64_t strides[12]; size_t id; } of;
} logical;

typedef struct {
  int (*engine)(void **, int, size_t), (*stream)(void **, void *, unsigned), (*graph)(void **, int),
      (*init)(logical *, size_t, int, int32_t, const int64_t *, int, int),
      (*op)(void **, size_t, int, const char *), (*input)(void *, const logical *), (*output)(void *, const logical *),
      (*set_bool)(void *, int, const uint8_t *, size_t), (*set_s64)(void *, int, const int64_t *, size_t),
      (*add)(void *, void *), (*finalize)(void *), (*filter)(void *, int), (*partitions_n)(void *, size_t *),
      (*partitions)(void *, size_t, void **), (*ports_n)(void *, size_t *), (*ports)(void *, size_t, logical *),
      (*create)(void **, void *),
      (*compile)(void *, void *, size_t, const logical **, size_t, const logical **, void *),
      (*tensor)(void **, const logical *, void *, void *), (*handle)(void *, void *),
      (*execute)(void *, void *, size_t, void **, size_t, void **), (*wait)(void *);
  void *made_engine, *made_stream, *compiled, *in[LOGICAL], *out;
  logical lt[LOGICAL], port[LOGICAL];
  size_t ports_used;
  float scale, *mask;
} dnnl;

static bool dnnl_op(dnnl *f, void *graph, size_t id, int kind, int a, int b, int to) {
  static const int64_t last = -1;
  static const uint8_t yes = 1;
  void *op = NULL;
  if (f->op(&op, id, kind, "op") || f->input(op, &f->lt[a]) || (b >= 0 && f->input(op, &f->lt[b])) ||
      f->output(op, &f->lt[to]))
    return false;
  if (kind == DNNL_SOFTMAX && f->set_s64(op, DNNL_AXIS, &last, 1)) return false;
  if (b == LT_K && f->set_bool(op, DNNL_TRANSPOSE_B, &yes, 1)) return false;
  return !f->add(graph, op);
}

/* Queries that share a head of K and V are rows, as tg has them, if there is one of each. */
static bool dnnl_describe(dnnl *f, const attention_shape *s) {
  int group = s->heads / s->kv_heads, type = s->type == TG_F32 ? DNNL_F32 : s->type == TG_F16 ? DNNL_F16 : DNNL_BF16;
  int64_t b = s->batch, h = s->kv_heads, m = s->queries * group, n = s->keys, d = s->head,
          q[12] = {b, h, m, d}, k[12] = {b, h, n, d}, x[12] = {b, h, m, n}, one[12] = {1}, mask[12] = {1, 1, m, n};
  const struct { int64_t *dims; int ndims; } of[LOGICAL] = {[LT_Q] = {q, 4},       [LT_K] = {k, 4},
                                                            [LT_SCORES] = {x, 4},  [LT_SCALE] = {one, 1},
                                                            [LT_SCALED] = {x, 4},  [LT_MASK] = {mask, 4},
                                                            [LT_MASKED] = {x, 4},  [LT_WEIGHTS] = {x, 4},
                                                            [LT_V] = {k, 4},       [LT_O] = {q, 4}};
  for (size_t i = 0; i < LOGICAL; i++)
    if (f->init(&f->lt[i], i, type, of[i].ndims, of[i].dims, DNNL_STRIDED, DNNL_VARIABLE)) return false;
  return true;
}

static bool dnnl_compile(attention_peer *p, dnnl *f, bool causal) {
  void *graph = NULL, *part = NULL;
  size_t n = 0;
  const logical *in[LOGICAL], *out[1] = {&f->lt[LT_O]};
  if (f->graph(&graph, DNNL_CPU) || !dnnl_op(f, graph, 1, DNNL_MATMUL, LT_Q, LT_K, LT_SCORES) ||
      !dnnl_op(f, graph, 2, DNNL_DIVIDE, LT_SCORES, LT_SCALE, LT_SCALED) ||
      (causal && !dnnl_op(f, graph, 3, DNNL_ADD, LT_SCALED, LT_MASK, LT_MASKED)) ||
      !dnnl_op(f, graph, 4, DNNL_SOFTMAX, causal ? LT_MASKED : LT_SCALED, -1, LT_WEIGHTS) ||
      !dnnl_op(f, graph, 5, DNNL_MATMUL, LT_WEIGHTS, LT_V, LT_O) || f->finalize(graph) ||
      f->filter(graph, DNNL_FUSION) || f->partitions_n(graph, &n))
    return snprintf(p->about, sizeof p->about, "no graph of this case"), false;
  if (n != 1) return snprintf(p->about, sizeof p->about, "its graph falls into %zu parts", n), false;
  if (f->partitions(graph, 1, &part) || f->ports_n(part, &f->ports_used) || f->ports_used > LOGICAL ||
      f->ports(part, f->ports_used, f->port))
    return snprintf(p->about, sizeof p->about, "no partition"), false;
  for (size_t i = 0; i < f->ports_used; i++) in[i] = &f->port[i];
  if (f->create(&f->compiled, part) || f->compile(part, f->compiled, f->ports_used, in, 1, out, f->made_engine))
    return snprintf(p->about, sizeof p->about, "the graph does not compile for this case"), false;
  return true;
}

static bool dnnl_open(attention_peer *p, const attention_case *c) {
  dnnl *f = p->state[0];
  const attention_shape *s = &c->of;
  p->of = c, p->entries = 0;
  if (s->heads > s->kv_heads && s->queries > 1)
    return snprintf(p->about, sizeof p->about, "heads that share K and V, with more than one query"), false;
  if (s->type != TG_F32) return snprintf(p->about, sizeof p->about, "f32 alone is asked of it"), false;
  bool causal = s->causal && s->queries > 1;
  if (!dnnl_describe(f, s) || !dnnl_compile(p, f, causal)) return false;
  f->scale = sqrtf((float)s->head);
  f->mask = causal ? tool_pages((size_t)s->queries * (size_t)s->keys * sizeof *f->mask) : NULL;
  for (int64_t i = 0; causal && i < s->queries; i++)
    for (int64_t j = i + s->keys - s->queries + 1; j < s->keys; j++) f->mask[i * s->keys + j] = -INFINITY;
  void *const data[LOGICAL] = {
      [LT_Q] = c->q, [LT_K] = c->k, [LT_SCALE] = &f->scale, [LT_MASK] = f->mask, [LT_V] = c->v};
  for (size_t i = 0; i < f->ports_used; i++)
    if (f->tensor(&f->in[i], &f->port[i], f->made_engine, data[f->port[i].id])) return false;
  if (f->tensor(&f->out, &f->lt[LT_O], f->made_engine, c->result)) return false;
  void (*threads)(int) = (void (*)(int))(uintptr_t)dlsym(p->library, "omp_set_num_threads");
  if (threads) threads(c->threads);
  snprintf(p->entry[p->entries++], sizeof p->entry[0], "graph of one partition%s",
           threads ? "" : ", on as many threads as it takes");
  return true;
}

static bool dnnl_once(attention_peer *p, int copy) {
  dnnl *f = p->state[0];
  for (size_t i = 0; i < f->ports_used; i++)
    if (f->port[i].id == LT_K || f->port[i].id == LT_V)
      f->handle(f->in[i],
                (char *)(f->port[i].id == LT_K ? p->of->k : p->of->v) + p->of->kv_bytes * (size_t)copy);
  return !f->execute(f->compiled, f->made_stream, f->ports_used, f->in, 1, &f->out) && !f->wait(f->made_stream);
}

static double dnnl_time(attention_peer *p, int repeat) { return time_runs(p, repeat, dnnl_once); }
static bool dnnl_result(attention_peer *p) { return dnnl_once(p, 0); }

static void dnnl_close(attention_peer *p) {
  dnnl *f = p->state[0];
  int (*tensor)(void *) = (int (*)(void *))(uintptr_t)dlsym(p->library, "dnnl_graph_tensor_destroy"),
      (*compiled)(void *) = (int (*)(void *))(uintptr_t)dlsym(p->library, "dnnl_graph_compiled_partition_destroy");
  for (size_t i = 0; i < LOGICAL; i++)
    if (f->in[i]) tensor(f->in[i]), f->in[i] = NULL;
  if (f->out) tensor(f->out), f->out = NULL;
  if (f->compiled) compiled(f->compiled), f->compiled = NULL;
  free(f->mask), f->mask = NULL;
}

void attention_onednn(attention_peer *p, const char *file) {
  static const char *const names[] = {"libdnnl.so.3", "libdnnl.so", NULL};
  static dnnl f;
  const wanted all[] = {{"dnnl_engine_create", (void **)&f.engine},
                        {"dnnl_stream_create", (void **)&f.stream},
                        {"dnnl_graph_graph_create", (void **)&f.graph},
                        {"dnnl_graph_logical_tensor_init_with_dims", (void **)&f.init},
                        {"dnnl_graph_op_create", (void **)&f.op},
                        {"dnnl_graph_op_add_input", (void **)&f.input},
                        {"dnnl_graph_op_add_output", (void **)&f.output},
                        {"dnnl_graph_op_set_attr_bool", (void **)&f.set_bool},
                        {"dnnl_graph_op_set_attr_s64", (void **)&f.set_s64},
                        {"dnnl_graph_add_op", (void **)&f.add},
                        {"dnnl_graph_graph_finalize", (void **)&f.finalize},
                        {"dnnl_graph_graph_filter", (void **)&f.filter},
                        {"dnnl_graph_graph_get_partition_num", (void **)&f.partitions_n},
                        {"dnnl_graph_graph_get_partitions", (void **)&f.partitions},
                        {"dnnl_graph_partition_get_input_ports_num", (void **)&f.ports_n},
                        {"dnnl_graph_partition_get_input_ports", (void **)&f.ports},
                        {"dnnl_graph_compiled_partition_create", (void **)&f.create},
                        {"dnnl_graph_partition_compile", (void **)&f.compile},
                        {"dnnl_graph_tensor_create", (void **)&f.tensor},
                        {"dnnl_graph_tensor_set_data_handle", (void **)&f.handle},
                        {"dnnl_graph_compiled_partition_execute", (void **)&f.execute},
                        {"dnnl_stream_wait", (void **)&f.wait}};
  *p = (attention_peer){.name = p->name,
                        .open = dnnl_open,
                        .use = use,
                        .run = dnnl_time,
                        .result = dnnl_result,
                        .close = dnnl_close,
                        .state = {&f}};
  p->library = open_first(names, file, p->about, sizeof p->about);
  if (!p->library || !find(p, all, sizeof all / sizeof *all)) return;
  if (f.engine(&f.made_engine, DNNL_CPU, 0) || f.stream(&f.made_stream, f.made_engine, 1)) {
    snprintf(p->about, sizeof p->about, "no engine");
    return;
  }
  struct { int major, minor, patch; } *(*version)(void);
  *(void **)&version = dlsym(p->library, "dnnl_version");
  p->here = true;
  if (version) snprintf(p->about, sizeof p->about, "%d.%d.%d", version()->major, version()->minor, version()->patch);
}

/* ---- ggml ---- */

enum { GGML_F32 = 0, GGML_F16 = 1, GGML_BF16 = 30, GGML_MASK_ROWS = 64 };
typedef struct { size_t bytes; void *memory; bool no_alloc; } ggml_parameters;
/* What ggml_graph_plan returns by value; only its first two fields are used here, and it may be shorter. */
typedef struct { size_t work_bytes; uint8_t *work; char rest[240]; } ggml_plan;

typedef struct {
  void *(*init)(ggml_parameters);
  void (*free)(void *), (*expand)(void *, void *);
  void *(*tensor)(void *, int, int64_t, int64_t, int64_t, int64_t), *(*data)(const void *),
      *(*attend)(void *, void *, void *, void *, void *, float, float, float), *(*graph)(void *);
  ggml_plan (*plan)(void *, int, void *);
  int (*compute)(void *, ggml_plan *);
  void *context, **graphs, *out;   /* a graph for each copy */
  ggml_plan how;
} ggml;

static size_t ggml_elements(const attention_shape *s, bool keys) {
  return (size_t)s->batch * (size_t)(keys ? s->kv_heads : s->heads) * (size_t)(keys ? s->keys : s->queries) *
         (size_t)s->head;
}

/* The mask: f16, a row for each query, -inf where it does not see the key. */
static void *ggml_mask(ggml *f, const attention_shape *s) {
  int64_t rows = (s->queries + GGML_MASK_ROWS - 1) / GGML_MASK_ROWS * GGML_MASK_ROWS;
  void *mask = f->tensor(f->context, GGML_F16, s->keys, rows, 1, 1);
  uint16_t *x = f->data(mask);
  memset(x, 0, (size_t)(rows * s->keys) * 2);
  for (int64_t i = 0; i < s->queries; i++)
    for (int64_t j = i + s->keys - s->queries + 1; j < s->keys; j++) x[i * s->keys + j] = 0xfc00;
  return mask;
}

static bool ggml_open(attention_peer *p, const attention_case *c) {
  ggml *f = p->state[0];
  const attention_shape *s = &c->of;
  int type = s->type == TG_F32 ? GGML_F32 : s->type == TG_F16 ? GGML_F16 : GGML_BF16;
  size_t q = ggml_elements(s, false), slack = 64 << 20;
  p->of = c, p->entries = 0;
  if (s->type != TG_F32 && s->queries > 1)
    return snprintf(p->about, sizeof p->about, "f32 alone is asked of it"), false;
  size_t mask_bytes = s->causal ? (size_t)(s->queries + GGML_MASK_ROWS) * (size_t)s->keys * 2 : 0;
  f->context = f->init((ggml_parameters){2 * q * 4 * (size_t)(c->copies + 1) + 2 * c->kv_bytes * (size_t)c->copies +
                                             mask_bytes + slack + (size_t)c->copies * (1 << 20),
                                         NULL, false});
  f->graphs = calloc((size_t)c->copies, sizeof *f->graphs);
  if (!f->context || !f->graphs) return snprintf(p->about, sizeof p->about, "no memory"), false;
  void *queries = f->tensor(f->context, GGML_F32, s->head, s->queries, s->heads, s->batch),
       *mask = s->causal && s->queries > 1 ? ggml_mask(f, s) : NULL;
  float *to = f->data(queries);
  for (size_t i = 0; i < q; i++) to[i] = (float)attention_element(s->type, c->q, i);
  for (int i = 0; i < c->copies; i++) {
    void *k = f->tensor(f->context, type, s->head, s->keys, s->kv_heads, s->batch),
         *v = f->tensor(f->context, type, s->head, s->keys, s->kv_heads, s->batch);
    memcpy(f->data(k), c->k, c->kv_bytes), memcpy(f->data(v), c->v, c->kv_bytes);
    void *o = f->attend(f->context, queries, k, v, mask, 1 / sqrtf((float)s->head), 0, 0);
    if (!i) f->out = o;
    f->expand(f->graphs[i] = f->graph(f->context), o);
  }
  f->how = f->plan(f->graphs[0], c->threads, NULL);
  f->how.work = f->how.work_bytes ? tool_pages(f->how.work_bytes) : NULL;
  snprintf(p->entry[p->entries++], sizeof p->entry[0], "ggml_flash_attn_ext, Q in f32%s", mask ? ", a mask" : "");
  return true;
}

static bool ggml_once(attention_peer *p, int copy) {
  ggml *f = p->state[0];
  return !f->compute(f->graphs[copy], &f->how);
}

static double ggml_time(attention_peer *p, int repeat) { return time_runs(p, repeat, ggml_once); }

/* Its result is [batch][tokens][heads][head]. */
static bool ggml_result(attention_peer *p) {
  ggml *f = p->state[0];
  const attention_shape *s = &p->of->of;
  if (!ggml_once(p, 0)) return false;
  const float *o = f->data(f->out);
  size_t d = (size_t)s->head, tokens = (size_t)s->queries, heads = (size_t)s->heads;
  for (size_t b = 0; b < (size_t)s->batch; b++)
    for (size_t t = 0; t < tokens; t++)
      for (size_t h = 0; h < heads; h++)
        memcpy(p->of->result + ((b * heads + h) * tokens + t) * d, o + ((b * tokens + t) * heads + h) * d, d * 4);
  return true;
}

static void ggml_close(attention_peer *p) {
  ggml *f = p->state[0];
  if (f->context) f->free(f->context);
  free(f->graphs), free(f->how.work);
  f->context = f->graphs = NULL, f->how = (ggml_plan){0};
}

void attention_ggml(attention_peer *p, const char *file) {
  static const char *const bases[] = {"libggml-base.so", "libggml-base.so.0", NULL},
                           *const cpus[] = {"libggml-cpu.so", "libggml-cpu.so.0", NULL};
  static ggml f;
  const wanted all[] = {{"ggml_init", (void **)&f.init},
                        {"ggml_free", (void **)&f.free},
                        {"ggml_new_tensor_4d", (void **)&f.tensor},
                        {"ggml_get_data", (void **)&f.data},
                        {"ggml_flash_attn_ext", (void **)&f.attend},
                        {"ggml_new_graph", (void **)&f.graph},
                        {"ggml_build_forward_expand", (void **)&f.expand},
                        {"ggml_graph_plan", (void **)&f.plan},
                        {"ggml_graph_compute", (void **)&f.compute}};
  char base[600], cpu[600];
  snprintf(base, sizeof base, "%s/libggml-base.so", file ? file : "");
  snprintf(cpu, sizeof cpu, "%s/libggml-cpu.so", file ? file : "");
  *p = (attention_peer){.name = p->name,
                        .open = ggml_open,
                        .use = use,
                        .run = ggml_time,
                        .result = ggml_result,
                        .close = ggml_close,
                        .state = {&f}};
  p->library = open_first(bases, file ? base : NULL, p->about, sizeof p->about);
  p->other = p->library ? open_first(cpus, file ? cpu : NULL, p->about, sizeof p->about) : NULL;
  if (!p->other || !find(p, all, sizeof all / sizeof *all)) return;
  void (*cpu_init)(void) = (void (*)(void))(uintptr_t)dlsym(p->other, "ggml_cpu_init");
  const char *(*version)(void);
  *(void **)&version = dlsym(p->library, "ggml_version");
  if (cpu_init) cpu_init();
  p->here = true;
  snprintf(p->about, sizeof p->about, "%s", version ? version() : "");
}
