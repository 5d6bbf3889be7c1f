/** Quantizing with scales that are constants. A scale that is computed from all rows mixes them. */
import type { Call, Rule } from '../call.ts';
import { numberOf } from '../size.ts';
import type { Data } from '../value.ts';

/** One scale for all, or one for each place of an axis that is not the batch. */
function scaled(call: Call, x: Data): void {
  for (const index of [1, 2]) {
    const scale = call.fixed(index);
    if (!scale || x.kind !== 'rows' || scale.uniform === true) continue;
    const dims = scale.shape ?? call.end('the shape of its scale is not known');
    if (dims.every((dim) => numberOf(dim) === 1)) continue;
    if (dims.length !== 1) call.end('it has a scale for each block');
    if (call.axis(call.int('axis', 1), x.shape.length) === x.axis)
      call.end('its scale differs along the batch axis');
  }
}

const quantize: Rule = (call) => {
  const x = call.data(0);
  scaled(call, x);
  return call.moved(x, call.shape(x));
};

const dynamic: Rule = (call) => call.end('it computes one scale for all rows');

export const QUANTIZATION: Readonly<Record<string, Rule>> = {
  QuantizeLinear: quantize,
  DequantizeLinear: quantize,
  DynamicQuantizeLinear: dynamic,
  'com.microsoft:DynamicQuantizeMatMul': dynamic,
  'com.microsoft:DynamicQuantizeLSTM': dynamic,
  'com.microsoft:QuantizeLinear': quantize,
  'com.microsoft:DequantizeLinear': quantize,
};
