/* SPDX-License-Identifier: MIT
 * The function that packs B for a product of an object: tg_gemm_pack, as IR. */
#include "ahead/product.h"
#include "kit/pack.h"

/* %at: the element of B for the row %k and the column %col. */
static const char head[] =
    "  %none = icmp eq ptr %b, null\n  %nowhere = icmp eq ptr %out, null\n  %lost = or i1 %none, %nowhere\n"
    "  %d.bad = icmp slt i64 %down, 0\n  %r.bad = icmp slt i64 %right, 0\n  %bad = or i1 %d.bad, %r.bad\n"
    "  %wrong = or i1 %bad, %lost\n  br i1 %wrong, label %no, label %good\nno:\n  ret i32 1\ngood:\n"
    "  %both = or i64 %down, %right\n  %dense = icmp eq i64 %both, 0\n";

/* %v, %k, %p, %col of unit %e of a panel with `rows` rows of units. */
static void put_place(tg_str *o, int64_t panel, int64_t rows, int64_t columns) {
  tg_str_printf(o,
                "  %%v = urem i64 %%e, %lld\n  %%row = udiv i64 %%e, %lld\n  %%k = urem i64 %%row, %lld\n"
                "  %%p = udiv i64 %%row, %lld\n  %%first = mul i64 %%p, %lld\n  %%col = add i64 %%first, %%v\n"
                "  %%there = icmp slt i64 %%col, %lld\n",
                (long long)panel, (long long)panel, (long long)rows, (long long)rows, (long long)panel,
                (long long)columns);
}

static void put_elements(tg_str *o, const tg_gemm_packing *p, int unit) {
  put_place(o, p->panel, p->k, p->n);
  tg_str_printf(o,
                "  br i1 %%there, label %%copy, label %%pad\n"
                "copy:\n  %%kd = mul i64 %%k, %%d\n  %%cr = mul i64 %%col, %%r\n  %%at = add i64 %%kd, %%cr\n"
                "  %%from = getelementptr i%d, ptr %%b, i64 %%at\n  %%x = load i%d, ptr %%from, align 1\n"
                "  br label %%store\npad:\n  br label %%store\n"
                "store:\n  %%value = phi i%d [ %%x, %%copy ], [ 0, %%pad ]\n"
                "  %%to = getelementptr i%d, ptr %%out, i64 %%e\n  store i%d %%value, ptr %%to, align 1\n",
                unit, unit, unit, unit, unit);
}

/* A word: eight consecutive elements of a column, the first in the lowest bits. */
static void put_nibbles(tg_str *o, const tg_gemm_packing *p) {
  put_place(o, p->panel, tg_kit_words(p->k), p->n);
  tg_str_printf(o,
                "  %%cr = mul i64 %%col, %%r\n  %%k0 = mul i64 %%k, 8\n  br label %%each\n"
                "each:\n  %%i = phi i64 [ 0, %%unit ], [ %%i.up, %%joined ]\n"
                "  %%word = phi i32 [ 0, %%unit ], [ %%word.up, %%joined ]\n  %%kk = add i64 %%k0, %%i\n"
                "  %%inside = icmp slt i64 %%kk, %lld\n  %%take = and i1 %%inside, %%there\n"
                "  br i1 %%take, label %%nibble, label %%joined\n"
                "nibble:\n  %%kd = mul i64 %%kk, %%d\n  %%at = add i64 %%kd, %%cr\n  %%byte.at = lshr i64 %%at, 1\n"
                "  %%from = getelementptr i8, ptr %%b, i64 %%byte.at\n  %%byte = load i8, ptr %%from\n"
                "  %%wide = zext i8 %%byte to i32\n  %%odd = and i64 %%at, 1\n  %%high = mul i64 %%odd, 4\n"
                "  %%shift = trunc i64 %%high to i32\n  %%low = lshr i32 %%wide, %%shift\n"
                "  %%four = and i32 %%low, 15\n"
                "  %%place = trunc i64 %%i to i32\n  %%place4 = mul i32 %%place, 4\n"
                "  %%put = shl i32 %%four, %%place4\n  br label %%joined\n"
                "joined:\n  %%part = phi i32 [ 0, %%each ], [ %%put, %%nibble ]\n"
                "  %%word.up = or i32 %%word, %%part\n  %%i.up = add i64 %%i, 1\n"
                "  %%last = icmp eq i64 %%i.up, 8\n  br i1 %%last, label %%store, label %%each\n"
                "store:\n  %%to = getelementptr i32, ptr %%out, i64 %%e\n  store i32 %%word.up, ptr %%to, align 1\n",
                (long long)p->k);
}

void tg_packing_function(tg_wrapper *w, const tg_gemm_packing *p, const char *name, tg_str *header) {
  bool nibbles = p->format == TG_GEMM_NIBBLES;
  int unit = nibbles ? 32 : 8 * tg_type_bytes(p->type);
  long long units = (long long)(p->bytes * 8 / (size_t)unit), row = (long long)(nibbles ? p->n + p->n % 2 : p->n);
  tg_str *o = &w->out;
  tg_str_printf(o, "define i32 @%s_pack(ptr %%b, i64 %%down, i64 %%right, ptr %%out) {\n", name);
  if (!units) tg_str_puts(o, "  ret i32 0\n}\n");
  else {
    tg_str_puts(o, head);
    tg_str_printf(o,
                  "  %%d = select i1 %%dense, i64 %lld, i64 %%down\n  %%r = select i1 %%dense, i64 1, i64 %%right\n"
                  "  br label %%unit\nunit:\n  %%e = phi i64 [ 0, %%good ], [ %%e.up, %%store ]\n",
                  row);
    if (nibbles) put_nibbles(o, p);
    else put_elements(o, p, unit);
    tg_str_printf(o,
                  "  %%e.up = add i64 %%e, 1\n  %%end = icmp eq i64 %%e.up, %lld\n"
                  "  br i1 %%end, label %%done, label %%unit\ndone:\n  ret i32 0\n}\n",
                  units);
  }
  tg_str_printf(header,
                "\n/* Packs B, %lld rows by %lld columns of %s, for %s, into %zu bytes. down, right: elements from one "
                "row to the next,\n * and from one column to the next; 0, 0: dense. Returns 0, or 1: a pointer is NULL "
                "or a stride negative. The packed\n * bytes are plain data, the same on every machine that this object "
                "is for. */\n"
                "int %s_pack(const void *B, int64_t down, int64_t right, void *packed);\n"
                "#define %s_packed_bytes %zu\n\n",
                (long long)p->k, (long long)p->n,
                nibbles ? "four bits, two in a byte, the first in the low bits" : tg_type_name[p->type], name, p->bytes,
                name, name, p->bytes);
}
