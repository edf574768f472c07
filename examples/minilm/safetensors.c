/* SPDX-License-Identifier: MIT
 * Reads safetensors: maps the file, reads the header's JSON, checks every number before it is used. */
#define _POSIX_C_SOURCE 200809L
#include "safetensors.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct reader {
  safetensors *file;
  const char *start, *at, *end;         /* the header */
  const uint8_t *data;                  /* the tensors' bytes */
  uint64_t data_bytes;
  size_t room;                          /* tensors that are allocated */
} reader;

static int fail(safetensors *file, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(file->error, sizeof file->error, format, list);
  va_end(list);
  return 1;
}

static int wrong(reader *r, const char *what) {
  return fail(r->file, "header, byte %td: %s", r->at - r->start, what);
}

static void space(reader *r) {
  while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at) r->at++;
}

static int is_next(reader *r, char c) {
  space(r);
  if (r->at == r->end || *r->at != c) return 0;
  r->at++;
  return 1;
}

static int expect(reader *r, char c) {
  char what[] = "'?' expected";
  what[1] = c;
  return is_next(r, c) ? 0 : wrong(r, what);
}

/* A string without its quotes, as it stands in the file: names with a backslash remain as they are written. */
static int string(reader *r, const char **text, size_t *length) {
  if (expect(r, '"')) return 1;
  *text = r->at;
  while (r->at < r->end && *r->at != '"') {
    if (*r->at == '\\' && ++r->at == r->end) break;
    r->at++;
  }
  if (r->at >= r->end) return wrong(r, "a string does not end");
  *length = (size_t)(r->at++ - *text);
  return 0;
}

static int is_text(const char *text, size_t length, const char *want) {
  return length == strlen(want) && !memcmp(text, want, length);
}

/* An integer from 0 to 2^62. */
static int number(reader *r, int64_t *out) {
  space(r);
  const char *first = r->at;
  uint64_t value = 0;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
    value = value * 10 + (uint64_t)(*r->at - '0');
    if (value > (uint64_t)1 << 62) return wrong(r, "a number is too large");
  }
  if (r->at == first) return wrong(r, "a number expected");
  *out = (int64_t)value;
  return 0;
}

/* Numbers in brackets, at most `most`. */
static int numbers(reader *r, int64_t *out, int most, int *n) {
  if (expect(r, '[')) return 1;
  *n = 0;
  if (is_next(r, ']')) return 0;
  do {
    if (*n == most) return wrong(r, "too many numbers in a list");
    if (number(r, &out[(*n)++])) return 1;
  } while (is_next(r, ','));
  return expect(r, ']');
}

static int type_bytes(const char *type) {
  static const struct { const char *name; int bytes; } known[] = {
    {"F64", 8}, {"I64", 8}, {"U64", 8}, {"F32", 4}, {"I32", 4}, {"U32", 4}, {"F16", 2}, {"BF16", 2}, {"I16", 2},
    {"U16", 2}, {"I8", 1}, {"U8", 1}, {"BOOL", 1}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i].name, type)) return known[i].bytes;
  return 0;
}

/* Checks the tensor's place and size against the file's. */
static int place(reader *r, safetensors_tensor *t, int64_t from, int64_t to) {
  if (from > to || (uint64_t)to > r->data_bytes)
    return fail(r->file, "tensor %s: bytes %lld to %lld of data, but the file has %llu", t->name, (long long)from,
                (long long)to, (unsigned long long)r->data_bytes);
  uint64_t bytes = (uint64_t)type_bytes(t->type);
  for (int i = 0; bytes && i < t->dims; i++) {
    if (t->shape[i] && bytes > UINT64_MAX / 2 / (uint64_t)t->shape[i])
      return fail(r->file, "tensor %s: its shape is too large", t->name);
    bytes *= (uint64_t)t->shape[i];
    if (!bytes) break;
  }
  if (type_bytes(t->type) && bytes != (uint64_t)(to - from))
    return fail(r->file, "tensor %s: %lld bytes of data, but its type and shape need %llu", t->name,
                (long long)(to - from), (unsigned long long)bytes);
  t->data = r->data + from, t->bytes = (size_t)(to - from);
  return 0;
}

static safetensors_tensor *append(reader *r) {
  safetensors *file = r->file;
  if (file->tensors_n == r->room) {
    size_t room = r->room ? 2 * r->room : 64;
    safetensors_tensor *more = realloc(file->tensors, room * sizeof *more);
    if (!more) return NULL;
    file->tensors = more, r->room = room;
  }
  safetensors_tensor *t = &file->tensors[file->tensors_n];
  memset(t, 0, sizeof *t);
  return t;
}

/* {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, in any order. */
static int tensor(reader *r, const char *name, size_t name_length) {
  safetensors_tensor *t = append(r);
  if (!t || !(t->name = calloc(name_length + 1, 1))) return fail(r->file, "out of memory");
  memcpy(t->name, name, name_length);
  r->file->tensors_n++;
  int64_t offsets[2];
  int offsets_n = 0, has_type = 0, has_shape = 0;
  if (expect(r, '{')) return 1;
  do {
    const char *key, *text;
    size_t length, text_length;
    if (string(r, &key, &length) || expect(r, ':')) return 1;
    if (is_text(key, length, "dtype")) {
      if (string(r, &text, &text_length)) return 1;
      if (text_length >= sizeof t->type) return wrong(r, "the name of a type is too long");
      memcpy(t->type, text, text_length), t->type[text_length] = 0, has_type = 1;
    } else if (is_text(key, length, "shape")) {
      if (numbers(r, t->shape, SAFETENSORS_DIMS, &t->dims)) return 1;
      has_shape = 1;
    } else if (is_text(key, length, "data_offsets")) {
      if (numbers(r, offsets, 2, &offsets_n)) return 1;
    } else return wrong(r, "a tensor has dtype, shape and data_offsets, nothing else");
  } while (is_next(r, ','));
  if (expect(r, '}')) return 1;
  if (!has_type || !has_shape || offsets_n != 2)
    return fail(r->file, "tensor %s: it lacks dtype, shape or data_offsets", t->name);
  return place(r, t, offsets[0], offsets[1]);
}

/* {"key": "text", ..}: notes that are not read. */
static int metadata(reader *r) {
  const char *text;
  size_t length;
  if (expect(r, '{')) return 1;
  if (is_next(r, '}')) return 0;
  do {
    if (string(r, &text, &length) || expect(r, ':') || string(r, &text, &length)) return 1;
  } while (is_next(r, ','));
  return expect(r, '}');
}

static int header(reader *r) {
  if (expect(r, '{')) return 1;
  if (is_next(r, '}')) return 0;
  do {
    const char *name;
    size_t length;
    if (string(r, &name, &length) || expect(r, ':')) return 1;
    if (is_text(name, length, "__metadata__") ? metadata(r) : tensor(r, name, length)) return 1;
  } while (is_next(r, ','));
  if (expect(r, '}')) return 1;
  space(r);
  return r->at == r->end ? 0 : wrong(r, "something stands behind the last brace");
}

static int map(safetensors *file, const char *path) {
  int fd = open(path, O_RDONLY);
  struct stat status;
  if (fd < 0) return fail(file, "cannot be opened: %s", strerror(errno));
  if (fstat(fd, &status) || !S_ISREG(status.st_mode)) return close(fd), fail(file, "is no file");
  if (status.st_size < 8) return close(fd), fail(file, "%lld bytes are too few", (long long)status.st_size);
  void *at = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (at == MAP_FAILED) return fail(file, "cannot be mapped: %s", strerror(errno));
  file->map = at, file->map_bytes = (size_t)status.st_size;
  return 0;
}

int safetensors_open(safetensors *file, const char *path) {
  memset(file, 0, sizeof *file);
  int status = map(file, path);
  if (!status) {
    const uint8_t *bytes = file->map;
    uint64_t length = 0;
    for (int i = 8; i--;) length = length << 8 | bytes[i];
    if (length > file->map_bytes - 8)
      status = fail(file, "the header has %llu bytes, the file %zu", (unsigned long long)length, file->map_bytes);
    else {
      const char *start = (const char *)bytes + 8;
      reader r = {.file = file, .start = start, .at = start, .end = start + length,
                  .data = bytes + 8 + length, .data_bytes = file->map_bytes - 8 - length};
      status = header(&r);
    }
  }
  if (!status) return 0;
  char why[SAFETENSORS_ERROR];
  memcpy(why, file->error, sizeof why);
  safetensors_close(file);
  return fail(file, "%.100s: %.150s", path, why);
}

void safetensors_close(safetensors *file) {
  for (size_t i = 0; i < file->tensors_n; i++) free(file->tensors[i].name);
  free(file->tensors);
  if (file->map) munmap(file->map, file->map_bytes);
  memset(file, 0, sizeof *file);
}

const safetensors_tensor *safetensors_find(const safetensors *file, const char *name) {
  for (size_t i = 0; i < file->tensors_n; i++)
    if (!strcmp(file->tensors[i].name, name)) return &file->tensors[i];
  return NULL;
}

const float *safetensors_floats(safetensors *file, const char *name, int64_t *shape, int dims) {
  const safetensors_tensor *t = safetensors_find(file, name);
  if (!t) return fail(file, "there is no tensor %s", name), NULL;
  if (strcmp(t->type, "F32")) return fail(file, "tensor %s: elements are %s, not F32", name, t->type), NULL;
  if ((uintptr_t)t->data % sizeof(float)) return fail(file, "tensor %s: its place is no multiple of 4", name), NULL;
  if (t->dims != dims) return fail(file, "tensor %s: %d dimensions, not %d", name, t->dims, dims), NULL;
  for (int i = 0; i < dims; i++) {
    if (shape[i] < 0) shape[i] = t->shape[i];
    if (shape[i] != t->shape[i])
      return fail(file, "tensor %s: dimension %d is %lld, not %lld", name, i, (long long)t->shape[i],
                  (long long)shape[i]), NULL;
  }
  return t->data;
}
