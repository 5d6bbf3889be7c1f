/**
 * The part we use of the package's Emscripten glue, which comes without types, and of WebAssembly, whose types
 * TypeScript has in its browser library only.
 */
declare module '@cornerstonejs/codec-libjpeg-turbo-8bit/decodewasmjs' {
  /** C++ exceptions arrive in JavaScript as a number. */
  export interface NativeDecoder {
    /** A view into the memory of the instance, dead as soon as that grows. */
    getEncodedBuffer(length: number): Uint8Array;
    readHeader(): void;
    getFrameInfo(): { readonly width: number; readonly height: number; readonly componentCount: number };
    decode(): void;
    /** A copy, 1 byte a pixel for grey, else 3. */
    getDecodedBuffer(): Uint8ClampedArray<ArrayBuffer>;
    delete(): void;
  }

  export interface LibJpeg {
    readonly JPEGDecoder: new () => NativeDecoder;
    /** The whole memory; a new array after every growth. */
    readonly HEAPU8: Uint8Array;
  }

  export interface LibJpegOptions {
    readonly print: () => void;
    readonly printErr: () => void;
    readonly instantiateWasm: (
      imports: WebAssembly.Imports,
      done: (instance: WebAssembly.Instance) => void,
    ) => object;
  }

  const factory: (options: LibJpegOptions) => Promise<LibJpeg>;
  export default factory;
}

declare namespace WebAssembly {
  type Imports = Record<string, Record<string, unknown>>;
  class Module {
    private readonly compiled: true;
  }
  class Instance {
    constructor(module: Module, imports: Imports);
    readonly exports: Record<string, unknown>;
  }
  class Memory {
    constructor(pages: { readonly initial: number });
    readonly buffer: ArrayBuffer;
    grow: (pages: number) => number;
  }
  function compile(bytes: Uint8Array): Promise<Module>;
}
