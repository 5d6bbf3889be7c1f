/** The digits model with code before and after it: images go in, and answers come out that a program can act on. */
import { type Tensor, WKROnnxWorker } from 'cluster-serving/worker';

const SIZE = 8;

export class Worker extends WKROnnxWorker {
  /** Of uint8 images, height x width x RGB, makes float32, image x BGR x height x width. */
  override getPreprocess() {
    return (items: unknown): Tensor => {
      const images = (items as readonly Tensor[]).map(pixelsOf);
      this.recordStatistic({ images: images.length });
      const data = Float32Array.from(images.flatMap((image) => [2, 1, 0].flatMap((c) => planeOf(image, c))));
      return { dtype: 'float32', shape: [images.length, 3, SIZE, SIZE], data };
    };
  }

  /** Of ten probabilities for each image, makes the digit, and whether a person should look at it. */
  override getPostprocess() {
    return (output: unknown) => {
      const { shape, data } = output as Tensor;
      const [count = 0, classes = 0] = shape;
      const all = Array.from(data, Number);
      return Array.from({ length: count }, (_, i) => {
        const row = all.slice(i * classes, (i + 1) * classes);
        const probability = Math.max(...row);
        return { digit: row.indexOf(probability), isSure: probability > 0.9 };
      });
    };
  }
}

function pixelsOf({ dtype, shape, data }: Tensor): readonly number[] {
  if (dtype !== 'uint8' || String(shape) !== `${SIZE},${SIZE},3`) {
    throw new TypeError(`expected an image of ${SIZE} x ${SIZE} pixels, got ${dtype} [${shape.join(', ')}]`);
  }
  return Array.from(data, Number);
}

/** One channel of an image. */
function planeOf(pixels: readonly number[], channel: number): readonly number[] {
  return pixels.filter((_, i) => i % 3 === channel);
}
