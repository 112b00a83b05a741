/* The operations of a GPT, as loops. For each y = f(x, w) backward takes dy, the gradient of the loss by y, and
 * gives
 *
 *   dx = dy * df/dx        dw += dy * df/dw
 *
 * without ever forming the Jacobians df/dx and df/dw. */
#include "nano.h"

#include <math.h>

/* y[r,k] = b[k] + sum_c x[r,c] w[k,c].    b NULL: none */
void linear(real *y, const real *x, const real *w, const real *b, int R, int C, int K) {
    for (int r = 0; r < R; r++)
        for (int k = 0; k < K; k++) {
            real sum = b ? b[k] : 0;
            for (int c = 0; c < C; c++) sum += x[r * C + c] * w[k * C + c];
            y[r * K + k] = sum;
        }
}

/* dx[r,c] = sum_k dy[r,k] w[k,c]     dw[k,c] += sum_r dy[r,k] x[r,c]     db[k] += sum_r dy[r,k] */
void linear_backward(real *dx, real *dw, real *db, const real *dy, const real *x, const real *w, int R, int C, int K) {
    for (int r = 0; r < R; r++) {
        for (int c = 0; c < C; c++) dx[r * C + c] = 0;
        for (int k = 0; k < K; k++) {
            real d = dy[r * K + k];
            if (db) db[k] += d;
            for (int c = 0; c < C; c++) {
                dx[r * C + c] += d * w[k * C + c];
                dw[k * C + c] += d * x[r * C + c];
            }
        }
    }
}

struct statistics { real mean, rstd; };
static struct statistics statistics(const real *x, int C) {
    real mean = 0, variance = 0;
    for (int c = 0; c < C; c++) mean += x[c] / C;
    for (int c = 0; c < C; c++) variance += (x[c] - mean) * (x[c] - mean) / C;
    return (struct statistics){mean, 1 / (real)sqrt(variance + (real)1e-5)};
}

/* y = n g + b,  n = (x - mean) rstd: each row has mean 0 and variance 1 */
void layernorm(real *y, const real *x, const real *g, const real *b, int R, int C) {
    for (int r = 0; r < R; r++, x += C, y += C) {
        struct statistics s = statistics(x, C);
        for (int c = 0; c < C; c++) y[c] = (x[c] - s.mean) * s.rstd * g[c] + b[c];
    }
}

/* With dn = dy g:  dx = rstd (dn - mean(dn) - n mean(dn n))     dg += dy n     db += dy */
void layernorm_backward(real *dx, real *dg, real *db, const real *dy, const real *x, const real *g, int R, int C) {
    for (int r = 0; r < R; r++, x += C, dy += C, dx += C) {
        struct statistics s = statistics(x, C);
        real mean_dn = 0, mean_dn_n = 0;
        for (int c = 0; c < C; c++) {
            real n = (x[c] - s.mean) * s.rstd;
            mean_dn += dy[c] * g[c] / C;
            mean_dn_n += dy[c] * g[c] * n / C;
            dg[c] += dy[c] * n;
            db[c] += dy[c];
        }
        for (int c = 0; c < C; c++) dx[c] = s.rstd * (dy[c] * g[c] - mean_dn - (x[c] - s.mean) * s.rstd * mean_dn_n);
    }
}

/* The offset in qkv (B,T,3,H,D) of the query (part 0), key (1) or value (2) of sample b, position t and head h. */
static int64_t at(int b, int t, int part, int h, int T, int H, int D) {
    return ((((int64_t)b * T + t) * 3 + part) * H + h) * D;
}

/* For each sample, head and query t:  p[j] = softmax over j <= t of q . k[j] / sqrt(D)     y = sum_j p[j] v[j]
 * y is (B,T,H,D); prob (B,H,T,T) keeps p for backward. */
void attention(real *y, real *prob, const real *qkv, int B, int T, int H, int D) {
    real scale = 1 / (real)sqrt(D);
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int t = 0; t < T; t++) {
                const real *q = qkv + at(b, t, 0, h, T, H, D);
                real *p = prob + (((int64_t)b * H + h) * T + t) * T, *out = y + (((int64_t)b * T + t) * H + h) * D,
                     most = -INFINITY, sum = 0;
                for (int j = 0; j <= t; j++) {
                    const real *k = qkv + at(b, j, 1, h, T, H, D);
                    p[j] = 0;
                    for (int i = 0; i < D; i++) p[j] += q[i] * k[i] * scale;
                    if (p[j] > most) most = p[j];
                }
                for (int j = 0; j <= t; j++) sum += p[j] = (real)exp(p[j] - most);
                for (int i = 0; i < D; i++) out[i] = 0;
                for (int j = 0; j <= t; j++) {
                    const real *v = qkv + at(b, j, 2, h, T, H, D);
                    p[j] /= sum;
                    for (int i = 0; i < D; i++) out[i] += p[j] * v[i];
                }
            }
}

/* dp[j] = dy . v[j]     ds[j] = p[j] (dp[j] - sum_l p[l] dp[l])     dq = scale sum_j ds[j] k[j]
 * dk[j] += scale ds[j] q     dv[j] += p[j] dy     and sum_l p[l] dp[l] = dy . y */
void attention_backward(real *dqkv, const real *dy, const real *prob, const real *qkv, int B, int T, int H, int D) {
    real scale = 1 / (real)sqrt(D);
    for (int64_t i = 0; i < (int64_t)B * T * 3 * H * D; i++) dqkv[i] = 0;
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int t = 0; t < T; t++) {
                const real *p = prob + (((int64_t)b * H + h) * T + t) * T, *d = dy + (((int64_t)b * T + t) * H + h) * D;
                const real *q = qkv + at(b, t, 0, h, T, H, D);
                real *dq = dqkv + at(b, t, 0, h, T, H, D), mean = 0;
                for (int pass = 0; pass < 2; pass++)     /* pass 0: the mean of dp; pass 1: the gradients */
                    for (int j = 0; j <= t; j++) {
                        const real *k = qkv + at(b, j, 1, h, T, H, D), *v = qkv + at(b, j, 2, h, T, H, D);
                        real *dk = dqkv + at(b, j, 1, h, T, H, D), *dv = dqkv + at(b, j, 2, h, T, H, D), dp = 0;
                        for (int i = 0; i < D; i++) dp += d[i] * v[i];
                        if (pass == 0) mean += p[j] * dp;
                        real ds = scale * p[j] * (dp - mean);
                        for (int i = 0; i < D && pass == 1; i++) {
                            dq[i] += ds * k[i];
                            dk[i] += ds * q[i];
                            dv[i] += p[j] * d[i];
                        }
                    }
            }
}

/* y = x/2 (1 + tanh u),  u = sqrt(2/pi) (x + 0.044715 x^3) */
static const double ROOT = 0.79788456080286535588, CUBIC = 0.044715;
void gelu(real *y, const real *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] / 2 * (1 + (real)tanh(ROOT * (x[i] + CUBIC * x[i] * x[i] * x[i])));
}

void gelu_backward(real *dx, const real *dy, const real *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double v = x[i], th = tanh(ROOT * (v + CUBIC * v * v * v));
        dx[i] = (real)(dy[i] * (0.5 * (1 + th) + 0.5 * v * (1 - th * th) * ROOT * (1 + 3 * CUBIC * v * v)));
    }
}

/* loss = log(sum_v e^z[v]) - z[target]     dz[v] = softmax(z)[v] - (v == target) */
double cross_entropy(real *logits, const int *targets, int R, int V, double scale) {
    double loss = 0;
    for (int r = 0; r < R; r++) {
        real *z = logits + (int64_t)r * V, most = z[0], target = z[targets[r]];
        double sum = 0;
        for (int v = 1; v < V; v++)
            if (z[v] > most) most = z[v];
        for (int v = 0; v < V; v++) sum += z[v] = (real)exp(z[v] - most);
        loss += most + log(sum) - target;
        for (int v = 0; v < V; v++) z[v] = (real)(scale * (z[v] / sum - (v == targets[r])));
    }
    return loss * scale;
}
