import { type Tensor, WKRHardWorker } from 'cluster-serving/worker';

export class Worker extends WKRHardWorker {
  /** Is called once in each process. What it returns is the first argument of predict. */
  override getModel(): undefined {
    return undefined;
  }

  /** Gets what callers sent, and returns as many answers in the same order. */
  override predict(_model: unknown, items: readonly unknown[]): unknown[] {
    return items.map((item) => {
      const values = numbersOf(item as Tensor | readonly number[]);
      return { mean: values.reduce((sum, value) => sum + value, 0) / values.length };
    });
  }
}

/** An array of JSON is a list, and one of a record of the queue is a tensor. */
function numbersOf(item: Tensor | readonly number[]): readonly number[] {
  return 'data' in item ? Array.from(item.data, Number) : item;
}
