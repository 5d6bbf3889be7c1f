"""The names of BigDL Cluster Serving 2. `cluster_serving.compat` says what they do."""
from cluster_serving.compat import (API, RESULT_PREFIX, InputQueue, OutputQueue, http_json_to_ndarray,
                                    http_response_to_ndarray)

__all__ = ["API", "RESULT_PREFIX", "InputQueue", "OutputQueue", "http_json_to_ndarray", "http_response_to_ndarray"]
