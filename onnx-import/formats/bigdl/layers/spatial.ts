/** Padding, cropping and resizing. */
import { badModel } from '../../../../lib/contract/errors.ts';
import { MAX_SIDE, repeatPixels, resizePlane } from '../../../emit/resize.ts';
import { padSpace } from '../../../emit/windows.ts';
import { fixed, known } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import type { Call, Rule } from '../call.ts';
import { plain } from './shapes.ts';

/** Cuts `before` and `after` off each spatial axis. */
function cropped(call: Call, value: Value, before: readonly number[], after: readonly number[]): Value {
  if ([...before, ...after].every((size) => size === 0)) return value;
  const axes = before.map((_, i) => i + 2);
  const ends = axes.map((axis, i) => fixed(value, axis) - (after[i] as number));
  if (before.some((start, i) => start < 0 || (after[i] as number) < 0 || start >= (ends[i] as number)))
    throw badModel(`cuts ${before.join('x')} and ${after.join('x')} off [${known(value).join(',')}]`);
  return call.one('Slice', [value, call.g.ints(before), call.g.ints(ends), call.g.ints(axes)]);
}

/** Negative padding crops. */
const zeroPadding: Rule = (call) => {
  const { module } = call;
  const before = [module.int('padTop'), module.int('padLeft')];
  const after = [module.int('padBottom'), module.int('padRight')];
  if ([...before, ...after].some((size) => Math.abs(size) > MAX_SIDE))
    throw badModel('has too large a padding');
  return call.batched(4, (value) => {
    const cut = cropped(
      call,
      value,
      before.map((size) => Math.max(0, -size)),
      after.map((size) => Math.max(0, -size)),
    );
    return padSpace(
      call,
      cut,
      [...before, ...after].map((size) => Math.max(0, size)),
      0,
    );
  });
};

const cropping =
  (...names: readonly string[]): Rule =>
  (call) => {
    const crops = names.map((name) => call.module.numbers(name, 2));
    const isLast = call.module.channelsLast('dataFormat');
    call.expectRank(names.length + 2);
    return call.channelsFirst(call.input, isLast, (value) =>
      cropped(
        call,
        value,
        crops.map(([from]) => from as number),
        crops.map(([, to]) => to as number),
      ),
    );
  };

const upSampling =
  (rank: number): Rule =>
  (call) => {
    const counts = call.module.numbers('size', rank - 2);
    const isLast = call.module.channelsLast();
    call.expectRank(rank);
    return call.channelsFirst(call.input, isLast, (value) => repeatPixels(call, value, counts));
  };

const upSampling1d: Rule = (call) => {
  call.expectRank(3);
  const count = call.module.int('length');
  return call.channelsFirst(call.input, true, (value) => repeatPixels(call, value, [count]));
};

const bilinear: Rule = (call) => {
  const { module } = call;
  const plane = [module.int('outputHeight'), module.int('outputWidth')];
  const mode = module.flag('alignCorners') ? 'align_corners' : 'asymmetric';
  const isLast = module.channelsLast('dataFormat');
  call.expectRank(4);
  return call.channelsFirst(call.input, isLast, (value) => {
    plain(known(value).slice(2));
    return resizePlane(call, value, plane, mode);
  });
};

export const SPATIAL: Readonly<Record<string, Rule>> = {
  Cropping2D: cropping('heightCrop', 'widthCrop'),
  Cropping3D: cropping('dim1Crop', 'dim2Crop', 'dim3Crop'),
  ResizeBilinear: bilinear,
  SpatialZeroPadding: zeroPadding,
  UpSampling1D: upSampling1d,
  UpSampling2D: upSampling(4),
  UpSampling3D: upSampling(5),
};
