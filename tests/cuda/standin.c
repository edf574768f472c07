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

/* Enters a call. Calls that give something back do so even if they fail. */
static int enter(bool gives_back) {
  standin *c = standin_lock();
  if (++c->calls == c->fail_at) return c->fail_code;
  return gives_back ? 0 : c->lost;
}

#define CALL(name, arguments, gives_back, ...)                                      \
  EXPORT int name arguments;                                                        \
  int name arguments {                                                              \
    int code = enter(gives_back);                                                   \
    if (!code || (gives_back)) {                                                    \
      int own = 0;                                                                  \
      __VA_ARGS__;                                                                    \
      if (!code) code = own;                                                        \
    }                                                                               \
    if ((gives_back) && !code) code = standin_lock_held()->lost;                    \
    standin_unlock();                                                               \
    return code;                                                                    \
  }

EXPORT standin *standin_control(void);
standin *standin_control(void) { return standin_lock_held(); }

EXPORT int cuGetErrorString(int code, const char **text);
int cuGetErrorString(int code, const char **text) {
  *text = code == BAD_PTX ? "a PTX JIT compilation failed" : code == ILLEGAL_ADDRESS ? "an illegal memory access" : "an error";
  return 0;
}

/* ---- devices and contexts ---- */

CALL(cuInit, (unsigned flags), false, own = flags ? INVALID_VALUE : 0)
CALL(cuDriverGetVersion, (int *v), false, *v = standin_lock_held()->version)
CALL(cuDeviceGetCount, (int *n), false, *n = standin_lock_held()->devices)
CALL(cuDeviceGet, (int *d, int i), false, if (i < 0 || i >= standin_lock_held()->devices) own = INVALID_DEVICE; else *d = i)
CALL(cuDeviceGetName, (char *name, int n, int d), false, snprintf(name, (size_t)n, "an interpreter of PTX, number %d", d))
CALL(cuDeviceTotalMem_v2, (size_t *bytes, int d), false, *bytes = (size_t)(d + 1) << 30)
CALL(cuDeviceCanAccessPeer, (int *can, int d, int other), false, *can = d != other)

static int attribute(int which, int d) {
  const standin *c = standin_lock_held();
  switch (which) {
  case 16: return c->major[d] == 9 ? 132 : 108;
  case 38: return (c->major[d] == 9 ? 50 : 40) << 20;
  case 41: return 1;
  case 75: return c->major[d];
  case 76: return c->minor;
  case 97: return most_local(d);
  }
  return 0;
}
CALL(cuDeviceGetAttribute, (int *v, int which, int d), false, *v = attribute(which, d))

CALL(cuDevicePrimaryCtxRetain, (void **out, int d), false, {
  primary[d].device = d;
  primary[d].uses++;
  standin_lock_held()->live++;
  *out = &primary[d];
})
CALL(cuDevicePrimaryCtxRelease_v2, (int d), true, {
  if (!primary[d].uses) own = fault("a primary context is given back too often");
  else primary[d].uses--, standin_lock_held()->live--;
})
CALL(cuCtxCreate_v2, (void **out, unsigned flags, int d), false, {
  context *c = calloc(1, sizeof *c);
  (void)flags;
  c->device = d;
  c->uses = 1;
  *out = c;
})
CALL(cuCtxPushCurrent_v2, (void *c), false, if (depth == CONTEXTS || !((context *)c)->uses) own = INVALID_CONTEXT; else stack[depth++] = c)
CALL(cuCtxPopCurrent_v2, (void **c), true, if (!depth) own = INVALID_CONTEXT; else *c = stack[--depth])
CALL(cuCtxGetCurrent, (void **c), false, *c = current())
CALL(cuCtxGetDevice, (int *d), false, if (!current()) own = INVALID_CONTEXT; else *d = current()->device)
CALL(cuCtxEnablePeerAccess, (void *other, unsigned flags), false, {
  if (!current() || flags) own = INVALID_CONTEXT;
  else if (current()->sees & 1 << ((context *)other)->device) own = 704;
  else current()->sees |= 1 << ((context *)other)->device;
})

/* ---- modules ---- */

CALL(cuModuleLoadDataEx, (void **out, const void *text, unsigned n, int *options, void **values), false, {
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
CALL(cuModuleUnload, (void *module_), true, {
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
CALL(cuModuleGetFunction, (void **f, void *m, const char *name), false, if (!(*f = function_of(m, name))) own = NOT_FOUND)
CALL(cuFuncGetAttribute, (int *v, int which, void *f), false,
     if (which != 1) *v = 0; else *v = (int)((function *)f)->kernel->fixed_local)
CALL(cuFuncSetAttribute, (void *f_, int which, int v), false, {
  function *f = f_;
  if (which != 8 || v + (int)f->kernel->fixed_local > most_local(f->of->of->device)) own = INVALID_VALUE;
  else f->local = v;
})

/* ---- memory ---- */

CALL(cuMemAlloc_v2, (address * out, size_t n), false, if (!current() || !n) own = INVALID_VALUE; else own = new_piece(current(), n, PIECE_DEVICE, NULL, out))
CALL(cuMemFree_v2, (address p), true, own = drop_piece(p, PIECE_DEVICE))
CALL(cuMemHostAlloc, (void **out, size_t n, unsigned flags), false, {
  address at = 0;
  if (!current() || !n || flags != 3) own = INVALID_VALUE;
  else own = new_piece(current(), n, PIECE_PINNED, NULL, &at);
  *out = (void *)(uintptr_t)at;
})
CALL(cuMemFreeHost, (void *p), true, own = drop_piece((address)(uintptr_t)p, PIECE_PINNED))
CALL(cuMemHostRegister_v2, (void *p, size_t n, unsigned flags), false, {
  address at;
  if (!current() || !n || flags != 3 || (uintptr_t)p % 4096 || n % 4096) own = INVALID_VALUE;
  else if (find_piece((address)(uintptr_t)p, 1)) own = 712;
  else own = new_piece(current(), n, PIECE_PAGES, p, &at);
})
CALL(cuMemHostUnregister, (void *p), true, own = drop_piece((address)(uintptr_t)p, PIECE_PAGES))
CALL(cuMemHostGetDevicePointer_v2, (address * out, void *p, unsigned flags), false, if (flags || !find_piece((address)(uintptr_t)p, 1)) own = INVALID_VALUE; else *out = (address)(uintptr_t)p)
CALL(cuPointerGetAttribute, (void *out, int which, address p), false, {
  const piece *at = find_piece(p, 1);
  if (!at || which != 9) own = INVALID_VALUE;
  else *(int *)out = at->of->device;
})

/* ---- streams and events ---- */

CALL(cuStreamCreate, (void **out, unsigned flags), false, if (!current() || flags != 1) own = INVALID_VALUE; else *out = new_stream(current()))
CALL(cuStreamDestroy_v2, (void *s), true, own = drop_stream(s))
CALL(cuStreamGetCtx, (void *s, void **c), false, if (!is_stream(s)) own = INVALID_HANDLE; else *c = ((stream *)s)->of)
CALL(cuStreamWaitEvent, (void *s, void *e, unsigned flags), false, if (flags) own = INVALID_VALUE; else own = put_wait(s, e))
CALL(cuStreamSynchronize, (void *s), false, own = run_stream(s))
CALL(cuEventCreate, (void **out, unsigned flags), false, if (!current() || flags & ~2u) own = INVALID_VALUE; else *out = new_event(current(), !(flags & 2)))
CALL(cuEventDestroy_v2, (void *e), true, own = drop_event(e))
CALL(cuEventRecord, (void *e, void *s), false, if (!current()) own = INVALID_CONTEXT; else own = put_record(s, e))
CALL(cuEventQuery, (void *e), false, own = query(e))
CALL(cuEventSynchronize, (void *e), false, own = synchronise(e))
CALL(cuEventElapsedTime, (float *ms, void *a, void *b), false, own = elapsed(a, b, ms))

/* ---- work ---- */

CALL(cuMemcpyAsync, (address to, address from, size_t n, void *s), false, {
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
  int code = enter(false);
  if (!code && (!current() || current() != ((function *)f)->of->of)) code = INVALID_CONTEXT;
  if (!code) code = launch_op(&o, &(shape){f, {x, y, z}, {tx, ty, tz}, local, arguments, more});
  if (!code) code = put(s, &o);
  standin_unlock();
  return code;
}

/* ---- graphs ---- */

CALL(cuGraphCreate, (void **out, unsigned flags), false, {
  graph *g = flags ? NULL : calloc(1, sizeof *g);
  if (!g) own = INVALID_VALUE;
  else g->alive = true, standin_lock_held()->live++, *out = g;
})
CALL(cuGraphDestroy, (void *g), true, own = drop_graph(g))
CALL(cuGraphAddKernelNode, (void **out, void *g, void *const *before, size_t n, const shape *s), false, {
  op o;
  if (!(own = launch_op(&o, s))) own = add_node(g, &o, before, n, out);
})

static op copy_op(const copying *c) {
  return (op){.kind = OP_COPY, .to = c->to.device + c->to.x, .from = c->from.device + c->from.x, .bytes = c->width};
}
static bool copy_valid(const copying *c) {
  return c->from.type == 4 && c->to.type == 4 && c->height == 1 && c->depth == 1 && c->width && c->width < (size_t)1 << 31 && c->from.pitch >= c->width && c->to.pitch >= c->width;
}
CALL(cuGraphAddMemcpyNode, (void **out, void *g, void *const *before, size_t n, const copying *c, void *of), false, {
  op o = copy_op(c);
  if (!of || !copy_valid(c)) own = INVALID_VALUE;
  else own = add_node(g, &o, before, n, out);
})
#ifndef STANDIN_OLD
CALL(cuGraphInstantiateWithFlags, (void **out, void *g, unsigned long long flags), false, if (flags) own = INVALID_VALUE; else *out = instantiate(g))
#endif
CALL(cuGraphInstantiate_v2, (void **out, void *g, void **failed, char *log, size_t n), false, {
  if (log || n) own = INVALID_VALUE;
  else *failed = NULL, *out = instantiate(g);
})
CALL(cuGraphExecDestroy, (void *g), true, own = drop_graph(g))
CALL(cuGraphExecKernelNodeSetParams, (void *made, void *node, const shape *s), false, {
  op o;
  if (!(own = launch_op(&o, s))) own = set_node(made, node, &o);
})
CALL(cuGraphExecMemcpyNodeSetParams, (void *made, void *node, const copying *c, void *of), false, {
  op o = copy_op(c);
  if (!of || !copy_valid(c)) own = INVALID_VALUE;
  else own = set_node(made, node, &o);
})
EXPORT int cuGraphLaunch(void *made, void *s);
int cuGraphLaunch(void *made, void *s) {
  if (standin_lock_held()->nothing) return 0;
  int code = enter(false);
  if (!code) code = put_graph(made, s);
  standin_unlock();
  return code;
}
