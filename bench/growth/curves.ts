/** Every curve, in the order of the document. */
import type { Curve } from './curve.ts';
import { curve as body } from './curves/body.ts';
import { curve as depth } from './curves/depth.ts';
import { curve as images } from './curves/images.ts';
import { curve as inputs } from './curves/inputs.ts';
import { curve as model } from './curves/model.ts';
import { curve as outputs } from './curves/outputs.ts';
import { curve as records } from './curves/records.ts';
import { curve as results } from './curves/results.ts';
import { curve as size } from './curves/size.ts';
import { curve as waiters } from './curves/waiters.ts';

export const CURVES: readonly Curve[] = [
  records,
  size,
  body,
  images,
  results,
  depth,
  model,
  outputs,
  inputs,
  waiters,
];
