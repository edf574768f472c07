/* SPDX-License-Identifier: MIT
 * tg trace: the frame of the page, its style and its script. */
#include <string.h>
#include "trace.h"

static const char style[] =
    ":root{color-scheme:light dark;--ink:#1b1b1f;--paper:#fff;--soft:#f2f2f5;--line:#c9c9d2;--new:#d6f5dc;"
    "--old:#fbdada;--link:#1a4fb0;--good:#1c7a3c;--bad:#b02a2a;--mid:#8a5a00}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e6ea;--paper:#17171a;--soft:#232328;--line:#45454f;--new:#1d4a2a;"
    "--old:#5a2626;--link:#8ab4ff;--good:#6fd08c;--bad:#ff8f8f;--mid:#f0b95a}}\n"
    "body{margin:0 auto;padding:1rem;max-width:110rem;background:var(--paper);color:var(--ink);"
    "font:16px/1.45 system-ui,sans-serif}\n"
    "h1{font-size:1.4rem}h2{font-size:1.15rem;margin-top:2rem}h3{font-size:1rem;margin:.3rem 0}a{color:var(--link)}\n"
    "nav a{margin-right:.8rem}pre{margin:0;font:12px/1.4 ui-monospace,monospace;tab-size:8}\n"
    "pre b{font-weight:inherit;display:block;background:var(--new)}pre s{text-decoration:none;display:block;"
    "background:var(--old)}pre b.both{background:linear-gradient(90deg,var(--new) 50%,var(--old) 50%)}\n"
    ".row{display:flex;gap:.6rem;overflow-x:auto;scroll-snap-type:x proximity;border:1px solid var(--line);"
    "padding:.5rem}\n"
    ".stage{flex:0 0 calc(50% - .5rem);scroll-snap-align:start;box-sizing:border-box;min-width:20rem}\n"
    ".stage pre,.wide{overflow:auto;background:var(--soft);padding:.5rem;border-radius:4px}"
    ".stage pre{max-height:70vh}\n"
    ":focus-visible{outline:2px solid var(--link);outline-offset:1px}button{font:inherit;margin:.3rem .3rem .3rem 0}\n"
    ".tile{border:2px solid var(--line);border-radius:6px;margin:.3rem;padding:.3rem .5rem;background:var(--soft);"
    "font-size:.85rem}.tile>span{font-weight:600}.tile code{display:block;font-size:.8rem;white-space:pre-wrap}\n"
    ".k-thread,.k-global{border-color:#3a6fd0}.k-local,.k-warp{border-color:#7a4fc0}.k-lane{border-color:#1f9a55}"
    ".k-upcast,.k-unroll{border-color:#c98a1a}.k-reduce{border-color:#c0455a}\n"
    "table{border-collapse:collapse;font-size:.85rem}td,th{vertical-align:top;padding:.15rem .6rem;text-align:left;"
    "border-bottom:1px solid var(--line)}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\n"
    "summary{cursor:pointer}.note{font-size:.85rem}\n"
    ".beside{display:flex;gap:.6rem;align-items:flex-start}.beside pre{flex:1 1 50%;box-sizing:border-box;"
    "max-height:70vh;min-width:0}.beside "
    "i{font-style:normal;opacity:.6}.src{cursor:pointer}.on{background:var(--new)}\n";

/* Without it the page reads as well: the buttons only move the row, and a line that is chosen in the kernel only marks
 * its instructions. */
static const char script[] =
    "(function(){var r=document.getElementById('row'),s=r.querySelectorAll('.stage');\n"
    "function go(d){var w=s.length>1?s[1].offsetLeft-s[0].offsetLeft:r.clientWidth;"
    "r.scrollTo({left:Math.round(r.scrollLeft/w+d)*w})}\n"
    "document.getElementById('back').onclick=function(){go(-1)};"
    "document.getElementById('on').onclick=function(){go(1)};\n"
    "r.onkeydown=function(e){if(e.target===r&&(e.key==='ArrowLeft'||e.key==='ArrowRight')){e.preventDefault();"
    "go(e.key==='ArrowLeft'?-1:1)}}})();\n"
    "(function(){var all=document.querySelectorAll('#code [data-l]');\n"
    "function mark(l){var first=null;all.forEach(function(x){var on=x.dataset.l===l;x.classList.toggle('on',on);"
    "if(on&&!first&&!x.classList.contains('src'))first=x});"
    "if(first)first.parentNode.scrollTop=first.offsetTop-first.parentNode.offsetTop}\n"
    "document.querySelectorAll('#code .src').forEach(function(s){s.onclick=function(){mark(s.dataset.l)};"
    "s.onkeydown=function(e){if(e.key==='Enter')mark(s.dataset.l)}})})();\n";

void trace_text(FILE *to, const char *text, size_t n) {
  for (size_t i = 0; i < n && text[i]; i++) {
    char c = text[i];
    if (c == '&') fputs("&amp;", to);
    else if (c == '<') fputs("&lt;", to);
    else if (c == '>') fputs("&gt;", to);
    else if (c == '"') fputs("&quot;", to);
    else if (c == '\'') fputs("&#39;", to);
    else if ((unsigned char)c < 32 && c != '\n' && c != '\t') fputc('?', to);
    else fputc(c, to);
  }
}

static void words(FILE *to, const char *text) { trace_text(to, text, strlen(text)); }

static void put_times(FILE *to, const trace *t) {
  if (t->seconds > 0) fprintf(to, "<p>Measured: <strong>%.4g us</strong>, the median of the launches.</p>\n",
                              t->seconds * 1e6);
  else
    fputs("<p>Not measured: it was asked not to be, is for another target, or has a parameter without one value.</p>\n",
          to);
}

void trace_head(FILE *to, const trace *t) {
  const tool_args *a = t->args;
  fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width\"/>\n<title>", to);
  words(to, a->file);
  fprintf(to, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>", style);
  words(to, a->file);
  for (int i = 0; i < a->bindings; i++) {
    fputc(' ', to);
    words(to, a->binding[i].name);
    fprintf(to, "=%lld", (long long)a->binding[i].value);
    if (a->binding[i].most != a->binding[i].value) fprintf(to, "..%lld", (long long)a->binding[i].most);
  }
  if (a->target) fputs(" for ", to), words(to, a->target);
  fputs("</h1>\n", to);
  put_times(to, t);
  fputs("<nav><a href=\"#stages\">Stages</a> <a href=\"#tiles\">Tiles</a> <a href=\"#cost\">Cost</a> "
        "<a href=\"#accesses\">Accesses</a> <a href=\"#code\">Machine code</a>", to);
  if (a->journal) fputs(" <a href=\"#search\">Search</a>", to);
  fputs("</nav>\n", to);
}

void trace_foot(FILE *to) { fprintf(to, "<script>\n%s</script>\n</body>\n</html>\n", script); }
