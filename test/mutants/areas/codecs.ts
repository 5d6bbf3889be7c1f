/** Bugs in lib/codecs: sizes and headers that untrusted callers choose. */
import type { Suite } from '../mutant.ts';

const MESSAGE = 'test/lib/codecs/message.test.ts';
const QUEUE = 'test/bad-input/queue.test.ts';
const PREDICT = 'test/bad-input/predict.test.ts';
const PREDICTIONS = 'test/bad-input/predictions.test.ts';
const PROPERTY = 'test/bad-input/codecs.property.test.ts';
const BOMBS = 'test/bad-input/bombs.test.ts';
const JSON_TEXT = 'test/lib/codecs/json.test.ts';
const PNG = 'test/lib/codecs/image/png.test.ts';
const STORED = 'test/lib/codecs/image/bmp-gif-tiff.test.ts';
const JPEG = 'test/lib/codecs/image/jpeg.test.ts';
const LIBJPEG = 'test/lib/codecs/image/libjpeg.test.ts';
const WEBP = 'test/lib/codecs/image/webp.test.ts';
const CMYK = 'test/lib/codecs/image/cmyk.test.ts';
const TENSOR = 'test/lib/codecs/image/tensor.test.ts';
const BASE64 = 'test/lib/codecs/arrow/base64.test.ts';
const RECORD = 'test/lib/codecs/arrow/record/record.test.ts';
const RECORD_REFUSALS = 'test/lib/codecs/arrow/record/refusals.test.ts';
const RESULT = 'test/lib/codecs/arrow/result.test.ts';
const HOSTILE = 'test/lib/codecs/arrow/hostile.test.ts';
const INFERENCE = 'test/lib/codecs/open-inference.test.ts';

export const CODECS: readonly Suite[] = [
  {
    file: 'lib/codecs/numbers/parse.ts',
    tests: ['test/lib/codecs/numbers/numbers.test.ts'],
    bugs: [
      {
        guarantee: 'a body of which not every array could be put back is read by JSON.parse',
        find: 'put === cut.numbers.size ? ',
        replace: 'put <= cut.numbers.size ? ',
      },
      {
        guarantee: 'a text that is written like a mark is a text',
        find: 'return last.includes(ESCAPE) ? undefined : {',
        replace: 'return {',
      },
    ],
  },
  {
    file: 'lib/codecs/numbers/scan.ts',
    tests: ['test/lib/codecs/numbers/numbers.test.ts'],
    bugs: [
      {
        guarantee: 'a number at the end of a window is read whole',
        find: 'const MARGIN = 128;',
        replace: 'const MARGIN = 0;',
      },
      {
        guarantee: 'a row that two parts share is one row',
        find: 'this.#state[ROW] = this.#field(ROW) - bytes;',
        replace: '',
      },
      {
        guarantee: 'a float32 that is no number is refused, and one that is read slowly is a float32',
        find: 'const number = size === 2 ? Math.fround(Number(found)) : Number(found);',
        replace: 'const number = Number(found);',
      },
    ],
  },
  {
    file: 'lib/contract/json-numbers.ts',
    tests: ['test/lib/codecs/numbers/numbers.test.ts'],
    bugs: [
      {
        guarantee: 'doubles are never those that were rounded to float32',
        find: 'this.#parts = this.#reader.again(this.#text)',
        replace: 'this.#parts = this.#parts',
      },
    ],
  },
  {
    file: 'lib/pipeline/numbers.ts',
    tests: ['test/lib/codecs/numbers/numbers.test.ts'],
    bugs: [
      {
        guarantee: 'a number beyond the range of float32 is refused',
        find: ' && !areFinite(data, start, part.length)',
        replace: ' && false',
      },
      {
        guarantee: 'a number that an integer dtype does not hold is refused',
        find: "if (dtype !== 'float64' && !areSame(part, data, start)) return undefined;",
        replace: ';',
      },
      {
        guarantee: 'an integer beyond 2^53 is refused, which JSON.parse has rounded',
        find: '!Number.isSafeInteger(number) ||',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/codecs/csv.ts',
    tests: ['test/lib/codecs/csv.test.ts'],
    bugs: [
      {
        guarantee: 'a table that is no UTF-8 is refused',
        find: 'decodeUtf8(body);',
        replace: 'decodeUtf8(body) ?? Buffer.from(body).toString();',
      },
    ],
  },
  {
    file: 'lib/codecs/base64.ts',
    tests: [BASE64, PROPERTY],
    bugs: [
      {
        guarantee: 'characters that are not base64 are refused',
        find: "if (bytes.write(text, 'base64') !== bytes.length) return undefined;",
        replace: "bytes.write(text, 'base64');",
      },
      {
        guarantee: 'characters beyond ASCII are refused',
        find: 'if (!isAsciiText(text)) return undefined;',
        replace: '',
      },
      {
        guarantee: 'wrong padding is refused',
        find: 'if (digits % 4 === 1 || !padded) return undefined;',
        replace: 'if (digits % 4 === 1) return undefined;',
      },
      {
        guarantee: 'a text that is cut off is refused',
        find: 'if (digits % 4 === 1 || !padded) return undefined;',
        replace: 'if (!padded) return undefined;',
      },
      {
        guarantee: 'white space anywhere is passed over',
        find: 'decodeExactly(withoutWhiteSpace(text), allocate) ??',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/codecs/json.ts',
    tests: [BOMBS, PROPERTY],
    bugs: [
      {
        guarantee: 'a large text that is nested too deeply is refused before it is parsed',
        find: 'if (isIntricate(text)) new JsonStructure(allowed).read(text, mostDepth);',
        replace: '',
      },
      {
        guarantee: 'a text that begins with the mark of a number stays a text',
        find: 'if (text.startsWith(ESCAPED_MARK, start + 1) && !isKey(text, end + 1)) out.add(ESCAPED_MARK);',
        replace: '',
        tests: [JSON_TEXT],
      },
      {
        guarantee: 'a key that begins with the mark of a number stays that key',
        find: ' && !isKey(text, end + 1)) out.add',
        replace: ') out.add',
        tests: [JSON_TEXT],
      },
    ],
  },
  {
    file: 'lib/codecs/json-structure.ts',
    tests: [JSON_TEXT],
    bugs: [
      {
        guarantee: 'brackets within a text do not count as depth',
        find: 'at = endOfText(text, at);',
        replace: '',
      },
      {
        guarantee: 'an escaped quote does not end a text',
        find: 'if (!isEscaped(json, end)) return end;',
        replace: 'return end;',
      },
      {
        guarantee: 'a closing bracket takes one level off',
        find: 'code === CLOSE_ARRAY || code === CLOSE_OBJECT) depth--;',
        replace: 'code === CLOSE_ARRAY) depth--;',
      },
      {
        guarantee: 'the members of objects have a limit',
        find: "refuseOver(this.#members, 'jsonMembers', 'members of objects');",
        replace: '',
      },
      {
        guarantee: 'texts and keys have a limit',
        find: "refuseOver(this.#texts, 'texts', 'texts and keys');",
        replace: '',
      },
      {
        guarantee: 'arrays have a limit',
        find: "refuseOver(this.#arrays, 'jsonArrays', 'arrays');",
        replace: '',
      },
      {
        guarantee: 'objects have a limit',
        find: "refuseOver(this.#objects, 'jsonObjects', 'objects');",
        replace: '',
      },
      {
        guarantee: 'a record of 32 MiB may have as much more',
        find: 'LIMITS[limit] * this.#share',
        replace: 'LIMITS[limit]',
      },
    ],
  },
  {
    file: 'lib/codecs/key-order.ts',
    tests: [JSON_TEXT],
    bugs: [
      {
        guarantee: 'of two lists under one key the last one counts',
        find: 'if (isInList) found.clear();',
        replace: '',
      },
      {
        guarantee: 'keys of deeper objects are no inputs',
        find: 'if (depth > level || ',
        replace: 'if (',
      },
    ],
  },
  {
    file: 'lib/codecs/csv-reader.ts',
    tests: ['test/lib/codecs/csv.test.ts'],
    bugs: [
      {
        guarantee: 'a record is read up to one cell more than is wanted',
        find: 'if (cells.length > most) return { cells, line };',
        replace: '',
        tests: ['test/bad-input/costly.test.ts'],
      },
      {
        guarantee: 'lines within quotes are counted once',
        find: 'code === CARRIAGE_RETURN && text.charCodeAt(this.#at + 1) !== LINE_FEED',
        replace: 'code === CARRIAGE_RETURN',
      },
      {
        guarantee: 'a quote within a cell is refused',
        find: 'if (code === QUOTE) throw',
        replace: 'if (code === 1) throw',
      },
    ],
  },
  {
    file: 'lib/codecs/instances.ts',
    tests: [PREDICT, PREDICTIONS],
    bugs: [
      {
        guarantee: 'a body that is not UTF-8 is refused',
        find: 'decodeUtf8(body);',
        replace: 'decodeUtf8(body) ?? Buffer.from(body).toString();',
      },
      {
        guarantee: 'a byte order mark is passed over',
        find: 'if (text.charCodeAt(0) === BYTE_ORDER_MARK) text = text.slice(1);',
        replace: '',
      },
      {
        guarantee: 'a request has at most 1,000 instances',
        find: 'if (instances.length > LIMITS.instances) {',
        replace: 'if (instances.length > 2 * LIMITS.instances) {',
      },
      {
        guarantee: 'no instances are refused',
        find: 'if (instances.length === 0) throw',
        replace: 'if (instances.length === -1) throw',
      },
      {
        guarantee: 'an instance without inputs is refused',
        find: 'if (names.length === 0) {',
        replace: 'if (names.length === -1) {',
      },
      {
        guarantee: 'an instance has at most 256 inputs',
        find: 'if (names.length > LIMITS.inputsPerRecord) {',
        replace: 'if (names.length > 2 * LIMITS.inputsPerRecord) {',
      },
      {
        guarantee: 'an input name has at most 256 characters',
        find: 'if (name.length > LIMITS.inputNameLength) throw longName(name, `${where}: `);',
        replace: '',
      },
      {
        guarantee: 'an array is no object of inputs',
        find: "typeof value === 'object' && value !== null && !Array.isArray(value)",
        replace: "typeof value === 'object' && value !== null",
      },
      {
        guarantee: 'an instance that is nested too deeply to be written is too_large and no defect',
        find: 'isPlain = checkLevels(value, MOST_LEVELS) && isPlain;',
        replace: ';',
        tests: [PREDICTIONS, PROPERTY, BOMBS],
      },
      {
        guarantee: 'a zero in a message keeps its sign',
        find: "Object.is(value, -0) ? '-0.0' : String(value)",
        replace: 'String(value)',
        tests: [PREDICTIONS],
      },
    ],
  },
  {
    file: 'lib/codecs/message.ts',
    tests: [QUEUE, MESSAGE],
    bugs: [
      {
        guarantee: 'a message says what is wrong without quoting the record into the log',
        find: ".replace(/, (\\.\\.\\.)?\".*$/s, '')",
        replace: '',
        tests: ['test/security/logs.test.ts'],
      },
      {
        guarantee: 'an unreadable record keeps its uri, so that its error has a place',
        find: 'return { uri, inputs: ServingError.from(error) };',
        replace: 'throw error;',
      },
      {
        guarantee: 'a record holds one instance',
        find: 'if (instances.length === 1) return',
        replace: 'if (instances.length >= 1) return',
      },
      {
        guarantee: 'an unknown serde is refused',
        find: 'throw badRequest(`serde ${quoteName(serde)}',
        replace:
          'return decodeArrowRecord(decodeBase64(data, allocate));\n      throw badRequest(`serde ${quoteName(serde)}',
      },
      {
        guarantee: 'data that is cut out of a message holds no escapes',
        find: "if (data.includes('\\\\')) return undefined;",
        replace: '',
      },
      {
        guarantee: "only the record's own data is cut out",
        find: "isObject(record) && record['data'] === MARK",
        replace: 'isObject(record)',
      },
      {
        guarantee: 'an image in a safetensors file is bytes',
        find: "if (tensor.dtype !== 'uint8') throw",
        replace: "if (tensor.dtype === 'string') throw",
      },
      {
        guarantee: 'a record needs an input',
        find: 'if (inputs.size === 0) throw',
        replace: 'if (inputs.size === -1) throw',
      },
      {
        guarantee: 'sparse indices are int32',
        find: "if (indices?.dtype !== 'int32') {",
        replace: 'if (indices === undefined) {',
      },
    ],
  },
  {
    file: 'lib/codecs/safetensors.ts',
    tests: [MESSAGE, QUEUE],
    bugs: [
      {
        guarantee: 'a header that was read before is that of a file of the same length only',
        find: 'last?.bytes === bytes.byteLength && startsWith',
        replace: 'last && startsWith',
      },
      {
        guarantee: 'a header that was read before is compared to its last byte',
        find: 'for (let i = 0; i < head.length; i++)',
        replace: 'for (let i = 0; i < 8; i++)',
      },
      {
        guarantee: 'the header is not longer than the file',
        find: 'Math.min(HEADER_BYTES, bytes.byteLength - 8)',
        replace: 'HEADER_BYTES',
      },
      {
        guarantee: 'the header has at most 1 MiB',
        find: 'Math.min(HEADER_BYTES, bytes.byteLength - 8)',
        replace: 'bytes.byteLength - 8',
      },
      {
        guarantee: 'a file has at least 8 bytes',
        find: 'if (bytes.byteLength < 8) throw',
        replace: 'if (bytes.byteLength < 0) throw',
      },
      {
        guarantee: 'a file has at most 256 tensors',
        find: 'if (entries.length >= LIMITS.inputsPerRecord) {',
        replace: 'if (entries.length >= 2 * LIMITS.inputsPerRecord) {',
        tests: [QUEUE, 'test/bad-input/count.test.ts', MESSAGE],
      },
      {
        guarantee: 'each byte belongs to one tensor',
        find: 'if (used > bodyBytes) throw',
        replace: 'if (used < 0) throw',
      },
      {
        guarantee: 'data_offsets lie within the body',
        find: 'end > bodyBytes || ',
        replace: '',
      },
      {
        guarantee: 'data_offsets fit dtype and shape',
        find: ' || end - start !== expected',
        replace: '',
      },
      {
        guarantee: 'a shape has at most 16 dimensions',
        find: 'shape.length > LIMITS.tensorRank || !isIndexes(offsets)',
        replace: '!isIndexes(offsets)',
      },
      {
        guarantee: 'dimensions and offsets are whole numbers from 0 on',
        find: 'Number.isSafeInteger(item) && item >= 0',
        replace: "typeof item === 'number'",
      },
      {
        guarantee: 'as many texts as the shape says',
        find: ' || elementCount(shape, LIMITS.tensorElements) !== items.length',
        replace: '',
      },
      {
        guarantee: 'the header is UTF-8',
        find: "new TextDecoder('utf-8', { fatal: true })",
        replace: "new TextDecoder('utf-8')",
        tests: [QUEUE, MESSAGE],
      },
      {
        guarantee: 'inputs called "1" and "0" keep their order',
        find: 'objectText([...metadataEntry, ...header])',
        replace: 'JSON.stringify(Object.fromEntries([...metadataEntry, ...header]))',
        tests: ['test/lib/inference/names.test.ts'],
      },
    ],
  },
  {
    file: 'lib/codecs/open-inference/request.ts',
    tests: [INFERENCE, 'test/lib/http/inference-refusals.test.ts'],
    bugs: [
      {
        guarantee: 'the JSON is not longer than the body',
        find: 'if (jsonLength > length) {',
        replace: 'if (jsonLength < 0) {',
      },
      {
        guarantee: 'binary tensors in a body of text are refused',
        find: 'if (jsonLength < length) {',
        replace: 'if (jsonLength > length) {',
      },
      {
        guarantee: 'no byte is left over behind the tensors',
        find: 'if (left > 0) throw',
        replace: 'if (left < 0) throw',
      },
      {
        guarantee: 'a tensor does not go beyond the body',
        find: 'if (size > left) {',
        replace: 'if (size < 0) {',
      },
      {
        guarantee: 'an input is there once',
        find: 'if (names.has(name)) throw',
        replace: 'if (names.size < 0) throw',
      },
      {
        guarantee: 'data and binary_data_size exclude each other',
        find: "if (!isAbsent(fields['data'])) {",
        replace: 'if (false) {',
      },
      {
        guarantee: 'an id has at most 1,024 characters',
        find: 'if (id.length <= LIMITS.uriBytes) return id;',
        replace: 'return id;',
      },
      {
        guarantee: 'a request has at most 256 inputs',
        find: 'if (value.length <= LIMITS.inputsPerRecord) return value;',
        replace: 'return value;',
      },
    ],
  },
  {
    file: 'lib/codecs/open-inference/parameters.ts',
    tests: [INFERENCE],
    bugs: [
      {
        guarantee: 'shared memory is refused',
        find: 'if (shared.every((name) => isAbsent(parameters[name]))) return;',
        replace: 'return;',
      },
      {
        guarantee: 'a sequence is refused, not taken for single requests',
        find: "const isOne = !isAbsent(sequence) && sequence !== 0 && sequence !== '';",
        replace: 'const isOne = false;',
      },
    ],
  },
  {
    file: 'lib/codecs/json.ts',
    tests: [INFERENCE, JSON_TEXT],
    bugs: [
      {
        guarantee: 'a word is no key',
        find: String.raw`15,19})(?![\w.]|\s*:)/g`,
        replace: String.raw`15,19})(?![\w.])/g`,
        tests: [JSON_TEXT],
      },
      {
        guarantee: 'a sign in front of NaN does not join it with a number',
        find: "if (source.endsWith('NaN')) return NaN;",
        replace: "if (source === 'NaN') return NaN;",
        tests: [JSON_TEXT],
      },
      {
        guarantee: 'an infinity keeps its sign',
        find: "source.startsWith('-') ? -INFINITY : INFINITY",
        replace: 'INFINITY',
        tests: [JSON_TEXT],
      },
      {
        guarantee: 'integers beyond 2^53 keep each digit',
        find: 'Number.isSafeInteger(number) || !WHOLE.test(source) ? number : BigInt(source)',
        replace: 'number',
      },
    ],
  },
  {
    file: 'lib/codecs/open-inference/tensor.ts',
    tests: [INFERENCE],
    bugs: [
      {
        guarantee: 'a flag is 0 or 1',
        find: "if (dtype === 'bool') assertFlags(bytes);",
        replace: '',
      },
      {
        guarantee: 'binary_data_size fits dtype and shape',
        find: 'if (expected !== bytes.byteLength) {',
        replace: 'if (expected > bytes.byteLength) {',
      },
    ],
  },
  {
    file: 'lib/codecs/open-inference/texts.ts',
    tests: [INFERENCE],
    bugs: [
      {
        guarantee: 'a shape cannot promise more texts than there are bytes',
        find: 'if (count * LENGTH_BYTES > bytes.byteLength) {',
        replace: 'if (count < 0) {',
      },
      {
        guarantee: 'a text does not go beyond the bytes',
        find: 'if (end > bytes.byteLength) {',
        replace: 'if (end < 0) {',
      },
      {
        guarantee: 'no byte is left over behind the texts',
        find: 'if (at === bytes.byteLength) return texts;',
        replace: 'return texts;',
      },
      {
        guarantee: 'a leading byte order mark of a text stays',
        find: ', ignoreBOM: true',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/codecs/image/png.ts',
    tests: [PNG],
    bugs: [
      {
        guarantee: 'checksums of critical chunks are compared',
        find: '/^[A-Z]/.test(name) && crc32(bytes.subarray(start + 4, end - 4)) !== view.getUint32(end - 4)',
        replace: 'false',
      },
      {
        guarantee: 'a chunk lies within the file',
        find: 'if (end > bytes.length) throw',
        replace: 'if (end < 0) throw',
      },
      {
        guarantee: 'a size of 0 is refused',
        find: 'if (width === 0 || height === 0 || width',
        replace: 'if (width === 0 || width',
      },
      {
        guarantee: 'a colour type has certain depths only',
        find: '|| !type.depths.includes(depth)',
        replace: '',
      },
      {
        guarantee: 'a palette image needs its palette',
        find: 'if (palette === undefined && header.colourType === PALETTE) throw',
        replace: 'if (palette === null) throw',
      },
      {
        guarantee: 'a PNG has at most 65,536 chunks',
        find: 'if (count >= CHUNKS) throw',
        replace: 'if (count >= 1_000 * CHUNKS) throw',
      },
      {
        guarantee: 'an unknown row filter is refused',
        find: 'if (filter > 4) throw',
        replace: 'if (filter > 400) throw',
      },
      {
        guarantee: 'an unknown critical chunk is refused',
        find: "name === 'IHDR' ? count > 0 : /^[A-Z]/.test(name)",
        replace: "name === 'IHDR' && count > 0",
      },
      {
        guarantee: 'Adam7 images are read pass by pass',
        find: 'const passes = interlace === 1 ? ADAM7 : WHOLE;',
        replace: 'const passes = WHOLE;',
      },
      {
        guarantee: 'the first row has nothing above it',
        find: 'const up = above < 0 ? 0 : above - from;',
        replace: 'const up = above - from;',
      },
      {
        guarantee: 'the Paeth filter takes the left first',
        find: 'if (toLeft <= toTop && toLeft <= toCorner) return left;',
        replace: 'if (toLeft < toTop && toLeft <= toCorner) return left;',
        survives:
          'Equivalent: where both distances are equal, left and top are equal, or the corner is nearer.',
      },
    ],
  },
  {
    file: 'lib/codecs/image/samples.ts',
    tests: [PNG, STORED],
    bugs: [
      {
        guarantee: 'no more is inflated than the header promises',
        find: 'maxOutputLength: expected, chunkSize',
        replace: 'chunkSize',
      },
      {
        guarantee: 'no memory is taken for what the data cannot hold',
        find: 'if (expected <= (packed + 1) * ratio) return;',
        replace: 'if (expected >= 0) return;',
      },
      {
        guarantee: 'image data shorter than promised is refused',
        find: 'if (samples.length < expected) throw',
        replace: 'if (samples.length < 0) throw',
      },
    ],
  },
  {
    file: 'lib/codecs/image/headers.ts',
    tests: [STORED],
    bugs: [
      {
        guarantee: 'a BMP, GIF or TIFF without pixels is refused',
        find: 'if (width < 1 || height < 1) throw',
        replace: 'if (width < -1) throw',
      },
      {
        guarantee: 'a TIFF is refused when its directory is cut',
        find: "assertReaches('TIFF', bytes, directory.end);",
        replace: '',
      },
    ],
  },
  {
    file: 'lib/codecs/image/bmp.ts',
    tests: [STORED],
    bugs: [
      {
        guarantee: 'a BMP is refused when its pixels are cut',
        find: 'packed ? start : start + stride * height',
        replace: 'start',
      },
      {
        guarantee: 'a BMP with masks that OpenCV does not read is refused',
        find: "bits === 32 ? masks === 'ff0000 ff00 ff'",
        replace: 'bits === 32 ? masks !== ""',
      },
      {
        guarantee: 'the runs of a BMP stay within their row',
        find: 'if (x + count > width) throw',
        replace: 'if (x + count < 0) throw',
      },
      {
        guarantee: 'a BMP with runs of 4 bits does not skip pixels',
        find: 'if (bits === 4 && (code === 2',
        replace: 'if (bits === 3 && (code === 2',
      },
      {
        guarantee: 'a palette of a BMP has at most 256 colours',
        find: 'if (used > 256) throw',
        replace: 'if (used > 1_000) throw',
      },
    ],
  },
  {
    file: 'lib/codecs/image/gif.ts',
    tests: [STORED],
    bugs: [
      {
        guarantee: 'the first frame of a GIF lies on its screen',
        find: 'if (frame.left + frame.width > screen.width ||',
        replace: 'if (frame.left > screen.width ||',
      },
      {
        guarantee: 'the first frame of a GIF is shown',
        find: 'found ??= frame;',
        replace: 'found = frame;',
      },
      {
        guarantee: 'a colour that the palette does not have is refused',
        find: 'if (odd !== undefined) throw',
        replace: 'if (index >= 0) continue;',
      },
      {
        guarantee: 'transparent pixels have the colour of the background',
        find: 'if (frame.transparent >= 0) colours.set(backdrop',
        replace: 'if (frame.transparent >= 300) colours.set(backdrop',
      },
      {
        guarantee: 'memory for a frame is taken only when its data can hold it',
        find: "assertHolds('GIF', length, width * height, LZW_RATIO);",
        replace: '',
      },
    ],
  },
  {
    file: 'lib/codecs/image/lzw.ts',
    tests: [STORED],
    bugs: [
      {
        guarantee: 'a code that does not exist yet is refused',
        find: 'if (code >= next) throw',
        replace: 'if (code >= 5_000) throw',
      },
      {
        guarantee: 'no more is written than the header promises',
        find: 'if (end > size) throw',
        replace: 'if (to > size) throw',
      },
      {
        guarantee: 'a literal beyond what the header promises is refused',
        find: 'if (code < clear && to < size) {',
        replace: 'if (code < clear) {',
      },
      {
        guarantee: 'fewer pixels than promised are refused',
        find: 'if (state.to < out.length) throw',
        replace: 'if (state.to < 0) throw',
      },
    ],
  },
  {
    file: 'lib/codecs/image/tiff.ts',
    tests: [STORED],
    bugs: [
      {
        guarantee: 'no more of a TIFF is expanded than the file has',
        find: 'if (packed > bytes.length) throw',
        replace: 'if (packed > 1_000 * bytes.length) throw',
      },
      {
        guarantee: 'a TIFF has at most 32,768 strips',
        find: 'if (!(count <= STRIPS)) throw',
        replace: 'if (count === 0) throw',
      },
      {
        guarantee: 'memory is taken only for what the strips of a TIFF can hold',
        find: "assertHolds('TIFF', packed, width * height * samples, RATIOS.get(compression)!);",
        replace: '',
      },
      {
        guarantee: 'samples of other than 8 bits are refused',
        find: 'if (bits !== 8) throw',
        replace: 'if (bits < 0) throw',
      },
      {
        guarantee: 'alpha that is not yet applied is applied',
        find: 'samples === 4 && extra[0] === 2',
        replace: 'samples === 5',
      },
      {
        guarantee: 'PackBits writes no more than promised',
        find: 'if (to + count > out.length) throw',
        replace: 'if (to > out.length) throw',
      },
    ],
  },
  {
    file: 'lib/codecs/image/jpeg.ts',
    tests: [JPEG],
    bugs: [
      {
        guarantee: 'a JPEG without an end marker is refused',
        find: 'throw cut(bytes);\n}\n\n/** The marker',
        replace: 'return bytes.length;\n}\n\n/** The marker',
      },
      {
        guarantee: 'a JPEG has at most 50 scans',
        find: 'if (scans > most) throw',
        replace: 'if (scans > 1_000 * most) throw',
      },
      {
        guarantee: 'the largest JPEG has at most 20 scans',
        find: 'Math.min(SCANS, Math.floor(SCANNED_PIXELS / (width * height)))',
        replace: 'SCANS',
      },
      {
        guarantee: 'at most 1,000 segments come before the first scan',
        find: 'count < SEGMENTS;',
        replace: 'count < 1_000 * SEGMENTS;',
      },
      {
        guarantee: '12 bits are refused',
        find: 'if (precision !== 8) throw',
        replace: 'if (precision === 0) throw',
      },
      {
        guarantee: 'two frame headers are refused',
        find: "if (frame !== undefined) throw broken('it has two frame headers');",
        replace: '',
      },
      {
        guarantee: 'a size of 0 is refused',
        find: 'if (width === 0 || height === 0) throw',
        replace: 'if (width === 0) throw',
      },
      {
        guarantee: 'a segment lies within the file',
        find: 'if (at + 2 + length > bytes.length) throw cut(bytes);',
        replace: '',
      },
      {
        guarantee: 'the first EXIF orientation counts',
        find: 'orientation ??= exifOrientation',
        replace: 'orientation = exifOrientation',
      },
    ],
  },
  {
    file: 'lib/codecs/image/libjpeg.ts',
    tests: [LIBJPEG, JPEG],
    bugs: [
      {
        guarantee: 'the limit was held against the size that libjpeg reads too',
        find: 'if (width !== expected.width || height !== expected.height) {',
        replace: 'if (false) {',
      },
      {
        guarantee: 'damaged data are refused',
        find: 'if (refuses(instance, () => decoder.decode()) && !wipeWarning(instance)) {',
        replace: 'if (refuses(instance, () => decoder.decode()) && false) {',
      },
      {
        guarantee: 'an instance that a large image has grown is not kept',
        find: 'library.HEAPU8.byteLength > KEPT_MEMORY_BYTES || failures',
        replace: 'failures',
      },
      {
        guarantee: 'an instance that failed too often is not kept',
        find: ' || failures >= KEPT_FAILURES',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/codecs/image/webassembly.ts',
    tests: [LIBJPEG],
    bugs: [
      {
        guarantee: 'an instance that trapped is not used again',
        find: '        drop();\n        throw badInput',
        replace: '        throw badInput',
      },
    ],
  },
  {
    file: 'lib/codecs/image/webp/header.ts',
    tests: [WEBP],
    bugs: [
      {
        guarantee: 'a frame is as large as the canvas, whose pixels were counted',
        find: ': frame.width !== width || frame.height !== height',
        replace: ': false',
      },
      {
        guarantee: 'the frame of an animation lies on its canvas',
        find: '? frame.x + frame.width > width || frame.y + frame.height > height',
        replace: '? false',
      },
      {
        guarantee: 'a WebP reaches as far as it says',
        find: 'if (end > bytes.length) throw broken(`it ends at byte ${bytes.length}, before its end`);',
        replace: '',
      },
      {
        guarantee: 'a chunk lies within the file',
        find: "if (end > bytes.length) throw broken('it ends inside a chunk');",
        replace: '',
      },
      {
        guarantee: 'a WebP has at most 65,536 chunks',
        find: 'if (chunks.length >= CHUNKS) throw',
        replace: 'if (chunks.length >= 2 * CHUNKS) throw',
      },
      {
        guarantee: 'EXIF counts only where the header says so',
        find: '(flags & EXIF_FLAG) === 0 ? undefined',
        replace: '(flags & EXIF_FLAG) !== 0 ? undefined',
      },
    ],
  },
  {
    file: 'lib/codecs/image/webp/decode.ts',
    tests: [WEBP],
    bugs: [
      {
        guarantee: 'what libwebp refuses is refused',
        find: 'if (decoded === null) throw broken',
        replace:
          'if (decoded === null) return { width, height, data: new Uint8ClampedArray(4 * width * height) };',
      },
      {
        guarantee: 'the memory of libwebp is bounded',
        find: '* PAGE_BYTES > bytes) throw',
        replace: '* PAGE_BYTES > 100 * bytes) throw',
      },
      {
        guarantee: 'the frame of an animation has its place',
        find: 'let to = 3 * ((frame.y + y) * width + frame.x);',
        replace: 'let to = 3 * (y * width);',
      },
    ],
  },
  {
    file: 'lib/codecs/image/cmyk/decode.ts',
    tests: [CMYK],
    bugs: [
      {
        guarantee: 'at most 14 scans hold all components',
        find: '++wholeScans > WHOLE_SCANS',
        replace: '++wholeScans > 100 * WHOLE_SCANS',
      },
      {
        guarantee: 'two frame headers are refused',
        find: 'if (frame !== undefined) throw damaged();',
        replace: '',
      },
      {
        guarantee: 'without the marker of Adobe it is CMYK, with an unknown one YCCK',
        find: 'isYcck = body[11] !== 0;',
        replace: 'isYcck = body[11] === 2;',
      },
    ],
  },
  {
    file: 'lib/codecs/image/cmyk/bits.ts',
    tests: [CMYK],
    bugs: [
      {
        guarantee: 'no pixels are made of bits that are not there',
        find: 'if (this.#count < this.#missing) throw damaged();',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/codecs/image/cmyk/scan.ts',
    tests: [CMYK],
    bugs: [
      {
        guarantee: 'a run of 16 zeros does not end a block',
        find: 'if (bits === 0 && symbol !== 0xf0) return;',
        replace: 'if (bits === 0) return;',
      },
    ],
  },
  {
    file: 'lib/codecs/image/image.ts',
    tests: [TENSOR],
    bugs: [
      {
        guarantee: 'an image over 16.7 megapixels is refused before it is decoded',
        find: "checkPixels('an image of', size.width, size.height);",
        replace: '',
        tests: [TENSOR, PNG, BOMBS],
      },
      {
        guarantee: 'a target over 16.7 megapixels is refused',
        find: "checkPixels('an image resized to', width, height);",
        replace: '',
      },
      {
        guarantee: 'an image over 32 MiB is refused',
        find: 'if (bytes.length > LIMITS.imageBytes) throw',
        replace: 'if (bytes.length > 100 * LIMITS.imageBytes) throw',
        tests: [TENSOR, JPEG],
      },
      {
        guarantee: 'channels are in the order BGR by default, as in the old contract',
        find: "channels: 'bgr',\n  layout: 'chw',",
        replace: "channels: 'rgb',\n  layout: 'chw',",
        tests: [TENSOR, 'test/lib/codecs/image/golden.test.ts'],
      },
      {
        guarantee: 'every pixel has its values: the memory of a tensor is not zeroed before',
        find: 'end: behind * step, step',
        replace: 'end: (behind - 1) * step, step',
      },
      {
        guarantee: 'red and blue change places in HWC too',
        find: 'table2![row[from + 2 - red]!]',
        replace: 'table2![row[from + 2]!]',
      },
      {
        guarantee: 'the grey of OpenCV is rounded',
        find: '+ 16_384) >> 15',
        replace: ') >> 15',
        tests: [TENSOR, 'test/lib/codecs/image/golden.test.ts'],
      },
    ],
  },
  {
    file: 'lib/codecs/image/formats.ts',
    tests: [TENSOR],
    bugs: [
      {
        guarantee: 'SVG is named, and not read',
        find: "if (SVG.test(head)) return 'SVG';",
        replace: '',
        tests: [TENSOR, PREDICT],
      },
    ],
  },
  {
    file: 'lib/codecs/arrow/record.ts',
    tests: [RECORD_REFUSALS, RECORD],
    bugs: [
      {
        guarantee: 'a record is one batch',
        find: 'batch === undefined || batches.length > 1',
        replace: 'batch === undefined',
      },
      {
        guarantee: 'a record has at most 256 inputs',
        find: 'if (fields.length > LIMITS.inputsPerRecord) {',
        replace: 'if (fields.length > 2 * LIMITS.inputsPerRecord) {',
      },
      {
        guarantee: 'two columns of one name are refused',
        find: "if (inputs.has(field.name)) throw badRequest('expected one column of this name, got two');",
        replace: '',
      },
      {
        guarantee: 'shape and values agree',
        find: 'if (count !== values.data.length) {',
        replace: 'if (count < 0) {',
      },
      {
        guarantee: 'null values are refused',
        find: 'if (nulls !== 0) throw badRequest(`expected no null values',
        replace: 'if (nulls < 0) throw badRequest(`expected no null values',
      },
      {
        guarantee: 'a sparse tensor has as many indices as values and dimensions',
        find: 'if (indices.length !== count * dims.length) {',
        replace: 'if (indices.length < 0) {',
        tests: [RECORD_REFUSALS, QUEUE],
      },
      {
        guarantee: 'a sparse tensor without values stays sparse',
        find: 'if (indicesShape.length === 0 && indices.length === 0) {',
        replace: 'if (indices.length === 0) {',
      },
      {
        guarantee: 'a shape has at most 16 dimensions',
        find: 'if (data.length > LIMITS.tensorRank) {',
        replace: 'if (data.length > 1_000 * LIMITS.tensorRank) {',
      },
      {
        guarantee: 'an unknown field of the struct is refused',
        find: 'if (parts[name] !== undefined) throw',
        replace: 'if (parts[name] === null) throw',
      },
    ],
  },
  {
    file: 'lib/codecs/arrow/stream.ts',
    tests: [HOSTILE, RECORD_REFUSALS],
    bugs: [
      {
        guarantee: 'a message body lies within the bytes',
        find: 'if (bodyLength > rest.length) {',
        replace: 'if (bodyLength < 0) {',
      },
      {
        guarantee: 'the metadata lie within the bytes',
        find: 'if (start + length > bytes.length) {',
        replace: 'if (start + length < 0) {',
      },
      {
        guarantee: 'a buffer lies within its body',
        find: 'offset + length > body.length || bytes > length',
        replace: 'bytes > length',
      },
      {
        guarantee: 'a buffer is as long as what is read of it',
        find: 'offset + length > body.length || bytes > length',
        replace: 'offset + length > body.length',
      },
      {
        guarantee: 'each byte belongs to one buffer',
        find: 'if (this.#used > body.length) {',
        replace: 'if (this.#used < 0) {',
        tests: [HOSTILE, BOMBS, 'test/bad-input/count.test.ts', QUEUE],
      },
      {
        guarantee: 'text offsets ascend',
        find: 'if (start < 0 || end < start) {',
        replace: 'if (start < 0) {',
      },
      {
        guarantee: 'a compressed body is refused',
        find: 'if (compressionAt !== 0) {',
        replace: 'if (compressionAt === -1) {',
        tests: ['test/lib/codecs/arrow/pyarrow.test.ts'],
      },
      {
        guarantee: 'a stream has at most 1,024 batches',
        find: 'if (batches.length === LIMITS.arrowBatches) {',
        replace: 'if (batches.length === 10 * LIMITS.arrowBatches) {',
        tests: [RESULT, HOSTILE, RECORD_REFUSALS, QUEUE],
      },
      {
        guarantee: 'dictionaries are refused',
        find: 'if (field.node >= this.#nodes.count) {',
        replace: 'if (field.node < 0) {',
        tests: [HOSTILE, RECORD_REFUSALS],
      },
      {
        guarantee: 'a batch has as many buffers as its schema says',
        find: 'if (buffer >= this.#buffers.count) {',
        replace: 'if (buffer < 0) {',
        tests: [HOSTILE, RECORD_REFUSALS],
      },
      {
        guarantee: 'metadata of other versions are refused',
        find: 'if (version !== V4 && version !== V5) {',
        replace: 'if (version > V5) {',
        tests: [RECORD_REFUSALS, HOSTILE],
      },
    ],
  },
  {
    file: 'lib/codecs/arrow/flatbuffers.ts',
    tests: [HOSTILE, RECORD_REFUSALS],
    bugs: [
      {
        guarantee: 'every read is checked against the end of the metadata',
        find: 'if (at < 0 || at + size > this.#bytes.length) {',
        replace: 'if (at < 0) {',
      },
      {
        guarantee: 'a negative length is corrupt',
        find: 'if (high < 0 || high > 0x1f_ffff) {',
        replace: 'if (high > 0x1f_ffff) {',
      },
      {
        guarantee: 'a vector lies within the metadata',
        find: 'this.#check(vector + 4, count * itemBytes);',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/codecs/arrow/result.ts',
    tests: [RESULT],
    bugs: [
      {
        guarantee: 'a shape with more dimensions than elements comes back whole',
        find: 'if (shape.length <= count) return',
        replace: 'if (shape.length <= 16) return',
      },
      {
        guarantee: 'the data column has no nulls',
        find: 'if (nulls !== 0) throw',
        replace: 'if (nulls < 0) throw',
      },
      {
        guarantee: 'shape and values agree',
        find: 'if (count !== data.length) {',
        replace: 'if (count < 0) {',
      },
      {
        guarantee: 'the shape column is padded with nulls, as the old client reads it',
        find: 'rows - dims.length, true)',
        replace: '0, true)',
      },
      {
        guarantee: 'a tensor whose data do not fit its shape is refused',
        find: 'if (count !== output.data.length) {',
        replace: 'if (count < 0) {',
      },
      {
        guarantee: 'a result has at most 1,024 outputs',
        find: 'if (outputs.length > LIMITS.arrowBatches) throw',
        replace: 'if (outputs.length > 10 * LIMITS.arrowBatches) throw',
      },
    ],
  },
  {
    file: 'lib/codecs/quote.ts',
    tests: [PREDICT, QUEUE],
    bugs: [
      {
        guarantee: 'a message quotes at most 80 characters of a name',
        find: 'name.length > LONGEST ?',
        replace: 'name.length > 100_000_000 ?',
        tests: [PREDICT, QUEUE, 'test/lib/http/inference-refusals.test.ts'],
      },
      {
        guarantee: 'a message lists at most eight names',
        find: 'const MOST_NAMES = 8;',
        replace: 'const MOST_NAMES = 8_000;',
        tests: [PREDICT, QUEUE, 'test/lib/http/inference-refusals.test.ts'],
      },
    ],
  },
];
