/* Refusals of parameter servers. Each has one line: the value, the limit and the remedy. */
#include "dp_variants/server/server.h"

#include "lib/run/recipe.h"
#include <inttypes.h>

static const char *mode_name(const struct plan *plan) {
    static const char *const names[] = {"sync", "ssp", "async"};
    return names[server_options(plan)->mode];
}

static enum status check_options(const struct plan *plan) {
    const struct server_options *o = server_options(plan);
    const struct mesh_place first = mesh_place_of(&plan->mesh, 0);
    if (o->servers == 0)
        return FAIL(E_CONFIG, "server-ranks, server-mode, staleness, server-record and server-order belong to servers, "
                              "and servers=0; use --servers 1 or more, or leave them out");
    if (o->servers > mesh_size(AXIS_DP, &first))
        return FAIL(E_CONFIG, "servers=%" PRId64 " are replicas too, and dp=%d; use servers %d or less, or dp %" PRId64,
                    o->servers, mesh_size(AXIS_DP, &first), mesh_size(AXIS_DP, &first), o->servers);
    if (o->staleness > 0 && o->mode != SERVER_SSP)
        return FAIL(E_CONFIG, "staleness=%" PRId64 " is for server-mode=ssp, not %s; use server-mode ssp, or leave "
                    "staleness out",
                    o->staleness, mode_name(plan));
    if ((o->record[0] || o->order[0]) && o->mode == SERVER_SYNC)
        return FAIL(E_CONFIG, "server-record and server-order are about gradients that are applied one by one, and "
                              "server-mode=sync adds them up; use ssp or async, or leave them out");
    if (plan->sums == PLAN_SUMS_FIXED)
        return FAIL(E_CONFIG, "servers=%" PRId64 " add gradients in an order of their own, and sums=fixed as a tree; "
                              "leave servers out, or use sums=fast", o->servers);
    return OK;
}

/* ---- ranks of their own ---- */
enum status server_settle(struct plan *p) {
    const struct server_options *o = server_options(p);
    if (o->where == SERVER_SHARED || o->servers < p->mesh.dp) return OK;
    return FAIL(E_CONFIG, "servers=%" PRId64 " with server-ranks=own leave no worker of dp=%" PRId64 "; use dp %" PRId64
                " or more", o->servers, p->mesh.dp, o->servers + 1);
}

static enum status check_own(const struct plan *p) {
    char sizes[128];
    if (p->mesh.cp > 1 || p->mesh.ep > 1)
        return FAIL(E_CONFIG, "server-ranks=own is for layouts of dp, tp and pp, and this is %s%s; use cp 1 and ep 1, "
                    "or server-ranks shared", mesh_sizes_text(&p->mesh, sizes, sizeof sizes),
                    p->mesh.ep > 1 ? " with ep" : "");
    if (p->device == PLAN_DEVICE_CUDA)
        return FAIL(E_CONFIG, "server-ranks=own adds gradients in host memory, and device=cuda; use device cpu, or "
                    "server-ranks shared");
    return OK;
}

/* ---- asynchronous updates ---- */
static const char *no_meeting(const struct plan *p) {
    static const char *const meet[] = {"trace", "save-async", "spike-guard"};
    for (size_t i = 0; i < sizeof meet / sizeof *meet; i++)
        if (plan_says(p, meet[i])) return meet[i];
    return NULL;
}

static enum status check_asynchronous(const struct plan *p, const char *mode) {
    char sizes[128];
    if (mesh_n_ranks(&p->mesh) != (double)(p->mesh.dp ? p->mesh.dp : 1) || p->mesh.ep > 1)
        return FAIL(E_CONFIG, "server-mode=%s is for data parallelism alone, and the layout is %s%s; leave "
                    "tp, pp, cp and ep out, or use server-mode sync", mode,
                    mesh_sizes_text(&p->mesh, sizes, sizeof sizes),
                    p->mesh.ep > 1 ? " with ep" : "");
    if (p->precision != PRECISION_FP32 && p->precision != PRECISION_FP64)
        return FAIL(E_CONFIG, "server-mode=%s pushes fp32 and fp64, and precision=%s; use one of them, or server-mode "
                    "sync", mode, dtype_name(plan_product_dtype(p)));
    if (p->device == PLAN_DEVICE_CUDA)
        return FAIL(E_CONFIG, "server-mode=%s serves between rows of the cpu, and device=cuda; use device cpu, or "
                    "server-mode sync", mode);
    if (p->clip > 0)
        return FAIL(E_CONFIG, "clip=%g is of the norm of all gradients, and with server-mode=%s they are never "
                    "together; use clip=0, or server-mode sync", p->clip, mode);
    if (no_meeting(p))
        return FAIL(E_CONFIG, "%s has ranks meet at steps, and with server-mode=%s they meet for evaluations and saves "
                    "alone; leave it out, or use server-mode sync", no_meeting(p), mode);
    if (server_options(p)->order[0] && (plan_says(p, "resume") || plan_says(p, "time-limit")))
        return FAIL(E_CONFIG, "server-order plays a run from its first step to its last, and %s does not; leave one of "
                    "them out", plan_says(p, "resume") ? "resume" : "time-limit");
    return OK;
}

enum status server_check(const struct plan *plan) {
    TRY(check_options(plan));
    if (server_options(plan)->where == SERVER_OWN) TRY(check_own(plan));
    return server_options(plan)->mode == SERVER_SYNC ? OK : check_asynchronous(plan, mode_name(plan));
}
