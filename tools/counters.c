/* SPDX-License-Identifier: MIT
 * Counters of the processor: an event a file, since events that are inherited by threads cannot be read as a group. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "counters.h"

static const char *const names[COUNTERS] = {"cycles",   "instructions",  "L1 load misses", "last level misses",
                                            "branches", "branch misses", "stalled, front", "stalled, back"};

const char *counter_name(uint32_t event) { return names[event]; }

#ifdef __linux__
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct { uint32_t type; uint64_t config; } events[COUNTERS] = {
    [COUNT_CYCLES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    [COUNT_INSTRUCTIONS] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    [COUNT_L1_MISSES] = {PERF_TYPE_HW_CACHE, PERF_COUNT_HW_CACHE_L1D | PERF_COUNT_HW_CACHE_OP_READ << 8 |
                                                 PERF_COUNT_HW_CACHE_RESULT_MISS << 16},
    [COUNT_LLC_MISSES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    [COUNT_BRANCHES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    [COUNT_BRANCH_MISSES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
    [COUNT_STALLED_FRONT] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
    [COUNT_STALLED_BACK] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
};

static int system_open(void *user, uint32_t event) {
  (void)user;
  struct perf_event_attr a = {.type = events[event].type,
                              .size = sizeof a,
                              .config = events[event].config,
                              .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
                              .disabled = 1,
                              .inherit = 1,
                              .exclude_kernel = 1,   /* what any user may count where perf_event_paranoid is 2 */
                              .exclude_hv = 1};
  long file = syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  return file >= 0 ? (int)file : -errno;
}

static int system_control(void *user, int file, bool on) {
  (void)user;
  if (on && ioctl(file, PERF_EVENT_IOC_RESET, 0)) return -errno;
  return ioctl(file, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0) ? -errno : 0;
}

static long system_read(void *user, int file, void *to, size_t bytes) {
  (void)user;
  ssize_t n = read(file, to, bytes);
  return n >= 0 ? (long)n : -errno;
}

static void system_close(void *user, int file) {
  (void)user;
  close(file);
}
#else
static int system_open(void *user, uint32_t event) {
  (void)user, (void)event;
  return -ENOSYS;
}
static int system_control(void *user, int file, bool on) {
  (void)user, (void)file, (void)on;
  return -ENOSYS;
}
static long system_read(void *user, int file, void *to, size_t bytes) {
  (void)user, (void)file, (void)to, (void)bytes;
  return -ENOSYS;
}
static void system_close(void *user, int file) { (void)user, (void)file; }
#endif

static const counters_calls system_calls = {system_open, system_control, system_read, system_close, NULL};

static void not_counted(counter *c, int error) {
  const char *why = NULL;
  switch (error) {
  case ENOENT: case ENODEV: case EOPNOTSUPP: case EINVAL:
    why = "this processor, or the virtual machine, has no such counter";
    break;
  case EACCES: case EPERM:
    why = "the kernel forbids it: see /proc/sys/kernel/perf_event_paranoid, which must be at most 2";
    break;
  case ENOSYS:
#ifdef __linux__
    why = "this kernel has no perf_event_open";
#else
    why = "only on Linux";
#endif
    break;
  case EBUSY: why = "another program holds the processor's counters"; break;
  default: why = strerror(error); break;
  }
  *c = (counter){0};
  snprintf(c->why, sizeof c->why, "%s", why);
}

void counter_decode(counter *c, const uint64_t read[3], long bytes) {
  if (bytes < 0) {
    not_counted(c, (int)-bytes);
    return;
  }
  *c = (counter){0};
  if (bytes != 3 * (long)sizeof *read)
    snprintf(c->why, sizeof c->why, "the kernel gave %ld bytes of 24", bytes);
  else if (!read[2] || read[2] > read[1])
    snprintf(c->why, sizeof c->why, "%s",
             read[2] ? "the kernel's times make no sense" : "it got none of the processor's counters meanwhile");
  else {
    c->counted = true;
    c->part = (double)read[2] / (double)read[1];
    c->value = (double)read[0] / c->part;
  }
}

void counters_open(counters *c, const counters_calls *calls) {
  *c = (counters){.calls = calls ? calls : &system_calls};
  for (uint32_t e = 0; e < COUNTERS; e++) {
    c->file[e] = c->calls->open(c->calls->user, e);
    if (c->file[e] < 0) not_counted(&c->at[e], -c->file[e]);
  }
}

void counters_start(counters *c) {
  for (uint32_t e = 0; e < COUNTERS; e++) {
    int failed = c->file[e] >= 0 ? c->calls->control(c->calls->user, c->file[e], true) : 0;
    if (!failed) continue;
    not_counted(&c->at[e], -failed);
    c->calls->close(c->calls->user, c->file[e]);
    c->file[e] = failed;
  }
}

/* All stop before the first is read. */
void counters_stop(counters *c) {
  for (uint32_t e = 0; e < COUNTERS; e++)
    if (c->file[e] >= 0) c->calls->control(c->calls->user, c->file[e], false);
  for (uint32_t e = 0; e < COUNTERS; e++) {
    uint64_t read[3] = {0};
    if (c->file[e] >= 0)
      counter_decode(&c->at[e], read, c->calls->read(c->calls->user, c->file[e], read, sizeof read));
  }
}

void counters_close(counters *c) {
  for (uint32_t e = 0; e < COUNTERS; e++)
    if (c->file[e] >= 0) c->calls->close(c->calls->user, c->file[e]), c->file[e] = -EBADF;
}
