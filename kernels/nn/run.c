/* SPDX-License-Identifier: MIT
 * Reads and checks a call, and runs it. Takes no lock, allocates nothing, and cannot fail once the checks are
 * passed. */
#include "api/program.h"
#include "kit/operands.h"
#include "nn/plan.h"

static const char call_name[] = "tg_nn_call";

typedef struct {
  const tg_nn *nn;
  const tg_nn_call *call;
  tg_kit_tensor of[NN_OPERANDS];
  void *operand[NN_OPERANDS];
  int64_t value[NN_VALUES];
  tg_kit_exec exec;
} run;

#define wrong(r, ...) tg_kit_fail((r)->nn->plan.context, TG_EINVAL, __VA_ARGS__)

/* The fields of a call are found by the table's offsets. */
static void *pointer_of(const tg_nn_call *c, uint32_t i) {
  void *p;
  memcpy(&p, (const char *)c + tg_nn_operands[i].at, sizeof p);
  return p;
}

static int64_t ld_of(const tg_nn_call *c, uint32_t i) {
  int64_t ld;
  memcpy(&ld, (const char *)c + tg_nn_operands[i].ld, sizeof ld);
  return ld;
}

static tg_status read_sizes(run *r) {
  const tg_nn_problem *q = &r->nn->problem;
  tg_context *c = r->nn->plan.context;
  tg_status s = tg_kit_check_size(c, call_name, "rows", q->rows, r->call->rows, &r->value[NN_M]);
  if (s == TG_OK) s = tg_kit_check_size(c, call_name, "columns", q->columns, r->call->columns, &r->value[NN_N]);
  if (s != TG_OK || !q->head) return s;
  r->value[NN_P] = r->call->positions;
  if (r->call->positions < 1 || r->call->positions > (int64_t)1 << 31)
    return wrong(r, "tg_nn_call.positions = %lld is not within 1..2^31", (long long)r->call->positions);
  return TG_OK;
}

static tg_status read_operand(run *r, uint32_t i) {
  const tg_nn_operand *x = &tg_nn_operands[i];
  const tg_nn_problem *q = &r->nn->problem;
  tg_context *c = r->nn->plan.context;
  void *p = pointer_of(r->call, i);
  if (!(r->nn->used >> i & 1)) {
    if (!p) return TG_OK;
    return wrong(r, "tg_nn_call.%s is given, and the plan does not have it", x->name);
  }
  int64_t m = r->value[NN_M], n = r->value[NN_N], ld = 0;
  uint32_t size = (uint32_t)tg_type_bytes(q->type[x->type]);
  if (x->shape == NN_MATRIX) {
    ld = ld_of(r->call, i);
    if (ld < 0 || ld > (int64_t)1 << 40) return wrong(r, "tg_nn_call.%s_ld = %lld is negative or past 2^40", x->name,
                                                      (long long)ld);
    if (!ld || m <= 1) ld = ld > n ? ld : n ? n : 1;
    if (ld < n) return wrong(r, "tg_nn_call.%s_ld = %lld: rows of %lld elements would overlap", x->name,
                             (long long)ld, (long long)n);
    r->of[i] = tg_kit_matrix(x->name, &(tg_kit_layout){{ld, 1}, size}, m, n);
  } else if (x->shape == NN_TABLE)
    r->of[i] = tg_kit_matrix(x->name, &(tg_kit_layout){{q->rotary / 2, 1}, size}, r->value[NN_P], q->rotary / 2);
  else r->of[i] = tg_kit_vector(x->name, x->shape == NN_ROWS ? m : n, size);
  r->value[NN_LD + i] = ld, r->operand[i] = p;
  return tg_kit_place(c, call_name, &r->of[i], p);
}

static tg_status read_operands(run *r) {
  tg_status s = TG_OK;
  for (uint32_t i = 0; i < NN_OPERANDS && s == TG_OK; i++) s = read_operand(r, i);
  for (uint32_t w = 0; w < NN_OPERANDS && s == TG_OK; w++)
    for (uint32_t i = 0; i < NN_OPERANDS && s == TG_OK; i++) {
      bool twice = r->nn->written >> i & 1 && i <= w;
      if (r->nn->written >> w & 1 && r->nn->used >> i & 1 && !twice)
        s = tg_kit_check_overlap(r->nn->plan.context, call_name, &r->of[w], &r->of[i]);
    }
  return s;
}

/* ---- running ---- */

static void run_all(void *arg, char *workspace) {
  run *r = arg;
  void *buffers[TG_KIT_OPERANDS];
  int64_t values[TG_KIT_VALUES];
  for (uint32_t k = 0; k < NN_KERNELS; k++) {
    const tg_kit_kernel *by = &r->nn->kernel[k];
    bool empty = k == NN_BY_ROWS ? !r->value[NN_M] : !r->value[NN_N];
    if (!by->kernel || empty) continue;
    tg_kit_take(by, r->operand, r->value, buffers, values);
    tg_kit_launch(&r->exec, r->exec.threads, by, buffers, values, workspace);
  }
}

static tg_status put_all(run *r) {
  const tg_kit_plan *p = &r->nn->plan;
  const tg_nn_call *c = r->call;
  tg_kit_puts puts;
  tg_status s = tg_kit_puts_open(p, call_name, c->queue, c->workspace, c->workspace_bytes, &puts);
  if (s != TG_OK) return s;
  r->exec = (tg_kit_exec){.threads = 1, .puts = &puts};
  run_all(r, NULL);
  return tg_kit_puts_end(p, &puts);
}

size_t tg_nn_workspace_sized(const tg_nn *nn, const tg_nn_call *given, size_t call_bytes) {
  tg_nn_call call;
  if (!nn) return 0;
  if (nn->plan.device) return nn->plan.shared;
  if (TG_READ(nn->plan.context, tg_nn_call, &call, given, call_bytes) != TG_OK) return 0;
  uint32_t threads = given ? tg_kit_exec_of(&nn->plan, call.exec, call.threads).threads : nn->plan.most;
  return tg_kit_workspace(tg_kit_needed(&nn->plan, threads, false));
}

tg_status tg_nn_run_sized(const tg_nn *nn, const tg_nn_call *call, size_t call_bytes) {
  tg_nn_call copy;
  run r;
  if (!nn) return TG_EINVAL;
  r.nn = nn;
  if (!call) return wrong(&r, "no call is given");
  tg_status s = TG_WHOLE(nn->plan.context, tg_nn_call, &copy, &call, call_bytes);
  if (s != TG_OK) return s;
  r.call = call;
  s = read_sizes(&r);
  if (s == TG_OK) s = read_operands(&r);
  if (s != TG_OK) return s;
  if (nn->plan.device) return put_all(&r);
  if (r.call->queue) return wrong(&r, "tg_nn_call.queue is given, and the plan is for the CPU: tg_nn_desc.device");
  r.exec = tg_kit_exec_of(&nn->plan, r.call->exec, r.call->threads);
  size_t needed = tg_kit_needed(&nn->plan, r.exec.threads, false);
  return tg_kit_run_in(&nn->plan, call_name, needed, r.call->workspace, r.call->workspace_bytes, r.exec.threads,
                       run_all, &r);
}

/* ---- in a program ---- */

static tg_status run_put(const void *plan, const void *call) { return tg_nn_run(plan, call); }

/* An operation of one kernel is a launch of it, which other launches may join. */
static tg_status put_launch(tg_program *program, const run *r) {
  const tg_kit_kernel *by = &r->nn->kernel[NN_BY_ROWS];
  tg_argument a[TG_KIT_OPERANDS];
  void *buffers[TG_KIT_OPERANDS];
  int64_t values[TG_KIT_VALUES];
  tg_kit_take(by, r->operand, r->value, buffers, values);
  for (uint32_t i = 0; i < by->operands_n; i++)
    a[i] = (tg_argument){buffers[i], (size_t)r->of[by->operand[i]].bytes};
  return tg_program_launch(program, by->kernel, &(tg_launch){.buffers = a,
                                                             .buffers_n = by->operands_n,
                                                             .params = values,
                                                             .params_n = by->values_n});
}

tg_status tg_nn_put_sized(tg_program *program, const tg_nn *nn, const tg_nn_call *given, size_t call_bytes) {
  tg_nn_call c;
  tg_program_access accesses[NN_OPERANDS];
  uint16_t pointers[NN_OPERANDS];
  uint32_t n = 0;
  run r = {.nn = nn, .call = &c};
  if (!nn || !program) return TG_EINVAL;
  if (!given) return wrong(&r, "no call is given");
  if (TG_READ(nn->plan.context, tg_nn_call, &c, given, call_bytes) != TG_OK) return TG_EINVAL;
  tg_program_operation op = {.name = "tg_nn_put",
                             .context = nn->plan.context,
                             .device = nn->plan.device,
                             .plan = nn,
                             .call = &c,
                             .call_bytes = sizeof c,
                             .fields = TG_PROGRAM_FIELDS(tg_nn_call),
                             .pointers = pointers,
                             .accesses = accesses,
                             .run = run_put};
  tg_status s = tg_program_lend(program, &op);
  if (s == TG_OK) s = read_sizes(&r);
  if (s == TG_OK) s = read_operands(&r);
  if (s != TG_OK) return s;
  if (!nn->kernel[NN_BY_COLUMNS].kernel && r.value[NN_M] && !nn->plan.device) return put_launch(program, &r);
  const tg_nn_operation *o = tg_nn_operation_of(nn->problem.op, nn->problem.backward);
  for (uint32_t i = 0; i < NN_OPERANDS; i++) {
    bool written = nn->written >> i & 1, read = !written || (nn->problem.in_place && i == o->taken);
    if (!(nn->used >> i & 1)) continue;
    pointers[n] = tg_nn_operands[i].at;
    accesses[n++] = (tg_program_access){r.of[i].at, (size_t)r.of[i].bytes, r.of[i].size, read, written};
  }
  op.pointers_n = op.accesses_n = n;
  op.workspace = nn->plan.device ? 0 : tg_nn_workspace(nn, &c);
  return tg_program_add(program, &op);
}
