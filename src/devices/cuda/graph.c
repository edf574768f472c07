/* SPDX-License-Identifier: MIT
 * Graphs of NVIDIA's driver: a chain of nodes, one for each phase of a launch and each part of a copy. A replay sets
 * the nodes of the steps that changed and launches the whole with one call. What the driver does not change in a graph
 * that is made (another function, a phase that has nothing to run now) makes a new one from the steps. */
#include "devices/cuda/cuda.h"

typedef struct { void *at, *function; } node;   /* CUgraphNode, NULL: nothing to run; the function that it launches */

typedef struct {
  cuda_device *device;
  void *graph, *made;          /* CUgraph, CUgraphExec */
  node *nodes;                 /* of all steps, in order */
  uint32_t nodes_n;
} chain;

static const size_t part_bytes = (size_t)1 << 30;   /* of a copy: a row of an image of one row, which has a limit */

static uint32_t parts_of(const tg_graph_step *s) {
  return s->kernel ? s->kernel->info.phases : (uint32_t)((s->bytes + part_bytes - 1) / part_bytes);
}

static cuda_copy part_of(const tg_graph_step *s, uint32_t part) {
  enum { UNIFIED = 4 };        /* CUmemorytype: the address says where it is */
  size_t at = part * part_bytes, bytes = s->bytes - at < part_bytes ? s->bytes - at : part_bytes;
  cuda_side from = {.type = UNIFIED, .device = (cuda_address)(uintptr_t)s->from + at, .pitch = bytes, .height = 1},
            to = {.type = UNIFIED, .device = (cuda_address)(uintptr_t)s->to + at, .pitch = bytes, .height = 1};
  return (cuda_copy){.from = from, .to = to, .width = bytes, .height = 1, .depth = 1};
}

static void drop_made(chain *c) {
  if (c->made) c->device->f.cuGraphExecDestroy(c->made);
  if (c->graph) c->device->f.cuGraphDestroy(c->graph);
  c->made = c->graph = NULL;
}

static tg_status wrong(const chain *c, char *message, size_t n, int code) {
  return code ? tg_cuda_failure(&c->device->f, message, n, "a graph", code) : TG_OK;
}

/* Adds a part of a step behind *last. */
static tg_status add(chain *c, const tg_graph_step *s, uint32_t part, node *out, void **last, char *message, size_t n) {
  const cuda_functions *f = &c->device->f;
  size_t before = *last != NULL;
  int code;
  *out = (node){NULL, NULL};
  if (s->kernel) {
    const cuda_kernel *k = (const cuda_kernel *)s->kernel;
    void *arguments[CUDA_ARGUMENTS];
    cuda_shape shape;
    bool empty;
    tg_status status = tg_cuda_shape(k, &s->work, part, &shape, &empty, message, n);
    if (status != TG_OK || empty) return status;
    tg_cuda_arguments(k, &s->work, arguments);
    shape.arguments = arguments;
    code = f->cuGraphAddKernelNode(&out->at, c->graph, last, before, &shape);
    out->function = shape.function;
  } else {
    cuda_copy copy = part_of(s, part);
    code = f->cuGraphAddMemcpyNode(&out->at, c->graph, last, before, &copy, c->device->context);
  }
  if (!code) *last = out->at;
  else out->at = NULL;
  return wrong(c, message, n, code);
}

/* From the steps as they are now. Call with the context current. */
static tg_status make(chain *c, const tg_graph_step *steps, uint32_t steps_n, char *message, size_t n) {
  const cuda_functions *f = &c->device->f;
  void *last = NULL, *failed = NULL;
  node *at = c->nodes;
  drop_made(c);
  tg_status s = wrong(c, message, n, f->cuGraphCreate(&c->graph, 0));
  if (s != TG_OK) c->graph = NULL;
  for (uint32_t i = 0; i < steps_n; i++)
    for (uint32_t p = 0; p < parts_of(&steps[i]) && s == TG_OK; p++, at++)
      s = add(c, &steps[i], p, at, &last, message, n);
  if (s == TG_OK)
    s = wrong(c, message, n, f->cuGraphInstantiateWithFlags
                                 ? f->cuGraphInstantiateWithFlags(&c->made, c->graph, 0)
                                 : f->cuGraphInstantiate_v2(&c->made, c->graph, &failed, NULL, 0));
  if (s != TG_OK) c->made = NULL, drop_made(c);
  return s;
}

static tg_status check(const tg_graph_step *s, char *message, size_t n) {
  return s->kernel ? tg_device_owns(s->kernel, &s->work, message, n) : TG_OK;
}

void tg_cuda_graph_drop(tg_device *device, void *graph) {
  chain *c = graph;
  const tg_allocator *a = &device->allocator;
  TG_CUDA_GIVE_BACK(c->device, drop_made(c));
  if (c->nodes) a->free(a->user, c->nodes, (c->nodes_n + 1) * sizeof *c->nodes);
  a->free(a->user, c, sizeof *c);
}

tg_status tg_cuda_graph_make(tg_device *device, const tg_graph_step *steps, uint32_t steps_n, void **out, char *message,
                             size_t n) {
  const tg_allocator *a = &device->allocator;
  cuda_device *d = (cuda_device *)device;
  tg_status s = TG_OK;
  chain *c = a->alloc(a->user, sizeof *c);
  if (!c) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  *c = (chain){.device = d};
  for (uint32_t i = 0; i < steps_n && s == TG_OK; i++) {
    c->nodes_n += parts_of(&steps[i]);
    s = check(&steps[i], message, n);
  }
  if (s == TG_OK && !(c->nodes = a->alloc(a->user, (c->nodes_n + 1) * sizeof *c->nodes)))
    s = (snprintf(message, n, "out of memory"), TG_ENOMEM);
  if (s == TG_OK) {
    int code = tg_cuda_enter(d);
    s = code ? wrong(c, message, n, code) : make(c, steps, steps_n, message, n);
    if (!code) tg_cuda_leave(d);
  }
  if (s == TG_OK) *out = c;
  else tg_cuda_graph_drop(device, c);
  return s;
}

/* Sets a node to what its step wants now. *again: that needs a new graph. */
static tg_status set(const chain *c, const tg_graph_step *s, uint32_t part, const node *at, bool *again, char *message,
                     size_t n) {
  const cuda_functions *f = &c->device->f;
  if (!s->kernel) {
    cuda_copy copy = part_of(s, part);
    *again |= f->cuGraphExecMemcpyNodeSetParams(c->made, at->at, &copy, c->device->context) != 0;
    return TG_OK;
  }
  const cuda_kernel *k = (const cuda_kernel *)s->kernel;
  void *arguments[CUDA_ARGUMENTS];
  cuda_shape shape;
  bool empty;
  tg_status status = tg_cuda_shape(k, &s->work, part, &shape, &empty, message, n);
  if (status != TG_OK || (empty && !at->at)) return status;
  tg_cuda_arguments(k, &s->work, arguments);
  shape.arguments = arguments;
  *again |= empty || !at->at || shape.function != at->function ||
            f->cuGraphExecKernelNodeSetParams(c->made, at->at, &shape);
  return TG_OK;
}

/* Call with the context current. */
static tg_status set_changed(chain *c, const tg_graph_step *steps, uint32_t steps_n, const bool *changed, char *message,
                             size_t n) {
  const node *at = c->nodes;
  bool again = !c->made;
  tg_status s = TG_OK;
  for (uint32_t i = 0; i < steps_n && s == TG_OK && !again; i++) {
    uint32_t parts = parts_of(&steps[i]);
    for (uint32_t p = 0; p < parts && changed && changed[i] && s == TG_OK && !again; p++)
      s = set(c, &steps[i], p, &at[p], &again, message, n);
    at += parts;
  }
  return s == TG_OK && again ? make(c, steps, steps_n, message, n) : s;
}

tg_status tg_cuda_graph_put(tg_queue *q, void *graph, const tg_graph_step *steps, uint32_t steps_n, const bool *changed,
                            char *message, size_t n) {
  chain *c = graph;
  tg_status s = TG_OK;
  for (uint32_t i = 0; i < steps_n && s == TG_OK && changed; i++)
    if (changed[i]) s = check(&steps[i], message, n);
  if (s != TG_OK) return s;
  int code = tg_cuda_enter(c->device);
  if (code) return wrong(c, message, n, code);
  s = set_changed(c, steps, steps_n, changed, message, n);
  if (s == TG_OK) s = wrong(c, message, n, c->device->f.cuGraphLaunch(c->made, ((cuda_queue *)q)->stream));
  tg_cuda_leave(c->device);
  return s;
}
