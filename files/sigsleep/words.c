/* The words of a malleable job. words.h describes the functions. */
#define _GNU_SOURCE
#include "words.h"

#include <stddef.h>

#include "kernel.h"
#include "text.h"

#define FORM                                                                                                      \
    "must be MIN:MAX:FACTOR:PREFERRED [check=S] [inhibitor=S] [speedup=linear|amdahl:F|table:NODES=SPEEDUP,...] " \
    "[cost=CONSTANT:PER_PROCESS] [async]"

static bool scan_size(const char **text, int64_t *size)
{
    return scan_whole(text, LARGEST_SIZE, size) && *size > 0;
}

static bool scan_sizes(const char **text, struct words *words)
{
    if (!scan_size(text, &words->minimum) || *(*text)++ != ':')
        return false;
    if (!scan_size(text, &words->maximum) || *(*text)++ != ':')
        return false;
    if (!scan_size(text, &words->factor) || *(*text)++ != ':')
        return false;
    if (**text == '-') {
        (*text)++;
        return true;
    }
    return scan_size(text, &words->preferred);
}

/* Parses a row of a table, NODES=SPEEDUP. */
static bool scan_row(const char **text, int64_t *nodes, int64_t *value)
{
    return scan_size(text, nodes) && *(*text)++ == '=' && scan_decimal(text, value) && *value > 0 && *value <= SECOND * SECOND;
}

static bool scan_rows(const char **text)
{
    int64_t nodes, value, before = 0;

    for (;;) {
        if (!scan_row(text, &nodes, &value) || nodes <= before)
            return false;
        if (**text != ',')
            return true;
        (*text)++;
        before = nodes;
    }
}

static bool scan_model(const char **text, struct words *words)
{
    const char *rest;

    if ((rest = after(*text, "linear"))) {
        *text = rest;
        return true;
    }
    if ((rest = after(*text, "amdahl:"))) {
        *text = rest;
        return scan_decimal(text, &words->parallel) && words->parallel <= SECOND;
    }
    if ((rest = after(*text, "table:"))) {
        words->rows = *text = rest;
        return scan_rows(text);
    }
    return false;
}

/* Parses one of the words after the sizes. */
static bool scan_word(const char **text, struct words *words)
{
    const char *rest;

    if ((rest = after(*text, "check="))) {
        *text = rest;
        return scan_decimal(text, &words->check) && words->check > 0;
    }
    if ((rest = after(*text, "inhibitor="))) {
        *text = rest;
        return scan_decimal(text, &words->inhibitor);
    }
    if ((rest = after(*text, "speedup="))) {
        *text = rest;
        return scan_model(text, words);
    }
    if ((rest = after(*text, "cost="))) {
        *text = rest;
        return scan_decimal(text, &words->cost) && *(*text)++ == ':' && scan_decimal(text, &words->cost_per_process);
    }
    if ((rest = after(*text, "async"))) {
        *text = rest;
        words->asynchronous = true;
        return true;
    }
    return false;
}

void read_words(const char *option, const char *text, struct words *words)
{
    const char *rest = text;

    *words = (struct words){.check = 15 * SECOND, .parallel = SECOND};
    bool good = scan_sizes(&rest, words);
    while (good && *rest == ' ') {
        rest++;
        good = scan_word(&rest, words);
    }
    if (!good || *rest != '\0')
        wrong_use(option, text, FORM);
    if (words->minimum > words->maximum)
        wrong_use(option, text, "the minimum is above the maximum");
    if (words->factor < 2)
        wrong_use(option, text, "the factor must be 2 or more");
    if (words->preferred && (words->preferred < words->minimum || words->preferred > words->maximum))
        wrong_use(option, text, "the preferred size is not within the minimum and the maximum");
}

/* The speed-up on `nodes` nodes from the rows of a table: linear between two rows, constant before the first and after the last. */
static int64_t speedup_of_rows(const char *rows, int64_t nodes)
{
    int64_t left = 0, low = 0, right, high;

    while (scan_row(&rows, &right, &high)) {
        if (right >= nodes) {
            if (left == 0)
                return high;
            return low + (int64_t)(((wide)high - low) * (nodes - left) / (right - left));
        }
        left = right;
        low = high;
        if (*rows++ != ',')
            break;
    }
    return low;
}

int64_t speedup(const struct words *words, int64_t nodes)
{
    if (words->rows)
        return speedup_of_rows(words->rows, nodes);
    return clamp((wide)nodes * SECOND * SECOND / ((wide)(SECOND - words->parallel) * nodes + words->parallel));
}

int64_t cost_of_resize(const struct words *words, int64_t from, int64_t to)
{
    return clamp(words->cost + (wide)words->cost_per_process * (from < to ? to - from : from - to));
}
