"""Turns a text into the model's input: which of its words it contains. Training and serving use the same function."""
import re

import numpy as np


def words_of(text):
    return re.findall(r"[a-z']+", text.lower())


def features(texts, vocabulary):
    """One row for each text, one column for each word of the vocabulary: 1 where the text has the word."""
    column = {word: i for i, word in enumerate(vocabulary)}
    rows = np.zeros((len(texts), len(vocabulary)))
    for row, text in zip(rows, texts):
        row[[column[word] for word in words_of(text) if word in column]] = 1
    return rows
