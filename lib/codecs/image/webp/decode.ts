/**
 * Owns libwebp's WebAssembly (icodec), which is loaded at the first WebP, and decodes frames whose size was checked.
 * A bundle needs webp-dec.wasm and webp-dec.mjs, the package's code around it, beside it. As OpenCV, it drops alpha
 * without blending, and shows the first frame of an animation on a black canvas.
 */
import { orient, type Pixels } from '../pixels.ts';
import { inSlices, SliceCount, type Slices } from '../slices.ts';
import { compileOnce, keepInstance } from '../webassembly.ts';
import { broken, type Frame, frameFile, readWebp } from './header.ts';

/** The part of the package's Emscripten code that is used. */
interface Glue {
  /** A copy of the pixels; null for what libwebp refuses. */
  decode(file: Uint8Array): Decoded | null;
}

interface Decoded {
  readonly width: number;
  readonly height: number;
  /** R G B A R G B A ... */
  readonly data: Uint8ClampedArray;
}

type Factory = (options: {
  readonly print: () => void;
  readonly printErr: () => void;
  readonly instantiateWasm: (
    imports: WebAssembly.Imports,
    done: (instance: WebAssembly.Instance) => void,
  ) => object;
}) => Promise<Glue>;

interface Instance {
  readonly glue: Glue;
  readonly memory: WebAssembly.Memory;
  /** libwebp has no known state that survives a picture; after one that it refused, none is trusted to. */
  failed: boolean;
}

const PAGE_BYTES = 65_536;
/** A picture at both limits takes 200 MiB; a hostile one asks for more. */
const MEMORY_BYTES = 256 * 1024 * 1024;
/** An instance starts with 16 MiB; one that a large picture has grown beyond this limit is replaced. */
const KEPT_MEMORY_BYTES = 64 * 1024 * 1024;

const kept = keepInstance<Instance>(
  'WebP',
  openLibWebp,
  ({ memory, failed }) => failed || memory.buffer.byteLength > KEPT_MEMORY_BYTES,
);

/** The caller has compared `readWebp` with the pixel limit. @throws bad_input for a cut or damaged file */
export async function decodeWebp(bytes: Uint8Array): Promise<Pixels> {
  const { width, height, orientation, frame } = readWebp(bytes);
  const file = frameFile(frame);
  const { data } = await kept.use((instance) => decodeFrame(instance, file, frame));
  return orient({ width, height, data: await inSlices(onCanvas(data, frame, width, height)) }, orientation);
}

function decodeFrame(instance: Instance, file: Uint8Array, { width, height }: Frame): Decoded {
  instance.failed = true;
  const decoded = instance.glue.decode(file);
  if (decoded === null) throw broken('libwebp refuses its coded data, or takes too much memory for it');
  if (decoded.width !== width || decoded.height !== height) {
    throw broken(`its header reads as ${width}x${height} and as ${decoded.width}x${decoded.height}`);
  }
  instance.failed = false;
  return decoded;
}

/** RGB without alpha; what the frame does not cover is black. */
function* onCanvas(rgba: Uint8ClampedArray, frame: Frame, width: number, height: number): Slices<Uint8Array> {
  const rgb = new Uint8Array(3 * width * height);
  const slice = new SliceCount();
  for (let y = 0, from = 0; y < frame.height; y++) {
    if (slice.isOver(frame.width)) yield;
    let to = 3 * ((frame.y + y) * width + frame.x);
    for (let x = 0; x < frame.width; x++, from += 4, to += 3) {
      rgb[to] = rgba[from]!;
      rgb[to + 1] = rgba[from + 1]!;
      rgb[to + 2] = rgba[from + 2]!;
    }
  }
  return rgb;
}

const compiled = compileOnce(new URL('./webp-dec.wasm', import.meta.url), () =>
  import.meta.resolve('icodec/webp-dec.wasm'),
);

async function openLibWebp(): Promise<Instance> {
  const { module, url } = await compiled();
  // As a module it needs the ending .mjs where no package.json says so.
  const beside = url.href === new URL('./webp-dec.wasm', import.meta.url).href;
  const code = new URL(beside ? './webp-dec.mjs' : './webp-dec.js', url);
  const { default: factory } = (await import(code.href)) as { readonly default: Factory };
  // The function by which the package gives its pixels.
  Object.assign(globalThis, {
    _icodec_ImageData: (data: Uint8ClampedArray, width: number, height: number) => ({ data, width, height }),
  });
  const silent = () => {};
  let memory: WebAssembly.Memory | undefined;
  const glue = await factory({
    print: silent,
    printErr: silent,
    instantiateWasm: (imports, done) => {
      const instance = new WebAssembly.Instance(module, imports);
      memory = Object.values(instance.exports).find((value) => value instanceof WebAssembly.Memory);
      if (memory !== undefined) boundMemory(memory, MEMORY_BYTES);
      done(instance);
      return instance.exports;
    },
  });
  if (memory === undefined) throw new Error('libwebp has no memory');
  return { glue, memory, failed: false };
}

/**
 * From now on the memory grows no further than `bytes`: an allocation beyond that fails, as if the machine had no more.
 */
export function boundMemory(memory: WebAssembly.Memory, bytes: number): void {
  const grow = memory.grow.bind(memory);
  memory.grow = (pages) => {
    if (memory.buffer.byteLength + pages * PAGE_BYTES > bytes) throw new RangeError('too much memory');
    return grow(pages);
  };
}
