/* SPDX-License-Identifier: MIT
 * The checked device. The compiler of the context is replaced by one that keeps the text of each linear program; the
 * driver of the device by one that keeps, for each kernel, the text that was compiled last, and does each launch twice:
 * on an image of all memory that it may touch, by the interpreter, and on the device. */
#define _GNU_SOURCE
#include <stdlib.h>
#include "../library/kit.h"
#include "../test.h"
#include "dsl/text.h"
#include "interp/interp.h"
#include "shadow.h"

typedef struct known { struct known *next; const tg_device_kernel *kernel; char *text; } known;
typedef struct { char *from, *to, *image; } piece;     /* of the device's memory, and its copy here */
enum { PIECES = 256 };

static struct {
  tg_context *context;
  tg_device *device;
  const char *name;
  const tg_compiler *compiler;
  const tg_driver *driver;
  tg_compiler compiles;
  tg_driver drives;
  char *text;                  /* of the latest compile */
  known *all;
  piece piece[PIECES];
  uint32_t pieces;
  long compared;
} w;

/* ---- programs ---- */

static void compile(tg_job *j, tg_context *c, const tg_kernel_source *s, tg_cache_entry *entry, double *price) {
  w.compiler->compile(j, c, s, entry, price);
  if (s->options->device != w.device) return;
  tg_str text = tg_str_new(&j->env);
  tg_print(j, &text, j->sink);
  free(w.text);
  w.text = strdup(text.data);
}

static tg_status load(tg_device *d, const tg_device_object *o, tg_device_kernel **out, tg_env *err) {
  tg_status s = w.driver->load(d, o, out, err);
  if (s != TG_OK) return s;
  known *k = malloc(sizeof *k);
  *k = (known){w.all, *out, w.text};
  w.text = NULL;
  w.all = k;
  (*out)->driver = &w.drives;
  CHECK(k->text, "%s: a kernel that was not compiled here", w.name);
  return s;
}

static void unload(tg_device_kernel *kernel) {
  for (known **at = &w.all, *k; (k = *at); at = &k->next)
    if (k->kernel == kernel) {
      *at = k->next;
      free(k->text), free(k);
      break;
    }
  kernel->driver = w.driver;
  w.driver->unload(kernel);
}

/* ---- memory ---- */

/* Adds memory of the device to the pieces; those that overlap become one. Those that only touch may be allocations of
 * their own, which no driver copies at once. */
static void add_piece(const void *at, int64_t bytes) {
  piece p = {(char *)(uintptr_t)at, (char *)(uintptr_t)at + bytes, NULL};
  uint32_t n = 0;
  if (!bytes) return;
  for (uint32_t i = 0; i < w.pieces; i++) {
    const piece *q = &w.piece[i];
    if (q->to <= p.from || p.to <= q->from) w.piece[n++] = *q;
    else {
      if (q->from < p.from) p.from = q->from;
      if (q->to > p.to) p.to = q->to;
    }
  }
  if (n == PIECES) abort();
  w.piece[n++] = p;
  w.pieces = n;
}

/* Where the image of this memory is; NULL: it is no memory of the device's. */
static char *image_of(const void *at) {
  for (uint32_t i = 0; i < w.pieces; i++)
    if ((const char *)at >= w.piece[i].from && (const char *)at < w.piece[i].to)
      return w.piece[i].image + ((const char *)at - w.piece[i].from);
  return NULL;
}

static tg_status settle(tg_queue *q, char *message, size_t n) {
  uint64_t value;
  tg_status s = w.driver->submit(q, &value, message, n);
  return s == TG_OK ? w.driver->wait(q, value, -1, message, n) : s;
}

static tg_status fetch(tg_queue *q, void *to, const void *from, size_t bytes, char *message, size_t n) {
  tg_status s = bytes ? w.driver->copy(q, to, from, bytes, message, n) : TG_OK;
  return s == TG_OK ? settle(q, message, n) : s;
}

static const known *known_of(const tg_device_kernel *kernel) {
  const known *k = w.all;
  while (k && k->kernel != kernel) k = k->next;
  return k;
}

/* ---- a step, here ---- */

typedef struct { tg_job job; const tg_graph_step *step; const char *text; } interpreting;

static void interpret(void *user) {
  interpreting *r = user;
  tg_interp_buffer buffers[TG_MAX_BUFFERS];
  const tg_work *work = &r->step->work;
  tg_parse_kernel(&r->job, "linear", r->text, 0, NULL);
  for (uint32_t b = 0; b < r->step->kernel->signature->buffers_n; b++)
    buffers[b] = (tg_interp_buffer){work->bytes[b] ? image_of(work->buffers[b]) : (void *)buffers,
                                    (size_t)work->bytes[b]};
  tg_interpret(&r->job, r->job.sink, &(tg_interp){.buffers = buffers, .params = work->params});
}

static void step_here(const tg_graph_step *step) {
  if (!step->kernel) {
    char *to = image_of(step->to), *from = image_of(step->from);
    if (to) memcpy(to, from ? from : step->from, step->bytes);
    return;
  }
  const known *k = known_of(step->kernel);
  interpreting *r = malloc(sizeof *r);
  r->step = step, r->text = k ? k->text : "";
  tg_job_init(&r->job, NULL);
  bool ok = tg_protect(&r->job.env, interpret, r);
  CHECK(ok, "%s: not interpreted: %s", w.name, r->job.env.message);
  tg_job_drop(&r->job);
  free(r);
}

/* Does a chip of its own run the kernel, whose matrix instructions add as no document says? */
static bool rounds(const tg_device_kernel *kernel) {
  const known *k = known_of(kernel);
  return strncmp(w.name, "sm_", 3) && strncmp(w.name, "gfx", 3) && k && strstr(k->text, " matrix(");
}

/* What a launch may have written, as it is now on the device, against the image. */
static tg_status compare(tg_queue *q, const tg_graph_step *step, char *message, size_t n) {
  const tg_signature *s = step->kernel->signature;
  const char *names = tg_signature_strings(s);
  tg_status status = TG_OK;
  for (uint32_t b = 0; b < s->buffers_n && status == TG_OK; b++) {
    const tg_signature_buffer *of = &tg_signature_buffers(s)[b];
    size_t bytes = (size_t)step->work.bytes[b];
    tg_difference d;
    char text[256] = "";
    if (of->role == TG_ROLE_IN || !bytes) continue;
    char *got = malloc(bytes);
    status = fetch(q, got, step->work.buffers[b], bytes, message, n);
    tg_comparison c = {.type = of->type, .n = bytes / (size_t)tg_type_bytes(of->type), .got = got,
                       .want = image_of(step->work.buffers[b]), .exact = !rounds(step->kernel), .terms = 4096};
    double *scale = c.exact || !c.want ? NULL : kit_scale(of->type, c.want, c.n);
    c.magnitude = scale;
    bool same = status != TG_OK || tg_compare(&c, &d);
    free(scale);
    if (!same) tg_difference_text(&d, c.n, text, sizeof text);
    CHECK(same, "%s: %s of %s: %s", w.name, names + of->name, names + s->name, text);
    free(got);
  }
  w.compared++;
  return status;
}

/* ---- work ---- */

typedef tg_status putting(tg_queue *q, void *user, char *message, size_t n);

/* Puts steps, and does them here, from what was in memory before. */
static tg_status both(tg_queue *q, const tg_graph_step *step, uint32_t steps, putting *put, void *user, char *message,
                      size_t n) {
  w.pieces = 0;
  for (uint32_t i = 0; i < steps; i++)
    for (uint32_t b = 0; step[i].kernel && b < step[i].kernel->signature->buffers_n; b++)
      add_piece(step[i].work.buffers[b], step[i].work.bytes[b]);
  tg_status s = settle(q, message, n);
  for (uint32_t i = 0; i < w.pieces; i++) w.piece[i].image = malloc((size_t)(w.piece[i].to - w.piece[i].from));
  for (uint32_t i = 0; i < w.pieces && s == TG_OK; i++)
    s = fetch(q, w.piece[i].image, w.piece[i].from, (size_t)(w.piece[i].to - w.piece[i].from), message, n);
  bool readable = s == TG_OK;
  s = put(q, user, message, n);   /* also what is not memory of the device, which it refuses */
  if (s == TG_OK) CHECK(readable, "%s: memory that a launch takes cannot be copied", w.name);
  if (s == TG_OK) s = settle(q, message, n);
  for (uint32_t i = 0; i < steps && s == TG_OK; i++) step_here(&step[i]);
  for (uint32_t i = 0; i < steps && s == TG_OK; i++)
    if (step[i].kernel) s = compare(q, &step[i], message, n);
  for (uint32_t i = 0; i < w.pieces; i++) free(w.piece[i].image);
  return s;
}

static tg_status put_launch(tg_queue *q, void *user, char *message, size_t n) {
  const tg_graph_step *step = user;
  return w.driver->launch(q, step->kernel, &step->work, message, n);
}

static tg_status launch(tg_queue *q, tg_device_kernel *k, const tg_work *work, char *message, size_t n) {
  tg_graph_step step = {.kernel = k, .work = *work};
  return both(q, &step, 1, put_launch, &step, message, n);
}

typedef struct { void *graph; const tg_graph_step *step; uint32_t steps; const bool *changed; } replay;

static tg_status put_replay(tg_queue *q, void *user, char *message, size_t n) {
  const replay *r = user;
  return w.driver->graph_put(q, r->graph, r->step, r->steps, r->changed, message, n);
}

static tg_status graph_put(tg_queue *q, void *graph, const tg_graph_step *step, uint32_t steps, const bool *changed,
                           char *message, size_t n) {
  replay r = {graph, step, steps, changed};
  return both(q, step, steps, put_replay, &r, message, n);
}

/* ---- begin, end ---- */

void shadow_begin(tg_context *c, tg_device *d, const char *name) {
  w.context = c, w.device = d, w.name = name, w.compared = 0;
  w.compiler = c->compiler, w.driver = d->driver;
  w.compiles = *w.compiler, w.drives = *w.driver;
  w.compiles.compile = compile;
  w.drives.load = load, w.drives.unload = unload, w.drives.launch = launch;
  if (w.drives.graph_put) w.drives.graph_put = graph_put;
  c->compiler = &w.compiles, d->driver = &w.drives;
}

long shadow_end(void) {
  w.context->compiler = w.compiler, w.device->driver = w.driver;
  CHECK(!w.all, "%s: kernels are left", w.name);
  free(w.text);
  w.text = NULL;
  return w.compared;
}
