#include "driver/train/step_meter.h"

#include "driver/train/metrics.h"
#include "lib/base/clock.h"
#include "lib/data/data_ahead.h"

static struct step_meter counts(const struct run *r) {
    struct step_meter m = {.start_s = clock_s(), .data_s = r->data_s, .parked = r->exec.parked_bytes,
                           .late = data_ahead_counts(r->train.ahead).late};
    for (int a = AXIS_SELF + 1; a < N_MESH_AXES; a++) {
        const struct ledger_entry e = metrics_ledger(r->mesh.group[a]);
        m.bytes += e.bytes;
        m.wait_s += e.wait_s;
        for (int between = 0; between < 2; between++) m.sent[between] += e.sent[between];
    }
    if (r->disk) m.disk = disk_traffic(r->disk);
    return m;
}

void step_meter_begin(struct step_meter *m, const struct run *r) { *m = counts(r); }

void step_meter_end(struct step_meter *m, const struct run *r) {
    const struct step_meter was = *m, now = counts(r);
    *m = (struct step_meter){
        .start_s = was.start_s, .spent_s = now.start_s - was.start_s, .data_s = now.data_s - was.data_s,
        .bytes = now.bytes - was.bytes, .wait_s = now.wait_s - was.wait_s, .late = now.late - was.late,
        .sent = {now.sent[0] - was.sent[0], now.sent[1] - was.sent[1]}, .parked = now.parked - was.parked,
        .disk = {now.disk.read_bytes - was.disk.read_bytes, now.disk.written_bytes - was.disk.written_bytes,
                 now.disk.wait_s - was.disk.wait_s}};
}
