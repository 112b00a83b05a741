#ifdef TRIVIUM_CUDNN
#include "lib/ops/attention/attention_graph_cudnn.h"
#include <string.h>

typedef cudnnBackendDescriptor_t descriptor;
typedef struct attention_graph graph;

/* ---- descriptors: make, set, finish; the first failure is kept, and later calls do nothing ---- */

static void check(graph *g, cudnnStatus_t status, const char *at) {
    if (g->failed || status == CUDNN_STATUS_SUCCESS) return;
    g->failed = status;
    g->at = at;
}

static descriptor make(graph *g, cudnnBackendDescriptorType_t type) {
    descriptor d = NULL;
    if (g->failed) return NULL;
    if (g->n_made == ATTENTION_GRAPH_MADE) {
        check(g, CUDNN_STATUS_INTERNAL_ERROR, "too many descriptors");
        return NULL;
    }
    check(g, cudnnBackendCreateDescriptor(type, &d), "create");
    if (d) g->made[g->n_made++] = d;
    return d;
}

static void set(graph *g, descriptor d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                const void *values, const char *at) {
    if (!g->failed) check(g, cudnnBackendSetAttribute(d, name, type, n, values), at);
}
#define SET(d, name, type, n, values) set(g, d, CUDNN_ATTR_##name, CUDNN_TYPE_##type, n, values, #name)
#define SET_DESCRIPTOR(d, name, value) SET(d, name, BACKEND_DESCRIPTOR, 1, &(value))

static descriptor finish(graph *g, descriptor d, const char *at) {
    if (!g->failed) check(g, cudnnBackendFinalize(d), at);
    return d;
}

struct attention_graph_shape attention_graph_shape(const struct attention_pair *p) {
    struct attention_graph_shape s = {p->B, p->H, p->shared_by, p->D, p->Tq, p->Tk, p->causal, p->lse_row,
                                       {0}, {0}};
    const struct { enum attention_operand name; const struct attention_vectors *v; } all[] = {
        {OPERAND_Q, &p->q}, {OPERAND_K, &p->k}, {OPERAND_V, &p->v}, {OPERAND_Y, &p->y},
        {OPERAND_DY, &p->dy}, {OPERAND_DQ, &p->dq}, {OPERAND_DK, &p->dk}, {OPERAND_DV, &p->dv}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        s.sample[all[i].name] = all[i].v->sample, s.row[all[i].name] = all[i].v->row;
    return s;
}

/* ---- tensors: always four axes, (B,H,rows,columns) ---- */

static descriptor tensor_in_order(graph *g, int64_t name, const int64_t n[4], const int64_t stride[4],
                                  cudnnDataType_t type, cudnnBackendTensorReordering_t order, bool is_virtual,
                                  bool by_value) {
    descriptor t = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t alignment = 16;
    SET(t, TENSOR_UNIQUE_ID, INT64, 1, &name);
    SET(t, TENSOR_DATA_TYPE, DATA_TYPE, 1, &type);
    SET(t, TENSOR_BYTE_ALIGNMENT, INT64, 1, &alignment);
    SET(t, TENSOR_DIMENSIONS, INT64, 4, n);
    SET(t, TENSOR_STRIDES, INT64, 4, stride);
    SET(t, TENSOR_REORDERING_MODE, TENSOR_REORDERING_MODE, 1, &order);
    SET(t, TENSOR_IS_VIRTUAL, BOOLEAN, 1, &is_virtual);
    SET(t, TENSOR_IS_BY_VALUE, BOOLEAN, 1, &by_value);
    return finish(g, t, "tensor");
}
static descriptor tensor(graph *g, int64_t name, const int64_t n[4], const int64_t stride[4], cudnnDataType_t type,
                         bool is_virtual, bool by_value) {
    return tensor_in_order(g, name, n, stride, type, CUDNN_TENSOR_REORDERING_NONE, is_virtual, by_value);
}

static bool is_of_keys(enum attention_operand name) {
    return name == OPERAND_K || name == OPERAND_V || name == OPERAND_DK || name == OPERAND_DV;
}
static int64_t positions(const graph *g, enum attention_operand name) { return is_of_keys(name) ? g->s.Tk : g->s.Tq; }
static int64_t heads(const graph *g, enum attention_operand name) {
    return is_of_keys(name) ? g->s.H / g->s.shared_by : g->s.H;
}
/* Vectors of all heads: (B,H,T,D). */
static descriptor vectors(graph *g, enum attention_operand name) {
    const struct attention_graph_shape *s = &g->s;
    int64_t n[4] = {s->B, heads(g, name), positions(g, name), s->D};
    int64_t stride[4] = {s->sample[name], s->D, s->row[name], 1};
    return tensor(g, name, n, stride, g->elem, false, false);
}
/* The same memory, read as (B,H,D,T). */
static descriptor vectors_transposed(graph *g, enum attention_operand name) {
    const struct attention_graph_shape *s = &g->s;
    int64_t n[4] = {s->B, heads(g, name), s->D, positions(g, name)};
    int64_t stride[4] = {s->sample[name], s->D, 1, s->row[name]};
    return tensor(g, name, n, stride, g->elem, false, false);
}
/* lse (B,H,Tq), packed, because some backward kernels of cuDNN before 9.26 assume that it is (cuDNN's issue 1023). */
static descriptor lse(graph *g) {
    const struct attention_graph_shape *s = &g->s;
    int64_t n[4] = {s->B, s->H, s->Tq, 1}, stride[4] = {s->H * s->lse_row, s->lse_row, 1, 1};
    return tensor(g, OPERAND_LSE, n, stride, CUDNN_DATA_FLOAT, false, false);
}
static descriptor number(graph *g, enum attention_operand name) {
    const int64_t ones[4] = {1, 1, 1, 1};
    return tensor(g, name, ones, ones, CUDNN_DATA_FLOAT, false, true);
}

/* The sum of dq, (B,H,Tq,D) in fp32, in the order that cuDNN's kernel prefers. It is scratch. */
static descriptor dq_sum(graph *g) {
    const struct attention_graph_shape *s = &g->s;
    int64_t n[4] = {s->B, s->H, s->Tq, s->D}, stride[4] = {s->H * s->Tq * s->D, s->Tq * s->D, s->D, 1};
    return tensor_in_order(g, OPERAND_DQ_SUM, n, stride, CUDNN_DATA_FLOAT, CUDNN_TENSOR_REORDERING_F16x16, false,
                           false);
}

/* A tensor between two operations: (B,H,Tq,columns), without memory. */
static descriptor between(graph *g, int64_t columns, cudnnDataType_t type) {
    const struct attention_graph_shape *s = &g->s;
    int64_t n[4] = {s->B, s->H, s->Tq, columns}, stride[4] = {s->H * s->Tq * columns, s->Tq * columns, columns, 1};
    return tensor(g, g->next_virtual++, n, stride, type, true, false);
}
static descriptor scores_of(graph *g, cudnnDataType_t type) { return between(g, g->s.Tk, type); }
static descriptor square(graph *g) { return scores_of(g, CUDNN_DATA_FLOAT); }
static descriptor column(graph *g) { return between(g, 1, CUDNN_DATA_FLOAT); }

/* ---- operations: each returns its result ---- */

static void add_op(graph *g, descriptor op, const char *at) {
    finish(g, op, at);
    if (g->n_ops == ATTENTION_GRAPH_OPS) check(g, CUDNN_STATUS_INTERNAL_ERROR, "too many operations");
    if (!g->failed) g->ops[g->n_ops++] = op;
}

static descriptor pointwise_of(graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t precision, int64_t axis,
                               descriptor x, descriptor b, descriptor t, descriptor y) {
    descriptor how = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    SET(how, POINTWISE_MODE, POINTWISE_MODE, 1, &mode);
    SET(how, POINTWISE_MATH_PREC, DATA_TYPE, 1, &precision);
    if (axis >= 0) SET(how, POINTWISE_AXIS, INT64, 1, &axis);
    finish(g, how, "pointwise");
    descriptor op = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    SET_DESCRIPTOR(op, OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    SET_DESCRIPTOR(op, OPERATION_POINTWISE_XDESC, x);
    if (b) SET_DESCRIPTOR(op, OPERATION_POINTWISE_BDESC, b);
    if (t) SET_DESCRIPTOR(op, OPERATION_POINTWISE_TDESC, t);
    SET_DESCRIPTOR(op, OPERATION_POINTWISE_YDESC, y);
    add_op(g, op, "pointwise operation");
    return y;
}
static descriptor pointwise(graph *g, cudnnPointwiseMode_t mode, descriptor x, descriptor b, descriptor y) {
    return pointwise_of(g, mode, CUDNN_DATA_FLOAT, -1, x, b, NULL, y);
}

static descriptor product(graph *g, descriptor a, descriptor b, descriptor c) {
    cudnnDataType_t sum = CUDNN_DATA_FLOAT;
    descriptor how = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    SET(how, MATMUL_COMP_TYPE, DATA_TYPE, 1, &sum);
    finish(g, how, "matmul");
    descriptor op = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    SET_DESCRIPTOR(op, OPERATION_MATMUL_ADESC, a);
    SET_DESCRIPTOR(op, OPERATION_MATMUL_BDESC, b);
    SET_DESCRIPTOR(op, OPERATION_MATMUL_CDESC, c);
    SET_DESCRIPTOR(op, OPERATION_MATMUL_DESC, how);
    add_op(g, op, "matmul operation");
    return c;
}

/* Over the columns. */
static descriptor reduce(graph *g, cudnnReduceTensorOp_t kind, descriptor x) {
    cudnnDataType_t sum = CUDNN_DATA_FLOAT;
    descriptor y = column(g), how = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    SET(how, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1, &kind);
    SET(how, REDUCTION_COMP_TYPE, DATA_TYPE, 1, &sum);
    finish(g, how, "reduction");
    descriptor op = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    SET_DESCRIPTOR(op, OPERATION_REDUCTION_XDESC, x);
    SET_DESCRIPTOR(op, OPERATION_REDUCTION_YDESC, y);
    SET_DESCRIPTOR(op, OPERATION_REDUCTION_DESC, how);
    add_op(g, op, "reduction operation");
    return y;
}

/* (B,H,Tq,Tk) with rows and columns exchanged; only the strides change. */
static descriptor transpose(graph *g, descriptor x) {
    const struct attention_graph_shape *s = &g->s;
    int64_t n[4] = {s->B, s->H, s->Tk, s->Tq}, stride[4] = {s->H * s->Tq * s->Tk, s->Tq * s->Tk, 1, s->Tk};
    descriptor y = tensor(g, g->next_virtual++, n, stride, g->elem, true, false);
    descriptor op = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    SET_DESCRIPTOR(op, OPERATION_RESHAPE_XDESC, x);
    SET_DESCRIPTOR(op, OPERATION_RESHAPE_YDESC, y);
    add_op(g, op, "reshape operation");
    return y;
}

/* ---- attention ---- */

/* s = q k^T scale; in a causal pair, a score whose column is beyond its row becomes the number OPERAND_MASKED */
static descriptor scores(graph *g, descriptor q, descriptor scale) {
    descriptor s = product(g, q, vectors_transposed(g, OPERAND_K), square(g));
    s = pointwise(g, CUDNN_POINTWISE_MUL, s, scale, square(g));
    if (!g->s.causal) return s;
    descriptor row = scores_of(g, CUDNN_DATA_INT32), key = scores_of(g, CUDNN_DATA_INT32);
    pointwise_of(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, 2, s, NULL, NULL, row);
    pointwise_of(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, 3, s, NULL, NULL, key);
    descriptor seen = scores_of(g, CUDNN_DATA_BOOLEAN);
    pointwise_of(g, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, -1, row, key, NULL, seen);
    return pointwise_of(g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, s, number(g, OPERAND_MASKED), seen,
                        square(g));
}

/* y = (e^(s - max) / sum) v     lse = max + log sum */
static void forward(graph *g) {
    descriptor q = vectors(g, OPERAND_Q), v = vectors(g, OPERAND_V);
    descriptor s = scores(g, q, number(g, OPERAND_SCALE)), max = reduce(g, CUDNN_REDUCE_TENSOR_MAX, s);
    descriptor e =
        pointwise(g, CUDNN_POINTWISE_EXP, pointwise(g, CUDNN_POINTWISE_SUB, s, max, square(g)), NULL, square(g));
    descriptor sum = reduce(g, CUDNN_REDUCE_TENSOR_ADD, e);
    pointwise(g, CUDNN_POINTWISE_ADD, max, pointwise(g, CUDNN_POINTWISE_LOG, sum, NULL, column(g)), lse(g));
    descriptor p = pointwise(g, CUDNN_POINTWISE_DIV, e, sum, scores_of(g, g->elem));
    product(g, p, v, vectors(g, OPERAND_Y));
}

/* delta = rowsum(dy y)     p = e^(s - lse)     ds = (dy v^T - delta) p scale
 * dv = p^T dy              dq = ds k           dk = ds^T q
 *
 * p is the second factor in ds, because with p first cuDNN 9.19 and 9.26 write a Hopper kernel that does not compile
 * (tests/more/cudnn.sh). delta is multiplied by 1, and dq passes through a sum with its own memory, as in cuDNN's front
 * end (node/scaled_dot_product_flash_attention.h). Without the factor 1 cuDNN 9.19 needs 4 B H T^2 bytes of workspace
 * more; without the sum, 2 B H T^2. */
static void backward(graph *g) {
    descriptor q = vectors(g, OPERAND_Q), k = vectors(g, OPERAND_K), dy = vectors(g, OPERAND_DY);
    descriptor scale = number(g, OPERAND_SCALE);
    descriptor delta = reduce(g, CUDNN_REDUCE_TENSOR_ADD,
                              pointwise(g, CUDNN_POINTWISE_MUL, dy, vectors(g, OPERAND_Y),
                                        between(g, g->s.D, CUDNN_DATA_FLOAT)));
    delta = pointwise(g, CUDNN_POINTWISE_MUL, delta, number(g, OPERAND_ONE), column(g));
    descriptor s = pointwise(g, CUDNN_POINTWISE_SUB, scores(g, q, scale), lse(g), square(g));
    descriptor p = pointwise(g, CUDNN_POINTWISE_EXP, s, NULL, square(g));
    descriptor rounded = pointwise(g, CUDNN_POINTWISE_IDENTITY, p, NULL, scores_of(g, g->elem));
    product(g, transpose(g, rounded), dy, vectors(g, OPERAND_DV));
    descriptor ds = product(g, dy, vectors_transposed(g, OPERAND_V), square(g));
    ds = pointwise(g, CUDNN_POINTWISE_SUB, ds, delta, square(g));
    ds = pointwise(g, CUDNN_POINTWISE_MUL, ds, p, square(g));
    ds = pointwise(g, CUDNN_POINTWISE_MUL, ds, scale, scores_of(g, g->elem));
    pointwise(g, CUDNN_POINTWISE_IDENTITY, product(g, ds, k, dq_sum(g)), NULL, vectors(g, OPERAND_DQ));
    product(g, transpose(g, ds), q, vectors(g, OPERAND_DK));
}

static enum status result(graph *g, bool is_backward) {
    if (!g->failed) return OK;
    char why[256] = "";
    cudnnGetLastErrorString(why, sizeof why);
    return FAIL(E_DEVICE, "cuDNN %s attention graph, %s: %s %s", is_backward ? "backward" : "forward", g->at,
                cudnnGetErrorString(g->failed), why);
}

enum status attention_graph_build(graph *g, const struct attention_graph_shape *s, cudnnDataType_t elem,
                                  bool is_backward, cudnnHandle_t handle) {
    memset(g, 0, sizeof *g);
    g->s = *s;
    g->elem = elem;
    g->next_virtual = N_OPERANDS + 1;
    if (is_backward) backward(g);
    else forward(g);
    g->graph = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    SET(g->graph, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, g->n_ops, g->ops);
    if (handle) SET(g->graph, OPERATIONGRAPH_HANDLE, HANDLE, 1, &handle);
    finish(g, g->graph, "operation graph");
    return result(g, is_backward);
}

void attention_graph_destroy(graph *g) {
    while (g->n_made > 0) cudnnBackendDestroyDescriptor(g->made[--g->n_made]);
}

/* ---- plans ---- */

descriptor attention_graph_device(graph *g, const char *json) {
    descriptor d = make(g, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    SET(d, DEVICEPROP_JSON_REPRESENTATION, CHAR, (int64_t)strlen(json) + 1, json);
    finish(g, d, "device properties");
    return g->failed ? NULL : d;
}

enum { MOST_CONFIGS = 16 };

/* The configurations that the heuristics of one mode name, in order of preference. */
static int configs_of(graph *g, cudnnBackendHeurMode_t mode, descriptor device, descriptor configs[MOST_CONFIGS]) {
    int64_t n = 0;
    descriptor h = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    SET_DESCRIPTOR(h, ENGINEHEUR_OPERATION_GRAPH, g->graph);
    SET(h, ENGINEHEUR_MODE, HEUR_MODE, 1, &mode);
    if (device) SET_DESCRIPTOR(h, ENGINEHEUR_DEVICEPROP, device);
    if (g->failed || cudnnBackendFinalize(h) != CUDNN_STATUS_SUCCESS) return 0;
    for (int i = 0; i < MOST_CONFIGS; i++) configs[i] = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->failed) return 0;
    cudnnStatus_t status = cudnnBackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                    MOST_CONFIGS, &n, configs);
    return status == CUDNN_STATUS_SUCCESS ? (int)(n < MOST_CONFIGS ? n : MOST_CONFIGS) : 0;
}

/* The engine of a configuration; -1: cuDNN does not say. */
static int64_t engine_of(graph *g, descriptor config) {
    int64_t index = -1, n = 0;
    descriptor engine = make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendAttributeType_t type = CUDNN_TYPE_BACKEND_DESCRIPTOR;
    if (g->failed || cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, type, 1, &n, &engine)) return -1;
    cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n, &index);
    return index;
}

static int64_t workspace_of(descriptor config) {
    int64_t bytes = 0, n = 0;
    cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, &bytes);
    return bytes;
}

/* *out NULL: this configuration makes no plan here, or a plan that takes more than the configuration announced. */
static cudnnStatus_t plan_of(graph *g, descriptor config, cudnnHandle_t handle, descriptor device, int64_t most_bytes,
                             descriptor *out) {
    int64_t bytes = 0, n = 0;
    descriptor plan = make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    *out = NULL;
    SET_DESCRIPTOR(plan, EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (handle) SET(plan, EXECUTION_PLAN_HANDLE, HANDLE, 1, &handle);
    if (device) SET_DESCRIPTOR(plan, EXECUTION_PLAN_DEVICEPROP, device);
    cudnnStatus_t status = g->failed ? g->failed : cudnnBackendFinalize(plan);
    if (status) return status;
    status = cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, &bytes);
    if (!status && bytes <= most_bytes) *out = plan;
    return status;
}

static void try_config(graph *g, descriptor config, cudnnHandle_t handle, descriptor device, int64_t most_bytes,
                       struct attention_choice *c) {
    int64_t wanted = workspace_of(config);
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    if (wanted <= most_bytes) status = plan_of(g, config, handle, device, most_bytes, &c->plan);
    c->engine = engine_of(g, config);
    if (c->n_configs == 0) c->wanted = wanted;
    if (c->n_configs++ == 0 && !c->plan) c->passed_over = c->engine, c->why = status;
}

enum status attention_graph_plan(graph *g, cudnnHandle_t handle, descriptor device, int64_t most_bytes,
                                 struct attention_choice *out) {
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    *out = (struct attention_choice){.engine = -1, .passed_over = -1};
    for (int m = 0; m < 2 && !out->plan && !(device && out->n_configs); m++) {
        descriptor configs[MOST_CONFIGS];
        int n = configs_of(g, modes[m], device, configs);
        if (device && n > 1) n = 1;
        for (int i = 0; i < n && !out->plan; i++) try_config(g, configs[i], handle, device, most_bytes, out);
    }
    return result(g, false);
}
#endif
