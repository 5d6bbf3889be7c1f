"""Serves what train.py has learned. The first argument of `predict` is what `get_model` returned."""
import os

import numpy as np
from wkr_serving.server import WKRHardWorker

from words import features


class Worker(WKRHardWorker):
    def get_model(self, envs, model_dir, model_name, tmp_dir):
        with np.load(os.path.join(model_dir, model_name)) as file:
            return {name: file[name] for name in file.files}

    def predict(self, model, items):
        """An item is `{"title": ..., "review": ...}`; the batch is one multiplication."""
        scores = features([item["review"] for item in items], model["vocabulary"]) @ model["log_share"].T
        shares = np.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        self.record_statistic({"reviews": len(items)})
        return [
            {"title": item["title"], "is": str(model["labels"][row.argmax()]), "share": round(float(row.max()), 2)}
            for item, row in zip(items, shares)
        ]
