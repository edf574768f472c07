/* SPDX-License-Identifier: MIT
 * Places an AMD code object, which is relocatable. Nothing in the object is trusted. */
#ifndef TG_DEVICES_AMD_PLACE_H
#define TG_DEVICES_AMD_PLACE_H
#include "code/object.h"

/* The image of an object: all sections that are loaded, one behind the other. */
typedef struct { tg_object_view object; uint64_t *offset; uint64_t bytes; } tg_amd_image;

/* Lays out the sections. offset: room for object->sections_n numbers. Returns NULL, or what is wrong. */
const char *tg_amd_image_lay(tg_amd_image *, const tg_object_view *object, uint64_t *offset);
/* Writes the image to memory. Returns NULL, or what is wrong. */
const char *tg_amd_image_write(const tg_amd_image *, char *memory);
/* Where in the image the bytes at `data`, which lie in a section of the object, begin. */
bool tg_amd_image_find(const tg_amd_image *, const char *data, uint64_t *offset);
#endif
