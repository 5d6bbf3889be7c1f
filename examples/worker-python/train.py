"""Trains a naive Bayes classifier of film reviews, and writes what it has learned to model/reviews.npz."""
import os

import numpy as np

from words import features, words_of

REVIEWS = {
    "good": [
        "A wonderful film, warm and funny",
        "I loved every minute of it",
        "Great actors and a beautiful story",
        "Funny, clever and moving: go and see it",
    ],
    "bad": [
        "Boring and far too long",
        "I left after an hour, what a waste of time",
        "A weak story and terrible actors",
        "Dull, loud and not funny at all",
    ],
}

labels = list(REVIEWS)
texts = [text for label in labels for text in REVIEWS[label]]
classes = np.array([i for i, label in enumerate(labels) for _ in REVIEWS[label]])
vocabulary = sorted({word for text in texts for word in words_of(text)})
present = features(texts, vocabulary)
# How often a word is in the reviews of each class, as if there were one more with it and one without.
share = np.stack([(present[classes == i].sum(0) + 1) / ((classes == i).sum() + 2) for i in range(len(labels))])

os.makedirs("model", exist_ok=True)
np.savez("model/reviews.npz", labels=labels, vocabulary=vocabulary, log_share=np.log(share))
print(f"{len(texts)} reviews, {len(vocabulary)} words")
