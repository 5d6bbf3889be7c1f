/** Texts that are no base64, and bytes that are no image that is served. The models take 3x8x8 or 1x8x8 a row. */
import type { ErrorCode } from '../../../../lib/contract/errors.ts';
import { smallJpeg } from '../../../support/jpegs.ts';
import { pngChunk, pngFile, pngHeader, writePng } from '../../../support/png.ts';
import type { InstanceCase } from '../cases.ts';
import { b64, greyPng, headerJpeg, headerPng, jpegSegment, withImage } from '../encoded-images.ts';
import { DOT, type ModelName } from '../models.ts';

const text = (name: string, value: string, message: RegExp, code: ErrorCode = 'bad_input'): InstanceCase => [
  name,
  'image',
  () => `{"x":${JSON.stringify(value)}}`,
  code,
  message,
];

const NOT_BASE64 = /^input "x": expected a base64 image: base64: /;
const cutOff = /expected a base64 image: base64: cut off at position \d+: \d+ characters are no whole bytes/;

export const BASE64: readonly InstanceCase[] = [
  text('a character that is none of base64', 'iVBO*w0K', /base64: unexpected "\*" at position 4 of 8/),
  text('a sentence', 'not base64!', /unexpected "!" at position 10 of 11/),
  text('a file name', './cat.jpeg', /unexpected "\." at position 0/),
  text('an address', 'https://example.com/cat.png', /unexpected ":" at position 5/),
  text(
    'an address of the instance itself',
    'http://169.254.169.254/latest/meta-data/',
    /unexpected ":" at position 4/,
  ),
  text('a file address', 'file:///etc/passwd', /unexpected ":" at position 4/),
  text('percent signs', 'iVBORw0K%3D', /unexpected "%" at position 8/),
  text('a letter that is not ASCII', 'iVBORw0Ł', /unexpected "Ł" at position 7/),
  text('an emoji', 'iVBO😀', /unexpected "😀" at position 4/),
  text('a lone surrogate', 'iVBO\ud83d', /unexpected "\\ud83d" at position 4/),
  text('a NUL', 'iVBO\0w0K', /unexpected "\\u0000" at position 4/),
  text('a zero-width space', 'iVBO\u200bw0K', /unexpected "\u200b" at position 4/),
  text('a no-break space', 'iVBO\u00a0w0K', /unexpected "\u00a0" at position 4/),
  text('a byte order mark', '\ufeffiVBO', /unexpected "\ufeff" at position 0/),
  text('one character', 'A', cutOff),
  text('five characters', 'iVBOR', cutOff),
  text('a character less', DOT.slice(0, -3), cutOff),
  text(
    'one pad',
    '=',
    /wrong padding at position 0 of 1; expected "=" only at the end, up to a multiple of 4/,
  ),
  text('pads alone', '====', /wrong padding at position 0/),
  text('three pads', 'A===', /wrong padding at position 1/),
  text('a pad in the middle', 'iV=BORw0K', /wrong padding at position 2/),
  text('a pad too many', 'iVBO=', /wrong padding at position 4/),
  text('two pieces joined', 'iVA=iVBO', /wrong padding at position 3/),
  text('a data address without a comma', `data:image/png;base64${DOT}`, NOT_BASE64),
  text('a data address of percent signs', 'data:image/svg+xml,%3Csvg/%3E', /unexpected "%" at position 0/),
  text('a data address with nothing', 'data:image/png;base64,', /expected a JPEG, .* image, got 0 bytes/),
  text(
    'a broken text of five million characters',
    `${'A'.repeat(5e6)}*AAA`,
    /unexpected "\*" at position 5000000 of 5000004/,
  ),
  [
    '"b64" that is a number',
    'image',
    '{"x":{"b64":3}}',
    'bad_input',
    /^input "x": "b64": expected a text, got 3/,
  ],
  ['"b64" that is null', 'image', '{"x":{"b64":null}}', 'bad_input', /"b64": expected a text, got null/],
  [
    '"b64" that is an array',
    'image',
    '{"x":{"b64":["iVBO"]}}',
    'bad_input',
    /"b64": expected a text, got an array/,
  ],
  ['"b64" that is broken', 'image', '{"x":{"b64":"iVBO*"}}', 'bad_input', /unexpected "\*" at position 4/],
  [
    '"path", which only the client reads',
    'image',
    '{"x":{"path":"/etc/passwd"}}',
    'bad_input',
    /got an object with \["path"\]/,
  ],
  [
    '"url", which is never fetched',
    'image',
    '{"x":{"url":"http://localhost/"}}',
    'bad_input',
    /got an object with \["url"\]/,
  ],
];

const image = (
  name: string,
  bytes: () => Uint8Array,
  message: RegExp,
  code: ErrorCode = 'bad_input',
  model: ModelName = 'image',
): InstanceCase => [name, model, () => withImage(bytes()), code, message];

const starts = (...parts: (string | number)[]) =>
  Buffer.concat([
    ...parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : Buffer.alloc(part))),
    Buffer.alloc(64),
  ]);

const foreign = (name: string, bytes: Buffer, format: string): InstanceCase =>
  image(
    name,
    () => bytes,
    new RegExp(`^input "x": expected a JPEG, .* image, got ${format}$`),
    'unsupported_media_type',
  );

/** A GIF of 10,000 frames of one pixel. */
const manyFrames = () =>
  Buffer.concat([
    Buffer.from('GIF89a\x01\0\x01\0\0\0\0', 'latin1'),
    Buffer.from('!\xf9\x04\0\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0'.repeat(10_000), 'latin1'),
    Buffer.from(';'),
  ]);

const FORMATS: readonly InstanceCase[] = [
  image('no bytes', () => Buffer.alloc(0), /expected a JPEG, .* image, got 0 bytes/),
  image('one byte', () => Buffer.of(0x89), /got 1 bytes that begin with 0x89$/),
  image('text', () => Buffer.from('hello'), /got 5 bytes that begin with 0x68656c6c6f$/),
  image('zeros', () => Buffer.alloc(1000), /got 1000 bytes that begin with 0x0{16}$/),
  image('a zip', () => starts('PK\x03\x04'), /begin with 0x504b0304/),
  image('a program', () => starts('\x7fELF'), /begin with 0x7f454c46/),
  image('HTML', () => starts('<!doctype html>'), /begin with 0x3c21646f63/),
  image('base64 of base64', () => Buffer.from(DOT), /begin with 0x6956424f/),
  image(
    'a PNG sent as text',
    () => Buffer.from('\x89PNG\n\x1a\n\0\0\0', 'latin1'),
    /begin with 0x89504e470a1a0a00/,
  ),
  image('a GIF of zeros', () => starts('GIF87a'), /broken GIF: its header says 0x0 pixels$/),
  image('a GIF of 10,000 frames', manyFrames, /broken GIF: colour 0 is not in its palette of 0$/),
  image('a WebP of zeros', () => starts('RIFF', 4, 'WEBPVP8 '), /broken WebP: /),
  image('a TIFF of zeros, little-endian', () => starts('II*\0'), /broken TIFF: it ends at byte 68/),
  image('a TIFF of zeros, big-endian', () => starts('MM\0*'), /broken TIFF: it ends at byte 68/),
  image('a BMP of zeros', () => starts('BM'), /broken BMP: its header says 0x0 pixels$/),
  foreign('AVIF', starts(4, 'ftypavif'), 'AVIF'),
  foreign('HEIC', starts(4, 'ftypheic'), 'HEIC'),
  foreign('HEIF', starts(4, 'ftypmif1'), 'HEIC'),
  foreign('JPEG 2000', starts('\0\0\0\x0cjP  '), 'JPEG 2000'),
  foreign('JPEG XL', starts('\xff\x0a'), 'JPEG XL'),
  foreign('PDF', starts('%PDF-1.7'), 'PDF'),
  foreign('SVG', starts('<svg xmlns="http://www.w3.org/2000/svg"/>'), 'SVG'),
  foreign('SVG behind an XML head', starts('<?xml version="1.0"?><svg/>'), 'SVG'),
  foreign('SVG behind a byte order mark', starts('\xef\xbb\xbf \n<SVG/>'), 'SVG'),
  foreign(
    'SVG that includes a file',
    starts('<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>'),
    'SVG',
  ),
];

const HEADER = pngHeader(8, 8, 8, 0, 0);
const idat = (bytes: Uint8Array) => pngChunk('IDAT', bytes);
const good = greyPng(8, 8);
const changed = (at: number, value: number) => {
  const copy = Buffer.from(good);
  copy[at] = value;
  return copy;
};

const PNG: readonly InstanceCase[] = [
  image(
    'PNG: the signature alone',
    () => good.subarray(0, 8),
    /broken PNG: it ends at byte 8, before its end chunk/,
  ),
  image(
    'PNG: cut in its header',
    () => good.subarray(0, 20),
    /broken PNG: it ends at byte 20, inside its IHDR chunk/,
  ),
  image(
    'PNG: cut in its data',
    () => good.subarray(0, -20),
    /broken PNG: it ends at byte \d+, inside its IDAT chunk/,
  ),
  image(
    'PNG: cut before its end',
    () => good.subarray(0, -12),
    /broken PNG: it ends at byte \d+, before its end chunk/,
  ),
  image('PNG: a changed header', () => changed(17, 1), /broken PNG: the checksum of its IHDR chunk is wrong/),
  image('PNG: changed data', () => changed(50, 99), /broken PNG: the checksum of its IDAT chunk is wrong/),
  image(
    'PNG: no header',
    () => pngFile(idat(Buffer.alloc(8))),
    /its first chunk is not a header of 13 bytes/,
  ),
  image(
    'PNG: a header of 12 bytes',
    () => pngFile(pngChunk('IHDR', Buffer.alloc(12))),
    /not a header of 13 bytes/,
  ),
  image('PNG: two headers', () => pngFile(HEADER, HEADER), /broken PNG: unexpected IHDR chunk/),
  image('PNG: no data', () => pngFile(HEADER), /^input "x": broken PNG: /),
  image(
    'PNG: data that is no deflate',
    () => pngFile(HEADER, idat(Buffer.alloc(80, 7))),
    /its image data is damaged \(/,
  ),
  image(
    'PNG: an unknown chunk that it cannot do without',
    () => pngFile(HEADER, pngChunk('ABCD', Buffer.alloc(4))),
    /unexpected ABCD chunk/,
  ),
  image(
    'PNG: a chunk of 4 GB',
    () => Buffer.concat([good.subarray(0, 33), Buffer.of(255, 255, 255, 255), Buffer.from('IDAT')]),
    /broken PNG: it ends at byte \d+/,
  ),
  image('PNG: width 0', () => headerPng(0, 8), /its header says 0x8 pixels/),
  image('PNG: height 2^31', () => headerPng(1, 2 ** 31), /its header says 1x2147483648 pixels/),
  image(
    'PNG: 14000x14000',
    () => headerPng(14_000, 14_000),
    /an image of 14000x14000 pixels is over the limit of 16777216 pixels \(imagePixels\)/,
    'too_large',
  ),
  image(
    'PNG: one row over the limit',
    () => headerPng(4096, 4097),
    /4096x4097 pixels is over the limit/,
    'too_large',
  ),
  image(
    'PNG: 2^31-1 pixels wide',
    () => headerPng(2 ** 31 - 1, 1),
    /2147483647x1 pixels is over the limit/,
    'too_large',
  ),
  image('PNG: 4096x4096 promised, 8 bytes there', () => headerPng(4096, 4096), /^input "x": broken PNG: /),
  image('PNG: 3 bits', () => headerPng(8, 8, 3), /colour type 0 with 3 bits does not exist/),
  image('PNG: colour type 5', () => headerPng(8, 8, 8, 5), /colour type 5 with 8 bits does not exist/),
  image('PNG: RGB of 4 bits', () => headerPng(8, 8, 4, 2), /colour type 2 with 4 bits does not exist/),
  image('PNG: interlace method 2', () => headerPng(8, 8, 8, 0, 2), /interlace 2 method/),
  image(
    'PNG: a palette image without a palette',
    () => writePng({ width: 8, height: 8, depth: 8, colourType: 3, sample: () => [0] }),
    /^input "x": broken PNG: .*palette/i,
  ),
  image(
    'PNG: row filter 9',
    () =>
      pngFile(
        HEADER,
        idat(Buffer.concat([Buffer.of(0x78, 1, 1, 72, 0, 183, 255), Buffer.alloc(72, 9), Buffer.alloc(4)])),
      ),
    /^input "x": broken PNG: /,
  ),
  image(
    'PNG: 16 bits, cut',
    () =>
      writePng({ width: 8, height: 8, depth: 16, colourType: 2, sample: () => [1, 2, 3] }).subarray(0, -30),
    /broken PNG: it ends at byte/,
  ),
  image(
    'PNG: alpha, cut',
    () =>
      writePng({ width: 8, height: 8, depth: 8, colourType: 6, sample: () => [1, 2, 3, 4] }).subarray(0, -30),
    /broken PNG: it ends at byte/,
  ),
  image(
    'PNG: interlaced, cut',
    () =>
      writePng({
        width: 8,
        height: 8,
        depth: 8,
        colourType: 0,
        interlaced: true,
        sample: () => [1],
      }).subarray(0, -30),
    /broken PNG: it ends at byte/,
  ),
];

const jpeg = smallJpeg('baseline420').bytes;
const end = (bytes: Uint8Array) => Buffer.concat([bytes, Buffer.of(0xff, 0xd9)]);

const JPEG: readonly InstanceCase[] = [
  image(
    'JPEG: three bytes',
    () => jpeg.subarray(0, 3),
    /broken JPEG: it ends at byte 3, before its end marker/,
  ),
  image('JPEG: cut in its header', () => jpeg.subarray(0, 100), /broken JPEG: it ends at byte 100/),
  image(
    'JPEG: cut in its data',
    () => jpeg.subarray(0, -30),
    /broken JPEG: it ends at byte \d+, before its end marker/,
  ),
  image(
    'JPEG: cut, and an end marker put there',
    () => end(jpeg.subarray(0, -20)),
    /broken JPEG: its coded data is damaged/,
  ),
  image(
    'JPEG: progressive, cut',
    () => smallJpeg('progressive').bytes.subarray(0, -30),
    /broken JPEG: it ends at byte/,
  ),
  image(
    'JPEG: start and end alone',
    () => Buffer.of(0xff, 0xd8, 0xff, 0xd9),
    /broken JPEG: unexpected marker 0xd9/,
  ),
  image(
    'JPEG: no marker where one must be',
    () => Buffer.concat([jpeg.subarray(0, 2), Buffer.of(0xff, 0xe0, 0, 2, 0x12, 0x34)]),
    /broken JPEG: no marker at byte 6/,
  ),
  image(
    'JPEG: a segment of length 1',
    () => Buffer.of(0xff, 0xd8, 0xff, 0xe0, 0, 1, 0xff, 0xd9),
    /segment 0xe0 at byte 2 has length 1/,
  ),
  image(
    'JPEG: a scan before the frame',
    () => end(Buffer.concat([Buffer.of(0xff, 0xd8), jpegSegment(0xda, Buffer.alloc(10))])),
    /a scan comes before the frame header/,
  ),
  image(
    'JPEG: two frames',
    () => Buffer.concat([headerJpeg(8, 8).subarray(0, 21), headerJpeg(8, 8).subarray(2)]),
    /it has two frame headers/,
  ),
  image(
    'JPEG: a thousand segments',
    () =>
      end(
        Buffer.concat([
          Buffer.of(0xff, 0xd8),
          ...Array<Buffer>(1001).fill(jpegSegment(0xe0, Buffer.alloc(2))),
        ]),
      ),
    /more than 1000 segments come before its first scan/,
  ),
  image(
    'JPEG: 51 scans',
    () =>
      end(
        Buffer.concat([
          headerJpeg(8, 8).subarray(0, -2),
          ...Array<Buffer>(50).fill(jpegSegment(0xda, Buffer.alloc(10))),
        ]),
      ),
    /it has more than 50 scans/,
  ),
  image('JPEG: width 0', () => headerJpeg(0, 8), /its header says 0x8 pixels/),
  image(
    'JPEG: 65500x65500',
    () => headerJpeg(65_500, 65_500),
    /an image of 65500x65500 pixels is over the limit of 16777216 pixels/,
    'too_large',
  ),
  image(
    'JPEG: 65500x65500, progressive',
    () => headerJpeg(65_500, 65_500, 8, 3, 0xc2),
    /65500x65500 pixels is over the limit/,
    'too_large',
  ),
  image('JPEG: no tables', () => headerJpeg(8, 8), /^input "x": broken JPEG: /),
  image(
    'JPEG: 12 bits',
    () => headerJpeg(8, 8, 12),
    /JPEG of 12 bits a sample is not supported, expected 8 bits/,
    'unsupported_media_type',
  ),
  image(
    'JPEG: two components',
    () => headerJpeg(8, 8, 8, 2),
    /JPEG of 2 components is not supported, expected 1, 3 or 4/,
    'unsupported_media_type',
  ),
  image('JPEG: lossless', () => headerJpeg(8, 8, 8, 3, 0xc3), /^input "x": broken JPEG: /),
  image('JPEG: arithmetic coding', () => headerJpeg(8, 8, 8, 3, 0xc9), /^input "x": broken JPEG: /),
];

const TARGETS: readonly InstanceCase[] = [
  image(
    'for two numbers',
    () => good,
    /^input "x": expected float32 \[2\], got text or an image/,
    'bad_input',
    'pair',
  ),
  image('for a matrix', () => good, /expected float32 \[2,3\], got text or an image/, 'bad_input', 'matrix'),
  image('for flags', () => good, /expected true or false \(bool\), got an image/, 'bad_input', 'flags'),
  [
    'as an object for texts',
    'texts',
    () => `{"x":{"b64":"${b64(good)}"}}`,
    'bad_input',
    /expected string \[n\], got text or an image/,
  ],
  [
    'two for one',
    'image',
    () => `{"x":["${b64(good)}","${b64(good)}"]}`,
    'bad_input',
    /expected a number, got "iVBO/,
  ],
  [
    'a broken one for a grey input',
    'grey',
    () => withImage(good.subarray(0, -12)),
    'bad_input',
    /broken PNG/,
  ],
  ['a broken one for bytes', 'pixels', () => withImage(jpeg.subarray(0, -30)), 'bad_input', /broken JPEG/],
];

export const IMAGES: readonly InstanceCase[] = [...FORMATS, ...PNG, ...JPEG, ...TARGETS];

/** Beginnings of a good PNG and of a good JPEG, 50 each. */
export const CUT_IMAGES: readonly Uint8Array[] = [good, jpeg].flatMap((bytes) =>
  Array.from({ length: 50 }, (_, i) => bytes.subarray(0, Math.floor((i * bytes.length) / 50))),
);
