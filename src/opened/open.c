/* SPDX-License-Identifier: MIT
 * The table of code generation out of libtg_llvm.so.0, which libtg_jit.so.0 opens when first something is compiled: so
 * a program that finds its kernels in a folder or a pack does not map LLVM's library, which takes some 10 ms. Threads
 * that come at once each open the library, which is counted, and find the same table: none waits for another, since one
 * of them may be inside dlopen and hold the lock of the system's loader. A fork waits until none is opening, for its
 * child would find that lock, and the loader's lists, as they are in the middle. The library is never closed: its code
 * is in use until the process ends. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include "jit/jit.h"

#define FILE_NAME "libtg_llvm.so.0"

static _Atomic(const tg_generator *) table;
static pthread_rwlock_t opening = PTHREAD_RWLOCK_INITIALIZER;   /* shared: a thread opens; alone: a thread forks */

static void before_fork(void) { pthread_rwlock_wrlock(&opening); }
static void after_fork(void) { pthread_rwlock_unlock(&opening); }
static void note_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

static const tg_generator *open_library(char *message, size_t n) {
  const tg_generator *(*get)(void) = NULL;
  void *library = tg_open_beside((void *)&table, FILE_NAME);
  if (!library) {
    const char *why = dlerror();
    snprintf(message, n, "what compiles cannot be loaded: " FILE_NAME ", which belongs beside libtg_jit.so.0: %s",
             why ? why : "dlopen failed");
    return NULL;
  }
  *(void **)&get = dlsym(library, "tg_llvm_generator");
  const tg_generator *found = get ? get() : NULL;
  if (found && !strcmp(found->build, tg_build_hash)) return found;
  Dl_info there;
  snprintf(message, n, "%s is of another build of tg than libtg_jit.so.0: %.64s, not %s",
           get && dladdr(*(void **)&get, &there) && there.dli_fname ? there.dli_fname : FILE_NAME,
           found ? found->build : "without a table", tg_build_hash);
  dlclose(library);
  return NULL;
}

const tg_generator *tg_generator_open(char *message, size_t n) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const tg_generator *found = atomic_load_explicit(&table, memory_order_acquire);
  if (found || !message) return found;
  pthread_once(&once, note_forks);
  pthread_rwlock_rdlock(&opening);
  found = open_library(message, n);
  pthread_rwlock_unlock(&opening);
  if (found) atomic_store_explicit(&table, found, memory_order_release);
  return found;
}
