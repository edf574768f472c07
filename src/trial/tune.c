/* SPDX-License-Identifier: MIT
 * tg_tune: runs a search with the bench of this machine's CPU or of a device, and stores the choice. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "trial/trial.h"
#include "search/search.h"
#include "store/store.h"
#include "tg/tune.h"

typedef struct {
  tg_tune_result result;       /* must be first */
  tg_env env;
} tuned;

typedef struct {
  tg_context *c;
  const tg_tune_options *o;
  const tg_sketch_source *sketch;
  uint32_t sketches;
  const tg_tune_kind *kind;    /* NULL: kernels without checks of their own */
  tuned *t;
  tg_bench *bench;
  char folder[4096];           /* of built objects; "": there is none */
  int shared, lock;
  tg_search_result r;
  const char *file;            /* path of the stored choice */
} tuning;

enum { SPOOL_CANDIDATES = 64 };

static const tg_tune_options no_options;

_Static_assert((int)TG_TUNE_CLASSES == (int)TG_TRIAL__COUNT && (int)TG_TUNE_UNBELIEVABLE == (int)TG_TRIAL_UNBELIEVABLE,
               "one list of outcomes");
_Static_assert((int)TG_TUNE_END == (int)TG_EVENT_END && (int)TG_TUNE_BEST == (int)TG_EVENT_BEST, "one list of events");

const char *tg_tune_class_name(tg_tune_class c) { return tg_outcome_name((tg_outcome)c); }

/* ---- results and progress for the caller ---- */

static void fill_in(tg_tune_result *to, const tg_search_result *r) {
  to->sketch = r->sketch;
  to->kernel = r->sketch_name;
  to->tuned = r->tuned;
  double times = r->share > 0 ? 1 / r->share : 1;   /* scales times of a part to the whole problem */
  to->share = r->share;
  to->whole_seconds = r->whole_seconds;
  to->whole_default_seconds = r->whole_default_seconds;
  to->why = r->why;
  to->seconds = r->seconds * times;
  to->default_seconds = r->default_seconds * times;
  to->gain = exp(r->gain) - 1;
  to->gain_low = exp(r->gain_low) - 1;
  to->flops = r->flops * times;
  to->bytes = r->bytes;
  to->floor = r->floor * times;
  to->elapsed = r->elapsed;
  to->points = r->points;
  to->lowered = r->lowered;
  to->built = r->built;
  to->timed = r->timed;
  for (int i = 0; i < TG_TUNE_CLASSES; i++) to->classes[i] = r->outcome[i];
  to->dropped = r->dropped;
  to->restarts = r->restarts;
  to->reused = r->reused;
  to->in_process = r->in_process;
  to->exact = r->exact;
  to->interrupted = r->interrupted;
  to->finished = r->finished;
}

static void progress(void *user, const tg_search_event *e) {
  tuning *k = user;
  tg_tune_result so_far = {0};
  fill_in(&so_far, e->so_far);
  tg_tune_progress p = {.what = (tg_tune_what)e->what, .so_far = &so_far, .candidate = e->knobs, .elapsed = e->elapsed};
  if (e->point) {
    p.words = e->point->used;
    p.change = e->point->own_words ? NULL
               : e->point->given   ? e->point->given
               : e->point->words   ? e->point->words
                                   : e->point->used;
    p.outcome = (tg_tune_class)e->point->outcome;
    p.message = e->point->message;
    p.seconds = e->point->seconds * (e->so_far->share > 0 ? 1 / e->so_far->share : 1);
    p.score = e->point->score;
  }
  k->o->progress(k->o->callback_user, &p);
}

static bool stop(void *user) {
  tuning *k = user;
  return tg_flag_is_set(k->o->cancel) || (k->o->stop && k->o->stop(k->o->callback_user));
}

/* ---- scratch ---- The folder of built objects is locked with flock while its search runs. An unlocked one is left
 * from a search that was killed; the same user's next search removes it. */

static const char scratch_name[] = "tg-tune-";

static void remove_folder(int at, const char *folder) {
  int fd = openat(at, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *d = fd < 0 ? NULL : fdopendir(fd);
  for (struct dirent *e; d && (e = readdir(d));)
    if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) unlinkat(fd, e->d_name, 0);
  if (d) closedir(d);
  else if (fd >= 0) close(fd);
  unlinkat(at, folder, AT_REMOVEDIR);
}

/* Returns a locked descriptor; -1: another process holds the lock, or the folder is not this user's own. */
static int lock_folder(int at, const char *folder) {
  struct stat st;
  int fd = openat(at, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  if (!fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & 077) && !flock(fd, LOCK_EX | LOCK_NB)) return fd;
  close(fd);
  return -1;
}

static void remove_left_behind(const char *base) {
  DIR *d = opendir(base);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (strncmp(e->d_name, scratch_name, strlen(scratch_name)) || strlen(e->d_name) != strlen(scratch_name) + 6)
      continue;
    int fd = lock_folder(dirfd(d), e->d_name);
    if (fd < 0) continue;
    remove_folder(dirfd(d), e->d_name);
    close(fd);
  }
  if (d) closedir(d);
}

/* Does the path still name the locked folder? Another search may have removed it before it was locked. */
static bool still_there(int fd, const char *folder) {
  struct stat a, b;
  return !fstat(fd, &a) && !lstat(folder, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void make_scratch(tuning *k) {
  const char *base = getenv("TMPDIR");
  if (!base || !*base) base = "/tmp";
  remove_left_behind(base);
  for (int tries = 0; tries < 3 && k->lock < 0; tries++) {
    int n = snprintf(k->folder, sizeof k->folder, "%s/%sXXXXXX", base, scratch_name);
    if (n < 0 || (size_t)n >= sizeof k->folder || !mkdtemp(k->folder)) break;
    k->lock = lock_folder(AT_FDCWD, k->folder);
    if (k->lock >= 0 && !still_there(k->lock, k->folder)) close(k->lock), k->lock = -1;
  }
  if (k->lock < 0) k->folder[0] = 0;   /* without a folder each process compiles for itself */
  k->shared = memfd_create("tg-tune", MFD_CLOEXEC);
}

static void drop_scratch(tuning *k) {
  if (*k->folder) remove_folder(AT_FDCWD, k->folder);
  if (k->lock >= 0) close(k->lock);
  if (k->shared >= 0) close(k->shared);
}

/* ---- a kernel of the caller's beside the others ---- */

typedef struct { const tuning *k; tg_job *own; const tg_sketch_source *s; } reading;

static void read_source(void *arg) {
  const reading *r = arg;
  tg_compile_options o = {.bindings = r->k->o->bindings,
                          .bindings_n = r->k->o->bindings_n,
                          .user = r->s->user,
                          .kernel = r->s->kernel};
  tg_kernel_source source = {.def = r->s->def, .file = r->s->file, .text = r->s->text, .options = &o};
  tg_kernel_source_read(r->own, &source);
}

static const tg_buffer *operand(const tg_job *j, uint32_t *at) {
  while (*at < j->buffers.n && j->buffers.data[*at].role == TG_ROLE_TEMP) ++*at;
  return *at < j->buffers.n ? &j->buffers.data[(*at)++] : NULL;
}

static const char *operands_of(const tg_job *j, tg_env *env) {
  static const char *const role[] = {"", "in", "out", "inout"};
  tg_str s = tg_str_new(env);
  uint32_t at = 0;
  for (const tg_buffer *b; (b = operand(j, &at));)
    tg_str_printf(&s, "%s%s %s %s", s.n ? ", " : "", role[b->role], b->name, tg_type_name[b->type]);
  return s.data;
}

/* Another kernel than the first could not be timed, checked or used in its place. */
static void check_beside(tuning *k, const tg_sketch_source *with) {
  tg_env *env = &k->t->env;
  tg_job *job[2] = {tg_new(env, tg_job, 1), tg_new(env, tg_job, 1)};
  const char *operands[2] = {NULL, NULL}, *name = NULL, *message = NULL;
  tg_status status = TG_OK;
  for (int i = 0; i < 2; i++) {
    reading r = {k, job[i], i ? with : k->sketch};
    tg_job_init(job[i], &env->allocator);
    if (tg_protect(&job[i]->env, read_source, &r)) operands[i] = operands_of(job[i], env);
    else if (!message) status = job[i]->env.status, message = tg_strdup(env, job[i]->env.message);
    if (i && operands[i]) name = tg_strdup(env, job[i]->name);
    tg_job_drop(job[i]);
  }
  const char *file = with->file ? with->file : "text";
  if (message) tg_fail(env, status, "%s", message);
  if (strcmp(operands[0], operands[1]))
    tg_fail(env, TG_EINVAL, "%s: %s has the buffers %s; those of the problem are %s", file, name, operands[1],
            operands[0]);
  for (uint32_t i = 0; i + 1 < k->sketches; i++)
    if (k->sketch[i].def && !strcmp(k->sketch[i].def->name, name))
      tg_fail(env, TG_EINVAL, "%s: %s is the name of a kernel that is searched already: it needs another", file, name);
}

/* ---- tuning ---- */

static uint32_t launch_threads(const tuning *k) {
  return k->o->threads && k->o->threads < k->c->target.threads ? k->o->threads : k->c->target.threads;
}

/* Workers open contexts without the folder in which the row was found. */
static const char *machine_text(tg_env *env, const tg_target *t) {
  if (strcmp(t->name, "host") || tg_machine_row(t->machine.name)) return NULL;
  tg_str s = tg_str_new(env);
  tg_machine_file_print(&s, &t->machine, t->silicon);
  return s.data;
}

/* The device's name, for workers, which open it themselves; NULL: the CPU. */
static const char *device_name(tg_env *env, const tg_tune_options *o) {
  const tg_driver *driver;
  tg_device_info about;
  uint32_t i;
  if (!o->device || o->device->driver->immediate) return NULL;
  if (o->device->native) tg_fail(env, TG_EINVAL, "a device of the program's own context cannot be opened by workers");
  if (!tg_device_at(o->device->number, &driver, &i, &about)) tg_fail(env, TG_EIO, "the device is gone");
  return tg_format(env, "%s:%u", driver->name, i);
}

static const char *bytes_text(tg_env *env, const void *bytes, size_t n) {
  tg_str s = tg_str_new(env);
  for (size_t i = 0; i < n; i++) tg_str_printf(&s, "%02x", ((const unsigned char *)bytes)[i]);
  return s.data;
}

/* What answers depend on beside the problem: processes that differ in it share nothing. */
static const char *spool_about(tg_env *env, const tuning *k, const char *device) {
  const tg_tune_options *o = k->o;
  const tg_target *t = device ? o->device->target : &k->c->target;
  return tg_format(env, "tg %s\n%s %s %s\nmachine %016llx, threads %u of %u, beam %u, flags %u", tg_build_hash,
                   device ? device : "cpu", t->name, t->silicon, (unsigned long long)tg_machine_hash(&t->machine),
                   launch_threads(k), k->c->target.threads, o->beam, o->flags & TG_TUNE_KNOBS_ONLY);
}

static void run(void *arg) {
  tuning *k = arg;
  const tg_tune_options *o = k->o;
  tg_env *env = &k->t->env;
  if (!tg_target_runs_here(&k->c->target))
    tg_fail(env, TG_EINVAL, "kernels for %s do not run here: %s", k->c->target.name, k->c->target.lacks);
  const char *device = device_name(env, o);
  if (device && o->device->context != k->c) tg_fail(env, TG_EINVAL, "the device is another context's");
  if (o->with_text) check_beside(k, &k->sketch[k->sketches - 1]);
  make_scratch(k);
  const tg_tune_kind *kind = k->kind;
  bool part = kind && kind->part;
  tg_sketch_source *parts = part ? tg_new(env, tg_sketch_source, k->sketches) : NULL;
  for (uint32_t i = 0; part && i < k->sketches; i++) parts[i] = k->sketch[i], parts[i].user = kind->part_user;
  tg_search_options s = {.sketch = part ? parts : k->sketch,
                         .sketches = k->sketches,
                         .beside = o->with_text != NULL,
                         .bindings = part ? kind->part : o->bindings,
                         .bindings_n = o->bindings_n,
                         .start_sketch = o->start_kernel,
                         .start = o->start,
                         .start_n = o->start_n,
                         .params = o->params,
                         .params_n = o->params_n,
                         .threads = device ? k->c->target.threads : launch_threads(k),
                         .pool = k->c->target.threads,
                         .seconds = o->spool ? 0 : o->seconds > 0 ? o->seconds : 20,
                         .candidates = o->candidates || !o->spool ? o->candidates : SPOOL_CANDIDATES,
                         .seed = o->seed,
                         .beam = o->beam,
                         .knobs_only = (o->flags & TG_TUNE_KNOBS_ONLY) != 0,
                         .worker = o->worker,
                         .workers = o->workers ? o->workers : k->c->target.threads,
                         .local = k->bench,
                         .target = k->c->target.name,
                         .device = device,
                         .device_target = device ? bytes_text(env, o->device->target, sizeof(tg_target)) : NULL,
                         .machine = machine_text(env, &k->c->target),
                         .folder = *k->folder ? k->folder : NULL,
                         .checks = !kind  ? NULL
                                   : part ? kind->part_about
                                          : kind->about,
                         .roundings = kind ? kind->roundings : 0,
                         .whole = part ? k->sketch : NULL,
                         .whole_bindings = o->bindings,
                         .whole_checks = part ? kind->about : NULL,
                         .share = part ? kind->share : 0,
                         .journal = o->journal,
                         .spool = o->spool,
                         .spool_about = o->spool ? spool_about(env, k, device) : NULL,
                         .resume = (o->flags & TG_TUNE_RESUME) != 0,
                         .shared = k->shared,
                         .stop = stop,
                         .progress = o->progress ? progress : NULL,
                         .user = k};
  tg_search_run(env, &s, &k->r);
}

/* ---- the choice ---- */

typedef struct { tg_compilation work; tuning *k; int err; } keeping;

static void keep_choice(void *arg) {
  keeping *w = arg;
  const tg_search_result *r = &w->k->r;
  tg_job *j = w->work.job;
  tg_kernel_source_check(j, w->work.source);
  tg_kernel_source_read(j, w->work.source);
  tg_context *c = w->work.context;
  const tg_sketch_source *won = &w->k->sketch[r->sketch];
  tg_tuned t = {.kernel = r->sketch_name,
                .text = won->text && won->text == w->k->o->with_text ? won->text : NULL,
                .knobs = r->knob,
                .knobs_n = r->knobs,
                .words = r->words,
                .seconds = r->seconds,
                .default_seconds = r->default_seconds,
                .gain_low = exp(r->gain_low) - 1};
  /* stored for contexts with this one's number of threads, and for those with as many as the launches had */
  const tg_compile_options *o = w->work.source->options;
  bool device = tg_target_asked(c, o) != &c->target;   /* whose launches have no number of threads */
  const uint32_t of[] = {c->target.threads, device ? c->target.threads : launch_threads(w->k)};
  for (uint32_t i = 0; i < TG_COUNT(of) && !w->err && (!i || of[1] != of[0]); i++) {
    t.key = tg_tuned_key(j, c, o, of[i]);
    w->err = tg_store_write(&j->env, c->tuned, &t);
  }
  w->k->file = tg_strdup(&w->k->t->env, tg_store_path(&j->env, c->tuned, tg_tuned_key(j, c, o, c->target.threads)));
}

/* Stores the choice under the key of the first sketch, as the caller gave it. If the folder cannot be written the
 * tuning still succeeds. */
static bool keep_in_store(tuning *k) {
  const tg_sketch_source *s = &k->sketch[0];
  tg_compile_options o = {
      .bindings = k->o->bindings, .bindings_n = k->o->bindings_n, .user = s->user, .kernel = s->kernel,
      .device = k->o->device};
  tg_kernel_source source = {.def = s->def, .file = s->file, .text = s->text, .options = &o};
  keeping w = {.work = {.context = k->c, .source = &source}, .k = k};
  if (!k->r.tuned || !k->c->tuned || k->r.interrupted || k->o->flags & TG_TUNE_NOT_KEPT) return false;
  if (tg_compilation_run(&w.work, keep_choice, &w) == TG_OK && !w.err) return true;
  char message[256];
  snprintf(message, sizeof message, "the choice cannot be kept: %s", w.err ? strerror(w.err) : tg_error_message(k->c));
  if (k->c->log) k->c->log(k->c->log_user, message);
  return false;
}

static void keep(tuning *k) {
  tg_env *env = &k->t->env;
  tg_tune_result *r = &k->t->result;
  tg_binding *knobs = tg_new(env, tg_binding, k->r.knobs + 1);
  memcpy(knobs, k->r.knob, k->r.knobs * sizeof *knobs);
  fill_in(r, &k->r);
  r->knobs = knobs;
  r->knobs_n = k->r.knobs;
  r->words = k->r.words;
}

static tg_status tune(tg_context *c, const tg_sketch_source *sketch, uint32_t n, const tg_tune_options *o,
                      const tg_tune_kind *kind, tg_tune_result **out) {
  if (!c) return TG_EINVAL;
  if (!out) return tg_context_fail(c, TG_EINVAL, "no place is given for the result");
  *out = NULL;
  if (!c->compiler)
    return tg_context_fail(c, TG_EINVAL, "this program has no compiler: that is tg_context_create of libtg_jit");
  tg_allocator a = c->env.allocator;
  tuned *t = a.alloc(a.user, sizeof *t);
  tuning k = {.c = c,
              .o = o,
              .sketch = sketch,
              .sketches = n,
              .kind = kind,
              .t = t,
              .bench = tg_trial_bench_new(kind ? kind->checks : NULL),
              .shared = -1,
              .lock = -1};
  if (!t || !k.bench) {
    if (t) a.free(a.user, t, sizeof *t);
    tg_trial_bench_free(k.bench);
    return tg_context_fail(c, TG_ENOMEM, "out of memory");
  }
  memset(t, 0, sizeof *t);
  tg_env_init(&t->env, &a);
  bool ok = tg_protect(&t->env, run, &k);
  tg_trial_bench_free(k.bench);
  drop_scratch(&k);
  if (tg_flag_is_set(o->cancel)) {   /* a search that was cut short may also have failed for it */
    ok = false;
    t->env.status = TG_CANCELLED;
    snprintf(t->env.message, sizeof t->env.message, "cancelled");
  }
  tg_status s = ok ? TG_OK : tg_context_fail(c, t->env.status, t->env.message);
  if (ok) keep(&k), t->result.kept = keep_in_store(&k), t->result.file = k.file, *out = &t->result;
  else tg_tune_result_free(&t->result);
  return s;
}

tg_status tg_tune_checked(tg_context *c, const tg_kernel_def *const *defs, uint32_t n, const tg_tune_options *o,
                          const tg_tune_kind *kind, tg_tune_result **out) {
  enum { MOST = 64 };
  tg_sketch_source s[MOST + 1];
  if (!o) o = &no_options;
  if (c && (!defs || !n || n > MOST)) return tg_context_fail(c, TG_EINVAL, "tg_tune takes 1 to 64 kernels");
  for (uint32_t i = 0; c && i < n; i++)
    if (!defs[i] || !defs[i]->name || !defs[i]->body)
      return tg_context_fail(c, TG_EINVAL, "one of the kernels is NULL, or has no name or no body");
  for (uint32_t i = 0; c && i < n; i++) s[i] = (tg_sketch_source){.def = defs[i], .user = o->user};
  if (o->with_text) s[n++] = (tg_sketch_source){.file = o->with_file, .text = o->with_text};
  return tune(c, s, n, o, kind, out);
}

tg_status tg_tune_sized(tg_context *c, const tg_kernel_def *const *defs, uint32_t n, const tg_tune_options *o,
                        size_t options_bytes, tg_tune_result **out) {
  tg_tune_options copy;
  if (c && TG_WHOLE(c, tg_tune_options, &copy, &o, options_bytes) != TG_OK) return TG_EINVAL;
  return tg_tune_checked(c, defs, n, o, NULL, out);
}

tg_status tg_tune_text_sized(tg_context *c, const char *file, const char *text, const tg_tune_options *o,
                             size_t options_bytes, tg_tune_result **out) {
  tg_tune_options copy;
  if (c && TG_WHOLE(c, tg_tune_options, &copy, &o, options_bytes) != TG_OK) return TG_EINVAL;
  if (!o) o = &no_options;
  tg_sketch_source s[2] = {{.file = file, .text = text, .kernel = o->kernel},
                           {.file = o->with_file, .text = o->with_text}};
  if (c && !text) return tg_context_fail(c, TG_EINVAL, "no kernel is given");
  return tune(c, s, o->with_text ? 2 : 1, o, NULL, out);
}

void tg_tune_result_free(tg_tune_result *r) {
  if (!r) return;
  tuned *t = (tuned *)(void *)r;
  tg_allocator a = t->env.allocator;
  tg_env_drop(&t->env);
  a.free(a.user, t, sizeof *t);
}
