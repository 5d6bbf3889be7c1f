/** Boxes as x1, y1, x2, y2. */
export type Box = readonly [number, number, number, number];

/** Intersection over union; with `extra` 1 both ends are pixels of the box. */
export function overlap(a: Box, b: Box, extra = 0): number {
  const width = Math.min(a[2], b[2]) - Math.max(a[0], b[0]) + extra;
  const height = Math.min(a[3], b[3]) - Math.max(a[1], b[1]) + extra;
  if (width <= 0 || height <= 0) return 0;
  const area = (box: Box) => Math.max(0, box[2] - box[0] + extra) * Math.max(0, box[3] - box[1] + extra);
  return (width * height) / (area(a) + area(b) - width * height);
}
