/*
 * The conjugate gradient method for Poisson's equation on a square grid of --rows rows and columns (five-point stencil, edges 0,
 * right side 1). The value of the result is the square of the residual's norm.
 */
#include "malleable.h"

#include <stdlib.h>

/* product = A direction; direction has ghost rows. */
static void multiply(const struct malleable *m, double *product, const double *direction, size_t width)
{
    for (size_t row = 0; row < m->own; row++) {
        const double *here = direction + row * width;
        for (size_t column = 0; column < width; column++) {
            double left = column > 0 ? here[column - 1] : 0;
            double right = column < width - 1 ? here[column + 1] : 0;
            product[row * width + column] = 4 * here[column] - (here - width)[column] - here[width + column] - left - right;
        }
    }
}

int main(int argc, char **argv)
{
    struct malleable m;
    malleable_start(&m, "cg", argc, argv);
    size_t width = m.rows;
    double *solution = malleable_array(&m, width, false);
    double *residual = malleable_array(&m, width, false);
    double *direction = malleable_array(&m, width, true);
    size_t count = m.own * width;
    double *product = malleable_memory(&m, count);
    double *norm = &m.scalars[0];
    if (!malleable_resumed(&m)) {
        for (size_t i = 0; i < count; i++)
            residual[i] = direction[i] = 1;
        *norm = malleable_dot(&m, residual, residual, width);
    }
    while (malleable_continues(&m)) {
        malleable_ghosts(&m, direction, width);
        multiply(&m, product, direction, width);
        double curvature = malleable_dot(&m, direction, product, width);
        double step = curvature > 0 ? *norm / curvature : 0;
        for (size_t i = 0; i < count; i++) {
            solution[i] += step * direction[i];
            residual[i] -= step * product[i];
        }
        double next = malleable_dot(&m, residual, residual, width);
        double turn = *norm > 0 ? next / *norm : 0;
        *norm = next;
        for (size_t i = 0; i < count; i++)
            direction[i] = residual[i] + turn * direction[i];
    }
    free(product);
    return malleable_end(&m, *norm);
}
