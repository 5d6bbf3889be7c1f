/**
 * Turns errors of S3 or the AWS SDK during an upload into one error that names the setting to change and the location
 * of the converted model. The SDK's messages ("Region is missing", "UnknownError") do neither.
 */
import { inspect } from 'node:util';
import { ServingError } from '../lib/contract/errors.ts';
import type { Place } from './model/place.ts';

const MAX_CAUSES = 5;

/** Advice by patterns in an error. */
const REFUSALS: readonly (readonly [RegExp, (place: Place) => string])[] = [
  [
    /region is missing|ConfigError.*region/i,
    () => 'no region is set: AWS_REGION=eu-west-1, or a profile that has one (AWS_PROFILE)',
  ],
  [
    /CredentialsProviderError|could not load credentials|resolved credential object is not valid/i,
    () => 'no AWS credentials were found: AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY',
  ],
  [
    /ExpiredToken|InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken/i,
    () => 'AWS rejects these credentials; check AWS_PROFILE or AWS_ACCESS_KEY_ID, or sign in again',
  ],
  [
    /NoSuchBucket|bucket does not exist/i,
    ({ location }) => `there is no bucket ${location.bucket}; --to or --bucket names it`,
  ],
  [
    /PermanentRedirect|AuthorizationHeaderMalformed|httpStatusCode: 301/i,
    ({ location }) => `the bucket ${location.bucket} is in another region; AWS_REGION names it`,
  ],
  [
    /AccessDenied|Forbidden|httpStatusCode: 403/i,
    ({ text }) =>
      `access denied; these credentials need s3:GetObject, s3:PutObject and s3:ListBucket on ${text}`,
  ],
];

/** @param directory where the converted model is */
export function uploadRefusal(error: unknown, place: Place, directory: string): ServingError {
  const known = ServingError.from(error);
  if (known.code === 'cancelled') {
    return new ServingError('cancelled', `${known.message}; the converted model lies in ${directory}`);
  }
  // Names, codes, messages and status of the error and its causes.
  const said = inspect(error, { depth: MAX_CAUSES }).replaceAll(/^\s+at .*$/gm, '');
  const advice = REFUSALS.find(([pattern]) => pattern.test(said))?.[1](place);
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
