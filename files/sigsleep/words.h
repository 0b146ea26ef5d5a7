/* The words of a malleable job (option --malleable), and its speed-up. */
#ifndef WORDS_H
#define WORDS_H

#include <stdbool.h>
#include <stdint.h>

#define LARGEST_SIZE 1000000

struct words {
    int64_t minimum, maximum, factor;
    int64_t preferred; /* 0: none */
    int64_t check, inhibitor;
    int64_t parallel; /* Amdahl's parallel fraction, billionths */
    const char *rows; /* NODES=SPEEDUP,...; NULL: Amdahl's law */
    int64_t cost, cost_per_process;
    bool asynchronous;
};

/* Reads the words, which `option` gives. Times are virtual ns. Errors are wrong use. The words keep a part of the text. */
void read_words(const char *option, const char *text, struct words *words);

/* The speed-up on so many nodes, against one, in billionths; 1 or more. */
int64_t speedup(const struct words *words, int64_t nodes);

/* The cost of a resize in virtual ns. */
int64_t cost_of_resize(const struct words *words, int64_t from, int64_t to);

#endif
