/* SPDX-License-Identifier: MIT
 * The bodies of gradients for devices (their formulas: backward.c). dQ: a task is a query of a head, which goes over
 * its blocks of keys. dK and dV: a task is a key of a head of K and V, which goes over all queries of the heads that
 * share it, BQ at a time. Both compute weights again from LSE, and dP - delta as one sum, dO.(keep V - O). Sums are
 * plain and in one order, so the bits depend on nothing else. */
#include "attention/body.h"

/* Names, for row g*BQ + i and key kb*BK + j: `weight`, and `by`, what is times K and Q in the gradients; both 0 where
 * the row does not see the key. Returns the factor of dropout, or NULL. */
static const char *weight_and_change(tg_builder *tg_b_, const tg_attention_problem *p, const char *head) {
  const char *key = "kb*BK + j", *row = "min(g*BQ + i, M - 1)",
             *sees = tg_attention_seen(tg_b_, p, key, "kb*BK + j < N & g*BQ + i < M"),
             *seen = text("%s & lse[batch, head, %s] > -inf", sees, row),
             *o = tg_attention_f32(tg_b_, p->o, text("O[batch, head, %s, y]", row)),
             *d_o = tg_attention_f32(tg_b_, p->o, text("dO[batch, head, %s, y]", row)),
             *keep = p->dropout ? tg_attention_keep(tg_b_, p, "g*BQ + i", key) : NULL,
             *v = tg_attention_device_key(tg_b_, p, 'V', head, key, "y", true);
  if (keep) say("let keep = %s", keep);
  say("let x = scale * sum(c : D, %s * %s)", tg_attention_device_query(tg_b_, p, "c"),
      tg_attention_device_key(tg_b_, p, 'K', head, key, "c", true));
  say("let far = change * sum(y : E, %s * (%s%s - %s))", d_o, keep ? "keep * " : "", v, o);
  say("let seen = %s", seen);
  say("let z = %slse[batch, head, %s]", p->base2 ? "" : "1.4426950408889634f * ", row);
  say("let weight = pick(seen, exp2(%s - z), 0)", tg_attention_score(tg_b_, p, "x", key));
  const char *slope = tg_attention_slope(tg_b_, p, "x", key);
  say("let by = pick(seen, weight * far%s, 0)", slope ? text(" * %s", slope) : "");
  return keep ? "keep" : NULL;
}

static const char *as(tg_builder *tg_b_, tg_type t, const char *x) {
  return t == TG_F32 ? x : text("%s(%s)", tg_type_name[t], x);
}

TG_KERNEL(attention_device_dq, ) {
  const tg_attention_problem *p = tg_user;
  const char *head = text("head/%lld", (long long)p->group);
  tg_let(BQ, 1);
  tg_let(BK, 16);
  tg_attention_declare(tg_b_, p);
  tg_attention_declare_tensor(tg_b_, p, "out", "dQ", "dq", p->q, "M", "D");
  tg_range(batch, B, global) tg_range(head, H, global) tg_range(g, M, global) {
    tg_define_reg(dq, f32, [D]);
    tg_define_reg(ds, f32, [BK]);
    tg_range(y, D) tg(dq[y] = 0);
    tg_attention_device_divide(tg_b_, p);
    tg_range(kc, blocks - first) {
      tg(let kb = first + kc);
      tg_range(j, BK) tg_range(i, BQ) {
        weight_and_change(tg_b_, p, head);
        tg(ds[j] = by);
      }
      tg_range(d, D)
        say("dq[d] = dq[d] + sum(j : BK, pick(ds[j] != 0, ds[j] * %s, 0))",
            tg_attention_device_key(tg_b_, p, 'K', head, "kb*BK + j", "d", true));
    }
    tg_range(d, D) say("dQ[batch, head, g, d] = %s", as(tg_b_, p->q, "dq[d]"));
  }
}
const tg_kernel_def *const tg_attention_device_dq = &attention_device_dq;

TG_KERNEL(attention_device_dkv, ) {
  const tg_attention_problem *p = tg_user;
  long long group = p->group;
  tg_let(BQ, 16);
  tg_let(BK, 1);
  tg_attention_declare(tg_b_, p);
  tg_attention_declare_tensor(tg_b_, p, "out", "dK", "dk", p->k, "N", "D");
  tg_attention_declare_tensor(tg_b_, p, "out", "dV", "dv", p->v, "N", "E");
  tg_range(batch, B, global) TG_KIT_RANGE(kv, text("kv, H/%lld, global", group)) tg_range(kb, N, global) {
    tg_define_reg(dk, f32, [D]);
    tg_define_reg(dv, f32, [E]);
    tg_define_reg(w, f32, [BQ]);
    tg_define_reg(ds, f32, [BQ]);
    tg_range(y, D) tg(dk[y] = 0);
    tg_range(y, E) tg(dv[y] = 0);
    TG_KIT_RANGE(of, text("of, %lld", group)) {
      say("let head = kv*%lld + of", group);
      /* queries before those that a causal mask lets see the key */
      if (p->causal) tg(let from = max(0, kb - at - (kb - at) % BQ));
      else tg(let from = index(0));
      tg_range(gq, max(0, ceildiv(M - from, BQ))) {
        tg(let g = from/BQ + gq);
        tg_range(i, BQ) tg_range(j, BK) {
          const char *keep = weight_and_change(tg_b_, p, "kv");
          say("w[i] = weight%s", keep ? " * keep" : "");
          tg(ds[i] = by);
        }
        tg_range(e, E)
          say("dv[e] = dv[e] + sum(i : BQ, pick(w[i] != 0, w[i] * %s, 0))",
              tg_attention_f32(tg_b_, p->o, "dO[batch, head, min(g*BQ + i, M - 1), e]"));
        tg_range(d, D)
          say("dk[d] = dk[d] + sum(i : BQ, pick(ds[i] != 0, ds[i] * %s, 0))",
              tg_attention_f32(tg_b_, p->q, "Q[batch, head, min(g*BQ + i, M - 1), d]"));
      }
    }
    tg_range(d, D) say("dK[batch, kv, kb, d] = %s", as(tg_b_, p->k, "dk[d]"));
    tg_range(e, E) say("dV[batch, kv, kb, e] = %s", as(tg_b_, p->v, "dv[e]"));
  }
}
const tg_kernel_def *const tg_attention_device_dkv = &attention_device_dkv;
