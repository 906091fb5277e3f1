"""The text that the character transformers of the examples learn: sentences of a few words in a fixed order."""
import random

ALPHABET = "\n abcdefghijklmnopqrstuvwxyz.,"  # as in chars.c


def make_text(seed, sentences):
    draw, lines = random.Random(seed), []
    for _ in range(sentences):
        who = draw.choice(["the old sailor", "a small dog", "the tired engineer", "my sister"])
        does = draw.choice(["looks for", "talks about", "carries", "draws"])
        what = draw.choice(["a red house", "the long river", "seven maps", "an empty box"])
        where = draw.choice(["in the rain", "behind the hill", "by the sea", "without a word"])
        lines.append(f"{who} {does} {what}, {where}." if draw.random() < 0.5 else f"{who} {does} {what} {where}.")
    return "\n".join(lines)
