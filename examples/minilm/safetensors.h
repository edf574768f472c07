/* SPDX-License-Identifier: MIT
 * A file of tensors in the safetensors format, mapped into memory: 8 bytes with the length of a header, a header in
 * JSON that names tensors with their type, shape and place, then the tensors' bytes. */
#ifndef SAFETENSORS_H
#define SAFETENSORS_H
#include <stddef.h>
#include <stdint.h>

enum { SAFETENSORS_DIMS = 8, SAFETENSORS_ERROR = 256 };

typedef struct safetensors_tensor {
  char *name;
  char type[8];                         /* "F32", "I64", .. */
  int64_t shape[SAFETENSORS_DIMS];
  int dims;
  const void *data;                     /* in the map; not aligned if the file is not */
  size_t bytes;
} safetensors_tensor;

typedef struct safetensors {
  safetensors_tensor *tensors;
  size_t tensors_n;
  void *map;
  size_t map_bytes;
  char error[SAFETENSORS_ERROR];        /* what failed, and where in the file; of the last call that failed */
} safetensors;

/* Maps the file and reads its header. Every place is checked against the file's size, and every tensor of a type whose
 * size is known against its shape. Returns 0; or 1 with the error, and then nothing is to be closed. */
int safetensors_open(safetensors *file, const char *path);
void safetensors_close(safetensors *file);

/* The floats of a tensor of this name and shape, dims numbers; -1 stands for any, which is written there. NULL, with
 * the error: there is none, or its type or shape is another one. Valid until the file is closed. */
const float *safetensors_floats(safetensors *file, const char *name, int64_t *shape, int dims);

/* The tensor of this name, or NULL. */
const safetensors_tensor *safetensors_find(const safetensors *file, const char *name);
#endif
