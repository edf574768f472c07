/* SPDX-License-Identifier: MIT
 * tg inside a program that has threads of its own, and starts more than once: tasks go to the caller's parallel-for instead
 * of tg's pool, and compiled kernels are kept in a folder, where the next start (or another process) finds them. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <tg/dsl.h>

TG_KERNEL(softmax, R, D) {
  tg_in(x, f32, [R, D]);
  tg_out(y, f32, [R, D]);
  tg_range(r, R) {
    tg(let m = max(d : D, x[r,d]));
    tg(let s = sum(d : D, exp(x[r,d] - m)));
    tg_range(d, D) tg(y[r,d] = exp(x[r,d] - m) / s);
  }
}

/* ---- a stand-in for the program's own scheduler: each worker takes the next task until none is left ---- */

typedef struct {
  atomic_llong next;
  int64_t n;
  void (*task)(void *arg, int64_t i);
  void *arg;
} work;

static void *take_tasks(void *user) {
  work *w = user;
  for (int64_t i; (i = atomic_fetch_add(&w->next, 1)) < w->n;) w->task(w->arg, i);
  return NULL;
}

typedef struct { int workers; int64_t tasks; } scheduler;

/* tg_parallel_for: returns after every task. No task waits for another one, so any order and any number of threads will do. */
static void parallel_for(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg) {
  scheduler *s = user;
  work w = {.n = n, .task = task, .arg = arg};
  pthread_t threads[16];
  int started = 0;
  while (started < s->workers - 1 && !pthread_create(&threads[started], NULL, take_tasks, &w)) started++;
  take_tasks(&w);
  while (started--) pthread_join(threads[started], NULL);
  s->tasks += n;
}

enum { R = 1024, D = 500 };
static float x[R][D], first[R][D], y[R][D];

/* One start of the program. */
static int start(const char *cache, int workers, float (*out)[D], int *from_cache, int64_t *tasks) {
  tg_context_options context_options = {.cache = cache, .threads = 2};
  tg_context *ctx;
  if (tg_context_create(&context_options, &ctx)) return 1;
  tg_binding sizes[] = {{"R", 1, 4096, 1}, {"D", D, D, 1}};
  tg_compile_options options = {.bindings = sizes, .bindings_n = 2};
  tg_kernel *kernel = NULL;
  int64_t rows = R;
  tg_argument args[] = {{x, sizeof x}, {out, sizeof x}};
  scheduler s = {.workers = workers};
  tg_launch launch = {.buffers = args, .buffers_n = 2, .params = &rows, .params_n = 1, .parallel_for = parallel_for, .parallel_user = &s};
  int bad = tg_kernel_compile(ctx, &softmax, &options, &kernel) || tg_kernel_run(kernel, &launch);
  if (bad) fprintf(stderr, "%s\n", tg_error_message(ctx));
  else *from_cache = tg_kernel_describe(kernel)->from_cache, *tasks = s.tasks;
  tg_kernel_free(kernel);
  tg_context_free(ctx);
  return bad;
}

static void remove_folder(const char *path) {
  char file[600];
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));) {
    snprintf(file, sizeof file, "%s/%s", path, e->d_name);
    if (e->d_name[0] != '.') remove(file);
  }
  if (d) closedir(d);
  rmdir(path);
}

int main(void) {
  char cache[] = "/tmp/tg-example-XXXXXX";
  if (!mkdtemp(cache)) return perror(cache), 1;
  for (int i = 0; i < R; i++)
    for (int j = 0; j < D; j++) x[i][j] = (float)((i * 31 + j * 17) % 101) / 10 - 5;

  int wrong = 0, bad = 0;
  for (int workers = 1; workers <= 4 && !bad; workers++) {
    int from_cache = 0;
    int64_t tasks = 0;
    bad = start(cache, workers, workers == 1 ? first : y, &from_cache, &tasks);
    int differs = workers > 1 && memcmp(first, y, sizeof y) != 0;   /* the same bits for any number of threads */
    wrong += bad || differs || from_cache != (workers > 1);
    printf("start %d: %s, %lld tasks on %d threads, %s\n", workers, from_cache ? "from the cache" : "compiled", (long long)tasks, workers, differs ? "other bits" : "same bits");
  }
  for (int i = 0; i < R && !bad; i++) {
    double sum = 0;
    for (int j = 0; j < D; j++) sum += (double)first[i][j];
    wrong += !(sum > 0.9999 && sum < 1.0001);
  }
  remove_folder(cache);
  return bad || wrong;
}
