/* SPDX-License-Identifier: MIT
 * Launches whose arguments or parameters have names: put into the kernel's order, each name checked. */
#include <stdio.h>
#include "api/api.h"

typedef struct { const char *const *given; const char *what; uint32_t given_n, own_n; const tg_kernel *kernel; } naming;

static const char *own(const naming *w, uint32_t i) {
  return *w->what == 'b' ? w->kernel->info.buffers[i].name : w->kernel->info.params[i].name;
}

static tg_status unknown(const naming *w, const char *name, char *message, size_t n) {
  int at = snprintf(message, n, "kernel '%s' has no %s '%s'; it has", w->kernel->info.name, w->what, name);
  for (uint32_t i = 0; i < w->own_n && at > 0 && (size_t)at < n; i++)
    at += snprintf(message + at, n - (size_t)at, "%s %s", i ? "," : "", own(w, i));
  if (!w->own_n && at > 0 && (size_t)at < n) snprintf(message + at, n - (size_t)at, " none");
  return TG_EINVAL;
}

/* from[i]: which of the given is the kernel's i-th. */
static tg_status place(const naming *w, uint32_t *from, char *message, size_t n) {
  bool taken[TG_MAX_BUFFERS] = {0};
  for (uint32_t g = 0; g < w->given_n; g++) {
    uint32_t i = 0;
    if (!w->given[g])
      return snprintf(message, n, "%s %u of the launch has no name, and another has one", w->what, g), TG_EINVAL;
    while (i < w->own_n && strcmp(own(w, i), w->given[g])) i++;
    if (i == w->own_n) return unknown(w, w->given[g], message, n);
    if (taken[i]) return snprintf(message, n, "%s '%s' is given twice", w->what, w->given[g]), TG_EINVAL;
    taken[i] = true, from[i] = g;
  }
  for (uint32_t i = 0; i < w->own_n; i++)
    if (!taken[i]) return snprintf(message, n, "%s '%s' is missing", w->what, own(w, i)), TG_EINVAL;
  return TG_OK;
}

tg_status tg_launch_order(const tg_kernel *k, const tg_launch *l, tg_ordered_launch *out, char *message, size_t n) {
  uint32_t from[TG_MAX_BUFFERS];
  tg_status s = TG_OK;
  out->launch = *l;
  out->launch.buffer_names = out->launch.param_names = NULL;
  if (!tg_launch_has_names(l)) return TG_OK;
  if (l->buffers_n > TG_MAX_BUFFERS || l->params_n > TG_MAX_BUFFERS || k->info.buffers_n > TG_MAX_BUFFERS ||
      k->info.params_n > TG_MAX_BUFFERS)
    return snprintf(message, n, "a launch with names has at most %d buffers and parameters", TG_MAX_BUFFERS), TG_ELIMIT;
  if (l->buffer_names) {
    s = place(&(naming){l->buffer_names, "buffer", l->buffers_n, k->info.buffers_n, k}, from, message, n);
    for (uint32_t i = 0; s == TG_OK && i < l->buffers_n; i++) {
      out->buffer[i] = l->buffers[from[i]];
      if (l->offsets) out->offset[i] = l->offsets[from[i]];
    }
    out->launch.buffers = out->buffer;
    if (l->offsets) out->launch.offsets = out->offset;
  }
  if (s == TG_OK && l->param_names) {
    s = place(&(naming){l->param_names, "parameter", l->params_n, k->info.params_n, k}, from, message, n);
    for (uint32_t i = 0; s == TG_OK && i < l->params_n; i++) out->param[i] = l->params[from[i]];
    out->launch.params = out->param;
  }
  return s;
}
