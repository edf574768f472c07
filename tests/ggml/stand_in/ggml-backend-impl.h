/* SPDX-License-Identifier: MIT */
#ifndef TESTS_GGML_STAND_IN_BACKEND_H
#define TESTS_GGML_STAND_IN_BACKEND_H
#include "ggml.h"

#define GGML_BACKEND_API_VERSION 2
typedef struct ggml_backend *ggml_backend_t;
typedef struct ggml_backend_device *ggml_backend_dev_t;
typedef struct ggml_backend_reg *ggml_backend_reg_t;
typedef struct stand_in_buffer_type *ggml_backend_buffer_type_t;
typedef struct ggml_backend_buffer *ggml_backend_buffer_t;
enum ggml_backend_buffer_usage { GGML_BACKEND_BUFFER_USAGE_ANY, GGML_BACKEND_BUFFER_USAGE_WEIGHTS };
struct ggml_backend_buffer { enum ggml_backend_buffer_usage usage; };
enum ggml_backend_dev_type { GGML_BACKEND_DEVICE_TYPE_CPU, GGML_BACKEND_DEVICE_TYPE_ACCEL };

struct ggml_backend_dev_caps { bool async, host_buffer, buffer_from_host_ptr, events, mmap_support; };
struct ggml_backend_dev_props {
  const char *name, *description;
  size_t memory_free, memory_total;
  enum ggml_backend_dev_type type;
  struct ggml_backend_dev_caps caps;
};
struct ggml_backend_i {
  const char *(*get_name)(ggml_backend_t);
  void (*free)(ggml_backend_t);
  enum ggml_status (*graph_compute)(ggml_backend_t, struct ggml_cgraph *);
};
struct ggml_backend { ggml_guid_t guid; struct ggml_backend_i iface; ggml_backend_dev_t device; void *context; };
struct ggml_backend_device_i {
  const char *(*get_name)(ggml_backend_dev_t), *(*get_description)(ggml_backend_dev_t);
  void (*get_memory)(ggml_backend_dev_t, size_t *, size_t *);
  enum ggml_backend_dev_type (*get_type)(ggml_backend_dev_t);
  void (*get_props)(ggml_backend_dev_t, struct ggml_backend_dev_props *);
  ggml_backend_t (*init_backend)(ggml_backend_dev_t, const char *);
  ggml_backend_buffer_type_t (*get_buffer_type)(ggml_backend_dev_t);
  ggml_backend_buffer_t (*buffer_from_host_ptr)(ggml_backend_dev_t, void *, size_t, size_t);
  bool (*supports_op)(ggml_backend_dev_t, const struct ggml_tensor *);
  bool (*supports_buft)(ggml_backend_dev_t, ggml_backend_buffer_type_t);
};
struct ggml_backend_device { struct ggml_backend_device_i iface; ggml_backend_reg_t reg; void *context; };
struct ggml_backend_reg_i {
  const char *(*get_name)(ggml_backend_reg_t);
  size_t (*get_device_count)(ggml_backend_reg_t);
  ggml_backend_dev_t (*get_device)(ggml_backend_reg_t, size_t);
  void *(*get_proc_address)(ggml_backend_reg_t, const char *);
};
struct ggml_backend_reg { int api_version; struct ggml_backend_reg_i iface; void *context; };

ggml_backend_buffer_type_t ggml_backend_cpu_buffer_type(void);
ggml_backend_buffer_t ggml_backend_cpu_buffer_from_ptr(void *, size_t);
enum ggml_backend_buffer_usage ggml_backend_buffer_get_usage(ggml_backend_buffer_t);
bool ggml_backend_buft_is_host(ggml_backend_buffer_type_t);
#endif
