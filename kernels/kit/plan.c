/* SPDX-License-Identifier: MIT
 * The kernels of a plan: compiling them or taking them from the cache, and finding the one that serves given sizes. */
#include <stdio.h>
#include "kit/plan.h"

tg_status tg_kit_plan_open(tg_kit_plan *p, tg_context *c, const char *desc, int32_t threads) {
  *p = (tg_kit_plan){.context = c, .threads = tg_pool_asked(c->pool, threads)};
  p->most = threads > 0 && (uint32_t)threads > p->threads ? (uint32_t)threads : p->threads;
  if (threads >= -1) return TG_OK;
  return tg_kit_fail(c, TG_EINVAL, "%s.threads: %d is neither a number of threads nor -1, for the whole pool", desc,
                     threads);
}

void *tg_kit_new(tg_context *c, size_t bytes) {
  const tg_allocator *a = &c->env.allocator;
  void *plan = a->alloc(a->user, bytes);
  if (plan) memset(plan, 0, bytes);
  else tg_context_fail(c, TG_ENOMEM, "out of memory");
  return plan;
}

void tg_kit_delete(tg_context *c, void *plan, size_t bytes) {
  tg_allocator a = c->env.allocator;
  a.free(a.user, plan, bytes);
}

static bool find(const char *name, const char *const *names, uint32_t n, uint8_t *out) {
  for (uint32_t i = 0; i < n; i++)
    if (!strcmp(name, names[i])) return *out = (uint8_t)i, true;
  return false;
}

tg_status tg_kit_connect(tg_kit_plan *p, const tg_kit_names *names, tg_kit_kernel *k) {
  const tg_kernel_info *info = tg_kernel_describe(k->kernel);
  const tg_code_info *code = &k->kernel->loaded->info;
  for (uint32_t i = 0; i < info->buffers_n; i++, k->operands_n++)
    if (i == TG_KIT_OPERANDS || !find(info->buffers[i].name, names->operand, names->operands_n, &k->operand[i]))
      return tg_kit_fail(p->context, TG_INTERNAL, "internal error: the sketch %s has a buffer %s", info->name,
                         info->buffers[i].name);
  for (uint32_t i = 0; i < info->params_n; i++, k->values_n++)
    if (i == TG_KIT_VALUES || !find(info->params[i].name, names->value, names->values_n, &k->value[i]))
      return tg_kit_fail(p->context, TG_INTERNAL, "internal error: the sketch %s has a parameter %s", info->name,
                         info->params[i].name);
  k->requirements = k->kernel->loaded->signature->requires_n != 0;
  k->code = tg_device_entry(k->kernel->loaded, code->workspace);
  size_t scratch = k->kernel->loaded->scratch;   /* on a device all is shared */
  if (!p->device && code->workspace > p->per_thread) p->per_thread = code->workspace;
  if (!p->device && code->shared > p->shared) p->shared = code->shared;
  if (p->device && scratch > p->shared) p->shared = scratch;
  p->compiled++;
  p->found += info->from_cache != 0;
  p->tuned += info->tuned != 0;
  return TG_OK;
}

tg_status tg_kit_compile(tg_kit_plan *p, const tg_kit_source *s, tg_kit_kernel *out) {
  tg_binding b[TG_KIT_VALUES + TG_KIT_KNOBS];
  uint32_t n = s->bindings_n;
  if (n > TG_KIT_VALUES || s->choice->knobs_n > TG_KIT_KNOBS)
    return tg_kit_fail(p->context, TG_INTERNAL, "internal error: %u sizes and %u knobs", n, s->choice->knobs_n);
  memcpy(b, s->binding, n * sizeof *b);
  tg_compile_options o = {
      .bindings = b, .bindings_n = n, .user = s->user, .device = p->device, .cancel = p->cancel,
      .flags = TG_COMPILE_ONE | (s->cached_only ? TG_COMPILE_CACHED_ONLY : 0)};
  if (tg_context_has_choices(p->context) && s->others) {
    tg_compile_options tuned = o;
    tuned.flags |= TG_COMPILE_TUNED_ONLY;
    if (tg_kernel_compile_tuned(p->context, s->others, s->others_n, &tuned, &out->kernel) == TG_OK)
      return tg_kit_connect(p, s->names, out);
  }
  for (uint32_t i = 0; i < s->choice->knobs_n; i++) b[n++] = s->choice->knob[i];
  o.bindings_n = n, o.flags |= TG_COMPILE_UNTUNED;
  tg_status status = tg_kernel_compile(p->context, s->def, &o, &out->kernel);
  return status == TG_OK ? tg_kit_connect(p, s->names, out) : status;
}

const tg_kit_part *tg_kit_part_for(const tg_kit_part *parts, uint32_t parts_n, const int64_t *size, uint32_t sizes_n) {
  for (uint32_t i = 0; i < parts_n; i++)
    if (tg_region_has(parts[i].size, size, sizes_n)) return &parts[i];
  return NULL;
}

bool tg_kit_same_choices(const tg_kit_part *a, const tg_kit_part *b) {
  return a->strips.n == b->strips.n && a->strips.size == b->strips.size && tg_kit_same_choice(&a->choice, &b->choice) &&
         tg_kit_same_choice(&a->last_choice, &b->last_choice);
}

void tg_kit_add_part(tg_kit_part *parts, uint32_t *parts_n, const tg_kit_part *next, uint32_t dim, bool may_join) {
  tg_kit_part *last = *parts_n ? &parts[*parts_n - 1] : NULL;
  if (last && may_join && tg_kit_same_choices(last, next)) last->size[dim].hi = next->size[dim].hi;
  else parts[(*parts_n)++] = *next;
}

void tg_kit_part_free(tg_kit_part *part) {
  for (uint32_t i = 0; i < TG_KIT_CASES; i++)
    tg_kernel_free(part->kernel[i].kernel), tg_kernel_free(part->last[i].kernel);
  tg_kernel_free(part->partial.kernel);
}
