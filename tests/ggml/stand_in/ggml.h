/* SPDX-License-Identifier: MIT
 * What kernels/ggml needs of ggml, for tests where ggml's sources are not: names, and structs with the fields that the
 * module uses. Numbers are not ggml's. */
#ifndef TESTS_GGML_STAND_IN_H
#define TESTS_GGML_STAND_IN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ggml_type {
  GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_I32, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_K,
  GGML_TYPE_Q6_K, GGML_TYPE_OTHER, GGML_TYPE_COUNT
};

#define STAND_IN_OPERATIONS(X)                                                                                         \
  X(NONE) X(RESHAPE) X(VIEW) X(PERMUTE) X(TRANSPOSE) X(MUL_MAT) X(MUL_MAT_ID) X(FLASH_ATTN_EXT) X(SOFT_MAX) X(NORM)    \
  X(RMS_NORM) X(L2_NORM) X(ROPE) X(ROPE_BACK) X(GLU) X(UNARY) X(ADD) X(SUB) X(MUL) X(DIV) X(SCALE) X(CPY) X(CONT)      \
  X(DUP) X(GET_ROWS) X(OTHER)
enum ggml_op {
#define X(NAME) GGML_OP_##NAME,
  STAND_IN_OPERATIONS(X)
#undef X
  GGML_OP_COUNT
};

enum ggml_unary_op {
  GGML_UNARY_OP_ABS, GGML_UNARY_OP_SGN, GGML_UNARY_OP_NEG, GGML_UNARY_OP_STEP, GGML_UNARY_OP_TANH, GGML_UNARY_OP_RELU,
  GGML_UNARY_OP_SIGMOID, GGML_UNARY_OP_GELU, GGML_UNARY_OP_GELU_QUICK, GGML_UNARY_OP_SILU, GGML_UNARY_OP_HARDSWISH,
  GGML_UNARY_OP_HARDSIGMOID, GGML_UNARY_OP_EXP, GGML_UNARY_OP_GELU_ERF, GGML_UNARY_OP_FLOOR, GGML_UNARY_OP_CEIL,
  GGML_UNARY_OP_TRUNC, GGML_UNARY_OP_COUNT
};
enum ggml_glu_op {
  GGML_GLU_OP_REGLU, GGML_GLU_OP_GEGLU, GGML_GLU_OP_SWIGLU, GGML_GLU_OP_SWIGLU_OAI, GGML_GLU_OP_GEGLU_ERF,
  GGML_GLU_OP_GEGLU_QUICK, GGML_GLU_OP_SWIGLU_CLAMP, GGML_GLU_OP_COUNT
};
enum {
  GGML_ROPE_TYPE_NORMAL = 0, GGML_ROPE_TYPE_NEOX = 2, GGML_ROPE_TYPE_MROPE = 8, GGML_ROPE_TYPE_VISION = 24,
  GGML_ROPE_TYPE_IMROPE = 40
};
enum { GGML_MAX_DIMS = 4, GGML_MAX_SRC = 10, GGML_TENSOR_FLAG_COMPUTE = 16, GGML_DEFAULT_N_THREADS = 4 };
enum ggml_status { GGML_STATUS_FAILED = -1, GGML_STATUS_SUCCESS = 0 };

struct ggml_tensor {
  enum ggml_type type;
  int64_t ne[4];
  size_t nb[4];
  enum ggml_op op;
  int32_t op_params[16], flags;
  struct ggml_tensor *src[GGML_MAX_SRC];
  struct ggml_backend_buffer *buffer;
  void *data;
};
struct ggml_cgraph { int n_nodes; struct ggml_tensor **nodes; };

typedef uint8_t ggml_guid[16], (*ggml_guid_t)[16];
typedef void (*ggml_to_float_t)(const void *, float *, int64_t);
struct ggml_type_traits { ggml_to_float_t to_float; };

size_t ggml_tensor_overhead(void), ggml_type_size(enum ggml_type);
int64_t ggml_blck_size(enum ggml_type), ggml_nelements(const struct ggml_tensor *), ggml_nrows(const struct ggml_tensor *);
const char *ggml_type_name(enum ggml_type), *ggml_op_name(enum ggml_op), *ggml_op_desc(const struct ggml_tensor *);
const struct ggml_type_traits *ggml_get_type_traits(enum ggml_type);
bool ggml_is_contiguous(const struct ggml_tensor *), ggml_is_empty(const struct ggml_tensor *);
bool ggml_are_same_shape(const struct ggml_tensor *, const struct ggml_tensor *);
enum ggml_unary_op ggml_get_unary_op(const struct ggml_tensor *);
enum ggml_glu_op ggml_get_glu_op(const struct ggml_tensor *);
int ggml_graph_n_nodes(struct ggml_cgraph *);
struct ggml_tensor *ggml_graph_node(struct ggml_cgraph *, int);
void ggml_rope_yarn_corr_dims(int dims, int context, float base, float fast, float slow, float out[2]);
#endif
