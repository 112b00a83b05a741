/* ranks: 2 4  device: cpu
 *
 * Evaluation through a pipeline of chunks: the validation loss is the serial run's. */
#include "driver/recipe.h"
#include "pp/pp.h"
#include "tests/layouts.h"
#include "tests/test.h"

enum { N_BATCHES = 2 };

static enum status validation_loss(struct plan *plan, int world, struct data_file *file, double *loss) {
    struct run r = {0};
    struct data_split train, val;
    TRY(plan_settle(plan, world));
    enum status status = run_create(&r, &train_recipe, plan, false);
    if (status == OK) status = data_split_tail(file, plan->seq, 0.1, &train, &val);
    if (status == OK) run_set_data(&r, &train, &val);
    if (status == OK) status = run_evaluate(&r, N_BATCHES, loss);
    run_destroy(&r);
    return status;
}

TEST(test_evaluation_through_chunks_is_serial) {
    struct plan serial = parity_plan(), chunked = parity_plan();
    struct data_file *file = NULL;
    double expected = NAN, loss = NAN;
    chunked.mesh.pp = comm_world_size();
    pp_options(&chunked)->schedule = SCHEDULE_INTERLEAVED;
    pp_options(&chunked)->chunks = 2;
    chunked.micro_batch = 1;
    enum status status = data_open("configs/demo.txt", &file);
    if (agree_all(status == OK)) status = validation_loss(&serial, 1, file, &expected);
    if (agree_all(status == OK)) status = validation_loss(&chunked, comm_world_size(), file, &loss);
    data_close(&file);
    double worst = agree_max(fabs(loss - expected));
    assert_ok(status);
    assert_close(worst, 0, 1e-10 * expected);   /* fp64: promise 1 of docs/architecture.md */
}

TESTS(unit_test(test_evaluation_through_chunks_is_serial))
