/** Builds what is said of a file that is no model. */

export type Advice = (file: string, names: readonly string[]) => string;

/** TASK is replaced where config.json tells it: optimum does not look it up in a folder. */
export const OPTIMUM = '`optimum-cli export onnx --model . --task TASK onnx/`';

export const weights = (of: string, how: string): Advice => {
  return (file) => `${file} holds weights${of} without a graph; ${how.replaceAll('FILE', file)}`;
};

/** A program for one kind of device, which holds no graph that could be read back. */
export const compiled = (what: string, source: string): Advice => {
  return (file) => `${file} is compiled for ${what}; import ${source}`;
};

export type AdviceTable = readonly (readonly [pattern: RegExp, advice: Advice])[];
