#!/usr/bin/env python3
"""How the files of this folder were made: a byte-level BPE of 512 tokens, trained on a text, and what an independent
encoder makes of some nasty strings, with the settings that published models have in tokenizer.json. Needs the package
`tokenizers` (0.23 was used) and `sentencepiece` (0.2.3).

    tests/data/bpe/make.py tinyshakespeare.txt          trains: vocab.json, merges.txt
    tests/data/bpe/make.py                              expected.json, from these
"""
import base64
import io
import json
import os
import sys

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = [
    '',
    'a',
    ' ',
    'the',
    ' the',
    'First Citizen: Before we proceed any further, hear me speak.',
    "it's we're they've I'm you'll he'd 'tis",
    "IT'S WE'LL DON'T",
    "don''t 'sss '' '",
    "'s't're've'm'll'd",
    '  two  three   four    ',
    'trailing spaces   ',
    '   leading',
    ' \t \t tabs\tand\n\n\nnewlines\r\n  \r\n',
    '\n',
    '\n\n \n',
    'a\n b',
    'a \nb',
    '12345 3.14 1,000,000 007',
    'x1y22z333 4th',
    '\u0663\u0664 \xbd \u2167 \xb2',
    'na\xefve caf\xe9 \xfcber \u0141\xf3d\u017a',
    'cafe\u0301 e\u0301\u0323',
    '\u0420\u0443\u0441\u0441\u043a\u0438\u0439 \u0442\u0435\u043a\u0441\u0442',
    '\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3002 \u4e2d\u6587',
    '\u0627\u0644\u0639\u0631\u0628\u064a\u0629',
    '\U0001f600\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea!',
    'nbsp\xa0here \u2003em \u3000ideographic\u2028line\x85next',
    'mongolian\u180evowel \u200bzero \ufeffbom',
    '\x0b\x0c\x1c\x1f control \x00 zero \x7f',
    '$$$ #!/bin/sh -- (a+b)*c != [d]{e}; \\n',
    '_under_score_ snake_case CamelCase',
    'https://example.org/?q=1&r=%20#x',
    '<|endoftext|>',
    'one<|endoftext|>two<|endoftext|><|endoftext|> three',
    '<|endoftext| <|endoftext >',
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
    'hehehehehehethethethe',
    'thethe thou thouthou Thou',
    '\ufffd replacement',
    '\u0130\u0131 \ufb01 \u01c5 \u02b0',
    "IT'\u017f 'S 'Ll",
    '<|im_start|>user\nhi<|im_end|> <|im_end|><|im_start',
    'if x:\n    y  =  the   the\n\n\treturn  \n',
    'A\u030a \u1112\u1161\u11ab \u212b <|A\u030a|> <|\u00c5|>',
    'user_name@HTTPServer/v2.0//x\r\n',
]

QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
DEEPSEEK = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CJK = "[\u4e00-\u9fa5\u0800-\u4e00]+"
CHAT = [AddedToken(text, special=True, normalized=False) for text in ("<|im_start|>", "<|im_end|>")]


def cut(*patterns, prefix=False, use_regex=False):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated") for p in patterns] + [byte_level])


# name: pre-tokenizer, normalizer, added tokens, ignore_merges
KINDS = {
    "gpt2": (pre_tokenizers.ByteLevel(add_prefix_space=False), None, [], False),
    "roberta": (pre_tokenizers.ByteLevel(add_prefix_space=True), None, CHAT, False),
    "smollm": (
        pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        ),
        None, CHAT, False,
    ),
    "numbers": (
        pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.ByteLevel(add_prefix_space=True)]),
        None, [], False,
    ),
    "qwen2": (cut(QWEN2), normalizers.NFC(), CHAT, False),
    "llama3": (cut(LLAMA3), None, CHAT, True),
    "neox": (
        pre_tokenizers.ByteLevel(add_prefix_space=False), normalizers.NFC(),
        [AddedToken(text, normalized=True) for text in ("  ", "   ", "<|\u00c5|>")], False,
    ),
    "deepseek3": (cut(r"\p{N}{1,3}", CJK, DEEPSEEK), None, CHAT, False),
    "nfkc": (cut(QWEN2), normalizers.NFKC(), CHAT, True),
}


def train(text):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=512, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train([text], trainer)
    tokenizer.model.save(HERE)


def merges_across_pieces():
    """A model whose merges cross every border between words, so that each way of cutting gives other tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=["<|endoftext|>"], show_progress=False,
                                  min_frequency=1, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(TEXTS + [text[len(text) // 2:] for text in TEXTS], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    for word in ("\u0120two", "\u0120sss", "ideographic"):  # that no merge makes: for ignore_merges
        assert word not in model["vocab"]
        model["vocab"][word] = len(model["vocab"])
    return model


def expect_pair():
    tokenizer = Tokenizer(models.BPE.from_file(f"{HERE}/vocab.json", f"{HERE}/merges.txt"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return [tokenizer.encode(text).ids for text in TEXTS]


def expect_kind(model, pieces, normalizer, added, whole):
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=model["vocab"], merges=merges, ignore_merges=whole))
    tokenizer.pre_tokenizer = pieces
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.add_tokens(added)
    said = json.loads(tokenizer.to_str())
    del said["model"]["vocab"], said["model"]["merges"]
    return said, [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]


# name: how sentencepiece trains it, after Llama 2's and T5's models. Of two ways to cut a text with one sum of scores,
# versions of sentencepiece take different ones; with these sizes the texts have no such place.
MODELS = {
    "bpe": dict(model_type="bpe", vocab_size=460, byte_fallback=True, split_digits=True, pad_id=-1,
                remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, character_coverage=0.98),
    "unigram": dict(model_type="unigram", vocab_size=220, pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
                    user_defined_symbols=["<|endoftext|>", "\u2581the"], normalization_rule_tsv="rules.tsv"),
}


def expect_sentencepiece(name, options):
    """The model, in base64, and the tokens of each text. The unigram model brings some characters to a normal form."""
    with open("rules.tsv", "w") as f:
        for a, b in (("\n", " "), ("\t", " "), ("\u00e9", "e"), ("\u212b", "A")):
            f.write(f"{ord(a):X}\t{ord(b):X}\n")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 3), model_writer=model, num_threads=1, minloglevel=2,
        **{"normalization_rule_name": "identity", "hard_vocab_limit": False, **options})
    os.remove("rules.tsv")
    tokenizer = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return {"name": name, "tokens": [tokenizer.encode(text) for text in TEXTS], "n": tokenizer.get_piece_size(),
            "model": base64.b64encode(model.getvalue()).decode()}


def expect():
    """pair: tokens of each text by vocab.json and merges.txt. kinds: a tokenizer.json, less the vocab and the merges,
    which are those of "model", and the tokens of each text. sentencepiece: models, and the same."""
    model = merges_across_pieces()
    kinds = []
    for name, kind in KINDS.items():
        said, tokens = expect_kind(model, *kind)
        kinds.append(json.dumps({"name": name, "tokenizer": said, "tokens": tokens}))
    parts = {"texts": TEXTS, "pair": expect_pair(), "model": {k: model[k] for k in ("vocab", "merges")}}
    with open(f"{HERE}/expected.json", "w") as f:
        f.write("{" + "".join(f'"{k}": {json.dumps(v)},\n' for k, v in parts.items()))
        f.write('"kinds": [\n' + ",\n".join(kinds) + "\n],\n")
        models = [json.dumps(expect_sentencepiece(name, options)) for name, options in MODELS.items()]
        f.write('"sentencepiece": [\n' + ",\n".join(models) + "\n]}\n")


if len(sys.argv) > 1:
    train(sys.argv[1])
expect()
