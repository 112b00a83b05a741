/* Transfers by threads that wait in pread and pwrite: this engine works on every file system. */
#include "lib/device/disk_private.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { N_THREADS = 2 };                  /* one reads while the other writes */

struct threads {
    struct disk *disk;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct disk_io *first, *last;        /* transfers that wait for a thread, in order */
    bool stop;
    pthread_t thread[N_THREADS];
    int n;
};

static int64_t carry_out(struct disk *d, const struct disk_io *io) {
    int64_t at = disk_offset(d, io->place) + io->moved;
    char *memory = (char *)io->memory + io->moved;
    size_t bytes = (size_t)(io->bytes - io->moved);
    int64_t n = io->write ? d->calls->write(d->fd, memory, bytes, at) : d->calls->read(d->fd, memory, bytes, at);
    return n < 0 ? -errno : n;
}

static struct disk_io *next(struct threads *t) {
    while (!t->first && !t->stop) pthread_cond_wait(&t->work, &t->lock);
    struct disk_io *io = t->first;
    if (io) t->first = io->next;
    return io;
}

static void *work(void *self) {
    struct threads *t = self;
    struct disk_io *io;
    pthread_mutex_lock(&t->lock);
    while ((io = next(t))) {
        pthread_mutex_unlock(&t->lock);
        int64_t result = carry_out(t->disk, io);
        pthread_mutex_lock(&t->lock);
        io->result = result;
        __atomic_store_n(&io->done, true, __ATOMIC_RELEASE);
        pthread_cond_broadcast(&t->done);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static void threads_close(struct disk *d) {
    struct threads *t = d->self;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < t->n; i++) pthread_join(t->thread[i], NULL);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->work);
    pthread_cond_destroy(&t->done);
    free(t);
}

static enum status threads_open(struct disk *d) {
    struct threads *t = d->self = calloc(1, sizeof *t);
    if (!t) return FAIL(E_MEMORY, "no memory for the threads of an offload file");
    t->disk = d;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->work, NULL);
    pthread_cond_init(&t->done, NULL);
    for (int i = 0, error; i < N_THREADS; i++, t->n++) {
        if (!(error = pthread_create(&t->thread[i], NULL, work, t))) continue;
        threads_close(d);
        return FAIL(E_MEMORY, "cannot start a thread for the offload file: %s", strerror(error));
    }
    return OK;
}

static enum status threads_start(struct disk *d, struct disk_io *io) {
    struct threads *t = d->self;
    pthread_mutex_lock(&t->lock);
    io->next = NULL;
    *(t->first ? &t->last->next : &t->first) = io;
    t->last = io;
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->lock);
    return OK;
}

static enum status threads_wait(struct disk *d, struct disk_io *io) {
    struct threads *t = d->self;
    if (__atomic_load_n(&io->done, __ATOMIC_ACQUIRE)) return OK;
    pthread_mutex_lock(&t->lock);
    while (!__atomic_load_n(&io->done, __ATOMIC_ACQUIRE)) pthread_cond_wait(&t->done, &t->lock);
    pthread_mutex_unlock(&t->lock);
    return OK;
}

const struct disk_engine disk_threads = {"threads", threads_open, threads_start, threads_wait, threads_close};
