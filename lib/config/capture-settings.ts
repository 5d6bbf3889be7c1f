/** The settings of captures, and of the replay that a new version of the model has to pass. */
import { flag, or, type Reader, setting, texts, whole } from './readers.ts';
import { numberOf } from './value.ts';

export const SHARE: Reader<number> = {
  expected: 'a share from 0 to 1, or a percentage: 0.05 or 5%',
  read: (value) => {
    const percent = typeof value === 'string' ? /^([\d.]+)\s*%$/.exec(value.trim())?.[1] : undefined;
    const read = percent === undefined ? numberOf(value) : Number(percent) / 100;
    return read !== undefined && read >= 0 && read <= 1 ? read : undefined;
  },
};

const isColumn = (name: string) => name !== '' && name.length <= 512;

export const CAPTURE = {
  share: setting(
    or(SHARE, 0),
    'How many requests and records are captured with their answers, in S3: `0.05` or `5%`. 0: none. [Replay what was answered](../how-to/replay.md) explains it.',
  ),
  include: setting(
    or(texts('names of inputs', isColumn), []),
    'Inputs of texts and pictures that are captured, too: `[review]`; `"*"`: all of them.',
  ),
  leaveOut: setting(
    or(texts('names of inputs and outputs', isColumn), []),
    'Inputs and outputs that are never captured: `[name]`. A record without them cannot be replayed.',
  ),
  days: setting(or(whole(1, 365), 30), 'When S3 deletes captures.'),
  failures: setting(or(flag, true), 'Whether requests and records that fail are captured, too.'),
};

export const RELEASE = {
  maxFlips: setting(
    SHARE,
    'A model is not published when the first class of more captured records changes: `0.005` or `0.5%`.',
    { byDefault: 'nothing is replayed', example: '0.5%' },
  ),
  days: setting(or(whole(1, 365), 1), 'Days of captures that are replayed before.'),
  trials: setting(
    or(flag, false),
    'Whether a deployment looks at canaries and shadows each minute, which they need. [Try a version](../how-to/try-a-version.md) explains it. On one machine it always does.',
  ),
};
