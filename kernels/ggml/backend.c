/* SPDX-License-Identifier: MIT
 * What ggml sees of tg: a registry with one device of the kind that works beside the CPU (ACCEL), on ggml's own CPU
 * buffers, so that nothing is copied. ggml opens the module through GGML_BACKEND_PATH and asks for ggml_backend_init.
 * The module speaks version 2 of the back end's interface. A ggml of another version refuses it (ggml compares the
 * number in the registry); one whose tensors or operations are numbered otherwise is refused here. */
#include <stdlib.h>
#include <string.h>
#include "ggml/module.h"

#if GGML_BACKEND_API_VERSION != 2
#error "this module speaks version 2 of ggml's interface of back ends"
#endif

static bool always(const struct ggml_tensor *node) { return node != NULL; }
static bool nothing(tg_ggml_session *s, struct ggml_tensor *node) { return s && node; }

static const tg_ggml_operation operations[] = {
    {GGML_OP_NONE, "NONE", always, nothing},
    {GGML_OP_RESHAPE, "RESHAPE", always, nothing},
    {GGML_OP_VIEW, "VIEW", always, nothing},
    {GGML_OP_PERMUTE, "PERMUTE", always, nothing},
    {GGML_OP_TRANSPOSE, "TRANSPOSE", always, nothing},
    {GGML_OP_MUL_MAT, "MUL_MAT", tg_ggml_product_supports, tg_ggml_product},
    {GGML_OP_MUL_MAT_ID, "MUL_MAT_ID", tg_ggml_experts_supports, tg_ggml_experts},
    {GGML_OP_FLASH_ATTN_EXT, "FLASH_ATTN_EXT", tg_ggml_attend_supports, tg_ggml_attend},
    {GGML_OP_SOFT_MAX, "SOFT_MAX", tg_ggml_rows_supports, tg_ggml_rows},
    {GGML_OP_NORM, "NORM", tg_ggml_rows_supports, tg_ggml_rows},
    {GGML_OP_RMS_NORM, "RMS_NORM", tg_ggml_rows_supports, tg_ggml_rows},
    {GGML_OP_ROPE, "ROPE", tg_ggml_rope_supports, tg_ggml_rope},
    {GGML_OP_ROPE_BACK, "ROPE_BACK", tg_ggml_rope_supports, tg_ggml_rope},
    {GGML_OP_L2_NORM, "L2_NORM", tg_ggml_rows_supports, tg_ggml_rows},
    {GGML_OP_GLU, "GLU", tg_ggml_rows_supports, tg_ggml_rows},
    {GGML_OP_UNARY, "UNARY", tg_ggml_rows_supports, tg_ggml_rows},
    {GGML_OP_ADD, "ADD", tg_ggml_rows_supports, tg_ggml_rows},
    {GGML_OP_SUB, "SUB", tg_ggml_rows_supports, tg_ggml_rows},
    {GGML_OP_MUL, "MUL", tg_ggml_rows_supports, tg_ggml_rows},
    {GGML_OP_DIV, "DIV", tg_ggml_rows_supports, tg_ggml_rows},
    {GGML_OP_SCALE, "SCALE", tg_ggml_rows_supports, tg_ggml_rows},
    {GGML_OP_CPY, "CPY", tg_ggml_rows_supports, tg_ggml_rows},
    {GGML_OP_CONT, "CONT", tg_ggml_rows_supports, tg_ggml_rows},
    {GGML_OP_DUP, "DUP", tg_ggml_rows_supports, tg_ggml_rows},
    {GGML_OP_GET_ROWS, "GET_ROWS", tg_ggml_rows_supports, tg_ggml_rows},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static const tg_ggml_operation *operation_of(enum ggml_op op) {
  for (size_t i = 0; i < OPERATIONS; i++)
    if (operations[i].op == op) return &operations[i];
  return NULL;
}

/* ---- a back end: computes graphs ---- */

static const char *name_of(ggml_backend_t backend) { return backend ? "TG" : ""; }

static void free_backend(ggml_backend_t backend) {
  tg_ggml_session *s = backend->context;
  for (int i = 0; i < GGML_SCRATCHES; i++) free(s->scratch[i].at);
  free(s);
  free(backend);
}

static enum ggml_status compute(ggml_backend_t backend, struct ggml_cgraph *graph) {
  ((tg_ggml_session *)backend->context)->graph++;
  for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
    struct ggml_tensor *node = ggml_graph_node(graph, i);
    if (!(node->flags & GGML_TENSOR_FLAG_COMPUTE) || ggml_is_empty(node)) continue;
    const tg_ggml_operation *o = operation_of(node->op);
    if (o && o->run(backend->context, node)) continue;
    GGML_LOG_ERROR("tg: %s was not computed\n", ggml_op_desc(node));
    return GGML_STATUS_FAILED;
  }
  return GGML_STATUS_SUCCESS;
}

static void set_threads(ggml_backend_t backend, int n) { ((tg_ggml_session *)backend->context)->threads = n; }

/* ---- the device ---- */

static const char *device_name(ggml_backend_dev_t device) { return device ? "TG" : ""; }
static const char *device_description(ggml_backend_dev_t device) { return device ? "tg, on the CPU" : ""; }

static void device_memory(ggml_backend_dev_t device, size_t *available, size_t *total) {
  (void)device;
  *available = *total = 0;     /* it has none of its own */
}

static enum ggml_backend_dev_type device_type(ggml_backend_dev_t device) {
  (void)device;
  return GGML_BACKEND_DEVICE_TYPE_ACCEL;
}

static void device_props(ggml_backend_dev_t device, struct ggml_backend_dev_props *out) {
  out->name = device_name(device);
  out->description = device_description(device);
  out->type = device_type(device);
  device_memory(device, &out->memory_free, &out->memory_total);
  out->caps = (struct ggml_backend_dev_caps){.buffer_from_host_ptr = true, .mmap_support = true};
}

static ggml_backend_t device_start(ggml_backend_dev_t device, const char *params) {
  static ggml_guid guid = {0x74, 0x67, 0x2d, 0x67, 0x67, 0x6d, 0x6c, 0x2d,
                           0xa3, 0x51, 0x9e, 0x0c, 0x62, 0xb8, 0xf1, 0x17};
  (void)params;
  if (!tg_ggml_start()) return NULL;
  ggml_backend_t backend = calloc(1, sizeof *backend);
  tg_ggml_session *s = calloc(1, sizeof *s);
  if (!backend || !s) {
    free(backend), free(s);
    return NULL;
  }
  s->threads = GGML_DEFAULT_N_THREADS;
  *backend = (struct ggml_backend){
      .guid = &guid,
      .iface = {.get_name = name_of, .free = free_backend, .graph_compute = compute},
      .device = device,
      .context = s,
  };
  return backend;
}

static ggml_backend_buffer_type_t device_buffers(ggml_backend_dev_t device) {
  (void)device;
  return ggml_backend_cpu_buffer_type();
}

static ggml_backend_buffer_t device_wraps(ggml_backend_dev_t device, void *at, size_t bytes, size_t largest) {
  (void)device, (void)largest;
  return ggml_backend_cpu_buffer_from_ptr(at, bytes);
}

static bool device_supports(ggml_backend_dev_t device, const struct ggml_tensor *node) {
  (void)device;
  const tg_ggml_operation *o = operation_of(node->op);
  return o && o->supports(node);
}

static bool device_reads(ggml_backend_dev_t device, ggml_backend_buffer_type_t type) {
  (void)device;
  return ggml_backend_buft_is_host(type);
}

/* ---- the registry ---- */

static const char *registry_name(ggml_backend_reg_t registry) { return registry ? "TG" : ""; }
static size_t registry_devices(ggml_backend_reg_t registry) { return registry ? 1 : 0; }

static ggml_backend_dev_t registry_device(ggml_backend_reg_t registry, size_t i) {
  static struct ggml_backend_device device = {
      .iface = {.get_name = device_name,
                .get_description = device_description,
                .get_memory = device_memory,
                .get_type = device_type,
                .get_props = device_props,
                .init_backend = device_start,
                .get_buffer_type = device_buffers,
                .buffer_from_host_ptr = device_wraps,
                .supports_op = device_supports,
                .supports_buft = device_reads},
  };
  device.reg = registry;
  return i ? NULL : &device;
}

static void *registry_function(ggml_backend_reg_t registry, const char *name) {
  (void)registry;
  return strcmp(name, "ggml_backend_set_n_threads") ? NULL : (void *)set_threads;
}

/* A ggml with other tensors, or other numbers of operations, under the same version. The overhead is a tensor and what
 * stands before it: two sizes, a pointer and a type. */
static bool is_this_ggml(void) {
  bool same = ggml_tensor_overhead() == 4 * sizeof(size_t) + sizeof(struct ggml_tensor);
  for (size_t i = 0; i < OPERATIONS; i++) same = same && !strcmp(ggml_op_name(operations[i].op), operations[i].name);
  if (!same) GGML_LOG_ERROR("tg: this ggml is not the one that libggml-tg.so was built for\n");
  return same;
}

__attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init(void);
ggml_backend_reg_t ggml_backend_init(void) {
  static struct ggml_backend_reg registry = {
      .api_version = GGML_BACKEND_API_VERSION,
      .iface = {.get_name = registry_name,
                .get_device_count = registry_devices,
                .get_device = registry_device,
                .get_proc_address = registry_function},
  };
  return is_this_ggml() ? &registry : NULL;
}
