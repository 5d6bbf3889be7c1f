/**
 * Turns errors of S3 or the AWS SDK during an upload into one error that names the setting to change and the location
 * of the converted model.
 */
import { ServingError } from '../lib/contract/errors.ts';
import { refusalAdvice } from '../lib/s3/refusal.ts';
import type { Place } from './model/place.ts';

/** @param directory where the converted model is */
export function uploadRefusal(error: unknown, place: Place, directory: string): ServingError {
  const known = ServingError.from(error);
  if (known.code === 'cancelled') {
    return new ServingError('cancelled', `${known.message}; the converted model lies in ${directory}`);
  }
  const advice = refusalAdvice(error, {
    bucket: place.location.bucket,
    text: place.text,
    namedBy: '--to or --bucket',
    needs: 's3:GetObject, s3:PutObject and s3:ListBucket',
  });
  const reason = advice ?? known.message.replaceAll(/\s+/g, ' ').trim();
  // An error of S3 is not a defect of this program.
  const code = known.code === 'internal' ? 'model_unavailable' : known.code;
  return new ServingError(
    advice === undefined ? code : 'bad_config',
    `the model was not uploaded to ${place.text}: ${reason}. The converted model lies in ${directory}; ` +
      '`cluster-serving model push` uploads it without converting it again',
    { cause: error },
  );
}
