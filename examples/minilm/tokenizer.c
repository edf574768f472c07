/* SPDX-License-Identifier: MIT
 * The tokenizer: characters to small letters without accents, characters to words, words to the longest pieces that
 * the vocabulary has. */
#include "tokenizer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_CHARACTERS = 100 };         /* a longer word is [UNK], as in BERT */

/* ---- the vocabulary ---- */

static uint32_t hash(const char *text, size_t bytes) {   /* FNV-1a */
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < bytes; i++) h = (h ^ (uint8_t)text[i]) * 16777619u;
  return h;
}

/* Where this word stands, or the empty place where it would. */
static tokenizer_word *find(const tokenizer *t, const char *text, size_t bytes) {
  for (uint32_t i = hash(text, bytes);; i++) {
    tokenizer_word *w = &t->table[i & (t->places - 1)];
    if (!w->text || (w->bytes == bytes && !memcmp(w->text, text, bytes))) return w;
  }
}

static int32_t id_of(const tokenizer *t, const char *text, size_t bytes) {
  const tokenizer_word *w = find(t, text, bytes);
  return w->text ? w->id : -1;
}

static int fail(tokenizer *t, const char *path, const char *what) {
  char error[sizeof t->error];
  snprintf(error, sizeof error, "%.180s: %s", path, what);
  tokenizer_close(t);
  memcpy(t->error, error, sizeof error);
  return 1;
}

/* The whole file, with a zero behind it. */
static char *read_file(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  size_t room = 0, n = 0, got = 1;
  while (file && got) {
    if (n + 65536 > room) {
      char *more = realloc(text, (room = 2 * room + 65537) + 1);
      if (!more) break;
      text = more;
    }
    got = fread(text + n, 1, 65536, file);
    n += got;
  }
  if (!file || got || ferror(file)) {
    if (file) fclose(file);
    return free(text), NULL;
  }
  fclose(file);
  text[n] = 0;
  *bytes = n;
  return text;
}

int tokenizer_open(tokenizer *t, const char *path) {
  memset(t, 0, sizeof *t);
  size_t bytes = 0, lines = 1;
  if (!(t->text = read_file(path, &bytes))) return fail(t, path, "cannot be read");
  for (size_t i = 0; i < bytes; i++) lines += t->text[i] == '\n';
  if (lines > 1 << 24) return fail(t, path, "too many words");
  for (t->places = 16; t->places < 2 * lines;) t->places *= 2;
  if (!(t->table = calloc(t->places, sizeof *t->table))) return fail(t, path, "out of memory");
  for (const char *at = t->text, *end = at + bytes; at < end; t->words++) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    size_t length = (size_t)(stop - at);
    if (length && at[length - 1] == '\r') length--;
    tokenizer_word *w = find(t, at, length);
    if (!w->text) *w = (tokenizer_word){at, (uint32_t)length, t->words};
    at = stop + (stop < end);
  }
  t->begin = id_of(t, "[CLS]", 5), t->end = id_of(t, "[SEP]", 5), t->unknown = id_of(t, "[UNK]", 5);
  if (t->begin < 0 || t->end < 0 || t->unknown < 0) return fail(t, path, "it lacks [CLS], [SEP] or [UNK]");
  return 0;
}

void tokenizer_close(tokenizer *t) {
  free(t->text), free(t->table);
  memset(t, 0, sizeof *t);
}

/* ---- characters ---- */

static int within(uint32_t c, const uint32_t (*ranges)[2], size_t n) {
  for (size_t i = 0; i < n; i++)
    if (c >= ranges[i][0] && c <= ranges[i][1]) return 1;
  return 0;
}
#define WITHIN(c, ranges) within(c, ranges, sizeof ranges / sizeof *ranges)

static int is_space(uint32_t c) {
  static const uint32_t ranges[][2] = {{9, 10}, {13, 13}, {32, 32}, {0xa0, 0xa0}, {0x1680, 0x1680}, {0x2000, 0x200a},
                                       {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};
  return WITHIN(c, ranges);
}

/* Characters without a shape, and what is no character (0xfffd). */
static int is_control(uint32_t c) {
  static const uint32_t ranges[][2] = {{0, 8}, {11, 12}, {14, 31}, {0x7f, 0x9f}, {0xad, 0xad}, {0x200b, 0x200f},
                                       {0x202a, 0x202e}, {0x2060, 0x2064}, {0xfeff, 0xfeff}, {0xfffd, 0xfffd}};
  return WITHIN(c, ranges);
}

static int is_punctuation(uint32_t c) {
  static const uint32_t ranges[][2] = {
    {33, 47}, {58, 64}, {91, 96}, {123, 126}, {0xa1, 0xa1}, {0xa7, 0xa7}, {0xab, 0xab}, {0xb6, 0xb7}, {0xbb, 0xbb},
    {0xbf, 0xbf}, {0x2010, 0x2027}, {0x2030, 0x2043}, {0x2045, 0x2051}, {0x2053, 0x205e}, {0x3001, 0x3003},
    {0x3008, 0x3011}, {0x3014, 0x301f}, {0xff01, 0xff03}, {0xff05, 0xff0a}, {0xff0c, 0xff0f}, {0xff1a, 0xff1b},
    {0xff1f, 0xff20}, {0xff3b, 0xff3d}, {0xff3f, 0xff3f}, {0xff5b, 0xff5b}, {0xff5d, 0xff5d}, {0xff5f, 0xff65}};
  return WITHIN(c, ranges);
}

static int is_cjk(uint32_t c) {
  static const uint32_t ranges[][2] = {{0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xf900, 0xfaff}, {0x20000, 0x2a6df},
                                       {0x2a700, 0x2ceaf}, {0x2f800, 0x2fa1f}};
  return WITHIN(c, ranges);
}

/* The small letter without its accents; a dot: the letter has no other one below it. */
static const struct { uint32_t first; const char *letters; } accents[] = {
  {0xc0, "aaaaaa.ceeeeiiii.nooooo..uuuuy..aaaaaa.ceeeeiiii.nooooo..uuuuy.y"
         "aaaaaaccccccccdd..eeeeeeeeeegggggggghh..iiiiiiiii...jjkk.llllll."
         "...nnnnnn...oooooo..rrrrrrsssssssstttt..uuuuuuuuuuuuwwyyyzzzzzz."},
  {0x1a0, "oo.............uu"},
  {0x1cd, "aaiioouuuuuuuuuu.aaaa....ggkkoooo..j...gg..nnaa....aaaaeeeeiiiioooorrrruuuusstt..hh"},
  {0x1e00, "aabbbbbbccddddddddddeeeeeeeeeeffgghhhhhhhhhhiiiikkkkkkllllllllmm"
           "mmmmnnnnnnnnoooooooopppprrrrrrrrssssssssssttttttttuuuuuuuuuuvvvv"
           "wwwwwwwwwwxxxxyyzzzzzzhtwy......aaaaaaaaaaaaaaaaaaaaaaaaeeeeeeee"
           "eeeeeeeeiiiioooooooooooooooooooooooouuuuuuuuuuuuuuyyyyyyyy......"}};

static uint32_t small(uint32_t c) {
  static const uint32_t pairs[][2] = {   /* Greek and Cyrillic letters with marks, and capitals of no order */
    {0x3ac, 0x3b1}, {0x3ad, 0x3b5}, {0x3ae, 0x3b7}, {0x3af, 0x3b9}, {0x3cc, 0x3bf}, {0x3cd, 0x3c5}, {0x3ce, 0x3c9},
    {0x386, 0x3b1}, {0x388, 0x3b5}, {0x389, 0x3b7}, {0x38a, 0x3b9}, {0x38c, 0x3bf}, {0x38e, 0x3c5}, {0x38f, 0x3c9},
    {0x419, 0x438}, {0x439, 0x438}, {0x401, 0x435}, {0x451, 0x435}, {0x407, 0x456}, {0x457, 0x456}, {0x40e, 0x443},
    {0x45e, 0x443}, {0x141, 0x142}, {0x1e9e, 0xdf}};
  if (c >= 'A' && c <= 'Z') return c + 32;
  if (c < 0xc0) return c;
  for (size_t i = 0; i < sizeof accents / sizeof *accents; i++)
    if (c >= accents[i].first && c - accents[i].first < strlen(accents[i].letters)) {
      char letter = accents[i].letters[c - accents[i].first];
      if (letter != '.') return (uint32_t)letter;
    }
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (c == pairs[i][0]) return pairs[i][1];
  if (c <= 0xde && c != 0xd7) return c + 32;
  if (c >= 0x100 && c < 0x178 && c != 0x131 && c != 0x138 && c != 0x149 && c != 0x142) return c | 1;
  if ((c >= 0x391 && c <= 0x3a9) || (c >= 0x410 && c <= 0x42f)) return c + 32;
  return c >= 0x400 && c <= 0x40f ? c + 80 : c;
}

/* The next character of UTF-8, or 0xfffd for a byte that is none. */
static uint32_t next(const uint8_t **at, const uint8_t *end) {
  uint32_t c = *(*at)++;
  if (c < 0x80) return c;
  int more = c >= 0xf0 && c < 0xf5 ? 3 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xc2 && c < 0xe0 ? 1 : 0;
  if (!more || end - *at < more) return 0xfffd;
  c &= 0x3fu >> more;
  for (int i = 0; i < more; i++) {
    if (((*at)[i] & 0xc0) != 0x80) return 0xfffd;
    c = c << 6 | ((*at)[i] & 0x3f);
  }
  static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  if (c < least[more] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return 0xfffd;
  *at += more;
  return c;
}

static int put(char *out, uint32_t c) {
  if (c < 0x80) return out[0] = (char)c, 1;
  int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const uint32_t lead[] = {0, 0xc0, 0xe0, 0xf0};
  out[0] = (char)(lead[more] | c >> 6 * more);
  for (int i = 1; i <= more; i++) out[i] = (char)(0x80 | (c >> 6 * (more - i) & 0x3f));
  return more + 1;
}

/* ---- words ---- */

typedef struct writer {
  const tokenizer *t;
  int32_t *ids;
  int n, most;
  char word[2 + 4 * WORD_CHARACTERS];   /* in front of it, room for ## */
  int bytes, characters;                /* of the word so far; more characters than there is room for are counted */
} writer;

/* The longest pieces of the word, from its start on; [UNK] if at some place no piece fits. */
static void end_word(writer *w) {
  int n = w->n, bytes = w->bytes, known = w->characters <= WORD_CHARACTERS;
  char *word = w->word + 2;
  for (int from = 0, to; known && from < bytes; from = to) {
    char *start = word + from, kept[2];
    memcpy(kept, start - 2, 2);
    if (from) memcpy(start -= 2, "##", 2);   /* over what has been matched */
    int32_t id = -1;
    for (to = bytes; to > from; to--)
      if ((id = id_of(w->t, start, (size_t)(word + to - start))) >= 0) break;
    memcpy(word + from - 2, kept, 2);
    if (id < 0) known = 0;
    else if (n < w->most) w->ids[n] = id;
    n += id >= 0;
  }
  if (!known && w->characters) {
    if (w->n < w->most) w->ids[w->n] = w->t->unknown;
    n = w->n + 1;
  }
  w->n = n < w->most ? n : w->most;
  w->bytes = w->characters = 0;
}

static void append(writer *w, uint32_t c) {
  if (w->characters < WORD_CHARACTERS) w->bytes += put(w->word + 2 + w->bytes, c);
  w->characters += w->characters <= WORD_CHARACTERS;
}

/* A syllable of Hangul is its two or three letters. */
static void append_letters(writer *w, uint32_t c) {
  if (c < 0xac00 || c > 0xd7a3) { append(w, c); return; }
  uint32_t s = c - 0xac00;
  append(w, 0x1100 + s / 588), append(w, 0x1161 + s % 588 / 28);
  if (s % 28) append(w, 0x11a7 + s % 28);
}

int tokenizer_encode(const tokenizer *t, const char *text, size_t bytes, int32_t *ids, int most) {
  writer w = {.t = t, .ids = ids, .n = 1, .most = most - 1};
  ids[0] = t->begin;
  const uint8_t *at = (const uint8_t *)text, *end = at + bytes;
  while (at < end && w.n < w.most) {
    uint32_t c = next(&at, end);
    if (is_control(c) || (c >= 0x300 && c <= 0x36f)) continue;   /* a mark on the letter before it */
    c = small(c);
    if (is_space(c)) end_word(&w);
    else if (is_punctuation(c) || is_cjk(c)) end_word(&w), append(&w, c), end_word(&w);
    else append_letters(&w, c);
  }
  end_word(&w);
  ids[w.n] = t->end;
  return w.n + 1;
}
