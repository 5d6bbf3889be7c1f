from wkr_serving.server import WKRHardWorker


class Worker(WKRHardWorker):
    def get_model(self, envs, model_dir, model_name, tmp_dir):
        """Is called once in each process. What it returns is the first argument of predict."""
        return None

    def predict(self, model, items):
        """Gets what callers sent, and returns as many answers in the same order."""
        return [{"mean": float(sum(item) / len(item))} for item in items]
