/* ranks: 1
 *
 * Signs alone, and with error feedback (lesson 18), on a function of two numbers:
 *
 *   f(x) = |x0 + x1| / 4 + |x0 - x1|: its gradient's signs are +-(1, -1), so x0 + x1 never changes
 *
 * The code is the reference of the exercise. */
#include "lessons/18-fewer-and-smaller/feedback/feedback.h"

#include <math.h>
#include <stdio.h>

enum way { PLAIN, SIGNS, WITH_FEEDBACK };
static enum status descend(enum way way, int steps, double *f) {
    float x[2] = {1, 1}, residual[2] = {0};
    for (int n = 1; n <= steps; n++) {
        float along = x[0] + x[1] < 0 ? -0.25f : 0.25f, across = x[0] - x[1] < 0 ? -1 : 1;
        float g[2] = {along + across, along - across};
        unsigned char code[8];
        if (way != PLAIN) {
            TRY(feedback_encode(g, 2, way == WITH_FEEDBACK ? residual : NULL, code));
            TRY(feedback_decode(code, 2, g, false));
        }
        for (int i = 0; i < 2; i++) x[i] -= 0.1f / sqrtf((float)n) * g[i];
    }
    *f = fabs((double)x[0] + x[1]) / 4 + fabs((double)x[0] - x[1]);
    return OK;
}

static enum status signs(void) {
    static const char *const names[] = {"gradients", "signs", "signs with feedback"};
    printf("f after 100, 1000, 4000 steps; it begins at 0.5\n");
    for (enum way way = PLAIN; way <= WITH_FEEDBACK; way++) {
        double f[3];
        for (int i = 0; i < 3; i++) TRY(descend(way, (int[]){100, 1000, 4000}[i], &f[i]));
        printf("%-22s %6.3f %6.3f %6.3f\n", names[way], f[0], f[1], f[2]);
    }
    return OK;
}

int main(void) {
    enum status status = signs();
    status_report();
    return status_exit_code(status);
}
