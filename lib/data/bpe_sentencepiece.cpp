/* sentencepiece's models: tokenizer.model of Llama 2 and Mistral, T5's spiece.model. A model is a list of pieces with
 * their scores and a normal form. Unigram takes the pieces of a text whose scores have the highest sum; BPE merges the
 * pair of neighbors with the highest score. Google's library computes both, and this file passes texts to
 * it; a build without the library leaves the file out. The library is in C++: its exceptions end here.
 *
 * A text is encoded whole: the blank before its first word and the removal of blanks belong to a text, not to a line.
 * What is no UTF-8 becomes U+FFFD first. A control token (<s>, </s>) in a text is plain text. The model writes a blank
 * as U+2581, and a byte as <0x0A>.
 *
 * Source: Kudo and Richardson 2018; google/sentencepiece, src/sentencepiece_processor.cc */
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <sentencepiece_processor.h>
extern "C" {
#include "lib/data/bpe_private.h"
#include "lib/data/data_private.h"
}

using Model = sentencepiece::SentencePieceProcessor;

namespace {

const int64_t MOST_TEXT = 1 << 30;

/* Call a function that may throw, and turn an exception into a status. */
template <class F> enum status guarded(const char *what, F run) {
    try {
        return run();
    } catch (const std::bad_alloc &) {
        return FAIL(E_MEMORY, "no memory for sentencepiece to %s; close other programs", what);
    } catch (const std::exception &e) {
        return FAIL(E_FORMAT, "sentencepiece cannot %s: %.200s; get the file again", what, e.what());
    }
}

/* The bytes of a token. */
std::string bytes_of(const Model &model, int id) {
    const std::string &piece = model.IdToPiece(id);
    if (model.IsByte(id)) return std::string(1, (char)std::stoi(piece.substr(3, 2), nullptr, 16));
    std::string bytes;
    for (size_t i = 0; i < piece.size(); i++) {
        bool blank = !model.IsControl(id) && !piece.compare(i, 3, "\xE2\x96\x81");
        bytes += blank ? ' ' : piece[i];
        i += blank ? 2 : 0;
    }
    return bytes;
}

enum status take_tokens(struct bpe *b, const char *path, const Model &model) {
    int64_t n = model.GetPieceSize();
    if (n < 1 || n > BPE_MOST_TOKENS)
        return FAIL(E_FORMAT, "%s has %lld tokens, and the limits are 1 and %d; get the file again", path, (long long)n,
                    BPE_MOST_TOKENS);
    std::string all;
    b->bytes_at = (int64_t *)calloc((size_t)n + 1, sizeof *b->bytes_at);
    if (!b->bytes_at) throw std::bad_alloc();
    for (int id = 0; id < n; id++) {
        all += bytes_of(model, id);
        b->bytes_at[id + 1] = (int64_t)all.size();
    }
    b->bytes = (char *)malloc(all.size() + 1);
    if (!b->bytes) throw std::bad_alloc();
    memcpy(b->bytes, all.data(), all.size());
    b->n_tokens = (int32_t)n;
    b->end_of_text = model.eos_id();
    return OK;
}

/* The pieces are a model's first field, and the library takes defaults for the others: without the trainer's settings
 * (field 2) and the normal form's (field 3) the file has been cut. All three are a tag, a length and bytes. */
bool is_whole(const unsigned char *at, const unsigned char *end) {
    bool has[4] = {};
    while (at < end) {
        uint64_t n = 0;
        int tag = *at++, shift = 0;
        if ((tag & 7) != 2 || tag > 127) break;
        if (tag >> 3 < 4) has[tag >> 3] = true;
        for (; at < end && *at & 0x80 && shift < 56; shift += 7) n |= (uint64_t)(*at++ & 0x7f) << shift;
        if (at < end) n |= (uint64_t)*at++ << shift;
        if (n > (uint64_t)(end - at)) return false;
        at += n;
    }
    return has[1] && has[2] && has[3];
}

enum status read_map(struct bpe *b, const char *path, const struct data_map *map) {
    std::unique_ptr<Model> model(new Model);
    if (!is_whole(map->at, map->at + map->bytes))
        return FAIL(E_FORMAT, "%s begins as a model of sentencepiece and is no whole one; get the file again", path);
    auto said = model->LoadFromSerializedProto(absl::string_view((const char *)map->at, (size_t)map->bytes));
    if (!said.ok())
        return FAIL(E_FORMAT, "%s: sentencepiece does not read this model: %.200s; get the file again", path,
                    said.ToString().c_str());
    TRY(take_tokens(b, path, *model));
    b->model = model.release();
    return OK;
}

enum status read(struct bpe *b, const char *path) {
    struct data_map map = {};
    enum status status = data_map(path, "--tokenizer", &map);
    if (status == OK) status = guarded("read a model", [&] { return read_map(b, path, &map); });
    data_unmap(&map);
    return status;
}

enum status encode(struct bpe *b, const char *text, int64_t bytes, bpe_sink *sink, void *self) {
    if (bytes > MOST_TEXT)
        return FAIL(E_DATA, "a text of %lld bytes, and sentencepiece takes at most %lld in one; make several files of "
                            "it",
                    (long long)bytes, (long long)MOST_TEXT);
    std::vector<int> tokens;
    TRY(guarded("encode a text", [&] {
        auto said = ((Model *)b->model)->Encode(absl::string_view(text, (size_t)bytes), &tokens);
        return said.ok() ? OK : FAIL(E_DATA, "sentencepiece does not encode a text: %.200s", said.ToString().c_str());
    }));
    return tokens.empty() ? OK : sink(self, tokens.data(), (int64_t)tokens.size());
}

void close(struct bpe *b) { delete (Model *)b->model; }

} // namespace

extern "C" const struct bpe_library bpe_sentencepiece = {read, encode, close};
