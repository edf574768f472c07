/* SPDX-License-Identifier: MIT
 * Which fields of a descriptor are not combined, and why. */
#include "attention/plan.h"

typedef enum field {
  BACKWARD, SINKS, PAGE_SIZE, APPEND, DROPOUT, BLOCK_ROWS, KV_BITS, ROTARY
} field;
static const char *const names[] = {"backward", "sinks", "page_size", "append", "dropout",
                                    "block_rows", "kv_bits", "rotary"};

static bool has(const tg_attention_desc *d, field f) {
  switch (f) {
  case BACKWARD: return d->backward;
  case SINKS: return d->sinks;
  case PAGE_SIZE: return d->page_size;
  case APPEND: return d->append;
  case ROTARY: return d->rotary;
  case KV_BITS: return d->kv_bits;
  case BLOCK_ROWS: return d->block_rows;
  case DROPOUT: return d->dropout > 0;
  }
  return false;
}

static const struct { field one, other; const char *why; } apart[] = {
    {BACKWARD, PAGE_SIZE, "gradients are of K and V that lie side by side, not of pages"},
    {BACKWARD, APPEND, "the forward run has written K and V already"},
    {BACKWARD, ROTARY, "gradients are of Q and K that are turned already"},
    {ROTARY, KV_BITS, "K in integers is turned before it is rounded"},
    {BACKWARD, KV_BITS, "gradients are of K and V in floats"},
    {APPEND, KV_BITS, "K and V are appended as they are, not rounded to integers"},
};

tg_status tg_attention_check_combination(tg_context *c, const tg_attention_desc *d) {
  for (uint32_t i = 0; i < TG_COUNT(apart); i++)
    if (has(d, apart[i].one) && has(d, apart[i].other))
      return tg_kit_fail(c, TG_EINVAL, "tg_attention_desc.%s with %s: %s", names[apart[i].one], names[apart[i].other],
                         apart[i].why);
  return TG_OK;
}
