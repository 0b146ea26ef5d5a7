/*
 * The Jacobi method for the heat equation at rest, on a square grid of --rows rows and columns: each value becomes the mean of its
 * four neighbours. The edge before the first row is 1, the other edges are 0. The value of the result is the sum of squares.
 */
#include "malleable.h"

#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct malleable m;
    malleable_start(&m, "jacobi", argc, argv);
    size_t width = m.rows;
    double *old = malleable_array(&m, width, true);
    double *new = malleable_memory(&m, m.own * width);
    while (malleable_continues(&m)) {
        malleable_ghosts(&m, old, width);
        if (m.rank == 0)
            for (size_t column = 0; column < width; column++)
                (old - width)[column] = 1;
        for (size_t row = 0; row < m.own; row++) {
            const double *here = old + row * width;
            for (size_t column = 0; column < width; column++) {
                double left = column > 0 ? here[column - 1] : 0;
                double right = column < width - 1 ? here[column + 1] : 0;
                new[row * width + column] = 0.25 * ((here - width)[column] + here[width + column] + left + right);
            }
        }
        memcpy(old, new, m.own * width * sizeof(double));
    }
    free(new);
    return malleable_end(&m, malleable_dot(&m, old, old, width));
}
