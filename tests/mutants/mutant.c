/* SPDX-License-Identifier: MIT
 * The switch of faults: TG_MUTANT names the one that is on, TG_MUTANT_REACHED a file to which the name of each is added
 * whose place the program comes by. A copy with faults includes it in src/base/system.c. */
#include <stdlib.h>

static struct {
  pthread_mutex_t lock;
  pthread_once_t once;
  const char *on, *reached;
  size_t n;
  char *seen[8192];
} mutants = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

/* A child of a process whose threads come by faults, too: the lock is nobody's there. */
static void hold(void) { pthread_mutex_lock(&mutants.lock); }
static void let_go(void) { pthread_mutex_unlock(&mutants.lock); }

static void read_environment(void) {
  pthread_atfork(hold, let_go, let_go);
  mutants.on = getenv("TG_MUTANT");
  mutants.reached = getenv("TG_MUTANT_REACHED");
}

static void reach(const char *name) {
  pthread_mutex_lock(&mutants.lock);
  size_t at = tg_hash(name, strlen(name), 0) % TG_COUNT(mutants.seen);
  while (mutants.seen[at] && strcmp(mutants.seen[at], name)) at = (at + 1) % TG_COUNT(mutants.seen);
  FILE *f = mutants.seen[at] || mutants.n + 1 == TG_COUNT(mutants.seen) ? NULL : fopen(mutants.reached, "a");
  if (f) {
    mutants.seen[at] = strdup(name);
    mutants.n++;
    fprintf(f, "%s\n", name);
    fclose(f);
  }
  pthread_mutex_unlock(&mutants.lock);
}

bool tg_mutant_on(const char *name, const char *row, long n) {
  char full[256];
  pthread_once(&mutants.once, read_environment);
  if (!mutants.on && !mutants.reached) return false;
  if (!mutants.reached && strncmp(mutants.on, name, strlen(name))) return false;
  int length = snprintf(full, sizeof full, "%s%s%s", name, row ? ": " : "", row ? row : "");
  if (n >= 0) snprintf(full + length, sizeof full - (size_t)length, row ? " %ld" : ": %ld", n);
  if (mutants.reached) reach(full);
  return mutants.on && !strcmp(mutants.on, full);
}
