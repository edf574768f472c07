# SPDX-License-Identifier: MIT
"""64 sentences of 5 to 250 tokens, all lengths alike, for measuring: whole words of the vocabulary, each a token.

  python sentences.py VOCABULARY FILE
"""
import random
import sys

SENTENCES, SHORTEST, LONGEST, MARKS = 64, 5, 250, 2   # MARKS: the tokens that each sentence begins and ends with


def main():
    vocabulary, out = sys.argv[1:3]
    with open(vocabulary, encoding="utf-8") as file:
        words = [word for word in file.read().split("\n") if word.isascii() and word.isalpha()]
    draw = random.Random(1)
    lengths = [SHORTEST + (LONGEST - SHORTEST) * i // (SENTENCES - 1) for i in range(SENTENCES)]
    draw.shuffle(lengths)
    with open(out, "w", encoding="ascii") as file:
        for tokens in lengths:
            print(" ".join(draw.choice(words) for _ in range(tokens - MARKS)), file=file)


main()
