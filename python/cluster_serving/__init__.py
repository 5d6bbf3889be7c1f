"""The client of Cluster Serving: `Client`, and `AsyncClient` for asyncio.

    from cluster_serving import Client

    client = Client("http://localhost:10020")
    print(client.predict({"image": "digit-3.png"}).output)

`zoo.serving.client` and `bigdl.serving.client` have the names of the former Python client.
"""
from wkr_serving import __version__

from ._errors import ServingError
from ._many import EnqueueError, Record
from ._results import Enqueued, Outcome, Result
from ._sigv4 import Credentials
from .aio import AsyncClient
from .client import Client
from .stack import Places, connect, find_stack
from .webhook import unwrap

__all__ = ["AsyncClient", "Client", "Credentials", "EnqueueError", "Enqueued", "Outcome", "Places", "Record", "Result",
           "ServingError", "__version__", "connect", "find_stack", "unwrap"]
