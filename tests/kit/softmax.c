/* SPDX-License-Identifier: MIT
 * The whole operation: what a kernel of it is, which kernel serves which rows, and a call. */
#include <stdio.h>
#include <stdlib.h>
#include "kit/operands.h"
#include "kit/words.h"
#include "softmax.h"

enum { X, Y, ARG, OPERANDS = ARG + TG_KIT_ARGUMENTS, M = 0, N, LD, VALUES = LD + TG_KIT_ARGUMENTS, FEW = 4, PARTS = 2 };
static const char *const operands[OPERANDS] = {"X",    "Y",    "arg0", "arg1", "arg2",
                                               "arg3", "arg4", "arg5", "arg6", "arg7"};
static const char *const values[VALUES] = {"M",       "N",       "ld_arg0", "ld_arg1", "ld_arg2",
                                           "ld_arg3", "ld_arg4", "ld_arg5", "ld_arg6", "ld_arg7"};
static const tg_kit_names names = {operands, values, OPERANDS, VALUES};

struct softmax {
  tg_kit_plan plan;
  tg_kit_dim rows;              /* of calls; strips of them have any number */
  tg_kit_part part[PARTS];
  uint32_t parts_n;
  tg_kit_argument argument[TG_KIT_ARGUMENTS];
  tg_kit_epilogue epilogue;
};

/* The mathematics, and words: LANES numbers of a row at a time. */
TG_KERNEL(softmax_rows, M, N) {
  const tg_kit_epilogue *e = tg_user;
  char text[1024] = "e[j] / sum(k : N, e[k])", statement[1100];
  tg_knob(LANES, 8, 4);
  tg_in(X, f32, [M, N]);
  tg_out(Y, f32, [M, N]);
  tg_kit_declare_arguments(tg_b_, e, "M", "N");
  if (e->text) tg_kit_wrap(tg_b_, e, "i", "j", "e[j] / sum(k : N, e[k])", text, sizeof text);
  snprintf(statement, sizeof statement, "Y[i,j] = f32(%s)", text);
  tg_range(i, M) {
    tg_define_local(e, f32, [N]);
    tg_range(q, N) tg(e[q] = exp(X[i,q] - max(k : N, X[i,k])));
    tg_range(j, N) tg_add_statement(tg_b_, statement, __FILE__, __LINE__);
  }
  tg_kit_word(tg_b_, "split j {LANES, 1} as jo jl");
  tg_kit_word(tg_b_, "lane jl.by%lld", (long long)tg_c(LANES));
}

static tg_status compile(softmax *s, tg_kit_part *part) {
  char params[256] = "M, N";
  tg_binding b[VALUES] = {{"M", part->size[M].lo, part->size[M].hi, 1}, {"N", part->size[N].lo, part->size[N].hi, 1}};
  tg_kernel_def def = softmax_rows;
  tg_kit_source source = {
      .names = &names, .def = &def, .binding = b, .bindings_n = 2, .choice = &part->choice, .user = &s->epilogue};
  for (uint32_t a = 0, n = 4; a < s->epilogue.arguments_n; a++)
    if (s->argument[a].per == TG_PER_ELEMENT) {
      n += (uint32_t)snprintf(params + n, sizeof params - n, ", %s", values[LD + a]);
      b[source.bindings_n++] = (tg_binding){values[LD + a], 1, (int64_t)1 << 31, 1};
    }
  def.params = params;
  part->choice = (tg_kit_choice){.sketch = &softmax_rows,
                                 .knob = {{"LANES", part->size[N].hi < 8 ? 4 : 8, part->size[N].hi < 8 ? 4 : 8, 1}},
                                 .knobs_n = 1};
  return tg_kit_compile(&s->plan, &source, &part->kernel[0]);
}

tg_status softmax_plan(tg_context *c, const softmax_desc *given, size_t desc_bytes, softmax **out) {
  softmax_desc d;
  tg_kit_dim rows = {0, 0}, columns = {0, 0};
  if (TG_READ(c, softmax_desc, &d, given, desc_bytes) != TG_OK) return TG_EINVAL;
  softmax *s = *out = calloc(1, sizeof *s);
  if (!s) return tg_kit_fail(c, TG_ENOMEM, "out of memory");
  tg_status status = tg_kit_plan_open(&s->plan, c, "softmax_desc", d.threads);
  s->plan.strips = true;
  s->epilogue = (tg_kit_epilogue){d.epilogue, "acc, m, n", TG_F32, s->argument, 0};
  if (!status && !(tg_kit_read_dim(d.rows, 1 << 20, &rows) && tg_kit_read_dim(d.columns, 1 << 20, &columns) &&
                   rows.lo > 0 && columns.lo > 0))
    status = tg_kit_fail(c, TG_EINVAL, "softmax_desc: no range of sizes within 1..2^20");
  if (!status)
    status = tg_kit_read_arguments(c,
                                   &(tg_kit_formals){"softmax_desc", "acc, m, n", "acc, m and n", d.epilogue != NULL,
                                                     "an epilogue", TG_F32, TG_PER_ELEMENT, "TG_PER_ALL.."},
                                   d.arg, s->argument, &s->epilogue.arguments_n);
  s->rows = rows;
  for (int64_t from = 1; !status && from <= rows.hi;
       from = s->part[s->parts_n++].size[M].hi + 1) { /* few rows, and more */
    s->part[s->parts_n].size[M] = (tg_kit_dim){from, from <= FEW && rows.hi > FEW ? FEW : rows.hi};
    s->part[s->parts_n].size[N] = columns;
    status = compile(s, &s->part[s->parts_n]);
  }
  if (status) softmax_free(s), *out = NULL;
  return status;
}

void softmax_free(softmax *s) {
  for (uint32_t i = 0; s && i < PARTS; i++) tg_kit_part_free(&s->part[i]);
  free(s);
}

typedef struct {
  const softmax *s;
  void *operand[OPERANDS];
  int64_t value[VALUES];
  tg_kit_exec exec;
} call_state;

/* A strip of rows, of as many as the plan has threads, whoever comes. */
static void strip(void *arg, uint32_t i, char *workspace) {
  const call_state *r = arg;
  int64_t n = r->s->plan.most, size = (r->value[M] + n - 1) / n, from = i * size,
          rows = r->value[M] - from < size ? r->value[M] - from : size;
  void *operand[OPERANDS], *buffers[OPERANDS];
  int64_t value[VALUES], mine[VALUES];
  memcpy(operand, r->operand, sizeof operand), memcpy(value, r->value, sizeof value);
  value[M] = rows;
  for (uint32_t x = X; x <= Y; x++) operand[x] = tg_kit_behind(operand[x], from * value[N] * (int64_t)sizeof(float));
  for (uint32_t a = 0; a < r->s->epilogue.arguments_n; a++) {
    const tg_kit_argument *g = &r->s->argument[a];
    int64_t elements = g->per == TG_PER_ELEMENT ? from * value[LD + a] : g->per == TG_PER_ROW ? from : 0;
    operand[ARG + a] = tg_kit_behind(operand[ARG + a], elements * tg_type_bytes(g->type));
  }
  const tg_kit_part *part = tg_kit_part_for(r->s->part, r->s->parts_n, value, 2);   /* NULL: no rows are left */
  if (!part) return;
  tg_kit_take(&part->kernel[0], operand, value, buffers, mine);
  tg_kit_launch(&r->exec, 1, &part->kernel[0], buffers, mine, workspace);
}

static void run_all(void *arg, char *workspace) {
  call_state *r = arg;
  tg_kit_run_strips(&r->s->plan, &r->exec, r->exec.threads, r->s->plan.most, workspace, strip, r);
}

size_t softmax_workspace(const softmax *s, const softmax_call *call) {
  uint32_t threads = call ? tg_kit_exec_of(&s->plan, call->exec, call->threads).threads : s->plan.most;
  return tg_kit_workspace(tg_kit_needed(&s->plan, threads, true));
}

tg_status softmax_run(const softmax *s, const softmax_call *given, size_t call_bytes) {
  softmax_call c;
  call_state r = {.s = s};
  tg_context *context = s->plan.context;
  int64_t m, n;
  if (TG_READ(context, softmax_call, &c, given, call_bytes) != TG_OK) return TG_EINVAL;
  if (!tg_kit_read_size(s->rows, c.rows, &m) || !tg_kit_read_size(s->part[0].size[N], c.columns, &n))
    return tg_kit_fail(context, TG_EINVAL, "softmax_call: %lld x %lld is none of the plan's sizes", (long long)c.rows,
                       (long long)c.columns);
  tg_kit_layout dense = {{n, 1}, sizeof(float)};
  tg_kit_tensor x = tg_kit_matrix("x", &dense, m, n), y = tg_kit_matrix("y", &dense, m, n);
  tg_status status = tg_kit_place(context, "softmax_call", &y, c.y);
  if (!status) status = tg_kit_check_read(context, "softmax_call", &x, c.x, &y);
  for (uint32_t a = 0; a < s->epilogue.arguments_n && !status; a++) {
    r.value[LD + a] = c.arg_ld[a];
    r.operand[ARG + a] = (void *)(uintptr_t)c.arg[a];
    status = tg_kit_check_argument(context, "softmax_call", a, &s->argument[a], c.arg[a], m, n, &y, &r.value[LD + a]);
  }
  if (status) return status;
  r.operand[X] = (void *)(uintptr_t)c.x, r.operand[Y] = c.y, r.value[M] = m, r.value[N] = n;
  r.exec = tg_kit_exec_of(&s->plan, c.exec, c.threads);
  size_t needed = tg_kit_needed(&s->plan, r.exec.threads, true);
  return tg_kit_run_in(&s->plan, "softmax_call", needed, c.workspace, c.workspace_bytes, r.exec.threads, run_all, &r);
}
