/** pngjs has no types; the tests use it as a second opinion on PNG files. */
declare module 'pngjs' {
  export const PNG: {
    readonly sync: {
      /** RGBA, 8 bits. */
      read(bytes: Buffer): { readonly width: number; readonly height: number; readonly data: Buffer };
    };
  };
}
