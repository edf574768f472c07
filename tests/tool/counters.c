/* SPDX-License-Identifier: MIT
 * tools/counters.c against a made-up kernel: reads are decoded and scaled, each refusal has its reason, and every file
 * that was opened is closed once. */
#include <errno.h>
#include "counters.h"
#include "../test.h"

/* What the made-up kernel answers for an event: to open, to start, and the read. */
typedef struct { int open, start; long bytes; uint64_t read[3]; } answer;
typedef struct { answer of[COUNTERS]; int open[COUNTERS], running[COUNTERS], read_while_running; } kernel;

enum { FIRST_FILE = 100 };

static int open_file(void *user, uint32_t event) {
  kernel *k = user;
  if (k->of[event].open) return -k->of[event].open;
  k->open[event]++;
  return FIRST_FILE + (int)event;
}

static int control(void *user, int file, bool on) {
  kernel *k = user;
  if (on && k->of[file - FIRST_FILE].start) return -k->of[file - FIRST_FILE].start;
  k->running[file - FIRST_FILE] = on;
  return 0;
}

static long read_file(void *user, int file, void *to, size_t bytes) {
  kernel *k = user;
  for (int e = 0; e < COUNTERS; e++) k->read_while_running += k->running[e];
  const answer *a = &k->of[file - FIRST_FILE];
  memcpy(to, a->read, bytes < sizeof a->read ? bytes : sizeof a->read);
  return a->bytes;
}

static void close_file(void *user, int file) { ((kernel *)user)->open[file - FIRST_FILE]--; }

static void decodes(void) {
  counter c;
  counter_decode(&c, (uint64_t[3]){1000, 50, 50}, 24);
  CHECK(c.counted && c.value == 1000 && c.part == 1);
  counter_decode(&c, (uint64_t[3]){1000, 200, 50}, 24);
  CHECK(c.counted && c.value == 4000 && c.part == 0.25, "%g %g", c.value, c.part);
  counter_decode(&c, (uint64_t[3]){0, 50, 50}, 24);
  CHECK(c.counted && c.value == 0, "none is a count");
  counter_decode(&c, (uint64_t[3]){1ull << 63, 3, 2}, 24);
  CHECK(c.counted && c.value > 1.38e19 && c.value < 1.39e19, "%g", c.value);
  counter_decode(&c, (uint64_t[3]){0, 50, 0}, 24);
  CHECK(!c.counted && strstr(c.why, "none of the processor's counters"), "%s", c.why);
  counter_decode(&c, (uint64_t[3]){7, 0, 0}, 24);
  CHECK(!c.counted && c.why[0]);
  counter_decode(&c, (uint64_t[3]){7, 5, 6}, 24);
  CHECK(!c.counted && strstr(c.why, "no sense"), "%s", c.why);
  counter_decode(&c, (uint64_t[3]){7, 5, 5}, 8);
  CHECK(!c.counted && strstr(c.why, "8 bytes"), "%s", c.why);
  counter_decode(&c, (uint64_t[3]){7, 5, 5}, 0);
  CHECK(!c.counted && strstr(c.why, "0 bytes"), "%s", c.why);
  counter_decode(&c, (uint64_t[3]){7, 5, 5}, -EIO);
  CHECK(!c.counted && !strcmp(c.why, strerror(EIO)), "%s", c.why);
}

static void through_calls(void) {
  kernel k = {0};
  for (int e = 0; e < COUNTERS; e++) k.of[e] = (answer){.bytes = 24, .read = {(uint64_t)(e + 1) * 10, 40, 20}};
  k.of[COUNT_INSTRUCTIONS].open = EACCES;
  k.of[COUNT_L1_MISSES].open = ENOENT;
  k.of[COUNT_LLC_MISSES].open = ENOSYS;
  k.of[COUNT_BRANCHES].start = EBUSY;
  k.of[COUNT_BRANCH_MISSES].bytes = -EINTR;
  counters_calls calls = {open_file, control, read_file, close_file, &k};
  counters c;
  counters_open(&c, &calls);
  counters_start(&c);
  CHECK(k.running[COUNT_CYCLES] == 1 && k.running[COUNT_STALLED_BACK] == 1 && !k.open[COUNT_BRANCHES]);
  counters_stop(&c);
  CHECK(!k.read_while_running, "all stop before the first is read");
  CHECK(c.at[COUNT_CYCLES].counted && c.at[COUNT_CYCLES].value == 20 && c.at[COUNT_CYCLES].part == 0.5);
  CHECK(c.at[COUNT_STALLED_BACK].value == 20 * (COUNT_STALLED_BACK + 1));
  static const struct { int event; const char *why; } refused[] = {{COUNT_INSTRUCTIONS, "perf_event_paranoid"},
                                                                   {COUNT_L1_MISSES, "has no such counter"},
                                                                   {COUNT_BRANCHES, "another program"}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    const counter *at = &c.at[refused[i].event];
    CHECK(!at->counted && strstr(at->why, refused[i].why), "%s", at->why);
  }
  CHECK(!c.at[COUNT_LLC_MISSES].counted && c.at[COUNT_LLC_MISSES].why[0]);
  CHECK(!c.at[COUNT_BRANCH_MISSES].counted && c.at[COUNT_BRANCH_MISSES].why[0]);
  counters_close(&c);
  counters_close(&c);
  for (int e = 0; e < COUNTERS; e++) CHECK(!k.open[e], "%d", e);
}

/* Whatever this machine gives: a count, or a reason. */
static void here(void) {
  counters c;
  counters_open(&c, NULL);
  counters_start(&c);
  volatile double sum = 0;
  for (int i = 0; i < 1000; i++) sum = sum + i;
  counters_stop(&c);
  for (uint32_t e = 0; e < COUNTERS; e++)
    CHECK(c.at[e].counted ? c.at[e].part > 0 && c.at[e].part <= 1 : c.at[e].why[0] != 0, "%s", counter_name(e));
  counters_close(&c);
}

int main(void) {
  decodes();
  through_calls();
  here();
  return TEST_END();
}
