/* SPDX-License-Identifier: MIT
 * Which fields of a descriptor are not combined, and why. */
#include "attention/plan.h"

typedef struct { const char *name; bool given; } field;

tg_status tg_attention_check_combination(tg_context *c, const tg_attention_desc *d) {
  const field backward = {"backward", d->backward}, append = {"append", d->append}, rotary = {"rotary", d->rotary != 0},
              kv_bits = {"kv_bits", d->kv_bits}, page_size = {"page_size", d->page_size != 0};
  const struct { field one, other; const char *why; } apart[] = {
      {backward, page_size, "gradients are of K and V that lie side by side, not of pages"},
      {backward, append, "the forward run has written K and V already"},
      {backward, rotary, "gradients are of Q and K that are turned already"},
      {rotary, kv_bits, "K in integers is turned before it is rounded"},
      {backward, kv_bits, "gradients are of K and V in floats"},
      {append, kv_bits, "K and V are appended as they are, not rounded to integers"}};
  for (uint32_t i = 0; i < TG_COUNT(apart); i++)
    if (apart[i].one.given && apart[i].other.given)
      return tg_kit_fail(c, TG_EINVAL, "tg_attention_desc.%s with %s: %s", apart[i].one.name, apart[i].other.name,
                         apart[i].why);
  return TG_OK;
}
