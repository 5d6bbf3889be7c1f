/**
 * Owns libjpeg-turbo's WebAssembly (@cornerstonejs/codec-libjpeg-turbo-8bit), which is loaded at the first JPEG, and
 * decodes JPEGs whose header was checked. A bundle needs libjpegturbowasm_decode.wasm beside it.
 */
import type { LibJpeg } from '@cornerstonejs/codec-libjpeg-turbo-8bit/decodewasmjs';
import type { ServingError } from '../../contract/errors.ts';
import type { Pixels } from './pixels.ts';
import { broken as brokenFile } from './refusal.ts';
import { compileOnce, keepInstance } from './webassembly.ts';

interface Instance {
  readonly library: LibJpeg;
  /** Where the heap begins; the library's stack and static data lie below. */
  readonly heapStart: number;
  /** How often C++ threw, which is how libjpeg reports errors. */
  failures: number;
}

interface JpegDecoder {
  /** @throws bad_input when libjpeg refuses or `expected` is not what it reads; internal when it cannot be loaded */
  decode(jpeg: Uint8Array, expected: { readonly width: number; readonly height: number }): Promise<Pixels>;
  /** Bytes of WebAssembly memory held now. */
  memoryBytes(): number;
}

const WASM = 'libjpegturbowasm_decode.wasm';
/** An instance starts with 50 MiB; one that a large image has grown beyond this limit is replaced. */
const KEPT_MEMORY_BYTES = 128 * 1024 * 1024;
/** Each C++ exception leaks 96 bytes in the instance. */
const KEPT_FAILURES = 10_000;
/**
 * TurboJPEG reports every warning as a failure, without its text. One warning is harmless: stray bytes after the last
 * scan, which some cameras write. libjpeg formats only the first warning of an image, so if this text is on its stack
 * afterwards, there was no other. A different build may not leave it there; then such files are refused, and a test
 * fails.
 */
const HARMLESS_WARNING = Buffer.from('extraneous bytes before marker 0xd9');

/** @param open creates an instance of the library: at the first JPEG, and to replace one */
export function jpegDecoder(open: () => Promise<LibJpeg>): JpegDecoder {
  const kept = keepInstance<Instance>(
    'JPEG',
    async () => {
      const library = await open();
      return { library, heapStart: findHeap(library), failures: 0 };
    },
    ({ library, failures }) => library.HEAPU8.byteLength > KEPT_MEMORY_BYTES || failures >= KEPT_FAILURES,
  );
  return {
    decode: (jpeg, expected) => kept.use((instance) => decodeWith(instance, jpeg, expected)),
    memoryBytes: () => kept.current()?.library.HEAPU8.byteLength ?? 0,
  };
}

export const sharedDecoder: JpegDecoder = jpegDecoder(openLibJpeg);

function decodeWith(
  instance: Instance,
  jpeg: Uint8Array,
  expected: { readonly width: number; readonly height: number },
): Pixels {
  const decoder = new instance.library.JPEGDecoder();
  try {
    decoder.getEncodedBuffer(jpeg.length).set(jpeg);
    if (refuses(instance, () => decoder.readHeader())) throw broken('libjpeg cannot read its header');
    const { width, height, componentCount } = decoder.getFrameInfo();
    // The pixel limit was checked with this project's reading of the header, so libjpeg's must agree.
    if (width !== expected.width || height !== expected.height) {
      throw broken(`its header reads as ${expected.width}x${expected.height} and as ${width}x${height}`);
    }
    if (refuses(instance, () => decoder.decode()) && !wipeWarning(instance)) {
      throw broken('its coded data is damaged');
    }
    const decoded = decoder.getDecodedBuffer();
    const data = new Uint8Array(decoded.buffer, decoded.byteOffset, decoded.length);
    return { width, height, data: componentCount === 1 ? greyToRgb(data) : data };
  } finally {
    decoder.delete();
  }
}

/** Returns true when the library refused the call. Other errors are thrown. */
function refuses(instance: Instance, call: () => void): boolean {
  try {
    call();
    return false;
  } catch (error) {
    if (typeof error !== 'number') throw error;
    instance.failures++;
    return true;
  }
}

/** Address of the first allocation of a fresh instance. */
function findHeap(library: LibJpeg): number {
  const decoder = new library.JPEGDecoder();
  try {
    return decoder.getEncodedBuffer(1).byteOffset;
  } finally {
    decoder.delete();
  }
}

/**
 * Returns true when the harmless warning was on the stack, and wipes it, so that it is not taken for another image's.
 */
function wipeWarning({ library, heapStart }: Instance): boolean {
  const stack = Buffer.from(library.HEAPU8.buffer, 0, heapStart);
  let found = false;
  for (let at = stack.indexOf(HARMLESS_WARNING); at >= 0; at = stack.indexOf(HARMLESS_WARNING, at)) {
    stack.fill(0, at, at + HARMLESS_WARNING.length);
    found = true;
  }
  return found;
}

function broken(why: string): ServingError {
  return brokenFile('JPEG', why);
}

function greyToRgb(grey: Uint8Array): Uint8Array {
  const rgb = new Uint8Array(grey.length * 3);
  for (let from = 0, to = 0; from < grey.length; from++, to += 3) {
    const level = grey[from]!;
    rgb[to] = level;
    rgb[to + 1] = level;
    rgb[to + 2] = level;
  }
  return rgb;
}

/** 5 ms; further instances cost 1 to 2 ms. */
const compiled = compileOnce(new URL(`./${WASM}`, import.meta.url), () =>
  import.meta.resolve('@cornerstonejs/codec-libjpeg-turbo-8bit/decodewasm'),
);

async function openLibJpeg(): Promise<LibJpeg> {
  const [{ module }, { default: factory }] = await Promise.all([
    compiled(),
    import('@cornerstonejs/codec-libjpeg-turbo-8bit/decodewasmjs'),
  ]);
  const silent = () => {};
  return asRenderer(() =>
    factory({
      print: silent,
      printErr: silent,
      instantiateWasm: (imports, done) => {
        const instance = new WebAssembly.Instance(module, imports);
        done(instance);
        return instance.exports;
      },
    }),
  );
}

/**
 * On Node the glue needs `require` and `__dirname`, which an ES module bundle lacks. With `process.type` set as in
 * Electron's renderer and the module passed in, it needs neither. `make` must be synchronous.
 */
function asRenderer<T>(make: () => T): T {
  const before = Object.getOwnPropertyDescriptor(process, 'type');
  Object.defineProperty(process, 'type', { value: 'renderer', configurable: true });
  try {
    return make();
  } finally {
    if (before === undefined) Reflect.deleteProperty(process, 'type');
    else Object.defineProperty(process, 'type', before);
  }
}
