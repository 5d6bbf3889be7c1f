"""The program of the two servers: it counts the words of a text."""
import os
from collections import Counter

from wkr_serving.server import WKRHardWorker


class Worker(WKRHardWorker):
    def get_model(self, envs, model_dir, model_name, tmp_dir):
        return None

    def predict(self, model, items):
        # The parent of a worker's process is its server.
        return [{"counts": dict(Counter(item.split())), "server": os.getppid()} for item in items]
