/* SPDX-License-Identifier: MIT
 * Linking through LLVM's ORC: one session (an LLJIT, whose object layer is JITLink) for each context that compiles.
 *
 * Each kernel has its own JITDylib, so that two kernels may have the same name, and a resource tracker, which frees its
 * memory. The C API cannot remove a JITDylib, so those of freed kernels are reused. A JITDylib is searched alone, so
 * code cannot reference symbols of the process.
 *
 * Several threads may link at once. ORC may let one thread do the work that another has requested, so the result of a
 * look-up may arrive on another thread, after the call has returned. The child of a fork does not use the session it
 * inherited, because its locks may be held by threads that do not exist there. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "jit/jit.h"
#include "jit/orc.h"

enum { REPORTS = 8, NAMES_KEPT = 64 };

typedef struct linked linked;
struct linked {
  tg_orc *session;
  pid_t process;
  LLVMOrcJITDylibRef dylib;
  LLVMOrcResourceTrackerRef tracker;   /* NULL: idle */
  linked *next;                        /* in the list of idle ones */
};

typedef struct { pthread_t thread; char *text; } report;   /* why materialisation failed on a thread */

struct tg_orc {
  tg_allocator allocator;
  pid_t process;
  tg_orc *before;              /* the parent's session, if this process was forked */
  LLVMOrcLLJITRef jit;
  LLVMOrcExecutionSessionRef session;
  pthread_mutex_t lock;        /* guards what follows; never held while LLVM is called */
  linked *idle;
  uint32_t alive, dropped;     /* kernels: linked now; unlinked since names were last cleared */
  uint64_t dylibs;             /* made so far */
  report reports[REPORTS];
};

/* ---- errors: a session without a reporter prints them, which a library must not do ---- */

static void on_error(void *user, LLVMErrorRef e) {
  tg_orc *o = user;
  char *text = LLVMGetErrorMessage(e), *old = NULL;
  pthread_mutex_lock(&o->lock);
  report *r = &o->reports[0];
  for (uint32_t i = 0; i < REPORTS; i++)
    if (!o->reports[i].text || (r->text && pthread_equal(o->reports[i].thread, pthread_self()))) r = &o->reports[i];
  old = r->text;
  *r = (report){pthread_self(), text};
  pthread_mutex_unlock(&o->lock);
  if (old) LLVMDisposeErrorMessage(old);
}

static char *take_report(tg_orc *o) {
  char *text = NULL;
  pthread_mutex_lock(&o->lock);
  for (uint32_t i = 0; i < REPORTS && !text; i++)
    if (o->reports[i].text && pthread_equal(o->reports[i].thread, pthread_self())) {
      text = o->reports[i].text;
      o->reports[i].text = NULL;
    }
  pthread_mutex_unlock(&o->lock);
  return text;
}

/* Writes the error to message, or rather its cause, if the session has reported one. */
static void take_error(tg_orc *o, LLVMErrorRef e, char *message, size_t message_n) {
  char *text = LLVMGetErrorMessage(e), *cause = take_report(o);
  snprintf(message, message_n, "%s", cause ? cause : text);
  if (cause) LLVMDisposeErrorMessage(cause);
  LLVMDisposeErrorMessage(text);
}

static bool swallow(LLVMErrorRef e) {
  if (!e) return true;
  LLVMConsumeError(e);
  return false;
}

/* ---- life ---- */

tg_status tg_orc_open(tg_orc **out, const tg_allocator *a, LLVMTargetMachineRef machine, tg_orc *before, char *message,
                      size_t message_n) {
  *out = NULL;
  tg_orc *o = a->alloc(a->user, sizeof *o);
  if (!o) {
    LLVMDisposeTargetMachine(machine);
    snprintf(message, message_n, "out of memory");
    return TG_ENOMEM;
  }
  memset(o, 0, sizeof *o);
  o->allocator = *a;
  o->process = getpid();
  o->before = before;
  pthread_mutex_init(&o->lock, NULL);
  LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
  LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(builder,
                                                LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine));
  LLVMErrorRef e = LLVMOrcCreateLLJIT(&o->jit, builder);
  if (e) {
    o->jit = NULL;
    take_error(o, e, message, message_n);
    tg_orc_close(o, false);
    return TG_EBACKEND;
  }
  o->session = LLVMOrcLLJITGetExecutionSession(o->jit);
  LLVMOrcExecutionSessionSetErrorReporter(o->session, on_error, o);
  *out = o;
  return TG_OK;
}

bool tg_orc_is_inherited(const tg_orc *o) { return o->process != getpid(); }

static void close_one(tg_orc *o) {
  tg_allocator a = o->allocator;
  for (linked *l = o->idle, *next; l; l = next) {
    next = l->next;
    a.free(a.user, l, sizeof *l);
  }
  if (!tg_orc_is_inherited(o)) {
    if (o->jit) swallow(LLVMOrcDisposeLLJIT(o->jit));
    for (uint32_t i = 0; i < REPORTS; i++)
      if (o->reports[i].text) LLVMDisposeErrorMessage(o->reports[i].text);
    pthread_mutex_destroy(&o->lock);
  }
  a.free(a.user, o, sizeof *o);
}

void tg_orc_close(tg_orc *o, bool all) {
  for (tg_orc *before; o; o = all ? before : NULL) {
    before = o->before;
    close_one(o);
  }
}

/* ---- dylibs ---- */

static linked *borrow_dylib(tg_orc *o) {
  char name[32];
  pthread_mutex_lock(&o->lock);
  linked *l = o->idle;
  if (l) o->idle = l->next;
  else snprintf(name, sizeof name, "kernel %llu", (unsigned long long)o->dylibs++);
  pthread_mutex_unlock(&o->lock);
  if (l) return l;
  l = o->allocator.alloc(o->allocator.user, sizeof *l);
  if (l)
    *l = (linked){
        .session = o, .process = o->process, .dylib = LLVMOrcExecutionSessionCreateBareJITDylib(o->session, name)};
  return l;
}

/* Removes the kernel from its JITDylib. Names stay in the session's string pool until it is cleared, in time
 * proportional to its size; so this is done only when most names are dead. */
static void return_dylib(tg_orc *o, linked *l) {
  bool whole = swallow(LLVMOrcResourceTrackerRemove(l->tracker));
  LLVMOrcReleaseResourceTracker(l->tracker);
  l->tracker = NULL;
  pthread_mutex_lock(&o->lock);
  bool clear = ++o->dropped > o->alive + NAMES_KEPT;
  if (clear) o->dropped = 0;
  if (whole) {
    l->next = o->idle;
    o->idle = l;
  }
  pthread_mutex_unlock(&o->lock);
  /* what the dylib still contains is unknown, so it is not used again */
  if (!whole) o->allocator.free(o->allocator.user, l, sizeof *l);
  if (clear) LLVMOrcSymbolStringPoolClearDeadEntries(LLVMOrcExecutionSessionGetSymbolStringPool(o->session));
}

/* ---- looking up ---- */

typedef struct { LLVMOrcSymbolStringPoolEntryRef name; uint32_t i; } wanted;

static int by_name(const void *a, const void *b) {
  uintptr_t x = (uintptr_t)((const wanted *)a)->name, y = (uintptr_t)((const wanted *)b)->name;
  return (x > y) - (x < y);
}

typedef struct {
  tg_orc *orc;
  const wanted *names;         /* sorted */
  uint32_t n;
  void **addresses;
  char *message;
  size_t message_n;
  bool found, done;
  pthread_mutex_t lock;
  pthread_cond_t told;
} question;

static void take_addresses(question *q, LLVMOrcCSymbolMapPairs pairs, size_t n) {
  for (size_t i = 0; i < n; i++) {
    wanted key = {.name = pairs[i].Name}, *w = bsearch(&key, q->names, q->n, sizeof *q->names, by_name);
    if (w) q->addresses[w->i] = (void *)(uintptr_t)pairs[i].Sym.Address;
  }
}

/* May run on another thread than the one that waits. q must not be used after the waiting thread is notified. */
static void on_answer(LLVMErrorRef e, LLVMOrcCSymbolMapPairs pairs, size_t n, void *user) {
  question *q = user;
  if (e) take_error(q->orc, e, q->message, q->message_n);
  else take_addresses(q, pairs, n);
  pthread_mutex_lock(&q->lock);
  q->found = !e;
  q->done = true;
  pthread_cond_signal(&q->told);
  pthread_mutex_unlock(&q->lock);
}

static bool ask(question *q, LLVMOrcJITDylibRef dylib, LLVMOrcCLookupSet set) {
  LLVMOrcCJITDylibSearchOrderElement order = {dylib, LLVMOrcJITDylibLookupFlagsMatchAllSymbols};
  pthread_mutex_init(&q->lock, NULL);
  pthread_cond_init(&q->told, NULL);
  LLVMOrcExecutionSessionLookup(q->orc->session, LLVMOrcLookupKindStatic, &order, 1, set, q->n, on_answer, q);
  pthread_mutex_lock(&q->lock);
  while (!q->done) pthread_cond_wait(&q->told, &q->lock);
  pthread_mutex_unlock(&q->lock);
  pthread_cond_destroy(&q->told);
  pthread_mutex_destroy(&q->lock);
  return q->found;
}

static tg_status look_up(question *q, LLVMOrcJITDylibRef dylib, const char *const *names) {
  tg_orc *o = q->orc;
  size_t bytes = q->n * (sizeof(wanted) + sizeof(LLVMOrcCLookupSetElement)) + 1;
  wanted *w = o->allocator.alloc(o->allocator.user, bytes);
  if (!w) {
    snprintf(q->message, q->message_n, "out of memory");
    return TG_ENOMEM;
  }
  LLVMOrcCLookupSet set = (LLVMOrcCLookupSet)(w + q->n);
  for (uint32_t i = 0; i < q->n; i++) {
    /* the look-up takes this reference over */
    w[i] = (wanted){LLVMOrcExecutionSessionIntern(o->session, names[i]), i};
    set[i] = (LLVMOrcCLookupSetElement){w[i].name, LLVMOrcSymbolLookupFlagsRequiredSymbol};
  }
  qsort(w, q->n, sizeof *w, by_name);
  q->names = w;
  bool found = ask(q, dylib, set);
  o->allocator.free(o->allocator.user, w, bytes);
  return found ? TG_OK : TG_EBACKEND;
}

/* ---- linking ---- */

static bool count_in(tg_orc *o) {
  pthread_mutex_lock(&o->lock);
  bool room = o->alive < TG_LINKED_MOST;
  o->alive += room;
  pthread_mutex_unlock(&o->lock);
  return room;
}

static void count_out(tg_orc *o) {
  pthread_mutex_lock(&o->lock);
  o->alive--;
  pthread_mutex_unlock(&o->lock);
}

static tg_status link_in(linked *l, const void *object, size_t bytes, question *q, const char *const *names) {
  LLVMMemoryBufferRef copy = LLVMCreateMemoryBufferWithMemoryRangeCopy(object, bytes, "kernel");
  /* owns the copy from here on, even if it fails */
  LLVMErrorRef e = LLVMOrcLLJITAddObjectFileWithRT(q->orc->jit, l->tracker, copy);
  if (!e) return look_up(q, l->dylib, names);
  take_error(q->orc, e, q->message, q->message_n);
  return TG_EBACKEND;
}

tg_status tg_orc_link(tg_orc *o, const void *object, size_t bytes, const char *const *names, uint32_t n,
                      void **addresses, void **out, char *message, size_t message_n) {
  question q = {.orc = o, .n = n, .addresses = addresses, .message = message, .message_n = message_n};
  if (!n || !count_in(o)) return TG_MISS;
  linked *l = borrow_dylib(o);
  if (!l) {
    count_out(o);
    snprintf(message, message_n, "out of memory");
    return TG_ENOMEM;
  }
  l->tracker = LLVMOrcJITDylibCreateResourceTracker(l->dylib);
  tg_status s = link_in(l, object, bytes, &q, names);
  if (s == TG_OK) *out = l;
  else {
    count_out(o);
    return_dylib(o, l);
  }
  return s;
}

void tg_orc_unlink(const tg_allocator *a, void *user) {
  linked *l = user;
  if (l->process != getpid()) {   /* forked: the session is the parent's; the pages go when this process ends */
    a->free(a->user, l, sizeof *l);
    return;
  }
  count_out(l->session);
  return_dylib(l->session, l);
}
