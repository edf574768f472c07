/* SPDX-License-Identifier: MIT
 * For drivers whose marks are events behind the work of a queue: the marks that are not seen reached yet, by value. Any
 * thread may wait; what is put is put by one at a time (device.h). */
#ifndef TG_DEVICES_MARKS_H
#define TG_DEVICES_MARKS_H
#include <pthread.h>
#include "devices/device.h"

/* What the driver does with events; codes are its own, 0 is success. Called with the queue's context at hand. */
typedef struct tg_mark_events {
  int pending;                                     /* the code of an event that is not reached */
  bool again;                                      /* an event that is reached can be put once more */
  bool final;                                      /* other codes of look are the work's, for good; else of the call */
  int (*put)(tg_queue *, void **event);            /* behind all work; makes the event where it is NULL */
  int (*look)(tg_queue *, void *event);            /* 0: reached */
  int (*wait)(tg_queue *, void *event);            /* until it is reached */
  int (*after)(tg_queue *, void *event);           /* what is put from now on runs behind the event */
  void (*drop)(tg_queue *, void *event);
} tg_mark_events;

/* waiters: threads that wait for it; it stays in the list, with its event, as long as there are any */
typedef struct tg_pending_mark { struct tg_pending_mark *next; void *event; uint64_t value; uint32_t waiters;
} tg_pending_mark;
typedef struct tg_marks {
  const tg_mark_events *events;
  pthread_mutex_t lock;
  tg_pending_mark *first, **last, *spare;
  uint64_t submitted;
  int failed;                  /* the first code of work that failed, of events that are final */
} tg_marks;

void tg_marks_open(tg_marks *, const tg_mark_events *);
void tg_marks_close(tg_marks *, tg_queue *);
/* *value: 0, and no code: there was no memory for the mark. */
int tg_marks_submit(tg_marks *, tg_queue *, uint64_t *value);
uint64_t tg_marks_pass(tg_marks *);   /* a value that is reached */
/* pending: the time was up. nanoseconds below 0: no limit. */
int tg_marks_wait(tg_marks *, tg_queue *, uint64_t value, int64_t nanoseconds);
/* The queue is another than that of the marks. */
int tg_marks_after(tg_marks *, tg_queue *, uint64_t value);
#endif
