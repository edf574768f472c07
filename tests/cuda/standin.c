/* SPDX-License-Identifier: MIT
 * The stand-in's functions: those of libcuda.so.1 that src/devices/cuda opens, by the document's names, and a few that a
 * program with a context of its own calls. work.c has what they put off. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "work.h"

#define EXPORT __attribute__((visibility("default")))
#define CONTEXTS 16

static _Thread_local context *stack[CONTEXTS];
static _Thread_local int depth;
static context primary[2];

static context *current(void) { return depth ? stack[depth - 1] : NULL; }

/* How a call fails that is made to: without having done anything; having given back what it gives back; or, of those
 * that look at work and contexts, since the context is lost, for they tell of nothing else. */
typedef enum { FAILS, GIVES_BACK, TELLS } how;

static int enter(how h) {
  standin *c = standin_lock();
  if (++c->calls == c->fail_at) {
    if (h == TELLS || c->fail_code == UNKNOWN) c->lost = h == TELLS ? ILLEGAL_ADDRESS : UNKNOWN;
    return h == TELLS ? c->lost : c->fail_code;
  }
  return h == GIVES_BACK ? 0 : c->lost;
}

#define CALL(name, arguments, how_, ...)                                      \
  EXPORT int name arguments;                                                        \
  int name arguments {                                                              \
    int code = enter(how_);                                                   \
    if (!code || how_ == GIVES_BACK) {                                                    \
      int own = 0;                                                                  \
      __VA_ARGS__;                                                                    \
      if (!code) code = own;                                                        \
    }                                                                               \
    if (how_ == GIVES_BACK && !code) code = standin_lock_held()->lost;                    \
    standin_unlock();                                                               \
    return code;                                                                    \
  }

EXPORT standin *standin_control(void);
standin *standin_control(void) {
  standin *c = standin_lock();
  forget();
  memset(primary, 0, sizeof primary);
  standin_unlock();
  return c;
}

EXPORT int cuGetErrorString(int code, const char **text);
int cuGetErrorString(int code, const char **text) {
  *text = code == BAD_PTX ? "a PTX JIT compilation failed" : code == ILLEGAL_ADDRESS ? "an illegal memory access" : "an error";
  return 0;
}

/* ---- devices and contexts ---- */

CALL(cuInit, (unsigned flags), FAILS, own = flags ? INVALID_VALUE : 0)
CALL(cuDriverGetVersion, (int *v), FAILS, *v = standin_lock_held()->version)
CALL(cuDeviceGetCount, (int *n), FAILS, *n = standin_lock_held()->devices)
CALL(cuDeviceGet, (int *d, int i), FAILS, if (i < 0 || i >= standin_lock_held()->devices) own = INVALID_DEVICE; else *d = i)
CALL(cuDeviceGetName, (char *name, int n, int d), FAILS, snprintf(name, (size_t)n, "an interpreter of PTX, number %d", d))
CALL(cuDeviceTotalMem_v2, (size_t *bytes, int d), FAILS, *bytes = (size_t)(d + 1) << 30)
CALL(cuDeviceCanAccessPeer, (int *can, int d, int other), FAILS, *can = d != other)

static int attribute(int which, int d) {
  const standin *c = standin_lock_held();
  switch (which) {
  case 16: return c->cores ? c->cores : c->major[d] == 9 ? 132 : 108;
  case 38: return (c->major[d] == 9 ? 50 : 40) << 20;
  case 41: return 1;
  case 75: return c->major[d];
  case 76: return c->minor;
  case 97: return most_local(d);
  }
  return 0;
}
CALL(cuDeviceGetAttribute, (int *v, int which, int d), FAILS, *v = attribute(which, d))

CALL(cuDevicePrimaryCtxRetain, (void **out, int d), FAILS, {
  primary[d].device = d;
  primary[d].uses++;
  standin_lock_held()->live++;
  *out = &primary[d];
})
CALL(cuDevicePrimaryCtxRelease_v2, (int d), GIVES_BACK, {
  if (!primary[d].uses) own = fault("a primary context is given back too often");
  else primary[d].uses--, standin_lock_held()->live--;
})
CALL(cuCtxCreate_v2, (void **out, unsigned flags, int d), FAILS, {
  context *c = calloc(1, sizeof *c);
  (void)flags;
  c->device = d;
  c->uses = 1;
  *out = c;
})
CALL(cuCtxPushCurrent_v2, (void *c), TELLS, if (depth == CONTEXTS || !((context *)c)->uses) own = INVALID_CONTEXT; else stack[depth++] = c)
CALL(cuCtxPopCurrent_v2, (void **c), GIVES_BACK, if (!depth) own = INVALID_CONTEXT; else *c = stack[--depth])
CALL(cuCtxGetCurrent, (void **c), FAILS, *c = current())
CALL(cuCtxGetDevice, (int *d), FAILS, if (!current()) own = INVALID_CONTEXT; else *d = current()->device)
CALL(cuCtxEnablePeerAccess, (void *other, unsigned flags), FAILS, {
  if (!current() || flags) own = INVALID_CONTEXT;
  else if (current()->sees & 1 << ((context *)other)->device) own = 704;
  else current()->sees |= 1 << ((context *)other)->device;
})

/* ---- modules ---- */

CALL(cuModuleLoadDataEx, (void **out, const void *text, unsigned n, int *options, void **values), FAILS, {
  module *m = calloc(1, sizeof *m);
  size_t room = 0;
  char *log = NULL;
  for (unsigned i = 0; i < n; i++)
    if (options[i] == 5) log = values[i];
    else if (options[i] == 6) room = (size_t)(uintptr_t)values[i];
  if (!current()) own = INVALID_CONTEXT;
  else if (strstr(text, ".version 8.") && standin_lock_held()->version < 12000) own = 222;
  else if (strstr(text, ".target sm_90a") && standin_lock_held()->major[current()->device] != 9) own = 209;
  else if (!ptx_parse(&m->parsed, text)) {
    own = BAD_PTX;
    if (log) snprintf(log, room, "%s", m->parsed.message);
  }
  if (own) ptx_module_free(&m->parsed), free(m);
  else m->text = strdup(text), m->of = current(), m->alive = true, standin_lock_held()->live++, *out = m;
})
CALL(cuModuleUnload, (void *module_), GIVES_BACK, {
  module *m = module_;
  if (!m->alive) own = fault("a module is unloaded twice");
  else {
    if (launches_pending(m)) own = fault("a module is unloaded before its launches have run");
    m->alive = false;
    ptx_module_free(&m->parsed);
    free(m->text);
    m->text = NULL;
    standin_lock_held()->live--;
  }
})
CALL(cuModuleGetFunction, (void **f, void *m, const char *name), FAILS, if (!(*f = function_of(m, name))) own = NOT_FOUND)
CALL(cuFuncGetAttribute, (int *v, int which, void *f), FAILS,
     if (which != 1) *v = 0; else *v = (int)((function *)f)->kernel->fixed_local)
CALL(cuFuncSetAttribute, (void *f_, int which, int v), FAILS, {
  function *f = f_;
  if (which != 8 || v + (int)f->kernel->fixed_local > most_local(f->of->of->device)) own = INVALID_VALUE;
  else f->local = v;
})

/* ---- memory ---- */

CALL(cuMemAlloc_v2, (address * out, size_t n), FAILS, if (!current() || !n) own = INVALID_VALUE; else own = new_piece(current(), n, PIECE_DEVICE, NULL, out))
CALL(cuMemFree_v2, (address p), GIVES_BACK, own = drop_piece(p, PIECE_DEVICE))
CALL(cuMemHostAlloc, (void **out, size_t n, unsigned flags), FAILS, {
  address at = 0;
  if (!current() || !n || flags != 3) own = INVALID_VALUE;
  else own = new_piece(current(), n, PIECE_PINNED, NULL, &at);
  *out = (void *)(uintptr_t)at;
})
CALL(cuMemFreeHost, (void *p), GIVES_BACK, own = drop_piece((address)(uintptr_t)p, PIECE_PINNED))
CALL(cuMemHostRegister_v2, (void *p, size_t n, unsigned flags), FAILS, {
  address at;
  if (!current() || !n || flags != 3 || (uintptr_t)p % 4096 || n % 4096) own = INVALID_VALUE;
  else if (find_piece((address)(uintptr_t)p, 1)) own = 712;
  else own = new_piece(current(), n, PIECE_PAGES, p, &at);
})
CALL(cuMemHostUnregister, (void *p), GIVES_BACK, own = drop_piece((address)(uintptr_t)p, PIECE_PAGES))
CALL(cuMemHostGetDevicePointer_v2, (address * out, void *p, unsigned flags), FAILS, if (flags || !find_piece((address)(uintptr_t)p, 1)) own = INVALID_VALUE; else *out = (address)(uintptr_t)p)
CALL(cuPointerGetAttribute, (void *out, int which, address p), FAILS, {
  const piece *at = find_piece(p, 1);
  if (!at || which != 9) own = INVALID_VALUE;
  else *(int *)out = at->of->device;
})

/* ---- streams and events ---- */

CALL(cuStreamCreate, (void **out, unsigned flags), FAILS, if (!current() || flags != 1) own = INVALID_VALUE; else *out = new_stream(current()))
CALL(cuStreamDestroy_v2, (void *s), GIVES_BACK, own = drop_stream(s))
CALL(cuStreamGetCtx, (void *s, void **c), FAILS, if (!is_stream(s)) own = INVALID_HANDLE; else *c = ((stream *)s)->of)
CALL(cuStreamWaitEvent, (void *s, void *e, unsigned flags), FAILS, if (flags) own = INVALID_VALUE; else own = put_wait(s, e))
CALL(cuStreamSynchronize, (void *s), TELLS, own = run_stream(s))
CALL(cuEventCreate, (void **out, unsigned flags), FAILS, if (!current() || flags & ~2u) own = INVALID_VALUE; else *out = new_event(current(), !(flags & 2)))
CALL(cuEventDestroy_v2, (void *e), GIVES_BACK, own = drop_event(e))
CALL(cuEventRecord, (void *e, void *s), FAILS, if (!current()) own = INVALID_CONTEXT; else own = put_record(s, e))
CALL(cuEventQuery, (void *e), TELLS, own = query(e))
CALL(cuEventSynchronize, (void *e), TELLS, own = synchronise(e))
CALL(cuEventElapsedTime, (float *ms, void *a, void *b), FAILS, own = elapsed(a, b, ms))

/* ---- work ---- */

CALL(cuMemcpyAsync, (address to, address from, size_t n, void *s), FAILS, {
  op o = {.kind = OP_COPY, .to = to, .from = from, .bytes = n};
  if (!current()) own = INVALID_CONTEXT;
  else own = put(s, &o);
})

static int launch_op(op *o, const shape *s) {
  function *f = s->function;
  *o = (op){.kind = OP_LAUNCH, .function = f};
  if (s->more || s->threads[0] != f->kernel->threads || s->threads[1] != 1 || s->threads[2] != 1) return INVALID_VALUE;
  if (!s->groups[0] || !s->groups[1] || !s->groups[2] || s->groups[0] > INT32_MAX || s->groups[1] > 65535 || s->groups[2] > 65535) return INVALID_VALUE;
  if ((int)s->local > f->local) return INVALID_VALUE;
  for (int i = 0; i < 3; i++) o->groups[i] = s->groups[i];
  o->local = s->local;
  for (uint32_t a = 0; a < f->kernel->params; a++) o->argument[a] = *(const uint64_t *)s->arguments[a];
  return 0;
}

EXPORT int cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned local, void *s, void **arguments, void **more);
int cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned local, void *s, void **arguments, void **more) {
  op o;
  if (standin_lock_held()->nothing) return 0;
  int code = enter(FAILS);
  if (!code && (!current() || current() != ((function *)f)->of->of)) code = INVALID_CONTEXT;
  if (!code) code = launch_op(&o, &(shape){f, {x, y, z}, {tx, ty, tz}, local, arguments, more});
  if (!code) code = put(s, &o);
  standin_unlock();
  return code;
}

/* ---- graphs ---- */

CALL(cuGraphCreate, (void **out, unsigned flags), FAILS, {
  graph *g = flags ? NULL : calloc(1, sizeof *g);
  if (!g) own = INVALID_VALUE;
  else g->alive = true, standin_lock_held()->live++, *out = g;
})
CALL(cuGraphDestroy, (void *g), GIVES_BACK, own = drop_graph(g))
CALL(cuGraphAddKernelNode, (void **out, void *g, void *const *before, size_t n, const shape *s), FAILS, {
  op o;
  if (!(own = launch_op(&o, s))) own = add_node(g, &o, before, n, out);
})

static op copy_op(const copying *c) {
  return (op){.kind = OP_COPY, .to = c->to.device + c->to.x, .from = c->from.device + c->from.x, .bytes = c->width};
}
static bool copy_valid(const copying *c) {
  return c->from.type == 4 && c->to.type == 4 && c->height == 1 && c->depth == 1 && c->width && c->width < (size_t)1 << 31 && c->from.pitch >= c->width && c->to.pitch >= c->width;
}
CALL(cuGraphAddMemcpyNode, (void **out, void *g, void *const *before, size_t n, const copying *c, void *of), FAILS, {
  op o = copy_op(c);
  if (!of || !copy_valid(c)) own = INVALID_VALUE;
  else own = add_node(g, &o, before, n, out);
})
#ifndef STANDIN_OLD
CALL(cuGraphInstantiateWithFlags, (void **out, void *g, unsigned long long flags), FAILS, if (flags) own = INVALID_VALUE; else *out = instantiate(g))
#endif
CALL(cuGraphInstantiate_v2, (void **out, void *g, void **failed, char *log, size_t n), FAILS, {
  if (log || n) own = INVALID_VALUE;
  else *failed = NULL, *out = instantiate(g);
})
CALL(cuGraphExecDestroy, (void *g), GIVES_BACK, own = drop_graph(g))
CALL(cuGraphExecKernelNodeSetParams, (void *made, void *node, const shape *s), FAILS, {
  op o;
  if (!(own = launch_op(&o, s))) own = set_node(made, node, &o);
})
CALL(cuGraphExecMemcpyNodeSetParams, (void *made, void *node, const copying *c, void *of), FAILS, {
  op o = copy_op(c);
  if (!of || !copy_valid(c)) own = INVALID_VALUE;
  else own = set_node(made, node, &o);
})
EXPORT int cuGraphLaunch(void *made, void *s);
int cuGraphLaunch(void *made, void *s) {
  if (standin_lock_held()->nothing) return 0;
  int code = enter(FAILS);
  if (!code) code = put_graph(made, s);
  standin_unlock();
  return code;
}
