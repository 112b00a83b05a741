/* "did you mean": finds the known name with the smallest edit distance. */
#include "lib/base/option_private.h"

#include <string.h>

enum { MAX_WORD = 48 };

static int least(int a, int b) {
    return a < b ? a : b;
}

/* d[i][j]: distance between the first i letters of a and the first j of b. The swap rule looks two rows back.
 * Source: Damerau, "A technique for computer detection and correction of spelling errors", CACM 1964. */
int edit_distance(const char *a, const char *b) {
    int n = (int)strnlen(a, MAX_WORD), m = (int)strnlen(b, MAX_WORD);
    int d[MAX_WORD + 1][MAX_WORD + 1];
    for (int i = 0; i <= n; i++) d[i][0] = i;
    for (int j = 0; j <= m; j++) d[0][j] = j;
    for (int i = 1; i <= n; i++)
        for (int j = 1; j <= m; j++) {
            int substituted = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            d[i][j] = least(substituted, 1 + least(d[i - 1][j], d[i][j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n][m];
}

const char *option_nearest(const struct options *o, const char *name) {
    /* A third of the letters may be wrong, or one letter of a short word. Beyond that a suggestion is a guess. */
    int limit = (int)strlen(name) / 3;
    int best = limit > 1 ? limit : 1;
    const char *nearest = NULL;
    for (int i = 0; i <= o->n; i++) {
        const char *known = i < o->n ? o->option[i]->name : "config";
        int distance = edit_distance(name, known);
        if (distance > best || (distance == best && nearest)) continue;
        best = distance;
        nearest = known;
    }
    return nearest;
}
