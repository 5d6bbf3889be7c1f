"""Makes the *.jsonl.gz beside this file: pictures, and what OpenCV decodes them to.

Each line is {"name", "bytes" in base64, "width", "height", "sha256" of the RGB that
cv2.imdecode(bytes, cv2.IMREAD_COLOR)[..., ::-1] holds}. Run it with the pinned packages:

    python3 -m venv venv
    venv/bin/pip install opencv-python-headless==5.0.0.93 Pillow==13.0.0 numpy==2.4.6
    venv/bin/python test/lib/codecs/image/pictures/make.py
"""

import base64
import gzip
import hashlib
import io
import json
import pathlib
import struct

import cv2
import numpy
from PIL import Image

COUNT = 200
HERE = pathlib.Path(__file__).parent
ORIENTATION = 0x112


def drawing(random, width, height, channels):
    """Slopes, a rectangle and a little noise."""
    x = numpy.arange(width)[None, :, None]
    y = numpy.arange(height)[:, None, None]
    slopes = random.uniform(-6, 6, (2, channels))
    levels = random.uniform(0, 255, channels) + x * slopes[0] + y * slopes[1]
    left, top = random.integers(0, width), random.integers(0, height)
    levels[top : top + 9, left : left + 13] = random.integers(0, 256, channels)
    levels += random.normal(0, random.choice([0, 0, 3, 12]), levels.shape)
    return numpy.clip(levels, 0, 255).astype(numpy.uint8)


def size(random, index):
    """All sizes from 1x1 to 4x4 first, then up to 48x40, odd ones too."""
    return (1 + index % 4, 1 + index // 4) if index < 16 else (int(random.integers(1, 49)), int(random.integers(1, 41)))


def exif(random):
    tags = Image.Exif()
    tags[ORIENTATION] = int(random.integers(1, 9))
    tags[0x10F] = "a maker"
    return tags.tobytes()


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def webp(random, index, lossless):
    width, height = size(random, index)
    channels = 4 if index % 3 == 0 else 3
    image = Image.fromarray(drawing(random, width, height, channels))
    options = {"lossless": lossless, "method": index % 7, "quality": int(random.integers(0, 101))}
    if lossless:
        options["exact"] = index % 2 == 0
        if index % 5 == 1:
            image = image.quantize(int(random.integers(2, 17))).convert("RGB")
    elif channels == 4:
        options["alpha_quality"] = int(random.integers(0, 101))
    if index % 4 == 1:
        options["exif"] = exif(random).removeprefix(b"Exif\0\0")
    if index % 10 == 2:
        options["icc_profile"] = bytes(random.integers(0, 256, 31, dtype=numpy.uint8))
    if index % 10 == 3:
        options["xmp"] = b"<x:xmpmeta/>"
    if index % 10 == 7:
        # The first frame covers part of the canvas where the encoder finds that enough.
        options.update(save_all=True, duration=40, minimize_size=True)
        frames = [drawing(random, width, height, 4) for _ in range(2)]
        frames[0][: height // 2] = 0
        frames[0][:, : width // 3] = 0
        options["append_images"] = [Image.fromarray(frames[1])]
        image = Image.fromarray(frames[0])
    return saved(image, "WEBP", **options)


def adobe(transform):
    return b"\xff\xee" + struct.pack(">H", 14) + b"Adobe" + struct.pack(">HHHB", 100, 0, 0, transform)


def cmyk(random, index):
    """Pillow writes the Adobe marker with transform 0; the same scans with transform 2 are YCCK, without it CMYK."""
    width, height = size(random, index)
    image = Image.fromarray(drawing(random, width, height, 4), "CMYK")
    options = {
        "quality": int(random.integers(5, 101)),
        "subsampling": ["4:4:4", "4:2:2", "4:2:0"][index % 3],
        "progressive": index % 4 >= 2,
        "optimize": index % 2 == 0,
    }
    if index % 5 == 1:
        options["exif"] = exif(random)
    if index % 5 == 2:
        options["restart_marker_blocks"] = int(random.integers(1, 5))
    if index % 5 == 3:
        options["restart_marker_rows"] = 1
    data = saved(image, "JPEG", **options)
    replaced = [adobe(0), adobe(2), b"", adobe(1)][(index // 3) % 4]
    assert data.count(adobe(0)) == 1
    return data.replace(adobe(0), replaced)


SAMPLINGS = [(0x22, 0x11, 0x11, 0x22), (0x21, 0x11, 0x11, 0x21), (0x12, 0x11, 0x11, 0x12), (0x11,) * 4]


def ycck(random, index):
    """Random coefficients, in the samplings and orders of scans that Pillow cannot write."""
    width, height = size(random, index)
    samplings = SAMPLINGS[index % 4]
    across, down = max(s >> 4 for s in samplings), max(s & 15 for s in samplings)
    restart = int(random.integers(0, 4))
    # Codes of one length: 4 bits for the first coefficient, 9 for the others.
    tables = b"\x00" + bytes([0, 0, 0, 12] + [0] * 12) + bytes(range(12))
    tables += b"\x10" + bytes([0] * 8 + [255] + [0] * 7) + bytes(range(255))

    def block():
        category = int(random.integers(0, 7))
        bits = f"{category:04b}" + "".join(random.choice(["0", "1"], category))
        for _ in range(int(random.integers(0, 4))):
            category = int(random.integers(1, 5))
            bits += f"{int(random.integers(0, 9)) << 4 | category:09b}" + "".join(random.choice(["0", "1"], category))
        return bits + f"{0:09b}"

    def packed(bits):
        bits += "1" * (-len(bits) % 8)
        return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8)).replace(b"\xff", b"\xff\0")

    def scan(parts):
        """Reads all components, or one, whose blocks then end with the picture."""
        step = 1 if len(parts) > 1 else 0
        blocks, units = 1, -(-width // (8 * across)) * -(-height // (8 * down))
        if not step:
            h, v = samplings[parts[0]] >> 4, samplings[parts[0]] & 15
            units = -(-(-(-width * h // across)) // 8) * -(-(-(-height * v // down)) // 8)
        else:
            blocks = sum((samplings[part] >> 4) * (samplings[part] & 15) for part in parts)
        intervals, unit = [], 0
        while unit < units:
            count = min(restart or units, units - unit)
            intervals.append(packed("".join(block() for _ in range(count * blocks))))
            unit += count
        data = b"".join((bytes([0xFF, 0xD0 + (i - 1) % 8]) if i else b"") + part for i, part in enumerate(intervals))
        return segment(0xDA, [len(parts), *(b for part in parts for b in (part + 7, 0)), 0, 63, 0]) + data

    scans = [[0, 1, 2, 3]] if index % 3 else [[0], [1], [2], [3]]
    return b"".join(
        [
            b"\xff\xd8",
            [adobe(0), adobe(2)][index % 2],
            segment(0xDB, [0, *random.integers(1, 30, 64)]),
            segment(0xC1, [8, 0, height, 0, width, 4, *(b for i, s in enumerate(samplings) for b in (i + 7, s, 0))]),
            segment(0xC4, tables),
            segment(0xDD, [0, restart]),
            *(scan(parts) for parts in scans),
            b"\xff\xd9",
        ]
    )


def segment(marker, body):
    body = bytes(int(value) for value in body)
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def write(name, make):
    random = numpy.random.default_rng(sum(name.encode()))
    lines = []
    for index in range(COUNT):
        data = make(random, index)
        decoded = cv2.imdecode(numpy.frombuffer(data, numpy.uint8), cv2.IMREAD_COLOR)
        assert decoded is not None, f"{name} {index}"
        height, width = decoded.shape[:2]
        digest = hashlib.sha256(numpy.ascontiguousarray(decoded[..., ::-1]).tobytes()).hexdigest()
        encoded = base64.b64encode(data).decode()
        line = {"name": f"{name} {index}", "bytes": encoded, "width": width, "height": height, "sha256": digest}
        lines.append(json.dumps(line) + "\n")
    packed = gzip.compress("".join(lines).encode(), 9, mtime=0)
    (HERE / f"{name}.jsonl.gz").write_bytes(packed)
    print(name, len(packed), "bytes")


write("webp-lossy", lambda random, index: webp(random, index, lossless=False))
write("webp-lossless", lambda random, index: webp(random, index, lossless=True))
write("cmyk", lambda random, index: (ycck if index % 5 == 4 else cmyk)(random, index))
