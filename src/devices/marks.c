/* SPDX-License-Identifier: MIT
 * Marks as events. Those that are reached leave the list, so that marks cost nothing that grows. A wait with a limit
 * looks at the event again and again, since drivers have no such wait. */
#define _POSIX_C_SOURCE 200809L
#include <time.h>
#include "devices/marks.h"

void tg_marks_open(tg_marks *m, const tg_mark_events *events) {
  *m = (tg_marks){.events = events};
  m->last = &m->first;
  pthread_mutex_init(&m->lock, NULL);
}

static void drop_all(const tg_marks *m, tg_queue *q, tg_pending_mark *p) {
  const tg_allocator *a = &q->device->allocator;
  for (tg_pending_mark *next; p; p = next) {
    next = p->next;
    if (p->event) m->events->drop(q, p->event);
    a->free(a->user, p, sizeof *p);
  }
}

void tg_marks_close(tg_marks *m, tg_queue *q) {
  drop_all(m, q, m->first);
  drop_all(m, q, m->spare);
  pthread_mutex_destroy(&m->lock);
}

/* Takes marks that are reached from the list. Call with the lock held. */
static int forget_reached(tg_marks *m, tg_queue *q) {
  while (m->first && !m->first->waiters) {
    tg_pending_mark *p = m->first;
    int code = m->events->look(q, p->event);
    if (code == m->events->pending) break;
    if (code && !m->events->final) return code;
    if (code && !m->failed) m->failed = code;
    if (!(m->first = p->next)) m->last = &m->first;
    if (!m->events->again) m->events->drop(q, p->event), p->event = NULL;
    p->next = m->spare;
    m->spare = p;
  }
  return m->failed;
}

/* A mark that is not in the list; NULL: no memory. Call with the lock held. */
static tg_pending_mark *take(tg_marks *m, const tg_queue *q) {
  const tg_allocator *a = &q->device->allocator;
  tg_pending_mark *p = m->spare;
  if (p) m->spare = p->next;
  else if ((p = a->alloc(a->user, sizeof *p))) *p = (tg_pending_mark){.next = NULL};
  return p;
}

int tg_marks_submit(tg_marks *m, tg_queue *q, uint64_t *value) {
  pthread_mutex_lock(&m->lock);
  int code = forget_reached(m, q);
  if (m->events->final) code = 0;   /* who waits is told */
  tg_pending_mark *p = code ? NULL : take(m, q);
  *value = 0;
  if (p && !(code = m->events->put(q, &p->event))) {
    *value = p->value = ++m->submitted;
    p->next = NULL;
    *m->last = p;
    m->last = &p->next;
  } else if (p) {
    p->next = m->spare;
    m->spare = p;
  }
  pthread_mutex_unlock(&m->lock);
  return code;
}

uint64_t tg_marks_pass(tg_marks *m) {
  pthread_mutex_lock(&m->lock);
  uint64_t value = ++m->submitted;
  pthread_mutex_unlock(&m->lock);
  return value;
}

/* The mark of the value in the list; NULL: it is reached, though others behind it may not be. Call with the lock
 * held. */
static tg_pending_mark *mark_at(const tg_marks *m, uint64_t value) {
  tg_pending_mark *p = m->first;
  while (p && p->value < value) p = p->next;
  return p && p->value == value ? p : NULL;
}

/* Looks at the event at growing intervals until the time is up. */
static int finishes_within(const tg_marks *m, tg_queue *q, void *event, double seconds) {
  const int pending = m->events->pending;
  double end = tg_now() + seconds;
  int code;
  for (long pause = 5000; (code = m->events->look(q, event)) == pending; pause = pause < 1000000 ? 2 * pause : pause) {
    double left = end - tg_now();
    if (left <= 0) break;
    long most = left < 1 ? (long)(1e9 * left) : 1000000;
    nanosleep(&(struct timespec){.tv_nsec = pause < most ? pause : most}, NULL);
  }
  return code;
}

int tg_marks_wait(tg_marks *m, tg_queue *q, uint64_t value, int64_t nanoseconds) {
  int code = 0;
  pthread_mutex_lock(&m->lock);
  tg_pending_mark *p = mark_at(m, value);
  if (p) {
    p->waiters++;
    pthread_mutex_unlock(&m->lock);
    code = nanoseconds < 0 ? m->events->wait(q, p->event) : finishes_within(m, q, p->event, 1e-9 * (double)nanoseconds);
    pthread_mutex_lock(&m->lock);
    p->waiters--;
  }
  if (!code || m->events->final) {
    int failed = forget_reached(m, q);
    if (!code) code = failed;
  }
  pthread_mutex_unlock(&m->lock);
  return code;
}

/* The lock of the marks is held, so that the event is not put again, further on, before the queue waits. */
int tg_marks_after(tg_marks *m, tg_queue *q, uint64_t value) {
  int code = 0;
  pthread_mutex_lock(&m->lock);
  const tg_pending_mark *p = mark_at(m, value);
  if (p) code = m->events->after(q, p->event);
  pthread_mutex_unlock(&m->lock);
  return code;
}
