"""Decodes images with OpenCV. A line of stdin says which file and how often; a line of stdout has the ms of each time.

The pixels of the last time go into the file of the question's `pixels`, as RGB, for a comparison.
"""

import json
import sys
import time

import cv2
import numpy as np

cv2.setNumThreads(1)
for line in sys.stdin:
    question = json.loads(line)
    data = np.fromfile(question["path"], dtype=np.uint8)
    taken = []
    for _ in range(question["times"]):
        begin = time.perf_counter()
        image = cv2.imdecode(data, cv2.IMREAD_COLOR)
        taken.append((time.perf_counter() - begin) * 1000)
    if "pixels" in question:
        image[:, :, ::-1].tofile(question["pixels"])
    print(json.dumps(taken), flush=True)
