/** Writes the smallest TIFF block with an EXIF orientation, in either byte order. */
export function orientationBlock(orientation: number, littleEndian: boolean): Buffer {
  const block = Buffer.alloc(26);
  const view = new DataView(block.buffer, block.byteOffset, block.length);
  block.write(littleEndian ? 'II' : 'MM', 'latin1');
  view.setUint16(2, 42, littleEndian);
  view.setUint32(4, 8, littleEndian);
  view.setUint16(8, 1, littleEndian);
  view.setUint16(10, 0x0112, littleEndian);
  view.setUint16(12, 3, littleEndian);
  view.setUint32(14, 1, littleEndian);
  view.setUint16(18, orientation, littleEndian);
  return block;
}
