/**
 * In: what S3 or the AWS SDK said to an upload. Out: one error that says what to set, and where the converted model lies.
 * Trap: the SDK's own words ("Region is missing", "UnknownError") name no setting of anybody, and an import that took
 * minutes is not lost because its upload failed.
 */
import { ServingError } from '../lib/contract/errors.ts';
import type { Place } from './model/publish.ts';

interface Refusal {
  readonly matches: (said: Said) => boolean;
  readonly advice: (place: Place) => string;
}

interface Said {
  /** Name and code of the error and of what caused it, and the text. */
  readonly text: string;
  readonly status: number | undefined;
}

const REFUSALS: readonly Refusal[] = [
  {
    matches: ({ text }) => /region is missing|ConfigError.*region/i.test(text),
    advice: () => 'no region is set: AWS_REGION=eu-west-1, or a profile that has one (AWS_PROFILE)',
  },
  {
    matches: ({ text }) =>
      /CredentialsProviderError|could not load credentials|resolved credential object is not valid/i.test(
        text,
      ),
    advice: () =>
      'no AWS credentials were found: AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY',
  },
  {
    matches: ({ text }) => /ExpiredToken|InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken/i.test(text),
    advice: () =>
      'AWS does not take these credentials; look at AWS_PROFILE or AWS_ACCESS_KEY_ID, or sign in again',
  },
  {
    matches: ({ text }) => /NoSuchBucket|bucket does not exist/i.test(text),
    advice: ({ location }) => `there is no bucket ${location.bucket}; --to or --bucket names it`,
  },
  {
    matches: ({ text, status }) =>
      /PermanentRedirect|AuthorizationHeaderMalformed/i.test(text) || status === 301,
    advice: ({ location }) => `the bucket ${location.bucket} is in another region; AWS_REGION says which`,
  },
  {
    matches: ({ text, status }) => /AccessDenied|Forbidden/i.test(text) || status === 403,
    advice: ({ text }) =>
      `access denied; these credentials need s3:GetObject, s3:PutObject and s3:ListBucket on ${text}`,
  },
];

/** @param directory where the converted model lies */
export function uploadRefusal(error: unknown, place: Place, directory: string): ServingError {
  const known = ServingError.from(error);
  if (known.code === 'cancelled') {
    return new ServingError('cancelled', `${known.message}; the converted model lies in ${directory}`);
  }
  const said = saidBy(error);
  const advice = REFUSALS.find(({ matches }) => matches(said))?.advice(place);
  const reason = advice ?? known.message.replaceAll(/\s+/g, ' ').trim();
  // What is no defect of ours is not told as one.
  const code = advice === undefined ? known.code : 'bad_config';
  return new ServingError(
    code === 'internal' ? 'model_unavailable' : code,
    `the model was not uploaded to ${place.text}: ${reason}. The converted model lies in ${directory}; ` +
      '`cluster-serving model push` uploads it without converting it again',
    { cause: error },
  );
}

const MAX_CAUSES = 5;

function saidBy(error: unknown): Said {
  const words: string[] = [];
  let status: number | undefined;
  let at: unknown = error;
  for (let depth = 0; depth < MAX_CAUSES && at instanceof Error; depth++) {
    const { $metadata, Code, code } = at as {
      $metadata?: { httpStatusCode?: number };
      Code?: string;
      code?: string;
    };
    words.push(at.name, Code ?? '', code ?? '', at.message);
    status ??= $metadata?.httpStatusCode;
    at = at.cause;
  }
  return { text: words.join(' '), status };
}
