/* SPDX-License-Identifier: MIT
 * A kernel for a device as data of the object: the bytes that tg_device_load takes, and, for programs that speak to the
 * driver themselves, where in them the code lies and with what geometry it is launched. */
#include "api/api.h"
#include "generator/generator.h"
#include "code/cache.h"
#include "compile/wrapper.h"

/* ---- the data ---- */

static void put_bytes(tg_wrapper *w, const char *name, const unsigned char *data, size_t n) {
  static const char digits[] = "0123456789ABCDEF";
  tg_str_printf(&w->out, "@%s = constant [%zu x i8] c\"", name, n);
  for (size_t i = 0; i < n; i++) {
    const char escaped[3] = {'\\', digits[data[i] >> 4], digits[data[i] & 15]};
    bool plain = data[i] >= ' ' && data[i] < 127 && data[i] != '"' && data[i] != '\\';
    if (plain) tg_str_put(&w->out, (const char *)&data[i], 1);
    else tg_str_put(&w->out, escaped, 3);
  }
  tg_str_puts(&w->out, "\", align 16\n");
}

/* ---- the geometry: the nodes of code/grid.c, as C ---- */

static const char *node_text(tg_wrapper *w, tg_op op, const int64_t *a) {
  const char *x = tg_format(w->env, "v%lld", (long long)a[0]), *y = tg_format(w->env, "v%lld", (long long)a[1]),
             *apart = tg_format(w->env, "(%s %% %s && (%s < 0) != (%s < 0))", x, y, x, y);
  switch (op) {
  case TG_OP_CAST: return x;
  case TG_OP_NEG: return tg_format(w->env, "-%s", x);
  case TG_OP_ADD: return tg_format(w->env, "%s + %s", x, y);
  case TG_OP_SUB: return tg_format(w->env, "%s - %s", x, y);
  case TG_OP_MUL: return tg_format(w->env, "%s * %s", x, y);
  case TG_OP_CDIV: return tg_format(w->env, "%s / %s", x, y);
  case TG_OP_CMOD: return tg_format(w->env, "%s %% %s", x, y);
  case TG_OP_MAX: return tg_format(w->env, "%s > %s ? %s : %s", x, y, x, y);
  case TG_OP_MIN: return tg_format(w->env, "%s < %s ? %s : %s", x, y, x, y);
  case TG_OP_AND: return tg_format(w->env, "%s & %s", x, y);
  case TG_OP_OR: return tg_format(w->env, "%s | %s", x, y);
  case TG_OP_XOR: return tg_format(w->env, "%s ^ %s", x, y);
  case TG_OP_SHL: return tg_format(w->env, "%s << %s", x, y);
  case TG_OP_SHR: return tg_format(w->env, "%s >> %s", x, y);
  case TG_OP_LT: return tg_format(w->env, "%s < %s", x, y);
  case TG_OP_LE: return tg_format(w->env, "%s <= %s", x, y);
  case TG_OP_EQ: return tg_format(w->env, "%s == %s", x, y);
  case TG_OP_NE: return tg_format(w->env, "%s != %s", x, y);
  case TG_OP_WHERE: return tg_format(w->env, "%s ? %s : v%lld", x, y, (long long)a[2]);
  case TG_OP_IDIV: return tg_format(w->env, "%s / %s - %s", x, y, apart);
  case TG_OP_MOD: return tg_format(w->env, "%s %% %s + (%s ? %s : 0)", x, y, apart, y);
  default: tg_fail(w->env, TG_ELIMIT, "%s: the geometry of a launch has %s in it", w->name, tg_ops[op].name);
  }
}

/* The extents of a phase's ranges, multiplied along x, y and z. at: the words of the phase. */
static void put_phase(tg_wrapper *w, tg_str *o, const int64_t *at) {
  const tg_signature *s = w->signature;
  const int64_t ranges = at[3], nodes = at[4], *list = at + 5, *n = list + 2 * ranges;
  for (int64_t i = 0; i < nodes; i++) {
    tg_op op = tg_grid_op(*n & 255);
    int64_t a[3] = {0};
    uint32_t arity = op == TG_OP_CONST || op == TG_OP_PARAM ? 1 : (uint32_t)tg_ops[op].arity;
    n++;
    for (uint32_t k = 0; k < arity; k++) a[k] = *n++;
    const char *text = op == TG_OP_CONST ? tg_format(w->env, "INT64_C(%lld)", (long long)a[0])
                       : op == TG_OP_PARAM
                           ? tg_wrapper_c_name(w, tg_signature_strings(s) + tg_signature_params(s)[a[0]].name)
                           : node_text(w, op, a);
    tg_str_printf(o, "    int64_t v%lld = %s;\n", (long long)i, text);
  }
  tg_str_puts(o, "    groups[0] = 1; groups[1] = 1; groups[2] = 1;\n");
  for (int64_t i = 0; i < ranges; i++)
    tg_str_printf(o, "    groups[%lld] *= v%lld > 0 ? v%lld : 0;\n", (long long)list[2 * i], (long long)list[2 * i + 1],
                  (long long)list[2 * i + 1]);
  for (int64_t i = 0; i < nodes; i++) tg_str_printf(o, "    (void)v%lld;\n", (long long)i);
  tg_str_printf(o, "    *threads = %lld; *local = %lld;\n", (long long)at[1], (long long)at[2]);
}

static void put_geometry(tg_wrapper *w, tg_str *o, const tg_wrapped *k, const char *name) {
  const tg_signature *s = w->signature;
  const int64_t *at = k->info->launch;
  tg_str_printf(o,
                "/* The geometry of phase p: groups along x, y, z (one of 0: there is nothing to run), threads of a "
                "group, bytes of\n * LOCAL memory of a group that the launch must ask for. Phases run in order. */\n"
                "static inline void %s_geometry(int p, ", name);
  for (uint32_t i = 0; i < s->params_n; i++)
    tg_str_printf(o, "int64_t %s, ", tg_wrapper_c_name(w, tg_signature_strings(s) + tg_signature_params(s)[i].name));
  tg_str_puts(o, "int64_t groups[3], int64_t *threads, int64_t *local) {\n");
  for (uint32_t i = 0; i < s->params_n; i++)
    tg_str_printf(o, "  (void)%s;\n", tg_wrapper_c_name(w, tg_signature_strings(s) + tg_signature_params(s)[i].name));
  for (uint32_t p = 0; p < k->info->phases; p++, at += *at) {
    tg_str_printf(o, "  if (p == %u) {\n", p);
    put_phase(w, o, at);
    tg_str_puts(o, "  }\n");
  }
  tg_str_puts(o, "}\n");
}

/* ---- the header ---- */

static const char *kind_of(const tg_target *t) {
  return t->arch == TG_ARCH_NVPTX    ? "PTX text with its NUL, for cuModuleLoadData"
         : t->arch == TG_ARCH_AMDGPU ? "a relocatable code object (ELF)"
         : tg_jit_knows(t)           ? "SPIR-V, for clCreateProgramWithIL"
                                     : "OpenCL C text with its NUL";
}

void tg_wrapper_data(tg_wrapper *w, const tg_wrapped *k, const tg_target *t, tg_str *o) {
  const char *key = tg_format(w->env, "%s%s", TG_BUILT_KEY, t->name);
  const tg_cache_entry e = {.key = key,
                            .key_n = strlen(key),
                            .signature = k->signature,
                            .signature_n = k->signature->bytes,
                            .object = k->ir,
                            .object_n = k->ir_n,
                            .info = *k->info};
  size_t bytes;
  const char *data = tg_cache_block(w->env, &e, &bytes),
             *name = tg_wrapper_c_name(w, tg_format(w->env, "%s_%s", w->name, t->name));
  tg_cache_entry placed = {.key = NULL};
  if (!tg_cache_block_read(data, bytes, &placed)) tg_bug(w->env, "the data of %s does not read back", name);
  put_bytes(w, name, (const unsigned char *)data, bytes);
  tg_str_printf(o,
                "\n/* The kernel for %s: %s_bytes bytes, aligned to 16, which tg_device_load of tg/device.h takes; its "
                "launches have the\n * buffers and parameters above. */\n"
                "extern const unsigned char %s[];\nenum { %s_bytes = %zu };\n", t->name, name, name, name, bytes);
  tg_str_printf(o,
                "/* For the driver's own interface: from %s + %s_code on lie %s_code_bytes bytes, %s. */\n"
                "enum { %s_code = %zu, %s_code_bytes = %zu };\n",
                name, name, name, kind_of(t), name, (size_t)((const char *)placed.object - data), name,
                placed.object_n);
  if (tg_target_is_source(t)) return;   /* what its phases ask for is worked out while they run */
  tg_str_printf(o,
                "/* Phase p of %u is the kernel %s_p%s. Its arguments: pointers to the buffers in the order above, "
                "%sthen the\n * parameters as 64-bit integers. */\nenum { %s_phases = %u };\n",
                k->info->phases, k->name,
                k->info->aligned ? ", for buffers at multiples of 16 bytes, else NAME_p_unaligned" : "",
                k->info->shared ? tg_format(w->env, "a pointer to %llu bytes that phases share, ",
                                            (unsigned long long)k->info->shared) : "",
                name, k->info->phases);
  put_geometry(w, o, k, name);
}
