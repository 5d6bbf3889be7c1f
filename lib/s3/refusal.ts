/**
 * Advice about an error of S3 or the AWS SDK. The SDK's messages ("Region is missing", "UnknownError") name neither the
 * setting to change nor the missing permission.
 */
import { inspect } from 'node:util';

interface Asked {
  readonly bucket: string;
  /** The requested address: s3://bucket/prefix/. */
  readonly text: string;
  /** The option that names the bucket: "--to or --bucket". */
  readonly namedBy: string;
  /** Permissions: "s3:GetObject and s3:ListBucket". */
  readonly needs: string;
}

const MAX_CAUSES = 5;

/** Advice by patterns in an error. */
const REFUSALS: readonly (readonly [RegExp, (asked: Asked) => string])[] = [
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
    ({ bucket, namedBy }) => `there is no bucket ${bucket}; ${namedBy} names it`,
  ],
  [
    /PermanentRedirect|AuthorizationHeaderMalformed|httpStatusCode: 301/i,
    ({ bucket }) => `the bucket ${bucket} is in another region; AWS_REGION names it`,
  ],
  [/InvalidObjectState/, () => 'it is archived in Glacier; restore it first (aws s3api restore-object)'],
  [
    /AccessDenied|Forbidden|httpStatusCode: 403/i,
    ({ text, needs }) => `access denied; these credentials need ${needs} on ${text}`,
  ],
  [
    /PreconditionFailed|NoSuchKey|httpStatusCode: (404|412)/,
    () => 'it was changed meanwhile; try again when nobody writes there',
  ],
];

/** @returns undefined where there is none */
export function refusalAdvice(error: unknown, asked: Asked): string | undefined {
  // Names, codes, messages and status of the error and its causes.
  const said = inspect(error, { depth: MAX_CAUSES }).replaceAll(/^\s+at .*$/gm, '');
  return REFUSALS.find(([pattern]) => pattern.test(said))?.[1](asked);
}
