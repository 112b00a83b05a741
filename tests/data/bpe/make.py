#!/usr/bin/env python3
"""How the files of this folder were made: a byte-level BPE of 512 tokens, trained on a text, and what an independent
encoder makes of some nasty strings. Needs the package `tokenizers` (0.23 was used).

    tests/data/bpe/make.py tinyshakespeare.txt          trains: vocab.json, merges.txt
    tests/data/bpe/make.py                              expected.json, from these
"""
import json
import os
import sys

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

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
]


def train(text):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=512, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train([text], trainer)
    tokenizer.model.save(HERE)


def expect():
    tokenizer = Tokenizer(models.BPE.from_file(f"{HERE}/vocab.json", f"{HERE}/merges.txt"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    rows = [json.dumps({"text": text, "tokens": tokenizer.encode(text).ids}) for text in TEXTS]
    with open(f"{HERE}/expected.json", "w") as f:
        f.write("[\n" + ",\n".join(rows) + "\n]\n")


if len(sys.argv) > 1:
    train(sys.argv[1])
expect()
