#include "lib/data/data_ahead.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* WANTED: neither thread has begun the read. BAD: the sample cannot be read. */
enum state { FREE, WANTED, READING, READY, BAD };
struct slot { int64_t sample; enum state state; bool queued; };

struct data_ahead {
    int64_t n_slots, n_words;
    int32_t *room;
    struct data_ahead_reader reader;
    struct data_ahead_counts counts;
    int64_t last;                        /* the slot that was taken last */
    pthread_mutex_t lock;                /* of all that follows */
    pthread_cond_t work, done;
    struct slot *slots;                  /* [n_slots] */
    int64_t *queue, first, n_queued;     /* [n_slots], a ring: slots in the order in which they were put */
    bool stop;
    pthread_t thread;
};

static int32_t *words_of(const struct data_ahead *a, int64_t slot) { return a->room + slot * a->n_words; }

/* Read a wanted slot. The lock is held before and after, and not during the read. */
static void read_slot(struct data_ahead *a, int64_t slot) {
    struct slot *s = &a->slots[slot];
    s->state = READING;
    pthread_mutex_unlock(&a->lock);
    bool ok = a->reader.read(a->reader.self, s->sample, words_of(a, slot));
    pthread_mutex_lock(&a->lock);
    s->state = ok ? READY : BAD;
    pthread_cond_broadcast(&a->done);
}

/* ---- the thread ---- */
static int64_t next(struct data_ahead *a) {
    while (!a->n_queued && !a->stop) pthread_cond_wait(&a->work, &a->lock);
    if (a->stop) return -1;
    int64_t slot = a->queue[a->first];
    a->first = (a->first + 1) % a->n_slots;
    a->n_queued--;
    a->slots[slot].queued = false;
    return slot;
}

static void *work(void *self) {
    struct data_ahead *a = self;
    pthread_mutex_lock(&a->lock);
    for (int64_t slot; (slot = next(a)) >= 0;)
        if (a->slots[slot].state == WANTED) read_slot(a, slot);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

enum status data_ahead_create(int64_t n_slots, int64_t n_words, int32_t *room, struct data_ahead_reader reader,
                              struct data_ahead **out) {
    struct data_ahead *a = *out = calloc(1, sizeof *a);
    int error;
    if (a) *a = (struct data_ahead){.n_slots = n_slots, .n_words = n_words, .room = room, .reader = reader};
    if (a) a->slots = calloc((size_t)n_slots, sizeof *a->slots);
    if (a) a->queue = calloc((size_t)n_slots, sizeof *a->queue);
    bool ok = a && a->slots && a->queue;
    if (ok) {
        pthread_mutex_init(&a->lock, NULL);
        pthread_cond_init(&a->work, NULL);
        pthread_cond_init(&a->done, NULL);
        if (!(error = pthread_create(&a->thread, NULL, work, a))) return OK;
    }
    if (a) free(a->slots), free(a->queue);
    free(a);
    *out = NULL;
    return ok ? FAIL(E_MEMORY, "cannot start a thread that reads samples: %s; use --data-ahead 0", strerror(error))
              : FAIL(E_MEMORY, "no memory to read samples ahead; use --data-ahead 0");
}

void data_ahead_destroy(struct data_ahead **ahead) {
    struct data_ahead *a = *ahead;
    *ahead = NULL;
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_signal(&a->work);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->work);
    pthread_cond_destroy(&a->done);
    free(a->slots);
    free(a->queue);
    free(a);
}

/* ---- the step ---- */
static void wait_for(struct data_ahead *a, const struct slot *s) {
    while (s->state == READING) pthread_cond_wait(&a->done, &a->lock);
}

void data_ahead_put(struct data_ahead *a, int64_t slot, int64_t sample) {
    struct slot *s = &a->slots[slot];
    pthread_mutex_lock(&a->lock);
    if (s->state == FREE || s->sample != sample) {
        wait_for(a, s);
        s->sample = sample;
        s->state = WANTED;
        if (!s->queued) a->queue[(a->first + a->n_queued++) % a->n_slots] = slot;
        s->queued = true;
        pthread_cond_signal(&a->work);
    }
    pthread_mutex_unlock(&a->lock);
}

void data_ahead_forget(struct data_ahead *a) {
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    for (struct slot *s = a->slots; s < a->slots + a->n_slots; s++) {
        wait_for(a, s);
        s->state = FREE;
    }
    pthread_mutex_unlock(&a->lock);
}

/* Begin at the slot after the last one: steps take samples nearly in the order of slots. */
static int64_t find(const struct data_ahead *a, int64_t sample) {
    for (int64_t i = 1; i <= a->n_slots; i++) {
        int64_t slot = (a->last + i) % a->n_slots;
        if (a->slots[slot].state != FREE && a->slots[slot].sample == sample) return slot;
    }
    return -1;
}

const int32_t *data_ahead_take(struct data_ahead *a, int64_t sample) {
    pthread_mutex_lock(&a->lock);
    int64_t slot = find(a, sample);
    struct slot *s = slot >= 0 ? &a->slots[slot] : NULL;
    a->counts.taken++;
    a->counts.late += !s || s->state == WANTED || s->state == READING;
    if (s) a->last = slot;
    if (s && s->state == WANTED) read_slot(a, slot);
    if (s) wait_for(a, s);
    const int32_t *words = s && s->state == READY ? words_of(a, slot) : NULL;
    pthread_mutex_unlock(&a->lock);
    return words;
}

struct data_ahead_counts data_ahead_counts(const struct data_ahead *a) {
    return a ? a->counts : (struct data_ahead_counts){0, 0};
}
