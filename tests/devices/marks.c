/* SPDX-License-Identifier: MIT
 * Marks that are events, over a driver whose events are reached when the test says so: values, which events are used
 * again, waits with and without a limit, failures; and what another thread may do while one waits. */
#include <stdlib.h>
#include "../test.h"
#include "devices/marks.h"

enum { EVENTS = 8, PENDING = 600, BROKEN = 700 };

typedef struct { uint64_t puts; bool there, reached; } event;

static struct {
  event of[EVENTS];
  int made, dropped, looks, fail;   /* fail: what look returns */
  void (*meanwhile)(event *);       /* what happens while a thread waits */
} driver;

static int put(tg_queue *q, void **e) {
  (void)q;
  if (!*e) *e = &driver.of[driver.made++];
  event *it = *e;
  it->puts++, it->there = true, it->reached = false;
  return 0;
}
static int look(tg_queue *q, void *e) {
  (void)q;
  driver.looks++;
  return driver.fail ? driver.fail : ((event *)e)->reached ? 0 : PENDING;
}
static int await(tg_queue *q, void *e) {
  (void)q;
  event *it = e;
  it->reached = true;
  if (driver.meanwhile) driver.meanwhile(it);
  return 0;
}
static int after(tg_queue *q, void *e) {
  (void)q;
  CHECK(!((event *)e)->reached, "a queue waits for what is reached");
  return 0;
}
static void drop(tg_queue *q, void *e) { (void)q, ((event *)e)->there = false, driver.dropped++; }

static void *take(void *user, size_t n) { return (void)user, malloc(n); }
static void give(void *user, void *p, size_t n) { (void)user, (void)n, free(p); }

static tg_marks marks;
static tg_device device = {.allocator = {.alloc = take, .free = give}};
static tg_queue queue = {.device = &device};
static tg_mark_events events = {.pending = PENDING, .put = put, .look = look, .wait = await, .after = after, .drop = drop};

static uint64_t submit(void) {
  uint64_t value = 0;
  int code = tg_marks_submit(&marks, &queue, &value);
  CHECK(code == driver.fail || code == PENDING || !code, "submit: %d", code);
  return value;
}

static void start(bool again, bool final) {
  memset(&driver, 0, sizeof driver);
  events.again = again, events.final = final;
  tg_marks_open(&marks, &events);
}

static void stop(void) {
  tg_marks_close(&marks, &queue);
  for (int i = 0; i < driver.made; i++) CHECK(!driver.of[i].there, "event %d is left", i);
}

/* Marks that are reached leave the list, whose events are put again, or dropped. */
static void used_again(bool again) {
  start(again, false);
  for (uint64_t i = 1; i <= 20; i++) {
    CHECK(submit() == i, "values grow by one");
    CHECK(tg_marks_wait(&marks, &queue, i, -1) == 0, "waited");
    if (!again && i == EVENTS) break;
  }
  CHECK(again ? driver.made == 1 && driver.of[0].puts == 20 : driver.dropped == EVENTS, "%d made, %d dropped", driver.made, driver.dropped);
  stop();
}

/* While one thread waits for a mark, others put theirs, and wait: the event that is waited for stays what it is. */
static uint64_t behind;
static void others(event *waited) {
  const uint64_t puts = waited->puts;
  driver.meanwhile = NULL;
  behind = submit();
  CHECK(submit() == behind + 1, "another");
  CHECK(tg_marks_wait(&marks, &queue, 1, 0) == 0, "by two at once");
  CHECK(waited->there && waited->puts == puts && waited->reached, "the event was used again while it is waited for");
}
static void waited_for(bool again) {
  start(again, false);
  driver.meanwhile = others;
  CHECK(submit() == 1 && tg_marks_wait(&marks, &queue, 1, -1) == 0, "the first");
  CHECK(behind == 2 && driver.made == 3, "%d made", driver.made);
  driver.looks = 0;
  CHECK(tg_marks_wait(&marks, &queue, 1, 0) == 0, "reached before");
  CHECK(tg_marks_wait(&marks, &queue, 2, 0) == PENDING && tg_marks_wait(&marks, &queue, 3, 2000000) == PENDING, "the time is up");
  CHECK(tg_marks_after(&marks, &queue, 3) == 0 && tg_marks_after(&marks, &queue, 1) == 0, "behind a mark");
  CHECK(tg_marks_wait(&marks, &queue, 3, -1) == 0, "the last");
  stop();
}

/* A value that is reached as it is given waits for nothing, before or behind others. */
static void passed(void) {
  start(true, false);
  uint64_t first = tg_marks_pass(&marks), second = submit(), third = tg_marks_pass(&marks);
  CHECK(first == 1 && second == 2 && third == 3, "values grow by one");
  CHECK(tg_marks_wait(&marks, &queue, first, 0) == 0 && tg_marks_wait(&marks, &queue, third, 0) == 0, "reached");
  CHECK(tg_marks_wait(&marks, &queue, second, 0) == PENDING && tg_marks_wait(&marks, &queue, second, -1) == 0, "not yet");
  stop();
}

/* A code of look is of the call alone, which puts nothing; or of the work, and each who waits is told, for good. */
static void failures(bool final) {
  start(true, final);
  CHECK(submit() == 1, "the first");
  driver.fail = BROKEN;
  uint64_t value = 9;
  CHECK(tg_marks_submit(&marks, &queue, &value) == (final ? 0 : BROKEN) && value == (final ? 2 : 0), "value %llu", (unsigned long long)value);
  CHECK(tg_marks_wait(&marks, &queue, 1, 0) == BROKEN, "told");
  driver.fail = 0;
  CHECK(tg_marks_wait(&marks, &queue, 1, -1) == (final ? BROKEN : 0), "told again");
  stop();
}

int main(void) {
  for (int i = 0; i < 2; i++) used_again(i), waited_for(i), failures(i);
  passed();
  return TEST_END();
}
